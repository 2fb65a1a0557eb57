"""Short episodes worked out by hand: what the engine does, when, and what it counts."""

import numpy as np
import pytest

from simulator.environment import Environment
from simulator.replica import Replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import ClassChoice, DecisionEpochs, RequestClass, Scenario
from simulator.state import EventKind, Recording
from simulator.workload import Arrivals, RecordedWorkload

# One replica: a batch of n takes 1 + n / 2 seconds. Power: 10 W idle, 30 W busy.
ONE = Scenario(
    (RequestClass("only", slo_s=2.0),),
    (Replica((1.0,), (0.5,), (0.0,), 4, idle_power_w=10.0, busy_power_w=30.0),),
    batch_sizes=(1, 2, 4),
    queue_capacity=2,
    tick_s=0.25,
)
NAMES = reward_term_names(("only",))


def environment(
    scenario: Scenario, instants: list[float], horizon_s: float, classes: list[int] | None = None
) -> Environment:
    count = len(instants)
    arrivals = Arrivals(np.array(instants), np.array(classes or [0] * count), np.ones(count))
    terms = 5 * len(scenario.request_classes) + 3
    return Environment(
        scenario,
        RecordedWorkload(arrivals),
        1,
        horizon_s,
        Reward(np.ones(terms)),
        np.random.default_rng(0),
        recording=Recording(requests=True, events=100),
    )


def events(env: Environment) -> list[tuple[float, EventKind, int]]:
    count = env.state.event_count[0]
    return [
        (float(clock_s), EventKind(kind), int(subject))
        for clock_s, kind, subject in zip(
            env.state.event_clock_s[0, :count],
            env.state.event_kind[0, :count],
            env.state.event_subject[0, :count],
            strict=True,
        )
    ]


def test_timeline_of_two_batches_with_a_shed_request() -> None:
    env = environment(ONE, [1.0, 1.5, 1.75, 2.0, 2.25], horizon_s=10.0)
    env.reset()
    first = env.step(np.array([1]))  # batch of 1 at 1.0, departs at 2.5; two wait, two are shed
    assert first.holding_s[0] == 1.5
    second = env.step(np.array([3]))  # size 4 is clipped to the 2 that wait; departs at 4.5
    assert second.truncated[0]
    assert not second.terminated[0]
    assert events(env) == [
        (1.0, EventKind.REQUEST_ARRIVAL, 0),
        (1.0, EventKind.BATCH_DISPATCH, 0),
        (1.5, EventKind.REQUEST_ARRIVAL, 1),
        (1.75, EventKind.REQUEST_ARRIVAL, 2),
        (2.0, EventKind.REQUEST_SHED, 3),
        (2.25, EventKind.REQUEST_SHED, 4),
        (2.5, EventKind.BATCH_COMPLETION, 0),
        (2.5, EventKind.BATCH_DISPATCH, 0),
        (4.5, EventKind.BATCH_COMPLETION, 0),
    ]


def test_reward_terms_of_the_timeline_are_as_worked_out_by_hand() -> None:
    env = environment(ONE, [1.0, 1.5, 1.75, 2.0, 2.25], horizon_s=10.0)
    env.reset()
    first = dict(zip(NAMES, env.step(np.array([1])).reward_terms[0].copy(), strict=True))
    assert first["completed.only"] == 1
    assert first["response_s.only"] == 1.5
    assert first["shed.only"] == 2
    assert first["slo_misses.only"] == 0
    # In system: 1 from 1.0, 2 from 1.5, 3 from 1.75 to 2.5.
    assert first["number_in_system_s.only"] == pytest.approx(0.5 + 0.5 + 3 * 0.75)
    # The second before the first arrival counts with the first step.
    assert first["replica_seconds"] == 2.5
    assert first["energy_j"] == pytest.approx(1.0 * 10 + 1.5 * 30)
    second = dict(zip(NAMES, env.step(np.array([3])).reward_terms[0], strict=True))
    assert second["completed.only"] == 2
    assert second["response_s.only"] == pytest.approx(3.0 + 2.75)
    assert second["slo_misses.only"] == 2  # 3.0 s and 2.75 s against 2.0 s
    assert second["replica_seconds"] == 7.5
    assert second["energy_j"] == pytest.approx(2.0 * 30 + 5.5 * 10)


def test_after_wait_the_next_decision_comes_at_the_tick_or_the_next_event() -> None:
    env = environment(ONE, [1.0, 1.1, 5.0], horizon_s=10.0)
    env.reset()
    assert env.step(np.array([0])).holding_s[0] == pytest.approx(0.1)  # the arrival at 1.1
    assert env.step(np.array([0])).holding_s[0] == pytest.approx(0.25)  # the tick


def test_at_ticks_a_decision_is_due_at_every_multiple_and_nowhere_else() -> None:
    ticking = Scenario(
        ONE.request_classes,
        ONE.replicas,
        ONE.batch_sizes,
        decision_epochs=DecisionEpochs.TICKS,
        tick_s=0.025,
    )
    env = environment(ticking, [0.01, 0.02], horizon_s=25.0)
    env.reset()
    decisions = 0
    while env.running().any():
        assert env.state.clock_s[0] == decisions * 0.025
        env.step(np.array([0]))
        decisions += 1
    assert decisions == 1000  # the paper's episode (D2)


