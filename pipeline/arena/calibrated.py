"""The calibrated cluster as a contest: every rule that fits it, beside the one that was logged."""

import dataclasses
from collections.abc import Sequence

from pipeline.arena.contest import Contest
from pipeline.arena.entrants import Asked, Entrant, Kind, asked_entrants, set_entrants
from pipeline.assembly import Study, build_trial
from pipeline.calibration.fidelity import logged_rule
from pipeline.randomness import derived_seed
from pipeline.settings import Settings
from pipeline.validation.evaluation import Trial
from simulator.policies.registry import RULES, fitting_rules
from simulator.scenario import DecisionKind, QueuePlace, Scenario

_STATIC_8 = {"static_cap": {"batch_size": 8}}  # the paper's baseline


def calibrated_contest(settings: Settings, study: Study) -> Contest:
    """The three splits of the calibrated scenario, opened: see `opened`."""
    scenario = opened(study.scenario)
    episodes = {
        "train": settings.tune.episodes,
        "validation": settings.tune.episodes,
        "test": settings.arena.episodes,
    }
    trials: dict[str, Trial] = {}
    for split, count in episodes.items():
        seed = derived_seed(settings.seed, "arena", "calibrated", split)
        trials[split] = build_trial(settings, study, split, count, seed)._replace(scenario=scenario)
    source = settings.calibration.source
    return Contest(source, f"The cluster that was calibrated from the log {source}.", trials)


def opened(scenario: Scenario) -> Scenario:
    """The scenario in which a dispatcher may shed, and sees how long all of a batch have waited.

    So that rules which drop late requests, or count waits one by one, can take part.
    """
    if scenario.decision != DecisionKind.DISPATCH or scenario.queues != QueuePlace.CENTRAL:
        return scenario
    largest = max(replica.max_batch_size for replica in scenario.replicas)
    seen = max(scenario.view.oldest_requests, largest)
    view = dataclasses.replace(scenario.view, oldest_requests=seen)
    return dataclasses.replace(scenario, may_shed=True, view=view)


def calibrated_entrants(settings: Settings, study: Study, scenario: Scenario) -> list[Entrant]:
    """The rules of `arena.policies`, or all that fit; the logged rule and the paper's static one.

    Raises ValueError, with the list of what fits, for a rule that does not.
    """
    names: Sequence[str] = settings.arena.policies or fitting_rules(scenario)
    entrants = asked_entrants(scenario, [Asked(name) for name in names])
    rule, parameters = logged_rule(study.run.system)
    if RULES[rule].misfit(scenario) is None:
        entrants += set_entrants({rule: parameters}, Kind.LOGGED)
    if RULES["static_cap"].misfit(scenario) is None:
        entrants += set_entrants(_STATIC_8, Kind.BASELINE)
    return entrants
