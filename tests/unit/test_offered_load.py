"""The offered load against what can be worked out by hand."""

from typing import Any

import numpy as np
import pytest

from pipeline.offered_load import MeanArrivals, mean_arrivals, offered_load
from simulator.conditions import Faults, SetPoints
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import (
    ClassChoice,
    DecisionKind,
    MixedBatches,
    QueuePlace,
    RequestClass,
    Scenario,
)
from simulator.workload import Arrivals


def replica(*rates_rps: float, max_batch_size: int = 1, **fields: Any) -> Replica:
    """One that serves class c at `rates_rps[c]` one by one, and cannot serve it where that is 0."""
    nothing = (0.0,) * len(rates_rps)
    beta_s = tuple(1.0 / rate if rate else 1.0 for rate in rates_rps)
    serves = tuple(rate > 0 for rate in rates_rps)
    values = {"alpha_s": nothing, "beta_s": beta_s, "noise_cv": nothing, "serves": serves}
    return Replica(**{**values, "max_batch_size": max_batch_size, **fields})


def scenario(*replicas: Replica, **fields: Any) -> Scenario:
    """A dispatcher over the replicas, whose menu has every batch size that fits one."""
    classes = tuple(RequestClass(f"c{n}", 1.0) for n in range(len(replicas[0].alpha_s)))
    sizes = tuple(range(1, max(r.max_batch_size for r in replicas) + 1))
    return Scenario(classes, replicas, **{"batch_sizes": sizes, **fields})


def mean(*rates_rps: float, **fields: Any) -> MeanArrivals:
    """Arrivals of size 1 and of one token each way, unless told otherwise."""
    ones = np.ones(len(rates_rps))
    return MeanArrivals(np.array(rates_rps), ones, ones, ones)._replace(
        **{name: np.array(values) for name, values in fields.items()}
    )


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_equal_replicas_and_one_class_have_the_closed_form(replicas: int, batch_size: int) -> None:
    alpha_s, beta_s, rate_rps = 0.002, 0.005, 130.0
    same = Replica((alpha_s,), (beta_s,), (0.3,), batch_size)
    expected = rate_rps * (alpha_s + beta_s * batch_size) / (replicas * batch_size)
    assert offered_load(scenario(*[same] * replicas), mean(rate_rps)) == pytest.approx(expected)


@pytest.mark.parametrize(("beta_s", "expected"), [(0.005, 0.07), (0.020, 0.22)])
def test_the_paper_has_the_values_of_the_glossary(beta_s: float, expected: float) -> None:
    one = scenario(Replica((0.002,), (beta_s,), (0.0,), 1))
    assert offered_load(one, mean(10.0)) == pytest.approx(expected)


def test_classes_of_one_replica_add_up() -> None:
    assert offered_load(scenario(replica(50.0, 20.0)), mean(10.0, 6.0)) == pytest.approx(0.2 + 0.3)


def test_capacities_of_unlike_replicas_add_up() -> None:
    assert offered_load(scenario(replica(50.0), replica(30.0)), mean(20.0)) == pytest.approx(0.25)


def test_the_busiest_specialist_bounds_the_cluster() -> None:
    specialists = scenario(replica(10.0, 0.0), replica(0.0, 40.0))
    assert offered_load(specialists, mean(4.0, 10.0)) == pytest.approx(max(4 / 10, 10 / 40))


def test_replicas_share_classes_by_what_they_are_best_at() -> None:
    # Replica 0 serves (2, 1)/s, replica 1 (1, 2)/s, and (1, 3)/s arrive, times s. Replica 1 gives
    # all its time to class 1. Replica 0 gives x: 2 x = s, and (1 - x) + 2 = 3 s, so s = 6 / 7.
    cluster = scenario(replica(2.0, 1.0), replica(1.0, 2.0))
    assert offered_load(cluster, mean(1.0, 3.0)) == pytest.approx(7 / 6)


def test_a_load_is_found_at_any_scale_of_rates() -> None:
    for unit in (1e-9, 1e9):
        cluster = scenario(replica(2.0 * unit, 1.0 * unit), replica(1.0 * unit, 2.0 * unit))
        assert offered_load(cluster, mean(1.0 * unit, 3.0 * unit)) == pytest.approx(7 / 6)


def test_nothing_arrives_is_no_load() -> None:
    assert offered_load(scenario(replica(2.0)), mean(0.0)) == 0.0


def test_sizes_count_and_so_does_the_largest_size_of_the_menu() -> None:
    line = Replica((0.1,), (0.01,), (0.0,), 16)
    limited = scenario(line, batch_sizes=(1, 4))
    expected = 10.0 * (0.1 + 0.01 * 4 * 2.5) / 4
    assert offered_load(limited, mean(10.0, size=[2.5])) == pytest.approx(expected)


