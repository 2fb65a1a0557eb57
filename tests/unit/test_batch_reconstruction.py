"""Batches rebuilt from hand-made timelines: what belongs together, overlaps, or is unsure."""

import numpy as np
import pytest

from pipeline.calibration.batch_reconstruction import (
    CONCURRENT,
    CONTINUOUS,
    FROM_DEPARTURES,
    FROM_INTERVALS,
    MEASURED,
    MIXED,
    NO_BATCH,
    UNKNOWN_KIND,
    WHOLE,
    infer_tolerance,
    measured_batches,
    rebuild_batches,
    time_resolution,
)

NAN = np.nan
Row = tuple[int, int, float, float]  # replica, class, dispatch and departure in ms


def columns(rows: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    replica, request_class, dispatch_ms, departure_ms = zip(*rows, strict=True)
    return (
        np.array(replica),
        np.array(request_class),
        np.array(dispatch_ms) / 1e3,
        np.array(departure_ms) / 1e3,
    )


#                         one batch of 2, one of 1 behind it, one of 2 on the other replica
TIMELINE: list[Row] = [
    (0, 0, 10, 18),
    (1, 1, 12, 40),
    (0, 0, 10, 18),
    (0, 1, 18, 30),
    (1, 1, 12, 40),
]


def test_requests_that_start_and_end_together_on_one_replica_are_one_batch() -> None:
    found = rebuild_batches(*columns(TIMELINE), tolerance_s=0.0)
    assert found.method == FROM_INTERVALS
    assert (found.kind, found.dispatch_origin) == (WHOLE, "measured")
    assert found.batch.tolist() == [0, 1, 0, 2, 1]
    assert found.replica.tolist() == [0, 1, 0]
    assert found.request_class.tolist() == [0, 1, 1]
    assert found.batch_size.tolist() == [2, 2, 1]
    assert found.dispatch_s.tolist() == [0.010, 0.012, 0.018]
    assert found.departure_s.tolist() == [0.018, 0.040, 0.030]
    assert found.coinciding_share == pytest.approx(4 / 5)
    assert (found.overlapping_share, found.ambiguous_share, found.without_batch) == (0.0, 0.0, 0)


def test_the_same_instants_on_another_replica_are_another_batch() -> None:
    found = rebuild_batches(*columns([(0, 0, 10, 18), (1, 0, 10, 18)]), tolerance_s=0.001)
    assert found.batch_size.tolist() == [1, 1]


def test_members_may_be_stamped_apart_up_to_the_tolerance() -> None:
    rows: list[Row] = [(0, 0, 10.0, 18.2), (0, 0, 10.1, 18.0), (0, 0, 10.2, 18.1)]
    assert rebuild_batches(*columns(rows), tolerance_s=1.5e-4).batch_size.tolist() == [3]
    assert rebuild_batches(*columns(rows), tolerance_s=0.5e-4).batch_size.tolist() == [1, 1, 1]


def test_a_common_start_without_a_common_end_is_no_batch() -> None:
    rows: list[Row] = [(0, 0, 10, 18), (0, 0, 10, 30), (0, 0, 20, 30), (0, 0, 10, 18)]
    assert rebuild_batches(*columns(rows), tolerance_s=0.001).batch.tolist() == [0, 1, 2, 0]


def test_a_chain_of_ends_is_cut_where_the_starts_then_lie_apart() -> None:
    # Starts 0, 1, 2 are a chain at a tolerance of 1 ms; the middle one ends elsewhere, and then
    # starts 0 and 2 are no longer neighbors.
    rows: list[Row] = [(0, 0, 0, 50), (0, 0, 1, 90), (0, 0, 2, 50)]
    assert rebuild_batches(*columns(rows), tolerance_s=0.001).batch_size.tolist() == [1, 1, 1]


def test_a_batch_of_several_classes_has_no_class() -> None:
    found = rebuild_batches(*columns([(0, 0, 10, 18), (0, 1, 10, 18)]))
    assert (found.batch_size.tolist(), found.request_class.tolist()) == ([2], [MIXED])


def test_requests_without_departure_or_dispatch_have_no_batch_and_are_counted() -> None:
    rows: list[Row] = [*TIMELINE, (0, 0, 50, NAN), (0, 0, NAN, 60)]
    found = rebuild_batches(*columns(rows))
    assert found.batch.tolist() == [0, 1, 0, 2, 1, NO_BATCH, NO_BATCH]
    assert found.without_batch == 2


def test_without_dispatches_those_that_depart_together_are_a_batch() -> None:
    replica, request_class, _, departure_s = columns(TIMELINE)
    found = rebuild_batches(replica, request_class, None, departure_s, 0.0)
    assert (found.method, found.kind) == (FROM_DEPARTURES, UNKNOWN_KIND)
    assert found.dispatch_origin == "absent"
    assert np.isnan(found.dispatch_s).all()
    assert found.batch.tolist() == [0, 2, 0, 1, 2]  # in order of departure
    assert found.batch_size.tolist() == [2, 1, 2]


def test_a_derived_dispatch_is_the_earliest_that_arrivals_and_departures_allow() -> None:
    replica, request_class, _, departure_s = columns(TIMELINE)
    arrival_s = np.array([2, 3, 9, 11, 5]) / 1e3
    found = rebuild_batches(replica, request_class, None, departure_s, 0.0, arrival_s)
    assert found.dispatch_origin == "derived"
    # Batch 0: its later arrival, 9 ms. Batch 1: after batch 0 departed, 18 ms. Batch 2: 5 ms.
    assert found.dispatch_s.tolist() == [0.009, 0.018, 0.005]


def test_an_arrival_after_the_departure_of_its_batch_is_refused() -> None:
    replica, request_class, _, departure_s = columns(TIMELINE)
    arrival_s = np.array([2, 3, 19, 11, 5]) / 1e3
    with pytest.raises(ValueError, match=r"departure_s of batch 0 = 0.018: .* later, at 0.019"):
        rebuild_batches(replica, request_class, None, departure_s, 0.0, arrival_s)


def test_whole_batches_that_overlap_are_concurrent_instances() -> None:
    rows: list[Row] = []
    for start in range(0, 100, 10):
        rows += [(0, 0, start, start + 18)] * 3  # the next one starts 8 ms before it ends
    found = rebuild_batches(*columns(rows))
    assert found.kind == CONCURRENT
    assert found.overlapping_share == 1.0


def test_single_requests_side_by_side_are_concurrent_instances_if_they_are_few() -> None:
    few: list[Row] = [(0, 0, start, start + 35) for start in range(0, 1000, 10)]
    many: list[Row] = [(0, 0, start, start + 135) for start in range(0, 1000, 10)]
    assert rebuild_batches(*columns(few)).kind == CONCURRENT  # 4 at once
    assert rebuild_batches(*columns(many)).kind == CONTINUOUS  # 14 at once


def test_requests_that_are_admitted_together_and_depart_apart_look_continuous() -> None:
    rows: list[Row] = []
    for start in range(0, 200, 20):
        rows += [(0, 0, start, start + 23 + 7 * number) for number in range(4)]
    found = rebuild_batches(*columns(rows))
    assert found.kind == CONTINUOUS
    assert found.coinciding_share < 0.2


def test_who_is_unsure_would_move_at_half_or_twice_the_tolerance() -> None:
    # Gaps of 3 ms between the first two, at a tolerance of 2 ms: apart, together at twice.
    rows: list[Row] = [(0, 0, 0, 50), (0, 0, 3, 53), (0, 0, 100, 150), (0, 0, 100, 150)]
    found = rebuild_batches(*columns(rows), tolerance_s=0.002)
    assert found.batch_size.tolist() == [1, 1, 2]
    assert found.ambiguous_share == pytest.approx(2 / 4)


def test_a_batch_as_short_as_the_tolerance_is_unsure() -> None:
    rows: list[Row] = [(0, 0, 0, 1), (0, 0, 0, 1), (0, 0, 100, 150), (0, 0, 200, 250)]
    found = rebuild_batches(*columns(rows), tolerance_s=0.001)
    assert found.ambiguous_share == pytest.approx(2 / 4)


@pytest.mark.parametrize(
    ("instants_s", "resolution_s"),
    [
        ([0.0, 3.0, 7.0], 1.0),
        ([0.1, 3.2], 0.1),
        ([1.001, 5.0], 1e-3),
        ([0.123456, 17.0], 1e-6),
        ([0.12345678], 0.0),
        ([], 0.0),
    ],
)
def test_the_time_resolution_is_the_coarsest_grid_that_holds_all_instants(
    instants_s: list[float], resolution_s: float
) -> None:
    assert time_resolution(np.array(instants_s)) == resolution_s


def stamped_log(jitter_s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Batches of 1 to 4 on one replica, 5 ms and more each; the batch of each request first."""
    generator = np.random.default_rng(3)
    size = generator.integers(1, 5, 500)
    service_s = generator.uniform(0.005, 0.030, 500)
    departure_s = np.cumsum(service_s + generator.exponential(0.002, 500))
    batch = np.repeat(np.arange(500), size)
    late_s = jitter_s * generator.random((2, len(batch)))
    return (
        batch,
        np.zeros(len(batch), int),
        (departure_s - service_s)[batch] + late_s[0],
        departure_s[batch] + late_s[1],
    )


@pytest.mark.parametrize("resolution_s", [1e-6, 1e-3])
@pytest.mark.parametrize("jitter_s", [0.0, 2e-5, 5e-4])
def test_an_inferred_tolerance_lies_between_the_stamps_of_a_batch_and_a_service(
    jitter_s: float, resolution_s: float
) -> None:
    batch, replica, *instants_s = stamped_log(jitter_s)
    dispatch_s, departure_s = (np.rint(s / resolution_s) * resolution_s for s in instants_s)
    tolerance_s = infer_tolerance(replica, dispatch_s, departure_s, resolution_s)
    assert max(jitter_s / 4, resolution_s / 2) <= tolerance_s < 0.005
    found = rebuild_batches(replica, replica, dispatch_s, departure_s)
    assert (found.tolerance_s, found.time_resolution_s) == (tolerance_s, resolution_s)
    np.testing.assert_array_equal(found.batch, batch)
    assert found.kind == WHOLE


def test_members_that_are_stamped_one_after_the_other_are_one_batch() -> None:
    # Each 0.1 ms after the one before: no gap is shorter, and none lies between 0.1 and 5 ms.
    batch, replica, dispatch_s, departure_s = stamped_log(0.0)
    place = np.arange(len(batch)) - np.searchsorted(batch, batch)
    late_s = np.rint(place * 100) / 1e6
    dispatch_s, departure_s = (np.rint(s * 1e6) / 1e6 + late_s for s in (dispatch_s, departure_s))
    np.testing.assert_array_equal(
        rebuild_batches(replica, replica, dispatch_s, departure_s).batch, batch
    )


def test_regular_starts_are_no_stamps_of_one_instant() -> None:
    # Every 10 ms one starts, and takes 135 ms: no gap is as long as a service.
    start_s = np.arange(100) / 100
    tolerance_s = infer_tolerance(np.zeros(100, int), start_s, start_s + 0.135, 1e-3)
    assert tolerance_s == 0.0005


def test_requests_that_are_never_batched_stay_alone() -> None:
    generator = np.random.default_rng(4)
    departure_s = np.cumsum(0.005 + generator.exponential(0.01, 2000))
    zero = np.zeros(2000, int)
    found = rebuild_batches(zero, zero, departure_s - 0.004, departure_s)
    assert found.coinciding_share == 0.0


def test_batches_that_the_log_names_are_taken_as_they_are() -> None:
    batch_id = np.array([7, 3, 7, -1, 3])
    replica, request_class, dispatch_s, departure_s = columns(TIMELINE)
    found = measured_batches(batch_id, replica, request_class, dispatch_s, departure_s)
    assert (found.method, found.kind, found.without_batch) == (MEASURED, WHOLE, 1)
    assert found.batch.tolist() == [0, 1, 0, NO_BATCH, 1]
    assert found.batch_size.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"departure_s": np.array([0.018, 0.001])},
            r"departure_s\[1\] = 0.001: must not be before",
        ),
        ({"dispatch_s": np.array([np.inf, 0.012])}, r"dispatch_s\[0\] = inf: must be finite"),
        ({"replica": np.array([0])}, r"len\(replica\) = 1: the lengths must be equal"),
        ({"tolerance_s": -1.0}, r"tolerance_s = -1.0: must be a finite number"),
        ({"tolerance_s": np.nan}, r"tolerance_s = nan: must be a finite number"),
    ],
)
def test_what_could_not_have_happened_is_refused(changed: dict[str, object], message: str) -> None:
    replica, request_class, dispatch_s, departure_s = columns(TIMELINE[:2])
    given = {
        "replica": replica,
        "request_class": request_class,
        "dispatch_s": dispatch_s,
        "departure_s": departure_s,
    }
    with pytest.raises(ValueError, match=message):
        rebuild_batches(**{**given, **changed})  # type: ignore[arg-type]


def test_a_log_without_requests_has_no_batches() -> None:
    nothing = np.zeros(0)
    found = rebuild_batches(nothing.astype(int), nothing.astype(int), nothing, nothing)
    assert len(found.batch) == len(found.batch_size) == 0
