"""Observations for the parity of ONNX and network, and where a bundle says it comes from."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.bundle.observations import MetObservations, met_observations
from pipeline.bundle.provenance import bundle_hashes, bundle_results, fallback_for
from simulator.environment import Environment
from simulator.observation import full_encoder, paper_encoder
from simulator.policies.mixture import UniformRandom
from simulator.replica import Replica
from simulator.reward import Reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload, Workload

SCENARIO = Scenario(
    (RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
    (Replica((0.01, 0.02), (0.001, 0.002), (0.1, 0.1), 4),) * 2,
    batch_sizes=(1, 2, 4),
)
ENCODER = full_encoder(SCENARIO)


LANES = 4


def met(workload: Workload | list[Workload], rows: int) -> MetObservations:
    """What the uniform policy meets in episodes of half a second."""
    environment_stream, actions = np.random.default_rng(1).spawn(2)
    environment = Environment(
        SCENARIO, workload, LANES, 0.5, Reward(np.zeros(13)), environment_stream
    )
    return met_observations(environment, UniformRandom(SCENARIO), ENCODER, rows, actions)


def test_as_many_observations_as_asked_are_met_over_many_episodes() -> None:
    # 0.5 s of some 60 requests/s in 4 lanes: a thousand rows take several episodes of each lane.
    found = met(PoissonWorkload((40.0, 20.0)), 1000)
    rows = len(found.features)
    assert 1000 <= rows < 1000 + LANES
    assert found.features.shape == (rows, len(ENCODER.features))
    assert found.features.dtype == np.float32
    assert found.action_mask.shape == (rows, 1 + 2 * 2 * 3)
    assert np.isfinite(found.features).all()


def test_every_observation_is_of_a_decision_that_was_due() -> None:
    # A request waits and a replica is idle: so an action beside WAIT is legal.
    found = met(PoissonWorkload((40.0, 20.0)), 500)
    assert found.action_mask[:, 0].all()
    assert found.action_mask[:, 1:].any(axis=1).all()
    waiting = [f.name.startswith("queue_length.") for f in ENCODER.features]
    assert (found.features[:, waiting].sum(axis=1) > 0).all()


def test_rows_are_kept_and_not_overwritten_by_later_steps() -> None:
    found = met(PoissonWorkload((40.0, 20.0)), 200)
    assert len(np.unique(found.features, axis=0)) > 150


def test_equal_generators_meet_equal_observations() -> None:
    first, again = (met(PoissonWorkload((40.0, 20.0)), 200) for _ in range(2))
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.action_mask, again.action_mask)


def test_episodes_without_a_request_are_passed_over() -> None:
    found = met(PoissonWorkload((0.5, 0.0)), 20)  # three episodes of four are empty
    assert len(found.features) == len(found.action_mask) >= 20


def test_lanes_that_go_on_are_not_started_again_with_those_that_ended() -> None:
    def recorded(*arrivals: tuple[float, int]) -> RecordedWorkload:
        instants_s, classes = zip(*arrivals, strict=True)
        return RecordedWorkload(
            Arrivals(np.array(instants_s), np.array(classes), np.ones(len(classes)))
        )

    # Three lanes have one request and end long before the fourth gets to its last, the slow one.
    short = recorded((0.01, 0))
    long = recorded(*((0.01 * (number + 1), 0) for number in range(40)), (0.45, 1))
    found = met([short, short, short, long], 400)
    slow = [feature.name == "head_class.slow" for feature in ENCODER.features]
    assert found.features[:, slow].any()


def test_a_workload_without_any_request_is_refused() -> None:
    with pytest.raises(ValueError, match="workload: no request arrives"):
        met(PoissonWorkload((0.0, 0.0)), 1)


def test_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    contents = {"warehouse.json": b"w", "calibration.json": b"c", "params.yaml": b"p"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    found = bundle_hashes(tmp_path, tmp_path / "params.yaml")
    expected = zip(("data", "calibration", "config"), contents.values(), strict=True)
    assert found == {key: hashlib.sha256(content).hexdigest() for key, content in expected}


def standing(name: str, kind: str, mean: float, **parameters: Any) -> dict[str, Any]:
    interval = {"mean": mean, "low": mean - 1.0, "high": mean + 1.0}
    gain = {"mean": 2.0, "low": 0.5, "high": 3.5}
    told = {"name": name, "kind": kind, "parameters": parameters}
    return {**told, "reward_per_s": interval, "difference": gain}


STANDINGS = [
    standing("ppo", "online", 42.0),
    standing("uniform_random", "rule", 41.0),  # no rule of the runtime
    standing("c_mu", "rule", 40.0, batch_size=4),
    standing("fifo", "rule", 39.0, batch_size=2),
]


def test_results_are_the_winners_reward_and_its_difference_to_the_best_rule() -> None:
    card = {"winner": "ppo", "best_rule": "c_mu", "standings": STANDINGS}
    reward, gain = bundle_results(card, 0.95)
    assert (reward.value, reward.low, reward.high, reward.against) == (42.0, 41.0, 43.0, "")
    assert (gain.value, gain.low, gain.high, gain.against) == (2.0, 0.5, 3.5, "c_mu")
    assert reward.level == gain.level == 0.95


def test_the_fallback_is_the_best_rule_that_the_runtime_has() -> None:
    assert fallback_for(STANDINGS, ENCODER, SCENARIO) == ("c_mu", {"batch_size": 4})


def test_the_fallback_is_a_rule_that_the_runtime_plays_in_the_scenario() -> None:
    standings = [standing("shortest_queue", "rule", 42.0, batch_size=4), *STANDINGS]
    assert fallback_for(standings, ENCODER, SCENARIO)[0] == "shortest_queue"
    backlog = replace(SCENARIO, replica_backlog=1)
    assert fallback_for(standings, ENCODER, backlog)[0] == "c_mu"
    partly = replace(SCENARIO.replicas[0], serves=(True, False))
    apart = replace(SCENARIO, replicas=(partly, *SCENARIO.replicas[1:], SCENARIO.replicas[0]))
    assert fallback_for(standings, full_encoder(apart), apart) == ("largest_batch", {})


def test_the_fallback_without_the_features_of_a_rule_is_the_largest_batch() -> None:
    assert fallback_for(STANDINGS, paper_encoder(SCENARIO), SCENARIO) == ("largest_batch", {})
    assert fallback_for(STANDINGS[:2], ENCODER, SCENARIO) == ("largest_batch", {})