def test_padding_memory_and_residuals_take_their_toll() -> None:
    line = {"alpha_s": (0.1,), "beta_s": (0.01,), "noise_cv": (0.0,)}
    padded = Replica(**line, max_batch_size=6, padded_batch_sizes=(4, 8))
    assert offered_load(scenario(padded), mean(6.0)) == pytest.approx(0.1 + 0.01 * 8)
    # 5 GiB hold two requests of 2 GiB.
    tight = Replica(**line, max_batch_size=6, memory_gib=5.0, request_memory_gib=(2.0,))
    assert offered_load(scenario(tight), mean(2.0)) == pytest.approx(0.1 + 0.01 * 2)
    slower = Replica(**line, max_batch_size=1, residuals=((0.5, 3.0, 1.0),))
    assert offered_load(scenario(slower), mean(1.0)) == pytest.approx((0.1 + 0.01) * 1.5)


def test_a_measured_table_takes_the_place_of_the_line() -> None:
    table = ((1.0, 0.1), (3.0, 0.2))
    for batch_size, took_s in ((1, 0.1), (2, 0.15), (5, 0.3)):  # between, and along the last slope
        measured = replica(1.0, max_batch_size=batch_size, latency_table=(table,))
        assert offered_load(scenario(measured), mean(1.0)) == pytest.approx(took_s / batch_size)


def test_mixed_batches_hold_the_classes_as_they_arrive() -> None:
    both = Replica((0.1, 0.3), (0.02, 0.04), (0.0, 0.0), 4)
    rule = {"class_choice": ClassChoice.HEAD_OF_LINE, "batch_sizes": (4,)}
    arrives = mean(3.0, 1.0)  # three and one in a batch of four
    summed = offered_load(scenario(both, mixed=MixedBatches.SUM, **rule), arrives)
    assert summed == pytest.approx(4.0 * (0.3 + 3 * 0.02 + 0.04) / 4)
    slowest = offered_load(scenario(both, mixed=MixedBatches.SLOWEST, **rule), arrives)
    assert slowest == pytest.approx(4.0 * (0.3 + 4 * 0.04) / 4)


def test_random_faults_take_their_share_of_the_capacity() -> None:
    faults = Faults(mean_time_between_s=3.0, repair_s=1.0)
    assert offered_load(scenario(replica(2.0), faults=faults), mean(1.5)) == pytest.approx(1.0)


def language_model(**costs: float) -> Scenario:
    """One replica under continuous batching; costs that are not given are 0."""
    room = {"max_num_seqs": 8, "kv_capacity_tokens": 10**6, "max_batched_tokens": 10**4}
    free = {"t0_s": 0.0, "t_prefill_s": 0.0, "t_decode_s": 1e-9, "t_kv_s": 0.0}
    tokens = TokenModel(**{**free, **room, **costs})  # type: ignore[arg-type]
    return scenario(
        continuous_replica(1, tokens),
        batch_sizes=(1,),
        queues=QueuePlace.REPLICA,
        decision=DecisionKind.TUNE,
        set_points=SetPoints(batch_timeout_s=(0.0,)),
    )


@pytest.mark.parametrize(
    ("costs", "expected_s"),
    [
        ({"t_decode_s": 0.1}, 0.1 * 4),  # the first of five tokens comes with the prompt
        ({"t_prefill_s": 0.1}, 0.1 * 20),
        ({"t_kv_s": 0.1}, 0.1 * (21 + 22 + 23 + 24)),
        ({"t0_s": 0.8}, 0.8 * 5 / 8),  # five iterations among eight
        ({"t0_s": 0.8, "max_num_seqs": 4}, 0.8 * 5 / 4),
        ({"t0_s": 0.8, "max_batched_tokens": 12}, 0.8 * (20 + 4) / 12),
        ({"t0_s": 0.8, "kv_capacity_tokens": 45}, 0.8 * 5 / 2),  # two of 20 + 5 / 2 tokens fit
    ],
)
def test_a_sequence_takes_its_tokens_and_its_part_of_the_iterations(
    costs: dict[str, float], expected_s: float
) -> None:
    arrives = mean(1.0, prompt_tokens=[20.0], output_tokens=[5.0])
    assert offered_load(language_model(**costs), arrives) == pytest.approx(expected_s, rel=1e-6)


def test_means_are_over_the_requests_of_each_class() -> None:
    arrivals = Arrivals(
        np.array([0.0, 1.0, 2.0]),
        np.array([0, 2, 0]),
        np.array([1.0, 5.0, 2.0]),
        np.array([10, 7, 30]),
        np.array([4, 9, 2]),
    )
    means = mean_arrivals(arrivals, 3, 4.0)
    assert means.arrival_rate_rps.tolist() == [0.5, 0.0, 0.25]
    assert means.size.tolist() == [1.5, 1.0, 5.0]
    assert means.prompt_tokens.tolist() == [20.0, 1.0, 7.0]
    assert means.output_tokens.tolist() == [3.0, 1.0, 9.0]


def test_requests_without_tokens_have_the_mean_of_one() -> None:
    means = mean_arrivals(Arrivals(np.zeros(2), np.zeros(2, int), np.ones(2)), 1, 1.0)
    assert means.prompt_tokens.tolist() == means.output_tokens.tolist() == [1.0]


@pytest.mark.parametrize("rates_rps", [(1.0, 2.0), (-1.0,), (np.nan,), (np.inf,)])
def test_rates_that_cannot_be_are_refused(rates_rps: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="arrival_rate_rps"):
        offered_load(scenario(replica(2.0)), mean(*rates_rps))
