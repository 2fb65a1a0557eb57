"""Who takes part in the comparison, and what everyone meets."""

import json
from pathlib import Path
from typing import NamedTuple

from pipeline.agents.artifact import AgentDescription, load_agent
from pipeline.agents.network_policy import NetworkPolicy
from pipeline.assembly import Study, build_trial
from pipeline.randomness import derived_seed
from pipeline.settings import Settings
from pipeline.validation.evaluation import Trial
from pipeline.validation.gate import Margins
from pipeline.validation.scorecard import RULE, TEST, Candidate, Comparison
from simulator.observation import ENCODERS
from simulator.policies.registry import build_policy
from simulator.scenario import Scenario

VALIDATION = "validation"


class Trials(NamedTuple):
    """The episodes of a comparison."""

    decisive: dict[str, Trial]  # the test split as TEST, then its stress scenarios by name
    validation: Trial


def read_candidates(settings: Settings, data: Path, scenario: Scenario) -> dict[str, Candidate]:
    """The tuned rules of heuristics.json and the greedy policies of the run's agents, by name.

    Raises ValueError where an agent has the name of a rule.
    """
    tuned = json.loads((data / "heuristics.json").read_text(encoding="utf-8"))["rules"]
    candidates = {
        rule: Candidate(
            RULE, build_policy(rule, scenario, found["parameters"]), found["parameters"]
        )
        for rule, found in tuned.items()
    }
    for kind, names in (("offline", settings.run.offline), ("online", settings.run.online)):
        for name in names:
            if name in candidates:
                raise ValueError(f"run.{kind} = {name!r}: is the name of a rule")
            _, policy = read_agent(data, name, scenario)
            candidates[name] = Candidate(kind, policy, {})
    return candidates


def read_agent(data: Path, name: str, scenario: Scenario) -> tuple[AgentDescription, NetworkPolicy]:
    """The trained agent called `name`: its description and its greedy policy."""
    description, network = load_agent(data / "agents" / name)
    encoder = ENCODERS[description["encoder"]](scenario)
    return description, NetworkPolicy(name, encoder, network, greedy=True)


def build_trials(settings: Settings, study: Study) -> Trials:
    """Test split, stress scenarios on it, and validation split, each with luck of its own.

    Raises ValueError where a stress scenario has the name of a split.
    """
    decisive = {TEST: split_trial(settings, study, TEST)}
    for name, stress in settings.gate.stress.items():
        if name in (TEST, VALIDATION):
            raise ValueError(f"gate.stress = {name!r}: is the name of a split")
        seed = derived_seed(settings.seed, "validate", "stress", name)
        episodes = settings.validate.episodes
        decisive[name] = build_trial(settings, study, TEST, episodes, seed, stress)
    return Trials(decisive, split_trial(settings, study, VALIDATION))


def split_trial(settings: Settings, study: Study, split: str) -> Trial:
    """The episodes of a split in which policies are compared."""
    seed = derived_seed(settings.seed, "validate", split)
    return build_trial(settings, study, split, settings.validate.episodes, seed)


def build_comparison(settings: Settings) -> Comparison:
    """How `validate` and `gate` ask policies to be compared."""
    margins = settings.gate.margins
    return Comparison(
        confidence=settings.validate.confidence,
        gate_confidence=settings.gate.confidence,
        resamples=settings.validate.resamples,
        margins=Margins(margins.response_p99_s, margins.shed_fraction, margins.slo_attainment),
        seed=derived_seed(settings.seed, "resampling"),
    )
