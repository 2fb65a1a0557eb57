"""Recording: rows against timelines worked out by hand."""

import numpy as np
import pytest

from pipeline.transitions import Run, record_transitions, scenario_digest
from simulator.environment import Environment
from simulator.observation import full_encoder
from simulator.policies.batch.static_cap import StaticCap
from simulator.policies.mixture import UniformRandom
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload

# A batch of one takes 0.1 + 0.1 = 0.2 s, without noise.
SCENARIO = Scenario(
    request_classes=(RequestClass("fast", slo_s=0.25),),
    replicas=(Replica(alpha_s=(0.1,), beta_s=(0.1,), noise_cv=(0.0,), max_batch_size=2),),
    batch_sizes=(1, 2),
)
ENCODER = full_encoder(SCENARIO)
REWARD = weighted_reward(SCENARIO, {"completed": 1.0}, {})


def requests(*arrival_s: float) -> RecordedWorkload:
    count = len(arrival_s)
    return RecordedWorkload(
        Arrivals(np.array(arrival_s, float), np.zeros(count, np.int64), np.ones(count))
    )


def environment(
    *workloads: RecordedWorkload | PoissonWorkload, drain_s: float = 0.0
) -> Environment:
    return Environment(
        SCENARIO, workloads, len(workloads), 1.0, REWARD, np.random.default_rng(1), drain_s
    )


def test_an_episode_by_hand() -> None:
    # Arrivals at 0.1 and 0.2. Decisions: at 0.1, and at 0.3 when the first batch departs; the
    # second departs at 0.5, and nothing is left to decide until the horizon cuts at 1.0.
    table = record_transitions(
        environment(requests(0.1, 0.2)),
        StaticCap(SCENARIO, batch_size=1),
        ENCODER,
        1,
        np.random.default_rng(0),
        Run(number=3, seed=7),
    )
    assert table["step"].to_list() == [0, 1, 2]
    assert table["clock_s"].to_list() == pytest.approx([0.1, 0.3, 1.0])
    assert table["holding_s"].to_list() == pytest.approx([0.2, 0.7, 0.0])
    assert table["action"].to_list() == [1, 1, -1]  # replica 0, fast, batch size 1
    assert table["propensity"].to_list() == [1.0, 1.0, None]
    assert table["completed.fast"].to_list() == [1.0, 1.0, 0.0]
    assert table["response_s.fast"].to_list() == pytest.approx([0.2, 0.3, 0.0])
    assert table["slo_misses.fast"].to_list() == [0.0, 1.0, 0.0]
    assert table["terminated"].to_list() == [False, False, False]
    assert table["truncated"].to_list() == [False, True, False]
    assert table["action_mask"].to_list() == [[True, True, True]] * 2 + [[True, False, False]]
    names = [feature.name for feature in ENCODER.features]
    features = table["features"].to_numpy()
    np.testing.assert_allclose(features[:, names.index("queue_length.fast")], [1, 1, 0])
    np.testing.assert_allclose(
        features[:, names.index("oldest_wait_s.fast")], [0, 0.1, 0], atol=1e-7
    )
    for field, value in (
        ("run", 3),
        ("episode", 0),
        ("seed", 7),
        ("behavior_policy", "static_cap"),
        ("scenario", scenario_digest(SCENARIO)),
    ):
        assert set(table[field]) == {value}


def test_a_drained_trace_is_terminated() -> None:
    table = record_transitions(
        environment(requests(0.1, 0.2), drain_s=5.0),
        StaticCap(SCENARIO, batch_size=1),
        ENCODER,
        1,
        np.random.default_rng(0),
        Run(0, 7),
    )
    assert table["clock_s"].to_list() == pytest.approx([0.1, 0.3, 0.5])
    assert table["terminated"].to_list() == [False, True, False]
    assert not table["truncated"].any()


def test_lanes_that_end_apart_become_episodes_in_order() -> None:
    # Lane 0 decides once, lane 1 never, lane 2 twice; two rounds of three episodes.
    table = record_transitions(
        environment(requests(0.9), requests(), requests(0.1, 0.2)),
        StaticCap(SCENARIO, batch_size=1),
        ENCODER,
        6,
        np.random.default_rng(0),
        Run(0, 7),
    )
    assert table["episode"].to_list() == [0, 0, 2, 2, 2, 3, 3, 5, 5, 5]
    assert table["step"].to_list() == [0, 1, 0, 1, 2] * 2
    assert table["action"].to_list() == [1, -1, 1, 1, -1] * 2
    assert table["clock_s"].to_list() == pytest.approx([0.9, 1.0, 0.1, 0.3, 1.0] * 2)


def test_a_propensity_is_the_probability_the_policy_gave_to_the_action() -> None:
    table = record_transitions(
        environment(PoissonWorkload((20.0,)), PoissonWorkload((5.0,))),
        UniformRandom(SCENARIO),
        ENCODER,
        4,
        np.random.default_rng(0),
        Run(0, 7),
    )
    decisions = table.filter(table["action"] >= 0)
    legal = decisions["action_mask"].to_numpy().sum(axis=1)
    np.testing.assert_allclose(decisions["propensity"].to_numpy(), 1 / legal, rtol=1e-12)
    # Between two decisions the clock moves by the holding time.
    same = table["episode"].to_numpy()[1:] == table["episode"].to_numpy()[:-1]
    passed_s = np.diff(table["clock_s"].to_numpy())[same]
    np.testing.assert_allclose(passed_s, table["holding_s"].to_numpy()[:-1][same], atol=1e-12)


@pytest.mark.parametrize("episodes", [0, 3])
def test_episodes_must_fill_the_lanes(episodes: int) -> None:
    with pytest.raises(ValueError, match=f"episodes = {episodes}: must be a positive multiple"):
        record_transitions(
            environment(requests(0.1), requests(0.1)),
            UniformRandom(SCENARIO),
            ENCODER,
            episodes,
            np.random.default_rng(0),
            Run(0, 7),
        )


def test_scenarios_that_differ_have_different_digests() -> None:
    other = Scenario(SCENARIO.request_classes, SCENARIO.replicas, SCENARIO.batch_sizes, 99)
    assert scenario_digest(other) != scenario_digest(SCENARIO)
    assert scenario_digest(SCENARIO) == scenario_digest(SCENARIO)
