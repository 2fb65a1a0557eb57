"""The schema of the configuration: what it takes, what it refuses, and in which words."""

import copy
import dataclasses
from typing import Any

import pytest

from pipeline.agents.settings import PPOSettings
from pipeline.settings import FetchSettings, SourceSettings, build_settings

PHASE = {
    "rate_rps": {"fast": 1.0, "slow": 1.0},
    "mean_phase_s": 1.0,
    "jump_probability": {"one": 1.0},
}
AGENT = {"algorithm": "ppo", "hidden": [32, 16]}
VALUES: dict[str, Any] = {
    "seed": 7,
    "run": {
        "sources": ["log"],
        "behavior": ["cap"],
        "offline": ["cloned"],
        "online": ["learned"],
    },
    "pick": {"policy": "cap", "agent": "learned"},
    "sources": {
        "log": {"kind": "serving_log", "path": "data/log"},
        "trace": {"kind": "azure_llm", "path": "trace.csv", "license": "CC-BY-4.0"},
    },
    "ingest": {},
    "split": {"train": 0.5, "validation": 0.2, "test": 0.3},
    "calibration": {"source": "log", "tolerance": {"p50": 0.1}},
    "cluster": {"batch_sizes": [1, 2]},
    "scenario": {"slo_s": {"fast": 0.1, "slow": 1}},
    "workload": {"kind": "poisson", "rate_rps": {"fast": 1.0, "slow": 0.0}},
    "reward": {"class_weight": {"fast": 1.0, "slow": 2.0}, "completed": 1.0, "shed": -1.0},
    "policies": {"cap": {"rule": "static_cap", "parameters": {"batch_size": 8}}},
    "tune": {},
    "arena": {},
    "replay": {},
    "agents": {"learned": AGENT, "cloned": {"algorithm": "discrete_bc"}},
    "validate": {},
    "gate": {"stress": {"busy": {"rate_scale": 1.2}}},
}


def changed(key: str, value: Any) -> dict[str, Any]:
    values = copy.deepcopy(VALUES)
    *sections, last = key.split(".")
    section = values
    for name in sections:
        section = section[name]
    section[last] = value
    return values


def test_values_become_frozen_dataclasses_with_tuples_and_floats() -> None:
    settings = build_settings(VALUES)
    assert settings.run.sources == ("log",)
    assert settings.scenario.slo_s == {"fast": 0.1, "slow": 1.0}
    assert isinstance(settings.scenario.slo_s["slow"], float)
    assert settings.calibration.tolerance.p95 == 0.25
    assert settings.gate.stress["busy"].service_scale == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.seed = 8


def test_the_algorithm_chooses_the_hyperparameters_of_an_agent() -> None:
    agent = build_settings(VALUES).agents["learned"]
    assert isinstance(agent, PPOSettings)
    assert agent.hidden == (32, 16)
    assert agent.encoder == "full"


