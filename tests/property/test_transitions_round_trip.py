"""Any recorded episodes come back from their files unchanged, with the right successors."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.transitions import (
    Run,
    read_transitions,
    record_transitions,
    transition_schema,
    write_transitions,
)
from simulator.environment import Environment
from simulator.observation import ENCODERS
from simulator.policies.mixture import UniformRandom
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload

REPLICA = Replica(alpha_s=(0.02, 0.05), beta_s=(0.01, 0.04), noise_cv=(0.2, 0.0), max_batch_size=3)
SCENARIO = Scenario(
    request_classes=(RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
    replicas=(REPLICA, REPLICA),
    batch_sizes=(1, 2, 4),
    queue_capacity=5,
)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 4),
    rate_rps=st.sampled_from([0.5, 5.0, 40.0]),
    drain_s=st.sampled_from([0.0, 3.0]),
    encoder_name=st.sampled_from(sorted(ENCODERS)),
)
def test_recorded_rows_survive_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    lanes: int,
    rate_rps: float,
    drain_s: float,
    encoder_name: str,
) -> None:
    generator = np.random.default_rng(seed)
    environment = Environment(
        SCENARIO,
        PoissonWorkload((rate_rps, rate_rps / 2)),
        lanes,
        2.0,
        weighted_reward(SCENARIO, {"completed": 1.0}, {}),
        generator,
        drain_s,
    )
    encoder = ENCODERS[encoder_name](SCENARIO)
    policy = UniformRandom(SCENARIO)
    table = record_transitions(environment, policy, encoder, 2 * lanes, generator, Run(0, seed))
    if table.is_empty():  # no request came in any episode
        return
    path: Path = tmp_path_factory.mktemp("round_trip") / "uniform_random.parquet"
    schema = transition_schema(SCENARIO, encoder)
    write_transitions(path, table, schema)
    transitions = read_transitions([path])

    assert transitions.schema == schema
    decisions = np.flatnonzero(table["action"].to_numpy() >= 0)
    rows = table[decisions]
    features = table["features"].to_numpy()
    action_mask = table["action_mask"].to_numpy()
    size = transitions.size
    assert size == len(decisions)
    np.testing.assert_array_equal(transitions.features[:size], features[decisions])
    np.testing.assert_array_equal(transitions.action_mask[:size], action_mask[decisions])
    # The row below a decision is its successor, closing row or not.
    np.testing.assert_array_equal(
        transitions.features[transitions.next_row], features[decisions + 1]
    )
    np.testing.assert_array_equal(
        transitions.action_mask[transitions.next_row], action_mask[decisions + 1]
    )
    np.testing.assert_array_equal(transitions.action, rows["action"].to_numpy())
    np.testing.assert_array_equal(transitions.propensity, rows["propensity"].to_numpy())
    np.testing.assert_array_equal(transitions.holding_s, rows["holding_s"].to_numpy())
    np.testing.assert_array_equal(
        transitions.reward_terms, rows.select(schema.reward_terms).to_numpy()
    )
    ended = transitions.terminated | transitions.truncated
    np.testing.assert_array_equal(ended, np.diff(transitions.episode, append=np.inf) != 0)
    np.testing.assert_array_equal(transitions.next_row >= size, ended)
    assert transitions.episode[-1] + 1 == ended.sum() == rows["episode"].n_unique()
