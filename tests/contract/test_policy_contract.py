"""What every registered rule, alone and in a mixture, owes to whoever samples from it."""

import numpy as np
import pytest

from simulator.action import sample_actions
from simulator.observation import Observation
from simulator.policies import RULES, EpsilonMixture, Policy
from simulator.policies.rule import StatefulRule
from simulator.scenario import DecisionKind
from tests.contract.played import CASES, LANES, SCENARIOS, build, environment, played, points


def rows_of(policy: Policy, decisions, lanes=None) -> np.ndarray:
    """The policy's answers `[steps, B, A]` to decisions, of some lanes only where given."""
    answers = []
    for observation, mask in decisions:
        if lanes is not None:
            observation, mask = Observation(*(field[lanes] for field in observation)), mask[lanes]
        answers.append(policy.action_probabilities(observation, mask).copy())
    return np.array(answers)


def answers(name: str, title: str, number: int, lanes=None) -> np.ndarray:
    policy = build(name, title, number)
    policy.reset(LANES if lanes is None else len(lanes))
    return rows_of(policy, played(title), lanes)


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_fits_a_scenario_and_says_why_it_does_not_fit_others(name):
    reasons = [RULES[name].misfit(scenario) for scenario in SCENARIOS.values()]
    assert None in reasons
    assert all(reason is None or len(reason) > 10 for reason in reasons)


@pytest.mark.parametrize(("name", "title", "number"), CASES)
def test_rows_are_distributions_over_the_legal_actions_and_observations_are_only_read(
    name, title, number
):
    policy = build(name, title, number)
    assert isinstance(policy, Policy)
    assert policy.name == name
    policy.reset(LANES)
    for observation, mask in played(title):
        kept = [field.copy() for field in (*observation, mask)]
        rows = policy.action_probabilities(observation, mask)
        assert rows.shape == mask.shape
        assert rows.dtype == np.float64
        assert (rows >= 0).all()
        assert (rows[~mask] == 0).all()
        assert (rows.sum(axis=1) == 1.0).all()
        assert (np.cumsum(rows, axis=1)[:, -1] == 1.0).all()
        for before, after in zip(kept, (*observation, mask), strict=True):
            np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(("name", "title", "number"), CASES)
def test_the_same_decisions_get_the_same_answers_whatever_came_before(name, title, number):
    policy = build(name, title, number)
    policy.reset(LANES)
    first = rows_of(policy, played(title))
    # The clock goes back: every lane has begun a new episode, though nobody has called `reset`.
    np.testing.assert_array_equal(rows_of(policy, played(title)), first)
    policy.reset(LANES)
    np.testing.assert_array_equal(rows_of(policy, played(title)), first)
    np.testing.assert_array_equal(answers(name, title, number), first)


@pytest.mark.parametrize(("name", "title", "number"), CASES)
def test_a_lane_s_answers_depend_on_that_lane_alone(name, title, number):
    together = answers(name, title, number)
    order = np.random.default_rng(5).permutation(LANES)
    np.testing.assert_array_equal(answers(name, title, number, order), together[:, order])
    for lane in (0, LANES - 1):
        alone = answers(name, title, number, np.array([lane]))
        np.testing.assert_array_equal(alone, together[:, [lane]])


@pytest.mark.parametrize(("name", "title", "number"), CASES)
def test_whole_numbers_and_bools_are_as_good_as_floats(name, title, number):
    expected = answers(name, title, number)
    policy = build(name, title, number)
    policy.reset(LANES)
    for (observation, mask), rows in zip(played(title), expected, strict=True):
        typed = observation._replace(
            queue_length=observation.queue_length.astype(np.int32),
            can_take=observation.can_take.astype(bool),
            in_service=observation.in_service.astype(np.int64),
            head_class=observation.head_class.astype(float),
            last_replica=observation.last_replica.astype(np.int8),
            in_flight=observation.in_flight.astype(np.int32),
            replica_queue_length=observation.replica_queue_length.astype(np.int16),
            replica_state=observation.replica_state.astype(np.int8),
            arrived=observation.arrived.astype(np.int64),
            batches=observation.batches.astype(np.int64),
            last_batch_class=observation.last_batch_class.astype(float),
            last_batch_size=observation.last_batch_size.astype(np.int32),
        )
        np.testing.assert_array_equal(policy.action_probabilities(typed, mask), rows)


@pytest.mark.parametrize(("name", "title", "number"), CASES)
def test_a_mixture_has_full_support(name, title, number):
    policy = EpsilonMixture(build(name, title, number), 0.1)
    policy.reset(LANES)
    for observation, mask in played(title):
        assert ((policy.action_probabilities(observation, mask) > 0) == mask).all()


@pytest.mark.parametrize(("name", "title", "number"), CASES)
def test_it_steps_a_real_environment_past_the_end_of_its_episodes(name, title, number):
    policy, lanes = build(name, title, number), environment(SCENARIOS[title], 10, horizon_s=0.2)
    policy.reset(LANES)
    generator = np.random.default_rng(11)
    observation, mask = lanes.reset()
    for _ in range(5000):
        action, _ = sample_actions(policy.action_probabilities(observation, mask), generator)
        step = lanes.step(action)
        observation, mask = step.observation, step.action_mask
        if not lanes.running().any():
            break
    assert not lanes.running().any()
    rows = policy.action_probabilities(observation, mask)
    assert (rows.sum(axis=1) == 1.0).all()


REMEMBER = [
    name
    for name, spec in RULES.items()
    if any(issubclass(rule, StatefulRule) for rule in spec.builders.values())
]


@pytest.mark.parametrize("name", REMEMBER)
def test_a_rule_with_a_memory_refuses_lanes_that_it_was_not_told_of(name):
    titles = (t for n, t, _ in CASES if n == name)
    title, policy = next(
        (title, rule)
        for title, rule in ((t, build(name, t, 0)) for t in titles)
        if isinstance(rule, StatefulRule)
    )
    observation, mask = played(title)[0]
    with pytest.raises(RuntimeError, match=rf"{name}: reset\({LANES}\)"):
        policy.action_probabilities(observation, mask)
    policy.reset(LANES + 1)
    with pytest.raises(RuntimeError, match=rf"{name}: reset\({LANES}\)"):
        policy.action_probabilities(observation, mask)


@pytest.mark.parametrize("kind", list(DecisionKind))
def test_every_point_of_a_space_is_another(kind):
    for name, spec in RULES.items():
        for scenario in SCENARIOS.values():
            if scenario.decision != kind or spec.misfit(scenario) is not None:
                continue
            space = spec.space(scenario)
            if space.size is not None and space.size <= 64:
                grid = space.grid()
                assert len(grid) == space.size, name
                assert [p for i, p in enumerate(grid) if p in grid[:i]] == [], name
            assert points(space)[0] == points(spec.space(scenario))[0]  # the same each time
