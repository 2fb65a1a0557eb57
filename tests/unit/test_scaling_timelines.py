"""Short episodes with an autoscaler worked out by hand: what the engine does, and when."""

import numpy as np

from simulator.conditions import Autoscaler, Scaling, SetPoints
from simulator.environment import Environment
from simulator.replica import Replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, RequestClass, Scenario
from simulator.state import EventKind, Recording
from simulator.workload import Arrivals, RecordedWorkload
from tests.oracle.comparison import told_by

# A request takes 1.5 s, one at a time. One money unit a second.
GPU = Replica((1.0,), (0.5,), (0.0,), 1, price_per_hour=3600.0)


def play(
    scaling: Scaling, instants: list[float], horizon_s: float, menu: tuple[int, ...] = ()
) -> tuple[list, dict[str, float]]:
    """The events beside SET_POINTS and the summed terms of two replicas, asked every 0.5 s.

    With a menu the decisions are for 1 replica before 1.0 s, then for 2.
    """
    scenario = Scenario(
        (RequestClass("only", slo_s=100.0),),
        (GPU, GPU),
        (1,),
        decision=DecisionKind.TUNE,
        control_interval_s=0.5,
        set_points=SetPoints(max_batch_size=(1,), replicas_on=menu),
        scaling=scaling,
    )
    count = len(instants)
    env = Environment(
        scenario,
        RecordedWorkload(Arrivals(np.array(instants), np.zeros(count, int), np.ones(count))),
        1,
        horizon_s,
        Reward(np.ones(8)),
        np.random.default_rng(0),
        recording=Recording(requests=True, events=100),
    )
    env.reset()
    terms = np.zeros(8)
    while env.running().any():
        later = bool(menu) and env.state.clock_s[0] >= 1.0
        terms += env.step(np.array([int(later)])).reward_terms[0]
    told = [event for event in told_by(env, 0) if event[1] != EventKind.SET_POINTS]
    return told, dict(zip(reward_term_names(("only",)), terms.tolist(), strict=True))


def test_an_autoscaler_starts_at_once_and_stops_after_its_delay() -> None:
    # Two in system at 0.5: a second replica starts, and is ready after 0.25 s. One is wanted from
    # 2.0 on, where the autoscaler first sees it, so the second is off one second later.
    told, terms = play(
        Scaling(0.25, initial_replicas=1, autoscaler=Autoscaler(1.0, 1, 1.0)), [0.125, 0.125], 4.0
    )
    assert told == [
        (0.125, EventKind.REQUEST_ARRIVAL, 0),
        (0.125, EventKind.BATCH_DISPATCH, 0),
        (0.125, EventKind.REQUEST_ARRIVAL, 1),
        (0.5, EventKind.REPLICA_START, 1),
        (0.75, EventKind.REPLICA_READY, 1),
        (0.75, EventKind.BATCH_DISPATCH, 1),
        (1.625, EventKind.BATCH_COMPLETION, 0),
        (2.25, EventKind.BATCH_COMPLETION, 1),
        (3.0, EventKind.REPLICA_OFF, 1),
    ]
    assert terms["replica_seconds"] == terms["bill"] == 4.0 + 2.5


def test_from_zero_each_burst_pays_the_cold_start_and_nothing_accrues_between() -> None:
    # On from 1.0 until the autoscaler sees an empty system at 3.0, then from 3.75 on. The first
    # request takes 0.25 + 1.5 s, as does the second, which departs at 5.5.
    told, terms = play(
        Scaling(0.25, initial_replicas=0, autoscaler=Autoscaler(1.0, 0)), [1.0, 3.75], 6.25
    )
    assert told == [
        (1.0, EventKind.REPLICA_START, 0),
        (1.0, EventKind.REQUEST_ARRIVAL, 0),
        (1.25, EventKind.REPLICA_READY, 0),
        (1.25, EventKind.BATCH_DISPATCH, 0),
        (2.75, EventKind.BATCH_COMPLETION, 0),
        (3.0, EventKind.REPLICA_OFF, 0),
        (3.75, EventKind.REPLICA_START, 0),
        (3.75, EventKind.REQUEST_ARRIVAL, 1),
        (4.0, EventKind.REPLICA_READY, 0),
        (4.0, EventKind.BATCH_DISPATCH, 0),
        (5.5, EventKind.BATCH_COMPLETION, 0),
        (5.5, EventKind.REPLICA_OFF, 0),
    ]
    assert terms["response_s.only"] == 2 * 1.75
    assert terms["replica_seconds"] == terms["bill"] == 2.0 + 1.75


def test_a_replica_that_is_wanted_again_while_it_drains_needs_no_cold_start() -> None:
    # Replica 1 serves from 0 to 1.5; it is not wanted from 0.5 to 1.0, and serves again at 1.75.
    told, terms = play(Scaling(9.0), [0.0, 0.0, 1.75, 1.75], 4.0, menu=(1, 2))
    kinds = {kind for _, kind, _ in told}
    assert not kinds & {EventKind.REPLICA_START, EventKind.REPLICA_OFF}
    assert (1.75, EventKind.BATCH_DISPATCH, 1) in told
    assert terms["replica_seconds"] == 2 * 4.0
