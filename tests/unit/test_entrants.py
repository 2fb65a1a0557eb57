"""Who takes part in the comparison, what they meet, and the bundle of the one that wins."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.agents.artifact import AgentDescription, save_agent
from pipeline.agents.networks import PolicyNetwork, initialize
from pipeline.assembly import Study
from pipeline.bundle import winner
from pipeline.bundle.onnx_policy import OnnxPolicy
from pipeline.bundle.winner import export_winner
from pipeline.calibration.log import LoggedRun
from pipeline.files import plain, write_json
from pipeline.settings import Settings
from pipeline.validation.entrants import (
    build_comparison,
    build_trials,
    read_agent,
    read_candidates,
    split_trial,
)
from pipeline.validation.evaluation import evaluate
from pipeline.validation.scorecard import TEST, score
from simulator.action import action_table
from simulator.observation import full_encoder
from simulator.policies.registry import build_policy
from simulator.scenario import Scenario

RULES = {"fifo": {"batch_size": 4}, "static_cap": {"batch_size": 2}}


def write_agent(data: Path, name: str, scenario: Scenario) -> None:
    """An agent with random weights."""
    encoder, actions = full_encoder(scenario), action_table(scenario).size
    network = PolicyNetwork(len(encoder.features), actions, "mlp", (8,))
    initialize(network, 1.0, torch.Generator().manual_seed(5))
    description = AgentDescription(
        name=name,
        algorithm="ppo",
        encoder="full",
        features=[feature.name for feature in encoder.features],
        actions=actions,
        network=network.description,
        score="logits",
        seed=5,
        training={},
    )
    save_agent(data / "agents" / name, description, network)


def write_rules(data: Path, rules: dict[str, Any]) -> None:
    told = {rule: {"rule": rule, "parameters": parameters} for rule, parameters in rules.items()}
    write_json(data / "heuristics.json", {"episodes": 4, "rules": told})


@pytest.fixture(scope="module")
def settings(make_settings: Callable[..., Settings]) -> Settings:
    """One online and one offline agent, on generated arrivals: no two seeds give the same."""
    return make_settings(
        run={"sources": ["log"], "behavior": ["cap"], "offline": ["cloned"], "online": ["ppo"]},
        agents={"ppo": {"algorithm": "ppo"}, "cloned": {"algorithm": "discrete_bc"}},
        workload={"kind": "poisson", "rate_rps": {"fast": 20.0, "slow": 20.0}},
    )


@pytest.fixture(scope="module")
def study(settings: Settings, make_study: Callable[..., Study], run: LoggedRun) -> Study:
    """What the stages read of the log."""
    return make_study(settings, run)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, study: Study) -> Path:
    """The folder `data` with two tuned rules and both agents."""
    folder = tmp_path_factory.mktemp("data")
    write_rules(folder, RULES)
    for name in ("ppo", "cloned"):
        write_agent(folder, name, study.scenario)
    for name in ("warehouse.json", "calibration.json", "params.yaml"):
        (folder / name).write_text(name)
    return folder


def test_tuned_rules_and_greedy_agents_take_part(
    settings: Settings, data: Path, study: Study
) -> None:
    found = read_candidates(settings, data, study.scenario)
    assert {name: entry.kind for name, entry in found.items()} == {
        "fifo": "rule",
        "static_cap": "rule",
        "cloned": "offline",
        "ppo": "online",
    }
    assert found["static_cap"].parameters == {"batch_size": 2}
    assert found["ppo"].parameters == {}
    assert found["ppo"].policy.greedy
    description, policy = read_agent(data, "ppo", study.scenario)
    assert description["name"] == policy.name == "ppo"


def test_an_agent_with_the_name_of_a_rule_is_refused(
    make_settings: Callable[..., Settings], data: Path, study: Study
) -> None:
    # It would take the place of the rule in the comparison.
    settings = make_settings(
        run={"sources": ["log"], "behavior": ["cap"], "offline": [], "online": ["fifo"]},
        pick={"policy": "cap", "agent": "fifo"},
        agents={"fifo": {"algorithm": "ppo"}},
    )
    with pytest.raises(ValueError, match=r"run\.online = 'fifo': is the name of a rule"):
        read_candidates(settings, data, study.scenario)


def test_the_test_split_comes_first_then_stress_on_it_each_with_luck_of_its_own(
    settings: Settings, study: Study
) -> None:
    trials = build_trials(settings, study)
    assert list(trials.decisive) == [TEST, "busier"]
    seeds = {trial.seed for trial in (*trials.decisive.values(), trials.validation)}
    assert len(seeds) == 3
    again = build_trials(settings, study)
    assert again.decisive[TEST].seed == trials.decisive[TEST].seed


@pytest.mark.parametrize("name", ["test", "validation"])
def test_a_stress_scenario_with_the_name_of_a_split_is_refused(
    make_settings: Callable[..., Settings], study: Study, name: str
) -> None:
    # It would take the place of the split that decides.
    settings = make_settings(gate={"stress": {name: {"rate_scale": 0.5}}})
    with pytest.raises(ValueError, match=rf"gate\.stress = '{name}': is the name of a split"):
        build_trials(settings, study)


def test_the_comparison_is_as_configured(make_settings: Callable[..., Settings]) -> None:
    gate = {"confidence": 0.9, "margins": {"response_p99_s": 0.2, "shed_fraction": 0.03}}
    found = build_comparison(make_settings(gate=gate))
    assert (found.confidence, found.gate_confidence, found.resamples) == (0.95, 0.9, 200)
    assert found.margins == (0.2, 0.03, 0.01)


@pytest.fixture(scope="module")
def card(settings: Settings, data: Path, study: Study) -> dict[str, Any]:
    """A scorecard, as JSON has it, in which the agent `ppo` is called the winner."""
    candidates = read_candidates(settings, data, study.scenario)
    trials = build_trials(settings, study)
    found = score(candidates, trials.decisive, trials.validation, build_comparison(settings))
    return json.loads(json.dumps({**plain(found), "winner": "ppo"}))


def test_the_bundle_of_the_winner_earns_what_the_scorecard_says(
    settings: Settings, study: Study, card: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "policies" / "ppo"
    fault = export_winner(settings, study, card, data, data / "params.yaml", folder)
    assert fault is None
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["fallback"]["rule"] == card["best_rule"]
    standing = next(s for s in card["standings"] if s["name"] == "ppo")
    assert manifest["results"][0]["value"] == standing["reward_per_s"]["mean"]
    policy = OnnxPolicy(folder, full_encoder(study.scenario))
    earned = evaluate(policy, split_trial(settings, study, TEST)).reward_per_s
    assert earned.mean() == pytest.approx(standing["reward_per_s"]["mean"], rel=1e-12)


def test_a_bundle_that_earns_something_else_is_not_kept(
    settings: Settings,
    study: Study,
    card: dict[str, Any],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = build_policy("static_cap", study.scenario, {"batch_size": 4})
    monkeypatch.setattr(winner, "OnnxPolicy", lambda *arguments: other)
    folder = tmp_path / "policies" / "ppo"
    fault = export_winner(settings, study, card, data, data / "params.yaml", folder)
    assert fault is not None
    earned = evaluate(other, split_trial(settings, study, TEST)).reward_per_s.mean()
    assert f"the bundle of ppo earns {earned:.6f} reward/s through ONNX, not " in fault
    assert not folder.exists()
    assert np.isfinite(earned)
