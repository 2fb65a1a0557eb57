"""What an episode will meet: drawn per purpose, in order, and only what can be served."""

import dataclasses

import numpy as np
import pytest

from simulator.conditions import Autoscaler, DispatchDelay, Fault, Faults, Scaling
from simulator.environment import Environment
from simulator.future import Future, Streams, draw_faults, draw_future, spawn_streams
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.reward import Reward
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload

GPU = Replica((0.002,), (0.005,), (0.1,), 8)
PLAIN = Scenario((RequestClass("only", 1.0),), (GPU, GPU), (1, 2, 4))
TOKENS = TokenModel(0.01, 0.001, 0.001, 0.0, 4, 10, 16)
CONTINUOUS = dataclasses.replace(
    PLAIN,
    replicas=(continuous_replica(1, TOKENS),),
    decision=DecisionKind.ROUTE,
    queues=QueuePlace.REPLICA,
)
SCALING = Scaling(0.5, 0.4, autoscaler=Autoscaler(1.0))
TRAFFIC = PoissonWorkload((20.0,))


def streams(seed: int = 0) -> Streams:
    return spawn_streams(np.random.default_rng(seed), 1)[0]


def drawn(scenario: Scenario, seed: int = 0, horizon_s: float = 5.0) -> Future:
    return draw_future(scenario, TRAFFIC, horizon_s, 0.0, streams(seed))


def of(count: int, **columns: list) -> Arrivals:
    arrivals = Arrivals(np.arange(count, dtype=float), np.zeros(count, int), np.ones(count))
    return arrivals._replace(**{field: np.array(column) for field, column in columns.items()})


def test_what_is_off_is_not_drawn() -> None:
    quiet = dataclasses.replace(PLAIN, replicas=(dataclasses.replace(GPU, noise_cv=(0.0,)),) * 2)
    future = drawn(quiet)
    assert len(future.arrivals.arrival_s) > 0
    assert future.noise_z.size == future.delay_s.size == 0
    assert future.cold_start_s.shape == future.fault_s.shape == (2, 0)


