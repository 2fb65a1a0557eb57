"""The policy that ran while a log was recorded, and the largest batches that it sends."""

from typing import Any

from simulator.policies.base import Policy
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import build_policy
from simulator.scenario import Scenario

_LARGEST = ("max_batch_size", "batch_size")  # parameters of rules that bound a batch


def logged_policy(scenario: Scenario, system: dict[str, Any]) -> Policy:
    """The policy that the log's system.json names; ValueError where it names none."""
    rule, parameters = logged_rule(system)
    policy = build_policy(rule, scenario, parameters)
    epsilon = system["policy"].get("epsilon") or 0.0
    return EpsilonMixture(policy, epsilon) if epsilon > 0.0 else policy


def logged_rule(system: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The rule that ran while the log was recorded, and its parameters."""
    told = system.get("policy")
    if not isinstance(told, dict) or "name" not in told:
        raise ValueError("system.json: needs policy.name, the rule that ran while it was recorded")
    return told["name"], dict(told.get("parameters") or {})


def largest_batch(system: dict[str, Any], scenario: Scenario) -> dict[str, int]:
    """Requests in the largest batch of each class that the logged policy sends by its parameters.

    That is its `max_batch_size` or `batch_size`, which may differ by class; that of the largest
    replica where it has neither. What it sends by chance (epsilon) may be larger.
    """
    most = max(replica.max_batch_size for replica in scenario.replicas)
    _, parameters = logged_rule(system)
    given = next((parameters[key] for key in _LARGEST if parameters.get(key) is not None), most)
    of_class = given if isinstance(given, dict) else dict.fromkeys(scenario.class_names, given)
    return {name: min(most, int(of_class.get(name, most))) for name in scenario.class_names}
