"""The names of the rules, and which of them a scenario can have."""

import difflib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from simulator.policies.base import Policy
from simulator.policies.batch.batch_resolve import BatchResolve
from simulator.policies.batch.batch_timeout import BatchTimeout
from simulator.policies.batch.bento_cork import BentoCork
from simulator.policies.batch.clipper_aimd import ClipperAimd
from simulator.policies.batch.clipper_reg import ClipperReg
from simulator.policies.batch.clockwork import Clockwork
from simulator.policies.batch.nexus_early_drop import NexusEarlyDrop
from simulator.policies.batch.ray_batch import RayBatch
from simulator.policies.batch.smdp_rvi import SmdpRvi
from simulator.policies.batch.static_cap import StaticCap
from simulator.policies.batch.static_fill import StaticFill
from simulator.policies.batch.symphony_defer import SymphonyDefer
from simulator.policies.batch.tfs import Tfs
from simulator.policies.batch.torchserve import TorchServe
from simulator.policies.batch.triton import Triton
from simulator.policies.dispatch.c_mu import CMu
from simulator.policies.dispatch.c_mu_reserved import CMuReserved
from simulator.policies.dispatch.fifo import Fifo
from simulator.policies.dispatch.random_replica import RandomReplica
from simulator.policies.dispatch.round_robin import RoundRobin
from simulator.policies.dispatch.shortest_queue import ShortestQueue
from simulator.policies.dispatch.shortest_queue_first import ShortestQueueFirst
from simulator.policies.dispatch.sita import SitaDispatch
from simulator.policies.mixture import UniformRandom
from simulator.policies.route.blis import Blis
from simulator.policies.route.dynamo_kv import DynamoKv
from simulator.policies.route.first_policy_iteration import FirstPolicyIteration
from simulator.policies.route.join_idle_queue import JoinIdleQueue
from simulator.policies.route.least_work_left import LeastWorkLeft
from simulator.policies.route.llm_d import LlmD
from simulator.policies.route.power_of_d import PowerOfD
from simulator.policies.route.production_stack import ProductionStack
from simulator.policies.route.random_replica import RandomReplicaRouting
from simulator.policies.route.ray_pow2 import RayPow2
from simulator.policies.route.round_robin import RoundRobinRouting
from simulator.policies.route.sglang import Sglang
from simulator.policies.route.shortest_queue import ShortestQueueRouting
from simulator.policies.route.sita import Sita
from simulator.policies.route.vllm_router import VllmRouter
from simulator.policies.route.weighted_round_robin import WeightedRoundRobin
from simulator.policies.rule import Rule
from simulator.policies.space import Space
from simulator.policies.tune.fixed_set_points import FixedSetPoints, KeepWarm
from simulator.policies.tune.keda import Keda
from simulator.policies.tune.knative_kpa import KnativeKpa
from simulator.policies.tune.ray_serve_autoscale import RayServeAutoscale
from simulator.policies.tune.seed_adaptive import SeedAdaptive
from simulator.scenario import DecisionKind, Scenario

_RULES: dict[DecisionKind, tuple[type[Rule], ...]] = {
    DecisionKind.DISPATCH: (
        UniformRandom,
        StaticCap,
        BatchTimeout,
        StaticFill,
        Triton,
        Tfs,
        TorchServe,
        RayBatch,
        ClipperAimd,
        ClipperReg,
        BentoCork,
        NexusEarlyDrop,
        SymphonyDefer,
        Clockwork,
        BatchResolve,
        SmdpRvi,
        RandomReplica,
        RoundRobin,
        ShortestQueue,
        ShortestQueueFirst,
        Fifo,
        CMu,
        CMuReserved,
        SitaDispatch,
    ),
    DecisionKind.ROUTE: (
        UniformRandom,
        RandomReplicaRouting,
        RoundRobinRouting,
        WeightedRoundRobin,
        ShortestQueueRouting,
        PowerOfD,
        JoinIdleQueue,
        LeastWorkLeft,
        Sita,
        RayPow2,
        LlmD,
        Blis,
        ProductionStack,
        Sglang,
        DynamoKv,
        VllmRouter,
        FirstPolicyIteration,
    ),
    DecisionKind.TUNE: (
        UniformRandom,
        FixedSetPoints,
        KeepWarm,
        SeedAdaptive,
        Keda,
        KnativeKpa,
        RayServeAutoscale,
    ),
}


@dataclass(frozen=True)
class RuleSpec:
    """A rule by its name: the class that makes the decisions of each kind it can take."""

    builders: Mapping[DecisionKind, type[Rule]]

    def misfit(self, scenario: Scenario) -> str | None:
        """Why the scenario cannot have the rule; None where it can."""
        if scenario.decision not in self.builders:
            able = " and ".join(self.builders)
            return f"takes {able} decisions, and the scenario's are {scenario.decision}"
        return self.builders[scenario.decision].misfit(scenario)

    def space(self, scenario: Scenario) -> Space:
        """Where a tuner looks for the parameters."""
        return self.builders[scenario.decision].space(scenario)


def _by_name() -> dict[str, RuleSpec]:
    builders: dict[str, dict[DecisionKind, type[Rule]]] = {}
    for kind, rules in _RULES.items():
        for rule in rules:
            builders.setdefault(rule.name, {})[kind] = rule
    return {name: RuleSpec(by_kind) for name, by_kind in builders.items()}


RULES: dict[str, RuleSpec] = _by_name()


def fitting_rules(scenario: Scenario) -> list[str]:
    """The names of the rules that the scenario can have, in the order of the registry."""
    return [name for name, spec in RULES.items() if spec.misfit(scenario) is None]


def build_policy(name: str, scenario: Scenario, parameters: Mapping[str, Any]) -> Policy:
    """The rule called `name` for a scenario.

    Raises ValueError, with the list of what would do, for an unknown name or parameter, a parameter
    that is missing or out of range, and a rule that does not fit the scenario.
    """
    if name not in RULES:
        fit = ", ".join(fitting_rules(scenario))
        raise ValueError(f"policy = {name!r}: {_meant(name, RULES)}it must be one of {fit}")
    reason = RULES[name].misfit(scenario)
    if reason is not None:
        fit = ", ".join(fitting_rules(scenario))
        raise ValueError(f"policy = {name!r}: {reason}; rules that fit: {fit}")
    builder = RULES[name].builders[scenario.decision]
    known = {
        parameter: field
        for parameter, field in inspect.signature(builder).parameters.items()
        if parameter != "scenario" and field.kind is not inspect.Parameter.VAR_KEYWORD
    }
    for parameter, value in parameters.items():
        if parameter not in known:
            told = f"{_meant(parameter, known)}it has: {', '.join(known) or 'none'}"
            raise ValueError(f"{name}.{parameter} = {value!r}: no such parameter; {told}")
    for parameter, field in known.items():
        if field.default is inspect.Parameter.empty and parameter not in parameters:
            raise ValueError(f"{name}.{parameter}: must be given")
    try:
        return builder(scenario, **parameters)
    except ValueError as error:
        raise ValueError(f"{name}.{error}") from None


def _meant(given: str, known: Iterable[str]) -> str:
    """A question whether the nearest of the known names was meant; empty where none is near."""
    near = difflib.get_close_matches(given.lower(), list(known), n=1)
    return f"did you mean {near[0]}? " if near else ""
