"""The compiled engine beside the plain reference, on the same future and the same decisions."""

from typing import Any

import numpy as np

from simulator import reference
from simulator.action import SHED, WAIT, ActionTable
from simulator.environment import Environment
from simulator.observation import Observation
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, Scenario
from simulator.state import Ending, Recording
from simulator.workload import Arrivals, RecordedWorkload

EVENTS = 4000
RECORDS = ("dispatch_s", "departure_s", "first_token_s", "replica", "status")


def compare(
    scenario: Scenario, lanes: list[Arrivals], horizon_s: float, drain_s: float, seed: int
) -> list[reference.Cluster]:
    """Runs both on the same random legal actions and compares at every decision.

    Returns the lanes of the reference at the end.
    """
    environment = compiled_lanes(scenario, lanes, horizon_s, drain_s, seed)
    observation, action_mask = environment.reset()
    clusters = reference_lanes(environment, lanes, horizon_s, drain_s)
    terms = np.zeros_like(environment.state.reward_terms)
    generator = np.random.default_rng(seed + 1)
    while True:
        for lane, cluster in enumerate(clusters):
            compare_decision(environment, cluster, lane, observation, action_mask)
        if not environment.running().any():
            break
        chosen = (action_mask * generator.random(action_mask.shape)).argmax(1)
        step = environment.step(chosen)
        observation, action_mask = step.observation, step.action_mask
        terms += step.reward_terms
        for lane, cluster in enumerate(clusters):
            if cluster.ending == Ending.RUNNING:
                action = meaning(scenario, environment.table, int(chosen[lane]))
                reference.take_action(cluster, action)
                reference.advance(cluster)
    # An episode without a decision never hands its terms to a step.
    terms += environment.state.reward_terms
    for lane, cluster in enumerate(clusters):
        compare_episode(environment, cluster, lane)
        np.testing.assert_allclose(terms[lane], cluster.reward_terms(), rtol=1e-12, atol=1e-12)
    return clusters


def compiled_lanes(
    scenario: Scenario, lanes: list[Arrivals], horizon_s: float, drain_s: float, seed: int
) -> Environment:
    """The lanes in the compiled engine, which tells all that happens."""
    return Environment(
        scenario,
        [RecordedWorkload(arrivals) for arrivals in lanes],
        len(lanes),
        horizon_s,
        Reward(np.ones(len(reward_term_names(scenario.class_names)))),
        np.random.default_rng(seed),
        drain_s,
        Recording(requests=True, events=EVENTS),
    )


def reference_lanes(
    environment: Environment, lanes: list[Arrivals], horizon_s: float, drain_s: float
) -> list[reference.Cluster]:
    """The same lanes in the reference, at their first decision, with the luck of the engine."""
    clusters = []
    for lane, arrivals in enumerate(lanes):
        luck = luck_of(environment.state, lane)
        offered = arrivals.window(0.0, horizon_s)
        end_s = horizon_s + drain_s
        cluster = reference.Cluster(environment.scenario, offered, luck, end_s, drain_s > 0)
        reference.advance(cluster)
        clusters.append(cluster)
    return clusters


def luck_of(state: Any, lane: int) -> reference.Luck:
    """What chance has decided for the lane."""
    drawn = (state.noise_z, state.delay_s, state.cold_start_s, state.fault_s)
    return reference.Luck(*(values[lane].copy() for values in drawn))


def meaning(scenario: Scenario, table: ActionTable, action: int) -> reference.Action:
    """What the action of that number says, in the words of the reference."""
    if scenario.decision == DecisionKind.ROUTE:
        return reference.Route(int(table.replica[action]))
    if scenario.decision == DecisionKind.TUNE:
        return reference.Tune(
            action,
            max_batch_size=_unless_kept(table.batch_size[action]),
            batch_timeout_s=_unless_kept(table.batch_timeout_s[action]),
            max_num_seqs=_unless_kept(table.max_num_seqs[action]),
            replicas_on=_unless_kept(table.replicas_on[action]),
        )
    if action == WAIT:
        return reference.Wait()
    request_class = int(table.request_class[action])
    if table.batch_size[action] == SHED:
        return reference.Shed(None if request_class < 0 else request_class)
    return reference.Dispatch(
        int(table.replica[action]),
        None if request_class < 0 else request_class,
        int(table.batch_size[action]),
    )


def _unless_kept(value: Any) -> Any:
    return None if value < 0 else value.item()


def compare_decision(
    environment: Environment,
    cluster: reference.Cluster,
    lane: int,
    observation: Observation,
    action_mask: np.ndarray,
) -> None:
    """Both are at the same instant, for the same reason, and show the same."""
    state = environment.state
    compiled_at = (state.clock_s[lane], state.ending[lane], state.event_count[lane])
    reference_at = (cluster.clock_s, cluster.ending, len(cluster.events))
    if compiled_at != reference_at:
        parting = _parting(told_by(environment, lane), cluster.events)
        raise AssertionError(f"{compiled_at} against {reference_at} of the reference; {parting}")
    seen, at_door = cluster.observed(), cluster.at_the_door
    if not cluster.is_central:
        del seen["can_take"]
        if at_door is None:
            del seen["head_class"], seen["head_size"]
        else:
            legal = [replica.number for replica in reference.routable(cluster, at_door)]
            assert np.flatnonzero(action_mask[lane]).tolist() == legal
    expected = np.hstack([np.ravel(value) for value in seen.values()])
    compiled = np.hstack([np.ravel(getattr(observation, field)[lane]) for field in seen])
    if not (abs(compiled - expected) <= 1e-12 * (1.0 + abs(expected))).all():
        shown = {field: getattr(observation, field)[lane].tolist() for field in seen}
        parted = {
            field: (shown[field], seen[field]) for field in seen if shown[field] != seen[field]
        }
        raise AssertionError(f"at {cluster.clock_s}, compiled and reference: {parted}")


def _parting(compiled: list[tuple], told: list[tuple]) -> str:
    """The last events on which both agree, and the next of each."""
    pairs = enumerate(zip(compiled, told, strict=False))
    same = next((n for n, (one, other) in pairs if one != other), min(len(compiled), len(told)))
    return f"after {told[:same][-3:]}: {compiled[same : same + 2]} against {told[same : same + 2]}"


def told_by(environment: Environment, lane: int) -> list[tuple[float, int, int]]:
    """The events that the compiled engine has logged."""
    state = environment.state
    count = state.event_count[lane]
    assert count <= EVENTS
    columns = (state.event_clock_s, state.event_kind, state.event_subject)
    return list(zip(*(column[lane, :count].tolist() for column in columns), strict=True))


def compare_episode(environment: Environment, cluster: reference.Cluster, lane: int) -> None:
    """Both have told the same, and have the same records of all requests."""
    told = told_by(environment, lane)
    assert told == cluster.events, _parting(told, cluster.events)
    count = len(cluster.requests)
    for record in RECORDS:
        compiled = getattr(environment.state, f"request_{record}")[lane, :count]
        if record == "first_token_s" and not cluster.scenario.continuous:
            assert len(compiled) == 0  # whole batches have no tokens
            continue
        expected = [getattr(request, record) for request in cluster.requests]
        np.testing.assert_array_equal(compiled, np.array(expected, float), err_msg=record)