@pytest.mark.parametrize(
    "feature",
    [
        {"faults": Faults(mean_time_between_s=0.5)},
        {"dispatch_delay": DispatchDelay(mean_s=0.1, cv=1.0)},
        {"scaling": SCALING},
    ],
)
def test_a_feature_moves_no_arrival_and_no_noise(feature: dict) -> None:
    before, after = drawn(PLAIN), drawn(dataclasses.replace(PLAIN, **feature))
    for one, other in zip(before.arrivals, after.arrivals, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(before.noise_z, after.noise_z)


def test_lanes_and_episodes_have_futures_of_their_own_and_the_same_seed_the_same() -> None:
    def two_episodes_of_two_lanes() -> list[np.ndarray]:
        lanes = spawn_streams(np.random.default_rng(3), 2)
        return [
            draw_future(PLAIN, TRAFFIC, 5.0, 0.0, lane).arrivals.arrival_s
            for _ in range(2)
            for lane in lanes
        ]

    first, second = two_episodes_of_two_lanes(), two_episodes_of_two_lanes()
    assert [values.tobytes() for values in first] == [values.tobytes() for values in second]
    assert len({values.tobytes() for values in first}) == 4


def test_more_lanes_leave_the_first_ones_as_they_are() -> None:
    few, many = (spawn_streams(np.random.default_rng(3), lanes) for lanes in (1, 4))
    for one, other in zip(few[0], many[0], strict=True):
        assert one.random() == other.random()


def test_a_delay_or_cold_start_without_variation_is_constant() -> None:
    scenario = dataclasses.replace(
        PLAIN,
        dispatch_delay=DispatchDelay(constant_s=0.25, mean_s=0.5),
        scaling=dataclasses.replace(SCALING, cold_start_cv=0.0),
    )
    future = drawn(scenario)
    assert (future.delay_s == 0.75).all()
    assert (future.cold_start_s == 0.5).all()


def test_delays_have_the_mean_and_the_coefficient_of_variation_that_are_asked_for() -> None:
    # n draws of mean m and coefficient c: the mean has the standard error m c / sqrt(n). The log
    # is normal with variance log(1 + c^2), whose estimate has the standard error of sqrt(2 / n).
    scenario = dataclasses.replace(PLAIN, dispatch_delay=DispatchDelay(0.25, 0.5, 0.8))
    random_s = drawn(scenario, horizon_s=2000.0).delay_s - 0.25
    count = len(random_s)
    assert abs(random_s.mean() - 0.5) < 4 * 0.5 * 0.8 / np.sqrt(count)
    variance = np.log1p(0.8**2)
    assert abs(np.log(random_s).var() / variance - 1) < 4 * np.sqrt(2 / count)


def test_scripted_faults_are_starts_and_ends_in_turn_padded_with_infinity() -> None:
    script = (Fault(1, 3.0, 1.0), Fault(0, 0.5, 0.25), Fault(1, 1.0, 0.5))
    scenario = dataclasses.replace(PLAIN, faults=Faults(script))
    faults = draw_faults(scenario, 10.0, np.random.default_rng(0))
    assert faults.tolist() == [[0.5, 0.75, np.inf, np.inf], [1.0, 1.5, 3.0, 4.0]]


def test_random_faults_ascend_begin_before_the_horizon_and_touch_no_scripted_one() -> None:
    script = (Fault(0, 2.0, 3.0), Fault(0, 20.0, 1.0))
    faults = Faults(script, mean_time_between_s=0.5, repair_s=0.25)
    boundaries = draw_faults(
        dataclasses.replace(PLAIN, faults=faults), 30.0, np.random.default_rng(1)
    )
    for row in boundaries:
        finite = row[np.isfinite(row)]
        assert len(finite) > 20
        assert (np.diff(finite) > 0).all()
        assert np.isinf(row[len(finite) :]).all()
        assert (finite[::2] < 30.0).all()
    starts, ends = boundaries[0, ::2].tolist(), boundaries[0, 1::2].tolist()
    assert (2.0, 5.0) in zip(starts, ends, strict=True)
    assert (20.0, 21.0) in zip(starts, ends, strict=True)


def test_times_between_faults_and_repairs_have_their_means() -> None:
    # Exponential: the standard error of a mean is the mean over sqrt(n).
    scenario = dataclasses.replace(PLAIN, faults=Faults((), 2.0, 0.5))
    row = draw_faults(scenario, 2_000.0, np.random.default_rng(2))[0]
    boundaries = np.concatenate([[0.0], row[np.isfinite(row)]])
    up_s, down_s = np.diff(boundaries)[::2], np.diff(boundaries)[1::2]
    assert abs(up_s.mean() - 2.0) < 4 * 2.0 / np.sqrt(len(up_s))
    assert abs(down_s.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(down_s))


SMALL = dataclasses.replace(
    PLAIN,
    replicas=(GPU, dataclasses.replace(GPU, memory_gib=4.0, request_memory_gib=(2.0,))),
)


@pytest.mark.parametrize(
    ("scenario", "arrivals", "message"),
    [
        (PLAIN, of(3, arrival_s=[0.0, 2.0, 1.0]), r"arrival_s\[2\] = 1.0: must be ascending"),
        (PLAIN, of(2, request_class=[0, 1]), r"request_class\[1\] = 1: must be a whole number in"),
        (
            SMALL,
            of(2, size=[2.0, 2.5]),
            r"size = .*2.5.* of request 1: needs 5 GiB, more than replicas\[1\].memory_gib = 4.0",
        ),
        (CONTINUOUS, of(2), "length of prompt_tokens = 0: continuous batching needs one for each"),
        (
            CONTINUOUS,
            of(2, prompt_tokens=[1, 1]),
            "length of output_tokens = 0: continuous batching needs one for each of 2 requests",
        ),
        (
            CONTINUOUS,
            of(2, prompt_tokens=[5, 8], output_tokens=[5, 3]),
            r"prompt_tokens \+ output_tokens = 11 of request 1: must be at most "
            "kv_capacity_tokens, which is 10",
        ),
    ],
)
def test_arrivals_that_cannot_be_served_are_refused(
    scenario: Scenario, arrivals: Arrivals, message: str
) -> None:
    env = Environment(
        scenario, RecordedWorkload(arrivals), 1, 5.0, Reward(np.ones(8)), np.random.default_rng(0)
    )
    with pytest.raises(ValueError, match=message):
        env.reset()


@pytest.mark.parametrize(
    ("scenario", "arrivals"),
    [
        (SMALL, of(2, size=[2.0, 2.0])),
        (CONTINUOUS, of(2, prompt_tokens=[9, 5], output_tokens=[1, 5])),
        (CONTINUOUS, of(0)),
    ],
)
def test_arrivals_that_just_fit_are_drawn(scenario: Scenario, arrivals: Arrivals) -> None:
    future = draw_future(scenario, RecordedWorkload(arrivals), 5.0, 0.0, streams())
    assert len(future.arrivals.arrival_s) == len(arrivals.arrival_s)
