"""Rules on replicas that do not serve every class: timelines played in the simulator."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.environment import Environment
from simulator.policies import build_policy
from simulator.replica import Replica
from simulator.reward import paper_reward
from simulator.scenario import ClassChoice, MixedBatches, RequestClass, Scenario
from simulator.workload import Arrivals, RecordedWorkload

FAST, SLOW = 0, 1
WAITS = (-1, -1, 0)
Sent = tuple[int, int, int]  # replica, request class, batch size


def cluster(*serves: tuple[bool, bool], **changes: Any) -> Scenario:
    """Batches of b take 1 s + 1 s b of either class, on replicas that serve what they are told."""
    return Scenario(
        (RequestClass("fast", 1.0, 9.0), RequestClass("slow", 1.0, 1.0)),
        tuple(
            Replica((1.0, 1.0), (1.0, 1.0), (0.0, 0.0), 4, serves=of_replica)
            for of_replica in serves
        ),
        (1, 2, 4),
        tick_s=1.0,  # after WAIT nothing is asked again
        **changes,
    )


def decisions(scenario: Scenario, name: str, classes: list[int], **parameters: Any) -> list[Sent]:
    """What the rule does from the instant 0, at which these classes have arrived in this order."""
    count = len(classes)
    arrivals = Arrivals(np.zeros(count), np.array(classes), np.ones(count))
    lanes = Environment(
        scenario,
        RecordedWorkload(arrivals),
        lanes=1,
        horizon_s=0.5,  # before any batch completes
        reward=paper_reward(scenario),
        generator=np.random.default_rng(0),
    )
    policy = build_policy(name, scenario, parameters)
    observation, mask = lanes.reset()
    table, sent = lanes.table, []
    while lanes.running()[0]:
        action = policy.action_probabilities(observation, mask).argmax(axis=1)
        columns = (table.replica, table.request_class, table.batch_size)
        sent.append(tuple(int(column[action[0]]) for column in columns))
        step = lanes.step(action)
        observation, mask = step.observation, step.action_mask
    return sent


APART = ((True, False), (False, True))
SECOND_SERVES_ALL = ((True, False), (True, True))


@pytest.mark.parametrize("name", ["static_cap", "fifo", "random_replica", "shortest_queue"])
def test_a_batch_goes_to_a_replica_that_serves_its_class(name: str) -> None:
    sent = decisions(cluster(*SECOND_SERVES_ALL), name, [SLOW, FAST], batch_size=4)
    assert sent == [(1, SLOW, 1), (0, FAST, 1)]


@pytest.mark.parametrize("name", ["static_cap", "fifo", "random_replica", "shortest_queue"])
def test_the_head_of_line_waits_for_its_replica_and_holds_up_the_others(name: str) -> None:
    sent = decisions(cluster(*APART), name, [FAST, FAST, SLOW], batch_size=1)
    assert sent == [(0, FAST, 1), WAITS]


def test_c_mu_does_not_leave_a_replica_idle_that_serves_a_lesser_class() -> None:
    sent = decisions(cluster(*APART), "c_mu", [FAST, FAST, SLOW], batch_size=1)
    assert sent == [(0, FAST, 1), (1, SLOW, 1)]


def test_batch_timeout_does_not_leave_a_replica_idle_that_serves_a_younger_class() -> None:
    parameters = {"max_batch_size": 1, "batch_timeout_s": 0.0}
    sent = decisions(cluster(*APART), "batch_timeout", [FAST, FAST, SLOW], **parameters)
    assert sent == [(0, FAST, 1), (1, SLOW, 1)]


def test_mu_is_the_rate_on_a_replica_that_serves_the_class() -> None:
    # Replica 1 would serve `slow` in no time, but does not: 9 / 2 s goes before 1 / 2 s.
    scenario = cluster(SECOND_SERVES_ALL[1], (True, False))
    quick = Replica((1.0, 0.0), (1.0, 1e-6), (0.0, 0.0), 4, serves=(True, False))
    scenario = replace(scenario, replicas=(scenario.replicas[0], quick))
    assert decisions(scenario, "c_mu", [SLOW, FAST], batch_size=1) == [(0, FAST, 1)]


@pytest.mark.parametrize("on_busy", ["skip", "blocking"])
def test_a_replica_that_does_not_serve_the_class_has_no_turn(on_busy: str) -> None:
    scenario = cluster((True, True), (True, False), (True, True))
    sent = decisions(scenario, "round_robin", [SLOW, SLOW], batch_size=1, on_busy=on_busy)
    assert sent == [(0, SLOW, 1), (2, SLOW, 1)]


def test_shortest_queue_first_knows_the_first_replica_that_serves_the_class() -> None:
    scenario = cluster((True, False), (True, True))
    sent = decisions(scenario, "shortest_queue_first", [SLOW, FAST, FAST], batch_size=1)
    assert sent == [(1, SLOW, 1), (0, FAST, 1)]


def test_shortest_queue_counts_batches_behind_the_one_in_service() -> None:
    # Of equal probabilities the first is played: 0 0, then 1 0, 1 1, 2 1 and 2 2 at the replicas.
    scenario = cluster((True, True), (True, True), replica_backlog=2)
    sent = decisions(scenario, "shortest_queue", [FAST] * 5, batch_size=1)
    assert [replica for replica, _, _ in sent] == [0, 1, 0, 1, 0]


def test_a_mixed_batch_is_as_large_as_the_whole_queue() -> None:
    head_of_line = ClassChoice.HEAD_OF_LINE
    scenario = cluster((True, True), class_choice=head_of_line, mixed=MixedBatches.SUM)
    assert decisions(scenario, "static_cap", [FAST, SLOW, SLOW], batch_size=4) == [(0, -1, 4)]
    parameters = {"max_batch_size": 3, "batch_timeout_s": 9.0}
    assert decisions(scenario, "batch_timeout", [FAST, SLOW, SLOW], **parameters) == [(0, -1, 2)]