def test_the_kind_chooses_the_workload() -> None:
    workload = {"kind": "logged"}
    assert build_settings(changed("workload", workload)).workload.rate_scale == 1.0


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("seed", "seven", "seed: Value 'seven'"),
        ("seed", 1.5, "seed: Value '1.5'"),
        ("seed", None, "seed: Incompatible value 'None'"),
        ("seed", -1, "seed = -1: must be in 0 .. 2**32 - 1"),
        ("nonsense", 1, "nonsense = 1: no such setting"),
        ("split.trian", 1, "split.trian = 1: no such setting; did you mean train?"),
        ("split", 3, "split = 3: must be a section with keys"),
        ("split.train", 0.6, "split.train + validation + test = 1.1: must be 1"),
        ("split.train", float("nan"), "split.train = nan: must be finite"),
        ("ingest.max_reject_fraction", 1.0, "ingest.max_reject_fraction = 1.0: must be in [0, 1)"),
        ("run.sources", "log", "run.sources: "),
        ("run.sources", ["log", "log"], "must not name anything twice"),
        ("run.sources", ["other"], "run.sources = 'other': must be one of log, trace"),
        ("run.behavior", [], "run.behavior = (): must not be empty"),
        ("run.online", ["cloned"], "run.online = 'cloned': must be one of learned"),
        ("run.offline", ["learned"], "run.offline = 'learned': must be one of cloned"),
        ("pick.agent", "nobody", "pick.agent = 'nobody': must be one of cloned, learned"),
        ("calibration.source", "other", "calibration.source = 'other': must be one of log, trace"),
        ("calibration.tolerance.p99", 0, "calibration.tolerance.p99 = 0.0: must be above 0"),
        ("cluster.batch_sizes", [2, 1], "cluster.batch_sizes = (2, 1): must ascend"),
        ("cluster.class_choice", "all", "must be one of null, any, head_of_line"),
        ("scenario.slo_s", {}, "scenario.slo_s = {}: needs at least one request class"),
        ("scenario.slo_s", {"a b": 1.0}, "scenario.slo_s = 'a b': a name must match"),
        ("scenario.slo_s", {"fast": 0.1}, "needs the classes of scenario.slo_s: fast"),
        ("workload.kind", "storm", "workload.kind = 'storm': must be one of logged, poisson"),
        ("workload.rate_rps", {"fast": 1.0}, "needs the classes of scenario.slo_s: fast, slow"),
        ("cluster.mixed", "all", "cluster.mixed = 'all': must be one of never, sum, slowest"),
        ("cluster.replica_backlog", -1, "cluster.replica_backlog = -1: must be at least 0"),
        ("cluster.view", {"refresh_s": -1}, "cluster.view.refresh_s = -1.0: must be at least 0"),
        ("cluster.faults", {"repair_s": 0}, "cluster.faults.repair_s = 0.0: must be above 0"),
        (
            "cluster.faults",
            {"scripted": {"one": {"replica": 0, "start_s": 1, "duration_s": 0}}},
            "cluster.faults.scripted.one.duration_s = 0.0: must be above 0",
        ),
        (
            "cluster.scaling",
            {"autoscaler": {"target_in_system": 0}},
            "cluster.scaling.autoscaler.target_in_system = 0.0: must be above 0",
        ),
        ("cluster.scaling", {"cold_start": 1}, "did you mean cold_start_s?"),
        ("workload", {"kind": "logged", "rate_rps": 0}, "workload.rate_rps = 0.0: must be above 0"),
        (
            "workload",
            {"kind": "logged", "rate_rps": 9.0, "rate_scale": 2.0},
            "workload.rate_scale = 2.0: rate_rps sets the scale; needs 1",
        ),
        ("workload.sizes", {"fast": {"kind": "constant"}}, "needs the classes of rate_rps"),
        ("workload.sizes", {"fast": {"kind": "normal"}}, "workload.sizes.fast.kind = 'normal'"),
        (
            "workload",
            {"kind": "renewal", "rate_rps": 9.0, "cv": 2.0, "mix": {"fast": 0.5, "slow": 0.4}},
            "workload.mix = {'fast': 0.5, 'slow': 0.4}: shares must sum to 1",
        ),
        (
            "workload",
            {"kind": "renewal", "rate_rps": 9.0, "cv": 2.0, "mix": {"fast": 1.0}},
            "workload.mix = {'fast': 1.0}: needs the classes of scenario.slo_s: fast, slow",
        ),
        (
            "workload",
            {"kind": "markov_modulated", "phases": {"only": PHASE}},
            "workload.phases = ['only']: needs two phases or more",
        ),
        (
            "workload",
            {"kind": "markov_modulated", "phases": {"one": PHASE, "two": PHASE}},
            "workload.phases.one.jump_probability = 'one': must be the name of another phase",
        ),
        ("reward.bill", 1.0, "reward.bill = 1.0: a cost must be at most 0"),
        ("reward.shed", 1.0, "reward.shed = 1.0: a cost must be at most 0"),
        ("reward.shed", 0.0, "reward.shed = 0.0: shedding must cost something"),
        ("reward.preset", "paper", "reward.sla_s = None: the preset paper must be given it"),
        ("policies.cap.epsilon", 0.0, "policies.cap.epsilon = 0.0: must be in (0, 1]"),
        ("policies.Cap", {"rule": "static_cap"}, "policies = 'Cap': a name must match"),
        ("agents.learned.algorithm", "sac", "agents.learned.algorithm = 'sac': must be one of"),
        ("agents.learned.gae_lambda", 2, "agents.learned.gae_lambda = 2.0: must be in [0, 1]"),
        ("agents.learned.encoder", "tiny", "agents.learned.encoder = 'tiny': must be one of"),
        ("agents.learned.hidden", [8, "x"], "agents.learned.hidden[1]: Value 'x'"),
        ("agents.cloned.clip_range", 0.2, "agents.cloned.clip_range = 0.2: no such setting"),
        ("replay.episodes", 65, "replay.episodes = 65: must be a multiple of lanes = 64"),
        ("gate.stress.busy.rate_scale", 0, "gate.stress.busy.rate_scale = 0.0: must be above 0"),
    ],
)
def test_a_bad_value_is_refused_with_its_full_key_the_value_and_the_rule(
    key, value, message
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  the message is compared below
        build_settings(changed(key, value))
    assert message in str(refused.value)


@pytest.mark.parametrize("section", VALUES)
def test_every_section_must_be_given(section) -> None:
    values = {name: value for name, value in VALUES.items() if name != section}
    with pytest.raises(ValueError, match=f"{section}: must be given"):
        build_settings(values)


@pytest.mark.parametrize("path", ["/etc/passwd", "../log", "a/../../log", "C:/log", "\\log", ""])
def test_a_source_must_lie_inside_its_root(path) -> None:
    with pytest.raises(ValueError, match="path = "):
        SourceSettings("serving_log", path)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"kind": "triton"}, "must be one of aggregate, aibrix"),
        ({"root": "home"}, "must be one of project, traces"),
        ({"zone": "Mars/Base"}, "must be an IANA time zone"),
        ({"classes": {"meta/llama": "a b"}}, "a name must match"),
        ({"dequantize_s": 0.0}, "must be at least 1e-6"),
        ({"fetch": {"../x": FetchSettings("https://x.org/x")}}, "the plain name of a file"),
        ({"kind": "azure_llm", "license": "x", "sha256": "abc"}, "64 lower-case hexadecimal"),
        ({"kind": "azure_llm", "license": "x", "request_class": "a.b"}, "a name must match"),
    ],
)
def test_a_source_is_checked(changes, rule) -> None:
    with pytest.raises(ValueError, match=rule):
        SourceSettings(**{"kind": "serving_log", "path": "log", **changes})
