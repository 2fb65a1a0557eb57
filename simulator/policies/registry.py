"""The names of the rules, their parameters, and the points a tuner tries."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from simulator.policies.base import Policy
from simulator.policies.batching import BatchTimeout, StaticCap
from simulator.policies.mixture import UniformRandom
from simulator.policies.priority import CMu
from simulator.policies.routing import (
    Fifo,
    RandomReplica,
    RoundRobin,
    ShortestQueue,
    ShortestQueueFirst,
)
from simulator.scenario import ClassChoice, DecisionKind, Scenario

RuleParameters = dict[str, Any]

TIMEOUT_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of the tightest SLO
LARGEST_GRID = 64


@dataclass(frozen=True)
class RuleSpec:
    """A rule: what builds it, and its grid, empty where a scenario cannot have the rule."""

    builder: Callable[..., Policy]  # (scenario, **parameters)
    grid: Callable[[Scenario], list[RuleParameters]]  # in a fixed order
    decisions: tuple[DecisionKind, ...] = (DecisionKind.DISPATCH,)  # that it can take

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the rule's parameters."""
        return tuple(self._signature())

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters that have no default."""
        return tuple(
            name
            for name, parameter in self._signature().items()
            if parameter.default is inspect.Parameter.empty
        )

    def _signature(self) -> dict[str, inspect.Parameter]:
        parameters = dict(inspect.signature(self.builder).parameters)
        del parameters["scenario"]
        return parameters


def batch_size_grid(scenario: Scenario) -> list[int]:
    """The menu thinned to about one size per doubling, the smallest and largest usable included."""
    largest = max(replica.max_batch_size for replica in scenario.replicas)
    usable = [size for size in scenario.batch_sizes if size <= largest]
    kept = {usable[0], usable[-1]}
    power = 1
    while power <= usable[-1]:
        kept |= {max((size for size in usable if size <= power), default=usable[0])}
        power *= 2
    return sorted(kept)


def _size_points(scenario: Scenario) -> list[RuleParameters]:
    return [{"batch_size": size} for size in batch_size_grid(scenario)]


def _timeout_points(scenario: Scenario) -> list[RuleParameters]:
    # People set the timeout from the response time they promised, so the grid follows it too.
    slo_s = min(request_class.slo_s for request_class in scenario.request_classes)
    return [
        {"max_batch_size": size, "batch_timeout_s": float(f"{share * slo_s:.9g}")}
        for size, share in product(batch_size_grid(scenario), TIMEOUT_SHARES)
    ]


def _round_robin_points(scenario: Scenario) -> list[RuleParameters]:
    return [
        {"batch_size": size, "on_busy": on_busy}
        for size, on_busy in product(batch_size_grid(scenario), ("skip", "blocking"))
    ]


def _c_mu_points(scenario: Scenario) -> list[RuleParameters]:
    """One size for each class in every combination, thinned so that LARGEST_GRID is not passed."""
    if scenario.class_choice == ClassChoice.HEAD_OF_LINE:
        return []
    names, sizes = scenario.class_names, batch_size_grid(scenario)
    each = len(sizes)
    while each > 2 and each ** len(names) > LARGEST_GRID:
        each -= 1
    if each ** len(names) > LARGEST_GRID:  # many classes: one size for all of them
        return [{"batch_size": dict.fromkeys(names, size)} for size in sizes]
    if each < len(sizes):
        sizes = [sizes[round(i * (len(sizes) - 1) / (each - 1))] for i in range(each)]
    return [
        {"batch_size": dict(zip(names, combination, strict=True))}
        for combination in product(sizes, repeat=len(names))
    ]


RULES: dict[str, RuleSpec] = {
    StaticCap.name: RuleSpec(StaticCap, _size_points),
    BatchTimeout.name: RuleSpec(BatchTimeout, _timeout_points),
    UniformRandom.name: RuleSpec(UniformRandom, lambda scenario: [{}], tuple(DecisionKind)),
    RandomReplica.name: RuleSpec(RandomReplica, _size_points),
    RoundRobin.name: RuleSpec(RoundRobin, _round_robin_points),
    ShortestQueue.name: RuleSpec(ShortestQueue, _size_points),
    ShortestQueueFirst.name: RuleSpec(ShortestQueueFirst, _size_points),
    Fifo.name: RuleSpec(Fifo, _size_points),
    CMu.name: RuleSpec(CMu, _c_mu_points),
}


def build_policy(name: str, scenario: Scenario, parameters: Mapping[str, Any]) -> Policy:
    """The rule called `name` for a scenario.

    Raises ValueError for an unknown name or parameter, or decisions that the rule cannot take.
    """
    if name not in RULES:
        raise ValueError(f"policy = {name!r}: must be one of {', '.join(RULES)}")
    spec = RULES[name]
    if scenario.decision not in spec.decisions:
        able = [rule for rule, other in RULES.items() if scenario.decision in other.decisions]
        raise ValueError(
            f"policy = {name!r}: takes {' and '.join(spec.decisions)} decisions, and the "
            f"scenario's are {scenario.decision}; rules for these: {', '.join(able)}"
        )
    for parameter, value in parameters.items():
        if parameter not in spec.parameters:
            known = ", ".join(spec.parameters) or "none"
            raise ValueError(f"{name}.{parameter} = {value!r}: no such parameter; it has: {known}")
    for parameter in spec.required:
        if parameter not in parameters:
            raise ValueError(f"{name}.{parameter}: must be given")
    return spec.builder(scenario, **parameters)
