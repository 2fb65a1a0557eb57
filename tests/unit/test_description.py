"""Scenarios and workloads from plain values, and the refusal of what is none."""

import math
from typing import Any

import pytest

from pipeline.description import scenario_from, workload_from
from simulator.conditions import Autoscaler, Fault, Faults, Scaling, SetPoints
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.sizes import Constant, Lognormal, RequestMix, RequestSizes
from simulator.traffic import (
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
    SquareBurstWorkload,
)

PLAIN: dict[str, Any] = {
    "request_classes": {"fast": {"slo_s": 0.1}, "slow": {"slo_s": 1, "weight": 2.0}},
    "replicas": [
        {
            "alpha_s": {"slow": 0.02, "fast": 0.01},
            "beta_s": [0.001, 0.002],
            "max_batch_size": 4,
        }
    ],
    "batch_sizes": [1, 2, 4],
}


def with_replica(**fields: Any) -> dict[str, Any]:
    """PLAIN with other fields of its replica."""
    return {**PLAIN, "replicas": [{**PLAIN["replicas"][0], **fields}]}


def test_a_section_becomes_the_dataclass_of_its_fields() -> None:
    replica = Replica((0.01, 0.02), (0.001, 0.002), (0.0, 0.0), 4)
    classes = (RequestClass("fast", 0.1), RequestClass("slow", 1.0, 2.0))
    assert scenario_from(PLAIN) == Scenario(classes, (replica,), (1, 2, 4))


def test_nested_sections_and_lists_of_them_are_built_too() -> None:
    scenario = scenario_from(
        {
            **PLAIN,
            "scaling": {"cold_start_s": 2, "autoscaler": {"target_in_system": 4}},
            "faults": {"scripted": [{"replica": 0, "start_s": 1, "duration_s": 2}]},
        }
    )
    assert scenario.scaling == Scaling(2.0, autoscaler=Autoscaler(4.0))
    assert scenario.faults == Faults((Fault(0, 1.0, 2.0),))


def test_null_is_none_where_none_is_allowed() -> None:
    scenario = scenario_from({**PLAIN, "scaling": {"initial_replicas": None, "autoscaler": None}})
    assert scenario.scaling == Scaling()


def test_equal_replicas_are_written_once() -> None:
    assert len(scenario_from(with_replica(count=3)).replicas) == 3
    assert len(set(scenario_from(with_replica(count=3)).replicas)) == 1


def test_values_by_class_come_in_the_order_of_the_classes() -> None:
    tables = {"slow": [[1, 0.3]], "fast": [[1, 0.1], [4, 0.2]]}
    replica = scenario_from(with_replica(latency_table=tables)).replicas[0]
    assert replica.alpha_s == (0.01, 0.02)
    assert replica.latency_table == (((1.0, 0.1), (4.0, 0.2)), ((1.0, 0.3),))


