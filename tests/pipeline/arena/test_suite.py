"""The named scenarios of conf/scenario/arena, and the refusal of what is none."""

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from pipeline.arena.suite import (
    ArenaScenario,
    load_arena_scenario,
    missing_files,
    scenario_names,
)
from pipeline.offered_load import MeanArrivals, mean_arrivals, offered_load
from pipeline.stage import CONF
from simulator.reward import reward_term_names
from simulator.scenario import DecisionKind
from simulator.traffic import PoissonWorkload
from simulator.workload import TraceWorkload, check_arrivals

NAMES = scenario_names()
EXPECTED = {
    *("paper_standard", "paper_burst", "paper_trace", "paper_trace_sample", "paper_multi"),
    *("single_queue_energy", "bursty_mixed_slos", "rare_long_requests", "unlike_replicas"),
    *("stale_views", "noisy_service", "cold_start_day_night", "llm_azure_conversation"),
    *("overload", "replica_faults", "drift_rate", "drift_mix", "drift_burstiness"),
}
TRACED = {"paper_trace", "paper_trace_sample", "llm_azure_conversation"}
ONE_PAPER = "paper_standard"


# A scenario is frozen; it takes half a second to compose and to build its yardsticks.
as_it_is = functools.cache(load_arena_scenario)


def loaded(name: str) -> ArenaScenario:
    """The scenario; the test is skipped where its trace is missing."""
    if name in TRACED:
        missing = missing_files(name)
        if missing:
            pytest.skip(missing)
    return as_it_is(name)


def load_of(arena: ArenaScenario, split: str) -> float:
    """The offered load of many episodes of the split."""
    generator, span_s, episodes = np.random.default_rng(5), arena.horizon_s, 40
    drawn = [arena.workloads[split].draw(span_s, generator) for _ in range(episodes)]
    classes = len(arena.scenario.request_classes)
    means = [mean_arrivals(arrivals, classes, span_s) for arrivals in drawn]
    return offered_load(arena.scenario, MeanArrivals(*np.mean(means, axis=0)))


def test_the_suite_has_the_scenarios_that_users_meet() -> None:
    assert set(NAMES) == EXPECTED
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_loads_and_its_episodes_are_as_long_as_promised(name: str) -> None:
    arena = loaded(name)
    assert arena.name == name
    assert arena.why.endswith(".")
    assert list(arena.workloads) == ["train", "validation", "test"]
    for workload in arena.workloads.values():
        arrivals = workload.draw(arena.horizon_s, np.random.default_rng(1))
        check_arrivals(arrivals, len(arena.scenario.request_classes))
    assert len(arrivals.arrival_s) < 6000, "an episode for a suite that takes minutes"
    if name != "paper_trace_sample":
        assert len(arrivals.arrival_s) > 200
        assert arena.episodes >= 40


@pytest.mark.parametrize("name", NAMES)
def test_the_load_is_interesting_unless_the_source_says_otherwise(name: str) -> None:
    load = load_of(loaded(name), "test")
    if name in ("paper_standard", "paper_burst", "paper_trace_sample", "paper_trace"):
        assert load < 0.5
    elif name == "overload":
        assert 1.2 < load < 1.4
    else:
        assert 0.4 < load < 0.95


@pytest.mark.parametrize("name", sorted(EXPECTED - TRACED - {"single_queue_energy"}))
def test_a_dispatcher_may_shed_and_sees_how_long_requests_wait(name: str) -> None:
    scenario = as_it_is(name).scenario
    if scenario.decision == DecisionKind.DISPATCH:
        assert scenario.may_shed
        assert scenario.view.oldest_requests == 32


@pytest.mark.parametrize("name", NAMES)
def test_a_request_that_is_never_answered_costs_as_much_as_a_miss(name: str) -> None:
    # No term counts it but the number in system: at the end of the drain it has cost at least that.
    arena = loaded(name)
    names = reward_term_names(arena.scenario.class_names)
    cost = dict(zip(names, (-arena.reward.weights).tolist(), strict=True))
    for request_class in arena.scenario.class_names:
        waiting = arena.drain_s * cost[f"number_in_system_s.{request_class}"]
        assert waiting >= cost[f"slo_misses.{request_class}"] - 1e-9
        assert waiting > 0


@pytest.mark.parametrize("name", ["drift_rate", "drift_mix", "drift_burstiness"])
def test_only_the_test_split_drifts(name: str) -> None:
    workloads = as_it_is(name).workloads
    assert workloads["train"] is workloads["validation"]
    assert workloads["test"] != workloads["train"]


