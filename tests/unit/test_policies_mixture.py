"""The epsilon mixture: its formula, its name, and the full support that makes a log usable."""

import numpy as np
import pytest

from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies import EpsilonMixture, Policy, build_policy
from simulator.policies.mixture import UniformRandom
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

SCENARIO = Scenario(
    (RequestClass("only", 0.1),), (Replica((0.002,), (0.005,), (0.0,), 8),), (1, 2, 4, 8)
)
MASK = np.array([[True, True, True, False, True], [True, False, False, False, False]])


class Stated:
    """A policy of stated probabilities, as a network would give them."""

    name = "stated"

    def __init__(self, probabilities: np.ndarray) -> None:
        self.probabilities = probabilities
        self.lanes = 0

    def reset(self, lanes: int) -> None:
        self.lanes = lanes

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        return self.probabilities


def observation() -> Observation:
    """Two lanes: one request waits at an idle replica; nothing waits."""
    return empty_observation(SCENARIO, 2)._replace(
        queue_length=np.array([[1.0], [0.0]]),
        head_class=np.array([0, -1]),
        head_size=np.array([1.0, 0.0]),
        can_take=np.ones((2, 1)),
        replica_state=np.full((2, 1), ReplicaState.IDLE),
    )


def test_the_mixture_is_its_formula():
    own = np.array([[0.5, 0.25, 0.25, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]])
    mixed = EpsilonMixture(Stated(own), 0.2).action_probabilities(observation(), MASK)
    expected = 0.8 * own + 0.2 * MASK / np.array([[4], [1]])
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-14)


def test_every_legal_action_keeps_a_share_of_epsilon():
    policy = EpsilonMixture(build_policy("static_cap", SCENARIO, {"batch_size": 2}), 0.1)
    mixed = policy.action_probabilities(observation(), MASK)
    assert (mixed[MASK] >= np.repeat([0.1 / 4, 1.0], [4, 1]) - 1e-15).all()
    assert (mixed[~MASK] == 0).all()
    np.testing.assert_allclose(mixed[0], [0.025, 0.925, 0.025, 0, 0.025], atol=1e-15)


def test_epsilon_0_is_the_policy_and_1_is_uniform():
    rule = build_policy("static_cap", SCENARIO, {"batch_size": 2})
    own = rule.action_probabilities(observation(), MASK)
    assert (EpsilonMixture(rule, 0).action_probabilities(observation(), MASK) == own).all()
    uniform = UniformRandom(SCENARIO).action_probabilities(observation(), MASK)
    mixed = EpsilonMixture(rule, 1.0).action_probabilities(observation(), MASK)
    np.testing.assert_allclose(mixed, uniform, rtol=0, atol=1e-15)


def test_float32_rows_become_float64_rows_that_sum_to_1():
    own = np.array([[0.1, 0.2, 0.3, 0.0, 0.4], [1.0, 0.0, 0.0, 0.0, 0.0]], np.float32)
    mixed = EpsilonMixture(Stated(own), 0.05).action_probabilities(observation(), MASK)
    assert mixed.dtype == np.float64
    assert (mixed.sum(axis=1) == 1.0).all()


@pytest.mark.parametrize("wrong", [0.9, 1.1, np.nan])
def test_rows_that_are_no_distribution_are_refused(wrong):
    own = np.array([[1.0, 0, 0, 0, 0], [wrong, 0, 0, 0, 0]])
    with pytest.raises(RuntimeError, match="lane 1: probabilities sum to"):
        EpsilonMixture(Stated(own), 0.05).action_probabilities(observation(), MASK)


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, float("nan"), 1e-12, "0.1"])
def test_an_epsilon_outside_its_range_is_refused(epsilon):
    with pytest.raises(ValueError, match=r"epsilon = .*: must be 0, or from 1e-09 to 1"):
        EpsilonMixture(UniformRandom(SCENARIO), epsilon)


def test_the_name_says_policy_and_epsilon():
    rule = build_policy("c_mu", SCENARIO, {"batch_size": 4})
    assert EpsilonMixture(rule, 0.1).name == "c_mu+eps0.1"
    assert isinstance(EpsilonMixture(rule, 0.1), Policy)


def test_reset_reaches_the_mixed_policy():
    stated = Stated(np.ones((2, 5)) / 5)
    EpsilonMixture(stated, 0.1).reset(7)
    assert stated.lanes == 7


def test_a_lane_without_any_legal_action_is_refused():
    with pytest.raises(RuntimeError, match="lane 0: no action is legal"):
        UniformRandom(SCENARIO).action_probabilities(observation(), np.zeros((2, 5), bool))
