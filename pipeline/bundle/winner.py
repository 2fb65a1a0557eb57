"""The bundle of the policy that passed the gate, and the proof that it earns what its agent did."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.agents.network_policy import NetworkPolicy
from pipeline.assembly import Study, training_environment
from pipeline.bundle.export import PARITY_ROWS, BundleSource, export_bundle
from pipeline.bundle.observations import MetObservations, met_observations
from pipeline.bundle.onnx_policy import OnnxPolicy
from pipeline.bundle.provenance import bundle_hashes, bundle_results, fallback_for
from pipeline.randomness import derived_seed, stream
from pipeline.settings import Settings
from pipeline.validation.entrants import read_agent, split_trial
from pipeline.validation.evaluation import Trial, evaluate
from pipeline.validation.scorecard import TEST
from simulator.policies.base import Policy
from simulator.policies.mixture import EpsilonMixture

_OBSERVING_EPSILON = 0.1  # so that parity is checked off the beaten path too
_OBSERVING_LANES = 64


def export_winner(
    settings: Settings, study: Study, card: dict[str, Any], data: Path, params: Path, folder: Path
) -> str | None:
    """`folder` holds the bundle of the winner of the scorecard `card`; returns None.

    Where the bundle does not earn on the test split exactly what the agent earns, there is no
    `folder`, and the reason is returned.
    """
    description, policy = read_agent(data, card["winner"], study.scenario)
    rule, parameters = fallback_for(card["standings"], policy.encoder, study.scenario)
    met = _met(settings, study, policy)
    source = BundleSource(
        description=description,
        network=policy.network,
        encoder=policy.encoder,
        scenario=study.scenario,
        fallback_rule=rule,
        fallback_parameters=parameters,
        hashes=bundle_hashes(data, params),
        results=bundle_results(card, settings.validate.confidence),
        features=met.features,
        action_mask=met.action_mask,
    )
    manifest = export_bundle(folder, source)
    print(f"{policy.name}: {manifest['parity']}")
    trial = split_trial(settings, study, TEST)
    fault = _difference(policy, OnnxPolicy(folder, policy.encoder), trial)
    if fault is not None:
        shutil.rmtree(folder)
    return fault


def _met(settings: Settings, study: Study, policy: NetworkPolicy) -> MetObservations:
    """Observations of the training split, on which network and ONNX are compared."""
    seed = derived_seed(settings.seed, "export")
    environment = training_environment(
        settings, study, _OBSERVING_LANES, stream(seed, "environment")
    )
    explorer = EpsilonMixture(policy, _OBSERVING_EPSILON)
    return met_observations(
        environment, explorer, policy.encoder, PARITY_ROWS, stream(seed, "actions")
    )


def _difference(by_network: Policy, by_onnx: Policy, trial: Trial) -> str | None:
    """How the rewards of the two differ in the trial; None where they do not in any episode."""
    expected, found = (evaluate(policy, trial).reward_per_s for policy in (by_network, by_onnx))
    if np.array_equal(expected, found):
        return None
    return (
        f"the bundle of {by_network.name} earns {found.mean():.6f} reward/s through ONNX, "
        f"not {expected.mean():.6f} as in validation."
    )