@pytest.mark.parametrize("name", sorted(TRACED))
def test_traces_are_split_by_time(name: str) -> None:
    text = (CONF / "scenario" / "arena" / f"{name}.yaml").read_text(encoding="utf-8")
    splits: Any = OmegaConf.to_container(OmegaConf.create(text))
    train, validation, test = (splits["splits"][s] for s in ("train", "validation", "test"))
    assert train["to_s"] <= validation["from_s"]
    assert validation["to_s"] <= test["from_s"]


def test_the_energy_scenario_costs_what_the_theory_counts() -> None:
    # serving.md 2b: 1 per ms of mean response time, which is number in system / rate by Little's
    # law, and 1 per W. The rate: lambda L(32) / 32 = 0.5 with L(32) = 1.0524 + 32 * 0.3051 ms.
    rate_rps = 0.5 * 32 / (1.0524e-3 + 32 * 0.3051e-3)
    arena = as_it_is("single_queue_energy")
    workload = arena.workloads["test"]
    assert isinstance(workload, PoissonWorkload)
    assert workload.rate_rps[0] == pytest.approx(rate_rps, rel=1e-5)
    names = reward_term_names(arena.scenario.class_names)
    weight = dict(zip(names, arena.reward.weights.tolist(), strict=True))
    assert weight["number_in_system_s.googlenet"] == pytest.approx(-1000.0 / rate_rps, rel=1e-5)
    assert weight["energy_j"] == -1.0
    replica = arena.scenario.replicas[0]
    assert replica.energy_alpha_j == (0.019603,)
    assert replica.energy_beta_j == (0.0198986,)
    known = arena.yardsticks["smdp_rvi"]
    assert known["arrival_rate_rps"] == workload.rate_rps[0]


def test_the_objective_is_minus_the_reward_and_weighs_classes() -> None:
    # paper_multi: 200 and 20, over the mean weight 110 and the SLA of 3 s.
    arena = as_it_is("paper_multi")
    names = reward_term_names(arena.scenario.class_names)
    weight = dict(zip(names, arena.reward.weights.tolist(), strict=True))
    assert weight["number_in_system_s.fast"] == pytest.approx(-200 / 110 / 3, rel=1e-4)
    assert weight["number_in_system_s.slow"] == pytest.approx(-20 / 110 / 3, rel=1e-4)
    assert weight["shed.fast"] == pytest.approx(-2 * 200 / 110, rel=1e-4)
    assert weight["response_s.fast"] == weight["bill"] == 0.0


@pytest.mark.parametrize("prefix", ["", "arena_scenario.", "+", "++arena_scenario."])
def test_a_field_can_be_overridden_with_and_without_the_section(prefix: str) -> None:
    arena = load_arena_scenario(
        ONE_PAPER, [f"{prefix}horizon_s=5", f"{prefix}scenario.queue_capacity=50"]
    )
    assert (arena.horizon_s, arena.scenario.queue_capacity) == (5.0, 50)


