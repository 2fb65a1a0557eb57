"""Everything that a scenario refuses, by field and value; and that overload is no such thing."""

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

from simulator.conditions import (
    Autoscaler,
    DispatchDelay,
    Fault,
    Faults,
    Scaling,
    SetPoints,
    View,
)
from simulator.environment import Environment
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import (
    ClassChoice,
    DecisionKind,
    MixedBatches,
    QueuePlace,
    RequestClass,
    Scenario,
)
from simulator.state import Recording, RequestStatus
from simulator.workload import Arrivals, RecordedWorkload

NAN, INF = math.nan, math.inf
FAST, SLOW = RequestClass("fast", 0.1), RequestClass("slow", 0.5)
GPU = Replica((0.002, 0.002), (0.005, 0.02), (0.0, 0.1), 8)
TOKENS = TokenModel(0.01, 0.001, 0.001, 0.0, 4, 100, 16)
SERVER = continuous_replica(2, TOKENS)
CENTRAL = Scenario((FAST, SLOW), (GPU, GPU), (1, 2, 4))
ROUTED = dataclasses.replace(CENTRAL, decision=DecisionKind.ROUTE, queues=QueuePlace.REPLICA)
TUNED = dataclasses.replace(
    CENTRAL, decision=DecisionKind.TUNE, set_points=SetPoints(max_batch_size=(1, 8))
)
CONTINUOUS = dataclasses.replace(ROUTED, replicas=(SERVER, SERVER))
MIXED = dataclasses.replace(CENTRAL, mixed=MixedBatches.SUM, class_choice=ClassChoice.HEAD_OF_LINE)
CHOICES = ("class_choice", "decision_epochs", "decision", "queues", "mixed", "routing")
Refusal = tuple[Any, dict[str, Any], str]


def partly(serves: tuple[bool, ...]) -> Replica:
    return dataclasses.replace(GPU, serves=serves)


