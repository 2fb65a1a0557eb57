"""The rules to beat, by name, and the mixtures that make their logs usable off policy."""

from simulator.policies.base import Policy
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import RULES, RuleSpec, build_policy

__all__ = ["RULES", "EpsilonMixture", "Policy", "RuleSpec", "build_policy"]