def test_a_field_that_the_file_leaves_out_can_be_given_and_another_taken_away() -> None:
    arena = load_arena_scenario(
        ONE_PAPER,
        ["policies=[static_cap,fifo]", "scenario.rate_window_s=2", "~yardsticks", "~baselines"],
    )
    assert arena.policies == ("static_cap", "fifo")
    assert arena.scenario.rate_window_s == 2.0
    assert arena.yardsticks == arena.baselines == {}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=3", "override = 'seed=3': no such field of an arena scenario; it may be why"),
        ("agent=ppo", "no such field of an arena scenario; it may be why"),
        ("objectiv.shed=1", r"^override = .*; did you mean objective\? it may be why"),
        ("batch_timeout=0.02", r"^override = .*; did you mean scenario\.batch_timeout_s\?"),
        ("scenario.replicas[0].count=3", r": write lists as scenario\.replicas\.0\.count=3$"),
        ("~objective.shedd", r"^override = '~objective\.shedd': .*did you mean shed\? there are"),
        ("~scenario.replicas.0.beta", r"^override = .*did you mean beta_s\? there are alpha_s, "),
        ("~objective.shed.fast", r"^override = '~objective\.shed\.fast': .*there are no fields"),
        ("objective.miss=1", r"^objective\.miss = 1: "),
        ("splits.train.rate_rps=[0]", r"^splits\.train = .*: nothing arrives$"),
        ("splits.test.rate_rps=[0]", r"^splits\.test = .*: nothing arrives$"),
        (
            "splits.test.rate=[9]",
            r"^splits\.test\.rate = \[9\]: no such field; did you mean rate_rps",
        ),
        ("splits.test={kind: square_burst}", r"^splits\.test\.low_rps: must be given"),
        ("splits.test.same_as=[test]", r"^splits\.test\.same_as = \['test'\]: must be another"),
        ("policies=[FIFO]", r"^policies = 'FIFO': did you mean fifo\? must be one of"),
        ("horizon_s=0", r"^horizon_s = 0\.0: must be above 0"),
        ("horizon_s=true", r"^horizon_s = True: must be finite"),
        ("drain_s=-1", r"^drain_s = -1: must be finite and at least 0"),
        ("drain_s=.inf", r"^drain_s = '\.inf'|^drain_s = inf"),
        ("episodes=1", r"^episodes = 1: must be a whole number of at least 2"),
        ("tuning_episodes=2.5", r"^tuning_episodes = 2\.5: must be a whole"),
        ("objective.latency=1", r"^objective\.latency = 1: the terms are"),
        ("objective.shed=much", r"^objective\.shed = 'much': must be a finite"),
        ("objective=1", r"^objective = 1: must be a section"),
        ("scenario.queue_size=1", r"^scenario\.queue_size = 1: no such field"),
        ("scenario.queue_capacity=0", r"^scenario\.queue_capacity = 0: must be"),
        ("splits.night.kind=poisson", r"^splits\.night = .*no such split"),
        ("~splits.test", r"^splits\.test: must be given"),
        ("~why", r"^why: must be given"),
        ("why=''", r"^why = '': must be a sentence"),
        ("splits.train.rate_rps=[1,2]", r"^splits\.train = .*needs the classes"),
        ("baselines.nobody={}", r"^baselines: policy = 'nobody': it must be one of"),
        ("baselines.static_cap.batch_size=0", r"^baselines: static_cap\.batch_size"),
        ("baselines.static_cap.size=8", r"static_cap\.size = 8: no such parameter"),
        ("baselines.fifo=3", r"^baselines\.fifo = 3: must be a section"),
        ("baselines=3", r"^baselines = 3: must be a section"),
        ("policies=static_cap", r"^policies = 'static_cap': must be null, or a"),
        ("policies=[]", r"^policies = \[\]: must be null, or a list"),
        ("policies=[nobody]", r"^policies = 'nobody': must be one of"),
    ],
)
def test_what_is_unknown_missing_or_not_allowed_is_refused(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        load_arena_scenario(ONE_PAPER, ["~yardsticks", override])
    assert "\n" not in str(refused.value)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    for load in (load_arena_scenario, missing_files):
        with pytest.raises(ValueError, match="scenario = 'papr': must be one of bursty_mixed"):
            load("papr")
    with pytest.raises(ValueError, match=r"scenario = '\.\./paper': must be one of"):
        load_arena_scenario("../paper")


def test_a_scenario_whose_trace_is_missing_says_which_file_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACES_DIR", str(tmp_path))
    for name in TRACED:
        told = missing_files(name)
        assert told is not None
        assert "no such file in the folder that TRACES_DIR names; get it from" in told
        assert str(tmp_path) not in told
        with pytest.raises(ValueError, match="no such file in the folder"):
            load_arena_scenario(name)
    assert missing_files(ONE_PAPER) is None


def test_the_whole_trace_of_azure_functions_is_enough_for_paper_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A call every 100 s for two weeks in the place of the 305 MB: 40 times as fast, 0.4 a second.
    end_s = np.arange(100.0, 14 * 86400.0, 100.0)
    rows = "".join(f"a,f,{end},0.5\n" for end in end_s)
    folder = tmp_path / "azure-functions"
    folder.mkdir()
    file = folder / "AzureFunctionsInvocationTraceForTwoWeeksJan2021.txt"
    file.write_text(f"app,func,end_timestamp,duration\n{rows}", encoding="utf-8")
    monkeypatch.setenv("TRACES_DIR", str(tmp_path))
    arena = load_arena_scenario("paper_trace")
    train = arena.workloads["train"]
    assert isinstance(train, TraceWorkload)
    assert train.rate_rps == pytest.approx(0.4, rel=1e-3)
    assert arena.episodes * arena.horizon_s * train.rate_scale < train.span_s


def test_the_suite_writes_no_path_of_a_machine() -> None:
    for path in (CONF / "scenario" / "arena").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert os.fspath(Path.home()) not in text
        assert "${" not in text