def test_continuous_batching_needs_its_tokens_alone() -> None:
    tokens = {
        "t0_s": 0.01,
        "t_prefill_s": 0.0,
        "t_decode_s": 0.0,
        "t_kv_s": 0.0,
        "max_num_seqs": 8,
        "kv_capacity_tokens": 100,
        "max_batched_tokens": 64,
    }
    scenario = scenario_from(
        {
            "request_classes": {"chat": {"slo_s": 1.0, "slo_ttft_s": math.inf}},
            "replicas": [{"tokens": tokens, "price_per_hour": 2.0}],
            "decision": "tune",
            "queues": "replica",
            "set_points": {"max_num_seqs": [4, 8]},
        }
    )
    assert scenario.replicas == (continuous_replica(1, TokenModel(**tokens), 2.0),)
    assert scenario.decision is DecisionKind.TUNE
    assert scenario.queues is QueuePlace.REPLICA
    assert scenario.set_points == SetPoints(max_num_seqs=(4, 8))


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({**PLAIN, "queue_capcity": 3}, r"scenario\.queue_capcity = 3: .* mean queue_capacity"),
        ({**PLAIN, "queue_capacity": 0}, r"scenario\.queue_capacity = 0: must be .*at least 1"),
        ({**PLAIN, "queue_capacity": 2.5}, r"scenario\.queue_capacity = 2\.5: must be a whole"),
        ({**PLAIN, "queue_capacity": True}, r"scenario\.queue_capacity = True: must be a whole"),
        ({**PLAIN, "tick_s": "5 ms"}, r"scenario\.tick_s = '5 ms': must be a number"),
        ({**PLAIN, "tick_s": math.nan}, r"scenario\.tick_s = nan: must be a number"),
        (
            {**PLAIN, "decision": "rout"},
            r"scenario\.decision = 'rout': did you mean route\?",
        ),
        (
            {**{name: PLAIN[name] for name in PLAIN if name != "batch_sizes"}, "decision": "rout"},
            r"^scenario\.decision = 'rout': .*must be one of dispatch, route, tune",
        ),
        (
            {**PLAIN, "queues": "replica"},
            r"^scenario\.queues = 'replica': dispatch needs a central queue",
        ),
        ({**PLAIN, "BATCH_SIZE": [1]}, r"scenario\.BATCH_SIZE = .* did you mean batch_sizes\?"),
        ({**PLAIN, "batch_sizes": 4}, r"scenario\.batch_sizes = 4: must be a list"),
        ({**PLAIN, "view": {"refresh_s": -1}}, r"scenario\.view\.refresh_s = -1\.0: must be"),
        ({**PLAIN, "view": 3}, r"scenario\.view = 3: must be a section"),
        ({**PLAIN, "replicas": []}, r"scenario\.replicas = \(\): needs at least one"),
        (with_replica(count=0), r"scenario\.replicas\.0\.count = 0: must be at least 1"),
        (with_replica(alpha_s={"fast": 1.0}), r"scenario\.replicas\.0\.alpha_s = .* fast, slow"),
        (with_replica(alpha_s=[-1.0, 1.0]), r"scenario\.replicas\.0\.alpha_s = -1\.0: must be"),
        (with_replica(speed=2.0), r"scenario\.replicas\.0\.speed = 2\.0: no such field"),
        (with_replica(tokens=[]), r"scenario\.replicas\.0\.tokens = \[\]: must be a section"),
        (
            {**PLAIN, "request_classes": {"fast": {"slo_s": -1}, "slow": {"slo_s": 1}}},
            r"scenario\.request_classes\.fast\.slo_s = -1\.0: must be",
        ),
        (
            {**PLAIN, "request_classes": {"fast": {}}},
            r"scenario\.request_classes\.fast\.slo_s: must be given",
        ),
        (
            {name: PLAIN[name] for name in PLAIN if name != "batch_sizes"},
            r"scenario\.batch_sizes: must be given",
        ),
        (
            {name: PLAIN[name] for name in PLAIN if name != "replicas"},
            r"scenario\.replicas: must be given",
        ),
        (
            {**PLAIN, "faults": {"scripted": [{"replica": 0, "start_s": -1, "duration_s": 1}]}},
            r"scenario\.faults\.scripted\.0\.start_s = -1\.0: must be",
        ),
    ],
)
def test_the_field_that_is_at_fault_is_named(description: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scenario_from(description)


NAMES = ("fast", "slow")


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (
            {"kind": "poisson", "rate_rps": {"slow": 2, "fast": 3}},
            PoissonWorkload((3.0, 2.0)),
        ),
        (
            {
                "kind": "square_burst",
                "low_rps": [0, 0],
                "high_rps": [5, 6],
                "low_s": 1,
                "high_s": 2,
                "random_phase": True,
            },
            SquareBurstWorkload((0.0, 0.0), (5.0, 6.0), 1.0, 2.0, True),
        ),
        (
            {
                "kind": "markov_modulated",
                "rate_rps": [{"fast": 1, "slow": 2}, [3, 4]],
                "mean_phase_s": [1, 1],
                "jump_probability": [[0, 1], [1, 0]],
            },
            MarkovModulatedWorkload(((1.0, 2.0), (3.0, 4.0)), (1.0, 1.0), ((0.0, 1.0), (1.0, 0.0))),
        ),
        (
            {
                "kind": "renewal",
                "rate_rps": 4,
                "cv": 2,
                "mix": {
                    "probability": {"fast": 0.25, "slow": 0.75},
                    "sizes": {
                        "fast": {"size": {"kind": "lognormal", "mean": 2, "cv": 1}},
                        "slow": {},
                    },
                },
            },
            RenewalWorkload(
                4.0,
                2.0,
                mix=RequestMix(
                    (0.25, 0.75), (RequestSizes(Lognormal(2.0, 1.0)), RequestSizes(Constant(1.0)))
                ),
            ),
        ),
    ],
)
def test_a_workload_is_of_its_kind(description: dict[str, Any], expected: object) -> None:
    assert workload_from(description, NAMES) == expected


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"kind": "poison"}, r"workload\.kind = 'poison': did you mean poisson\? must be"),
        ({}, r"workload\.kind = None: must be one of poisson"),
        ({"kind": "poisson"}, r"workload\.rate_rps: must be given"),
        ({"kind": "poisson", "rate_rps": {"fast": 1}}, r"workload\.rate_rps = .* fast, slow"),
        (
            {"kind": "poisson", "rate_rps": [1]},
            r"workload = \(1\.0,\): needs the classes fast, slow",
        ),
        (
            {"kind": "renewal", "rate_rps": 1, "cv": 1},
            r"workload = .* needs the classes fast, slow",
        ),
        ({"kind": "poisson", "rate_rps": [1, -1]}, r"workload\.rate_rps = \(1\.0, -1\.0\)"),
        (
            {"kind": "poisson", "rate_rps": [1, 1], "sizes": [{"size": {"kind": "normal"}}, {}]},
            r"workload\.sizes\.0\.size\.kind = 'normal': .*must be one of constant",
        ),
    ],
)
def test_a_workload_that_is_none_is_refused(description: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        workload_from(description, NAMES)