SCENARIOS: list[Refusal] = [
    (CENTRAL, {"request_classes": ()}, "request_classes = (): needs at least one class"),
    (CENTRAL, {"replicas": ()}, "replicas = (): needs at least one replica"),
    (CENTRAL, {"request_classes": (FAST, FAST)}, "request_classes = ['fast', 'fast']: names must"),
    (CENTRAL, {"request_classes": (FAST,)}, "replicas[0].alpha_s = (0.002, 0.002): needs one"),
    (CENTRAL, {"replicas": (partly((True, False)),)}, "replicas.serves = 'slow': a request class"),
    (ROUTED, {"replicas": (GPU, SERVER)}, "replicas.tokens = [None, TokenModel("),
    (CENTRAL, {"batch_sizes": ()}, "batch_sizes = (): needs at least one"),
    (CENTRAL, {"batch_sizes": (0, 1)}, "batch_sizes = 0: must be a whole number, at least 1"),
    (CENTRAL, {"batch_sizes": (2, 2)}, "batch_sizes = (2, 2): must ascend"),
    (CENTRAL, {"batch_sizes": (9,)}, "batch_sizes = (9,): no size fits max_batch_size 8"),
    *(
        (
            CENTRAL,
            {"queue_capacity": value},
            f"queue_capacity = {value}: must be a whole number, at least 1",
        )
        for value in (0, 2.5)
    ),
    *((CENTRAL, {field: "unknown"}, f"{field} = 'unknown': must be one of ") for field in CHOICES),
    (CENTRAL, {"spell_share": 1.0}, "spell_share = 1.0: must be in [0, 1)"),
    *(
        (
            CENTRAL,
            {"replica_backlog": value},
            f"replica_backlog = {value}: must be a whole number, at least 0",
        )
        for value in (-1, 0.5)
    ),
    *(
        (CENTRAL, {field: value}, f"{field} = {value}: must be positive and finite")
        for field in ("tick_s", "rate_window_s", "spell_time_s", "control_interval_s")
        for value in (0.0, -1.0, INF, NAN)
    ),
    *(
        (CENTRAL, {"batch_timeout_s": value}, f"batch_timeout_s = {value}: must be finite and")
        for value in (-0.5, INF, NAN)
    ),
    (CENTRAL, {"queues": QueuePlace.REPLICA}, "dispatch needs a central queue"),
    (ROUTED, {"queues": QueuePlace.CENTRAL}, "route needs replica queues"),
    (ROUTED, {"replica_backlog": 1}, "replica_backlog = 1: a replica queue sends nothing ahead"),
    (
        TUNED,
        {"replicas": (SERVER,), "queues": QueuePlace.CENTRAL},
        "continuous batching needs replica queues",
    ),
    (CONTINUOUS, {"mixed": MixedBatches.SLOWEST}, "continuous batching mixes classes as it is"),
    (MIXED, {"class_choice": ClassChoice.ANY}, "mixed batches take the head of the line"),
    (
        MIXED,
        {"replicas": (dataclasses.replace(GPU, latency_table=(((1.0, 0.5),),) * 2),)},
        "latency_table = [(((1.0, 0.5),), ((1.0, 0.5),))]: a table says nothing of a sum",
    ),
    (MIXED, {"replicas": (GPU, partly((True, False)))}, "replicas.serves = [(True, False)]: mixed"),
    (TUNED, {"set_points": SetPoints()}, "set_points = SetPoints("),
    (TUNED, {"set_points": SetPoints(replicas_on=(1, 3))}, "replicas_on = (1, 3): must be at most"),
    (
        CENTRAL,
        {"scaling": Scaling(initial_replicas=3)},
        "scaling.initial_replicas = 3: must be at most",
    ),
    (
        TUNED,
        {
            "set_points": SetPoints(replicas_on=(1, 2)),
            "scaling": Scaling(autoscaler=Autoscaler(1.0)),
        },
        "scaling.autoscaler = Autoscaler(",
    ),
    (
        CENTRAL,
        {"scaling": Scaling(autoscaler=Autoscaler(1.0, keep_warm_replicas=3))},
        "keep_warm_replicas=3, scale_down_delay_s=0.0): must be at most the 2 replicas",
    ),
    (CENTRAL, {"faults": Faults((Fault(2, 0.0, 1.0),))}, "faults.replica = 2: has 2"),
]
CLASSES: list[Refusal] = [
    (FAST, {"name": ""}, "request_class.name = '': must not be empty"),
    *((FAST, {"slo_s": value}, f"fast.slo_s = {value}: must be") for value in (0.0, INF, NAN)),
    *((FAST, {"weight": value}, f"fast.weight = {value}: must be") for value in (-1.0, INF)),
    *(
        (FAST, {field: value}, f"fast.{field} = {value}: must be above 0")
        for field in ("slo_ttft_s", "slo_tpot_s")
        for value in (0.0, NAN)
    ),
]
REPLICAS: list[Refusal] = [
    *(
        (GPU, {field: (value, 0.1)}, f"{field} = {value}: must be finite, at least 0")
        for field in ("alpha_s", "beta_s", "noise_cv")
        for value in (-0.1, INF, NAN)
    ),
    *(
        (GPU, {field: (0.1,)}, f"{field} = (0.1,): needs one value for each of 2")
        for field in ("beta_s", "noise_cv")
    ),
    (GPU, {"alpha_s": (0.0, 0.1), "beta_s": (0.0, 0.1)}, "alpha_s + beta_s = 0.0: a batch must"),
    *(
        (
            GPU,
            {"max_batch_size": value},
            f"max_batch_size = {value}: must be a whole number, at least 1",
        )
        for value in (0, 2.5)
    ),
    *(
        (GPU, {field: value}, f"{field} = {value}: must be finite, at least 0")
        for field in ("idle_power_w", "busy_power_w", "price_per_hour")
        for value in (-1.0, INF)
    ),
    *(
        (GPU, {field: value}, f"{field} = {value}: needs 2 values, or none")
        for field, value in (
            ("serves", (True,)),
            ("latency_table", (((1.0, 1.0),),)),
            ("residuals", ((1.0,),)),
            ("request_memory_gib", (1.0,)),
        )
    ),
    *(
        (GPU, {"latency_table": (((1.0, 1.0),), table)}, f"latency_table[1] = {message}")
        for table, message in (
            ((), "(): needs at least one point"),
            (((2.0, 1.0), (1.0, 2.0)), "[2.0, 1.0]: sizes must ascend"),
            (((0.0, 1.0),), "0.0: a size must be positive"),
            (((1.0, 0.0),), "0.0: a batch latency must be positive"),
        )
    ),
    (GPU, {"residuals": ((1.0,), (1.0, 0.0))}, "residuals = (1.0, 0.0): must all be positive"),
    *(
        (GPU, {"padded_batch_sizes": menu}, f"padded_batch_sizes = {menu}: must ascend")
        for menu in ((0, 8), (4, 4, 8), (1, 4))
    ),
    (GPU, {"memory_gib": 0.0}, "memory_gib = 0.0: must be above 0"),
    (GPU, {"request_memory_gib": (0.0, -1.0)}, "request_memory_gib = -1.0: must be finite"),
    (SERVER, {"noise_cv": (0.0, 0.1)}, "noise_cv = (0.0, 0.1): continuous batching has no noise"),
    *(
        (TOKENS, {field: value}, f"{field} = {value}: must be finite, at least 0")
        for field in ("t0_s", "t_prefill_s", "t_decode_s", "t_kv_s")
        for value in (-0.1, NAN)
    ),
    (TOKENS, {"t0_s": 0.0, "t_decode_s": 0.0}, "t0_s + t_decode_s = 0.0: a token must take time"),
    *(
        (TOKENS, {field: value}, f"{field} = {value}: must be a whole number, at least 1")
        for field in ("max_num_seqs", "kv_capacity_tokens", "max_batched_tokens")
        for value in (0, 20.5)
    ),
    (TOKENS, {"kv_capacity_tokens": 1}, "kv_capacity_tokens = 1: must hold"),
    (TOKENS, {"max_batched_tokens": 3}, "max_batched_tokens = 3: must give each of 4 sequences"),
]
CONDITIONS: list[Refusal] = [
    *((Autoscaler(1.0), {"target_in_system": v}, f"target_in_system = {v}") for v in (0.0, NAN)),
    (Autoscaler(1.0), {"keep_warm_replicas": -1}, "keep_warm_replicas = -1: must be at least 0"),
    (Autoscaler(1.0), {"scale_down_delay_s": -1.0}, "scale_down_delay_s = -1.0: must be finite"),
    (Scaling(), {"cold_start_s": -1.0}, "cold_start_s = -1.0: must be finite and at least 0"),
    (Scaling(), {"cold_start_cv": NAN}, "cold_start_cv = nan: must be finite and at least 0"),
    (Scaling(), {"initial_replicas": -1}, "initial_replicas = -1: must be at least 0"),
    (Fault(0, 0.0, 1.0), {"replica": -1}, "faults.replica = -1: must be at least 0"),
    (Fault(0, 0.0, 1.0), {"start_s": -1.0}, "faults.start_s = -1.0: must be finite"),
    (Fault(0, 0.0, 1.0), {"duration_s": 0.0}, "faults.duration_s = 0.0: must be finite and above"),
    (Faults(), {"mean_time_between_s": 0.0}, "mean_time_between_s = 0.0: must be above 0"),
    (Faults(), {"repair_s": 0.0}, "repair_s = 0.0: must be finite and above 0"),
    (
        Faults(),
        {"scripted": (Fault(0, 1.0, 1.0), Fault(1, 0.0, 9.0), Fault(0, 2.0, 1.0))},
        "faults.scripted = Fault(replica=0, start_s=2.0, duration_s=1.0): must begin after",
    ),
    *(
        (DispatchDelay(), {field: value}, f"dispatch_delay.{field} = {value}: must be finite")
        for field in ("constant_s", "mean_s", "cv")
        for value in (-0.1, INF)
    ),
    (View(), {"refresh_s": -0.1}, "view.refresh_s = -0.1: must be finite and at least 0"),
    *(
        (SetPoints(), {field: menu}, f"set_points.{field} = {menu}: must ascend from at least")
        for field, menu in (
            ("max_batch_size", (0, 1)),
            ("max_batch_size", (2, 1)),
            ("max_num_seqs", (0,)),
            ("replicas_on", (-1, 1)),
            ("replicas_on", (1, 1)),
            ("batch_timeout_s", (-1.0,)),
            ("batch_timeout_s", (2.0, 1.0)),
            ("batch_timeout_s", (0.0, INF)),
        )
    ),
]


