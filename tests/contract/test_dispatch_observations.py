"""Rules without a memory, on random observations: full queues, empty ones, unlikely ones."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from simulator.action import WAIT, action_table, legal_actions, sample_actions
from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies import RULES, EpsilonMixture, Policy, build_policy
from simulator.replica import Replica
from simulator.scenario import ClassChoice, DecisionEpochs, MixedBatches, RequestClass, Scenario

LANES = 200
RANDOM_RULES = {"uniform_random", "random_replica", "shortest_queue"}
MAY_WAIT = {"uniform_random", "batch_timeout", "round_robin", "shortest_queue_first"}


def cluster(
    replicas: int,
    classes: int,
    menu: tuple[int, ...],
    class_choice: ClassChoice = ClassChoice.ANY,
    decision_epochs: DecisionEpochs = DecisionEpochs.EVENTS,
) -> Scenario:
    """Unlike classes and unlike replicas: no two products c * mu or service times are equal."""
    return Scenario(
        request_classes=tuple(RequestClass(f"class{c}", 0.1, 1.0 + 3 * c) for c in range(classes)),
        replicas=tuple(
            Replica(
                alpha_s=tuple(0.002 + 0.0013 * k for _ in range(classes)),
                beta_s=tuple(0.005 * (c + 1) - 0.0011 * k for c in range(classes)),
                noise_cv=(0.0,) * classes,
                max_batch_size=max(menu[0], 32 >> k),
            )
            for k in range(replicas)
        ),
        batch_sizes=menu,
        class_choice=class_choice,
        decision_epochs=decision_epochs,
    )


def specialized(scenario: Scenario) -> Scenario:
    """The same cluster, but its first two replicas do not serve the last class, nor the last 0."""
    classes, replicas = len(scenario.request_classes), len(scenario.replicas)
    serves = np.ones((replicas, classes), bool)
    serves[:2, -1], serves[-1, 0] = False, False
    pairs = zip(scenario.replicas, serves.tolist(), strict=True)
    return replace(
        scenario, replicas=tuple(replace(replica, serves=tuple(row)) for replica, row in pairs)
    )


SCENARIOS = {
    "one replica, one class": cluster(1, 1, (1, 2, 4, 8)),
    "two replicas, two classes": cluster(2, 2, (1, 2, 4, 8)),
    "every size to 32": cluster(2, 2, tuple(range(1, 33))),
    "three replicas, three classes": cluster(3, 3, (2, 3, 7, 16)),
    "the paper's 65 actions": cluster(2, 2, tuple(range(1, 33)), ClassChoice.HEAD_OF_LINE),
    "head of line, three of each": cluster(3, 3, (1, 2, 4, 8), ClassChoice.HEAD_OF_LINE),
    "replicas for some classes": specialized(cluster(3, 3, (1, 2, 4, 8))),
    "replicas for some classes, head of line": specialized(
        cluster(3, 3, (1, 2, 4, 8), ClassChoice.HEAD_OF_LINE)
    ),
    "mixed batches": replace(
        cluster(2, 2, (1, 2, 4, 8), ClassChoice.HEAD_OF_LINE), mixed=MixedBatches.SUM
    ),
}


def consistent_observation(scenario: Scenario, lanes: int, seed: int) -> Observation:
    """Random lanes such as a cluster could be in: full, empty and in between, all busy or none."""
    generator = np.random.default_rng(seed)
    classes, replicas = len(scenario.request_classes), len(scenario.replicas)
    queue_length = generator.integers(0, 40, (lanes, classes)) // generator.integers(
        1, 40, (lanes, 1)
    )
    queue_length[generator.random((lanes, classes)) < 0.3] = 0
    wait_s = np.where(queue_length > 0, generator.exponential(0.02, (lanes, classes)), 0.0)
    head = np.where(queue_length > 0, wait_s, -1.0).argmax(axis=1)
    can_take = (generator.random((lanes, replicas)) < 0.6).astype(float)
    busy = 1.0 - can_take
    in_service = busy * generator.integers(1, 9, (lanes, replicas))
    return empty_observation(scenario, lanes)._replace(
        queue_length=queue_length.astype(float),
        oldest_wait_s=wait_s,
        head_class=np.where(queue_length.any(axis=1), head, -1),
        head_size=queue_length.any(axis=1).astype(float),
        since_dispatch_s=generator.exponential(0.01, lanes),
        last_replica=generator.integers(-1, replicas, lanes),
        can_take=can_take,
        remaining_service_s=busy * generator.exponential(0.02, (lanes, replicas)),
        in_service=in_service,
        arrival_rate_rps=generator.exponential(50.0, (lanes, classes)),
        response_p95_s=generator.exponential(0.1, lanes),
        utilization=generator.random((lanes, replicas)),
        replica_state=np.where(busy > 0, ReplicaState.BUSY, ReplicaState.IDLE).astype(float),
        in_flight=in_service,
    )


def legal(scenario: Scenario, observation: Observation) -> np.ndarray:
    table, parameters = action_table(scenario), scenario.parameters()
    mask = legal_actions(
        table, observation.queue_length, observation.can_take, parameters.max_batch_size
    )
    head_class = observation.head_class[:, None]
    request_class = np.where(table.request_class < 0, head_class, table.request_class)
    mask[:, WAIT + 1 :] &= parameters.serves[table.replica, request_class][:, WAIT + 1 :]
    return mask


# Rules that decide from the observation alone, so that any will do, likely or not.
NAMES = [
    *("uniform_random", "static_cap", "batch_timeout", "random_replica", "round_robin"),
    *("shortest_queue", "shortest_queue_first", "fifo", "c_mu"),
]


def policies(name: str, scenario: Scenario) -> list[Policy]:
    """The rule at the last point of its space, and a mixture of it at the first."""
    if RULES[name].misfit(scenario) is not None:
        return []
    space = RULES[name].space(scenario)
    last, first = (build_policy(name, scenario, space.corner(high)) for high in (True, False))
    return [last, EpsilonMixture(first, 0.1)]


CASES = [
    pytest.param(policy, scenario, id=f"{policy.name}, {title}")
    for name, (title, scenario) in product(NAMES, SCENARIOS.items())
    for policy in policies(name, scenario)
]


@pytest.mark.parametrize(("policy", "scenario"), CASES)
def test_rows_are_distributions_over_the_legal_actions(policy, scenario):
    observation = consistent_observation(scenario, LANES, seed=1)
    mask = legal(scenario, observation)
    rows = policy.action_probabilities(observation, mask)
    assert (rows >= 0).all()
    assert (rows[~mask] == 0).all()
    assert (rows.sum(axis=1) == 1.0).all()
    action, propensity = sample_actions(rows, np.random.default_rng(2))
    assert mask[np.arange(LANES), action].all()
    assert (propensity > 0).all()


@pytest.mark.parametrize(("policy", "scenario"), CASES)
def test_rules_are_one_hot_unless_random_and_mixtures_have_full_support(policy, scenario):
    observation = consistent_observation(scenario, LANES, seed=6)
    mask = legal(scenario, observation)
    rows = policy.action_probabilities(observation, mask)
    if isinstance(policy, EpsilonMixture) or policy.name == "uniform_random":
        assert ((rows > 0) == mask).all()
    elif policy.name not in RANDOM_RULES:
        assert (rows.max(axis=1) == 1.0).all()
    # What stands at the head of the line may need a replica that is busy.
    serves_all = scenario.parameters().serves.all() or policy.name == "c_mu"
    if policy.name in set(NAMES) - MAY_WAIT and serves_all:
        assert (rows[:, WAIT] == (mask.sum(axis=1) == 1)).all()  # WAIT only where nothing else is


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_mask_that_contradicts_the_observation_is_a_broken_invariant(name):
    scenario = SCENARIOS["two replicas, two classes"]
    observation = consistent_observation(scenario, LANES, seed=8)
    mask = legal(scenario, observation)
    policy = build_policy(name, scenario, RULES[name].space(scenario).corner(high=False))
    taken = policy.action_probabilities(observation, mask) > 0
    taken[:, WAIT] = False
    lane = int(np.argmax(taken.any(axis=1) & (mask.sum(axis=1) > 4)))  # others stay legal there
    mask[lane] &= ~taken[lane]
    with pytest.raises(RuntimeError, match=f"lane {lane}: the mask forbids the action"):
        policy.action_probabilities(observation, mask)


@pytest.mark.parametrize("name", NAMES)
def test_lanes_that_stand_still_get_wait_and_the_others_are_as_before(name):
    scenario = SCENARIOS["two replicas, two classes"]
    observation = consistent_observation(scenario, LANES, seed=8)
    mask = legal(scenario, observation)
    policy = build_policy(name, scenario, RULES[name].space(scenario).corner(high=False))
    rows = policy.action_probabilities(observation, mask)
    mask[::2, WAIT + 1 :] = False
    after = policy.action_probabilities(observation, mask)
    assert (after[::2, WAIT] == 1.0).all()
    assert (after[::2].sum(axis=1) == 1.0).all()
    np.testing.assert_array_equal(after[1::2], rows[1::2])


def _meaning(scenario: Scenario, rows: np.ndarray) -> np.ndarray:
    """Probabilities by replica, class and size, `[B, K, C, sizes]`."""
    shape = (len(scenario.replicas), len(scenario.request_classes), len(scenario.batch_sizes))
    return rows[:, 1:].reshape(len(rows), *shape)


def _relabeled(observation: Observation, classes: np.ndarray, replicas: np.ndarray) -> Observation:
    """The same lanes with class `classes[i]` called i and replica `replicas[j]` called j."""
    by_class = ("queue_length", "oldest_wait_s", "arrival_rate_rps")
    by_replica = ("can_take", "remaining_service_s", "in_service", "utilization", "in_flight")
    new_class = np.append(np.argsort(classes), -1)  # a class of -1 stays -1
    new_replica = np.append(np.argsort(replicas), -1)
    return observation._replace(
        head_class=new_class[observation.head_class],
        last_replica=new_replica[observation.last_replica],
        **{field: getattr(observation, field)[:, classes] for field in by_class},
        **{field: getattr(observation, field)[:, replicas] for field in by_replica},
    )


NUMBERED_REPLICAS = {"static_cap", "batch_timeout", "round_robin", "shortest_queue_first"}


@pytest.mark.parametrize("name", NAMES)
def test_new_numbers_for_classes_and_replicas_change_the_numbers_only(name):
    scenario = SCENARIOS["three replicas, three classes"]
    classes = np.array([2, 0, 1])
    # These rules go by the replica's number, so only the classes are renumbered.
    replicas = np.array([0, 1, 2] if name in NUMBERED_REPLICAS else [1, 2, 0])
    relabeled = Scenario(
        tuple(scenario.request_classes[c] for c in classes),
        tuple(
            Replica(
                tuple(scenario.replicas[k].alpha_s[c] for c in classes),
                tuple(scenario.replicas[k].beta_s[c] for c in classes),
                (0.0,) * 3,
                scenario.replicas[k].max_batch_size,
            )
            for k in replicas
        ),
        scenario.batch_sizes,
    )
    point = RULES[name].space(scenario).corner(high=True)
    observation = consistent_observation(scenario, LANES, seed=9)
    renamed = _relabeled(observation, classes, replicas)
    rows = build_policy(name, scenario, point).action_probabilities(
        observation, legal(scenario, observation)
    )
    moved = build_policy(name, relabeled, point).action_probabilities(
        renamed, legal(relabeled, renamed)
    )
    expected = _meaning(scenario, rows)[:, replicas][:, :, classes]
    # Equal shares differ by rounding: the first of a row takes the remainder.
    np.testing.assert_allclose(_meaning(relabeled, moved), expected, rtol=0, atol=1e-14)
