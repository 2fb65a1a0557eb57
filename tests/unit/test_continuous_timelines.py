"""Short episodes of continuous batching worked out by hand: what the engine does, and when."""

import dataclasses

import numpy as np

from simulator.conditions import SetPoints
from simulator.environment import Environment
from simulator.metrics import token_metrics
from simulator.replica import TokenModel, continuous_replica
from simulator.reward import Reward
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.state import EventKind, Recording
from simulator.workload import Arrivals, RecordedWorkload
from tests.oracle.comparison import told_by


def routed(tokens: TokenModel) -> Scenario:
    return Scenario(
        (RequestClass("only", slo_s=100.0),),
        (continuous_replica(1, tokens),),
        (1,),
        decision=DecisionKind.ROUTE,
        queues=QueuePlace.REPLICA,
    )


def environment(
    scenario: Scenario, instants: list[float], tokens: list[tuple[int, int]]
) -> Environment:
    """One lane for 20 s at its first decision; `tokens` are (prompt, output) of each request."""
    count = len(instants)
    prompt, output = np.array(tokens).T
    arrivals = Arrivals(np.array(instants), np.zeros(count, int), np.ones(count), prompt, output)
    env = Environment(
        scenario,
        RecordedWorkload(arrivals),
        1,
        20.0,
        Reward(np.ones(8)),
        np.random.default_rng(0),
        recording=Recording(requests=True, events=100),
    )
    env.reset()
    return env


def test_a_long_prompt_is_prefilled_in_chunks_beside_those_that_decode() -> None:
    # Four tokens an iteration at most. Request 0 prefills its 2 tokens in 1 + 2/4 s. Then it
    # decodes, which leaves 3 tokens to request 1: two iterations of 1 + 3/4 + 1/2 = 2.25 s for its
    # prompt of 6, in which request 0 gets its second and last token. Request 1, alone, gets its
    # second in 1.5 s.
    env = environment(
        routed(TokenModel(1.0, 0.25, 0.5, 0.0, 2, 100, 4)), [0.0, 0.0], [(2, 3), (6, 2)]
    )
    for _ in range(2):
        env.step(np.array([0]))
    assert told_by(env, 0) == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.REQUEST_ADMITTED, 0),
        (0.0, EventKind.REQUEST_ARRIVAL, 1),
        (1.5, EventKind.FIRST_TOKEN, 0),
        (1.5, EventKind.REQUEST_ADMITTED, 1),
        (6.0, EventKind.FIRST_TOKEN, 1),
        (6.0, EventKind.REQUEST_COMPLETION, 0),
        (7.5, EventKind.REQUEST_COMPLETION, 1),
    ]
    metrics = token_metrics(env.request_records(), 0)
    assert metrics.ttft_p50_s == (1.5 + 6.0) / 2
    assert metrics.tpot_p50_s == ((6.0 - 1.5) / 2 + (7.5 - 6.0) / 1) / 2


def test_a_short_request_does_not_overtake_one_that_finds_no_memory() -> None:
    # Iterations of 1 s; memory for 10 tokens. At 1.0 request 0 holds 5 + 1 and will hold 7;
    # request 1 needs 6 + 1. Request 2 would fit, with 1 + 1, but stands behind it until 3.0.
    env = environment(
        routed(TokenModel(1.0, 0.0, 0.0, 0.0, 3, 10, 8)), [0.0] * 3, [(5, 3), (6, 2), (1, 1)]
    )
    for _ in range(3):
        env.step(np.array([0]))
    assert [event for event in told_by(env, 0) if event[0] > 0.0] == [
        (1.0, EventKind.FIRST_TOKEN, 0),
        (3.0, EventKind.REQUEST_COMPLETION, 0),
        (3.0, EventKind.REQUEST_ADMITTED, 1),
        (3.0, EventKind.REQUEST_ADMITTED, 2),
        (4.0, EventKind.FIRST_TOKEN, 1),
        (4.0, EventKind.FIRST_TOKEN, 2),
        (4.0, EventKind.REQUEST_COMPLETION, 2),
        (5.0, EventKind.REQUEST_COMPLETION, 1),
    ]


def test_a_larger_max_num_seqs_lets_in_who_waits_at_the_next_boundary() -> None:
    # Iterations of 1 s, decisions every second. One sequence at a time until 4.0; request 0 runs
    # from 1.5, so its boundaries are at 2.5, 3.5, ..., and request 1 gets in at 4.5.
    scenario = dataclasses.replace(
        routed(TokenModel(1.0, 0.0, 0.0, 0.0, 2, 100, 8)),
        decision=DecisionKind.TUNE,
        set_points=SetPoints(max_num_seqs=(1, 2)),
    )
    env = environment(scenario, [1.5, 1.75], [(2, 6), (1, 1)])
    while env.running().any():
        env.step(np.array([int(env.state.clock_s[0] >= 4.0)]))
    assert [event for event in told_by(env, 0) if event[1] != EventKind.SET_POINTS] == [
        (1.5, EventKind.REQUEST_ARRIVAL, 0),
        (1.5, EventKind.REQUEST_ADMITTED, 0),
        (1.75, EventKind.REQUEST_ARRIVAL, 1),
        (2.5, EventKind.FIRST_TOKEN, 0),
        (4.5, EventKind.REQUEST_ADMITTED, 1),
        (5.5, EventKind.FIRST_TOKEN, 1),
        (5.5, EventKind.REQUEST_COMPLETION, 1),
        (7.5, EventKind.REQUEST_COMPLETION, 0),
    ]