@pytest.mark.parametrize(
    ("base", "changes", "message"), SCENARIOS + CLASSES + REPLICAS + CONDITIONS
)
def test_what_cannot_be_is_refused_by_field_and_value(
    base: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        dataclasses.replace(base, **changes)


@pytest.mark.parametrize("speed", [0.0, -1.0, INF, NAN])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match=f"speed = {speed}: must be positive and finite"):
        GPU.at_speed(speed)


def test_a_scenario_that_can_never_drain_is_allowed_and_reports_what_is_left() -> None:
    # A batch of 8 takes 10 s, and 100 requests arrive in a second: at most 8 are answered by 15 s.
    slow = Replica((10.0, 10.0), (0.0, 0.0), (0.0, 0.0), 8)
    scenario = dataclasses.replace(CENTRAL, replicas=(slow,), batch_sizes=(8,), queue_capacity=50)
    arrivals = Arrivals(np.arange(100) / 100, np.zeros(100, int), np.ones(100))
    terms = len(reward_term_names(scenario.class_names))
    env = Environment(
        scenario,
        RecordedWorkload(arrivals),
        1,
        1.0,
        Reward(np.ones(terms)),
        np.random.default_rng(0),
        14.0,
        Recording(requests=True),
    )
    _, action_mask = env.reset()
    while env.running().any():
        step = env.step(action_mask.argmax(1) if not action_mask[0, 1] else np.array([1]))
        action_mask = step.action_mask
    assert step.truncated[0]
    status = env.request_records().status
    assert len(status) == 100
    assert 0 < (status == RequestStatus.COMPLETED).sum() <= 8
    assert env.state.number_in_system[0, 0] > 0