def test_a_completion_is_told_before_an_arrival_at_the_same_instant_and_the_decision_last() -> None:
    env = environment(ONE, [0.5, 2.0], horizon_s=10.0)
    observation, _ = env.reset()
    env.step(np.array([1]))  # departs at 2.0, as the second arrives
    assert events(env)[-2:] == [
        (2.0, EventKind.BATCH_COMPLETION, 0),
        (2.0, EventKind.REQUEST_ARRIVAL, 1),
    ]
    assert observation.queue_length[0, 0] == 1
    assert observation.can_take[0, 0] == 1


def test_observation_of_a_busy_replica_and_a_waiting_request_is_as_worked_out_by_hand() -> None:
    two = Scenario(ONE.request_classes, ONE.replicas * 2, ONE.batch_sizes, tick_s=0.25)
    env = environment(two, [1.0, 1.5], horizon_s=10.0)
    env.reset()
    seen = env.step(np.array([4])).observation  # replica 1 takes one at 1.0, expected until 2.5
    assert env.state.clock_s[0] == 1.5
    assert seen.queue_length[0, 0] == 1
    assert seen.oldest_wait_s[0, 0] == 0.0
    assert seen.head_class[0] == 0
    assert seen.since_dispatch_s[0] == 0.5
    assert seen.last_replica[0] == 1
    assert seen.can_take[0].tolist() == [1.0, 0.0]
    assert seen.remaining_service_s[0].tolist() == [0.0, 1.0]
    assert seen.in_service[0].tolist() == [0.0, 1.0]
    assert seen.arrival_rate_rps[0, 0] == pytest.approx(np.exp(-0.5) + 1.0)
    assert seen.utilization[0].tolist() == pytest.approx([0.0, 1.0 - np.exp(-0.5)])
    assert seen.response_p95_s[0] == 0.0


def test_response_p95_is_the_nearest_rank_of_the_last_thirty_two() -> None:
    # One by one, never waiting: a request of size s answers in 1 + s / 2 seconds.
    generator = np.random.default_rng(4)
    size = generator.uniform(0.1, 4.0, 60)
    arrivals = Arrivals(np.arange(60) * 10.0, np.zeros(60, int), size)
    env = Environment(
        ONE, RecordedWorkload(arrivals), 1, 1000.0, Reward(np.ones(8)), np.random.default_rng(0)
    )
    observation, _ = env.reset()
    answered: list[float] = []
    for number in range(59):
        env.step(np.array([1]))
        answered.append(1.0 + size[number] / 2)
        window = sorted(answered[-32:])
        rank = int(np.ceil(0.95 * len(window) - 1e-12))
        assert observation.response_p95_s[0] == pytest.approx(window[rank - 1])


def test_head_of_line_takes_the_class_that_has_waited_longest() -> None:
    classes = (RequestClass("first", 1.0), RequestClass("second", 1.0))
    replica = Replica((1.0, 1.0), (0.5, 0.25), (0.0, 0.0), 4)
    mixed = Scenario(classes, (replica,), (1, 2, 4), class_choice=ClassChoice.HEAD_OF_LINE)
    env = environment(mixed, [0.0, 0.1, 0.2, 0.3], 10.0, classes=[0, 1, 0, 1])
    env.reset()
    env.step(np.array([1]))  # request 0; then 1 (second) is at the head
    env.step(np.array([3]))  # a batch of the class "second": requests 1 and 3
    records = env.request_records()
    assert records.dispatch_s[1] == records.dispatch_s[3] == 1.5
    assert np.isnan(records.dispatch_s[2])


def test_a_drained_trace_terminates_and_the_horizon_truncates() -> None:
    arrivals = Arrivals(np.array([0.5]), np.zeros(1, int), np.ones(1))
    for drain_s, ended in ((5.0, "terminated"), (0.0, "truncated")):
        env = Environment(
            ONE,
            RecordedWorkload(arrivals),
            1,
            1.0,
            Reward(np.ones(8)),
            np.random.default_rng(0),
            drain_s,
        )
        env.reset()
        step = env.step(np.array([1]))
        assert step._asdict()[ended][0]
        assert step.terminated[0] != step.truncated[0]


def test_a_lane_that_has_ended_stands_still_until_reset() -> None:
    env = environment(ONE, [0.5], horizon_s=1.0)
    env.reset()
    env.step(np.array([1]))
    still = env.step(np.array([2]))
    assert still.holding_s[0] == 0.0
    assert (still.reward_terms == 0).all()
    assert still.truncated[0]
    env.reset()
    assert env.running()[0]


@pytest.mark.parametrize("action", [-1, 4])
def test_an_action_that_does_not_exist_is_refused(action: int) -> None:
    env = environment(ONE, [0.5], horizon_s=5.0)
    env.reset()
    with pytest.raises(ValueError, match=r"action: needs 1 numbers in 0\.\.3"):
        env.step(np.array([action]))


def test_an_action_that_the_mask_forbids_is_refused_and_named() -> None:
    two = Scenario(ONE.request_classes, ONE.replicas * 2, ONE.batch_sizes)
    env = environment(two, [0.5, 0.6], horizon_s=5.0)
    env.reset()
    env.step(np.array([1]))
    with pytest.raises(ValueError, match="action = 1 in lane 0: the action mask forbids it"):
        env.step(np.array([1]))
