"""Transitions files: what is written is read back, and every broken rule is named."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.transitions import (
    ActionMeaning,
    TransitionSchema,
    read_transitions,
    write_transitions,
)
from pipeline.transitions.schema import METADATA_KEY
from simulator.observation import Feature

SCHEMA = TransitionSchema(
    encoder="full",
    features=(
        Feature("queue_length.fast", "requests", 0, 100),
        Feature("oldest_wait_s.fast", "s", 0, float("inf")),
    ),
    actions=(ActionMeaning(-1, -1, 0), ActionMeaning(0, 0, 1), ActionMeaning(0, 0, 2)),
    reward_terms=("completed.fast", "energy_j"),
    class_names=("fast",),
)
# Episode 4: two decisions, terminated. Episode 5: one decision, truncated.
COLUMNS = {
    "run": [0] * 5,
    "episode": [4, 4, 4, 5, 5],
    "step": [0, 1, 2, 0, 1],
    "clock_s": [0.5, 0.75, 1.0, 0.25, 2.0],
    "holding_s": [0.25, 0.25, 0.0, 1.75, 0.0],
    "features": [[1.0, 0.0], [2.0, 0.25], [0.0, 0.0], [3.0, 0.5], [4.0, 1.5]],
    "action_mask": [[True, True, False]] * 5,
    "action": [1, 0, -1, 1, -1],
    "propensity": [0.9, 0.05, None, 1.0, None],
    "completed.fast": [0.0, 2.0, 0.0, 1.0, 0.0],
    "energy_j": [10.0, 5.0, 0.0, 70.0, 0.0],
    "terminated": [False, True, False, False, False],
    "truncated": [False, False, False, True, False],
    "behavior_policy": ["fifo+eps0.1"] * 5,
    "scenario": ["00ff"] * 5,
    "seed": [7] * 5,
}
TABLE = pl.DataFrame(COLUMNS, schema=SCHEMA.columns())


def write_unchecked(path: Path, table: pl.DataFrame, schema: TransitionSchema = SCHEMA) -> Path:
    table.write_parquet(path, metadata={METADATA_KEY: schema.to_json()})
    return path


def replaced(field: str, row: int, value: object) -> pl.DataFrame:
    values = list(COLUMNS[field])
    values[row] = value
    return pl.DataFrame({**COLUMNS, field: values}, schema=SCHEMA.columns())


def test_written_rows_are_read_back_as_flat_arrays(tmp_path: Path) -> None:
    path = tmp_path / "fifo.parquet"
    write_transitions(path, TABLE, SCHEMA)
    transitions = read_transitions([path])
    assert transitions.schema == SCHEMA
    assert transitions.size == 3
    np.testing.assert_array_equal(
        transitions.features, np.array([[1, 0], [2, 0.25], [3, 0.5], [0, 0], [4, 1.5]], np.float32)
    )
    assert transitions.features.dtype == np.float32
    assert transitions.action_mask.dtype == np.bool_
    np.testing.assert_array_equal(transitions.action_mask, [[True, True, False]] * 5)
    np.testing.assert_array_equal(transitions.action, [1, 0, 1])
    np.testing.assert_array_equal(transitions.propensity, [0.9, 0.05, 1.0])
    np.testing.assert_array_equal(transitions.reward_terms, [[0, 10], [2, 5], [1, 70]])
    np.testing.assert_array_equal(transitions.holding_s, [0.25, 0.25, 1.75])
    np.testing.assert_array_equal(transitions.terminated, [False, True, False])
    np.testing.assert_array_equal(transitions.truncated, [False, False, True])
    np.testing.assert_array_equal(transitions.episode, [0, 0, 1])
    # The second transition and the third are followed by the closing rows, in rows 3 and 4.
    np.testing.assert_array_equal(transitions.next_row, [1, 3, 4])


def test_several_files_follow_each_other_as_different_episodes(tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:
        write_transitions(path, TABLE, SCHEMA)
    transitions = read_transitions(paths)
    np.testing.assert_array_equal(transitions.episode, [0, 0, 1, 2, 2, 3])
    np.testing.assert_array_equal(transitions.next_row, [1, 6, 7, 4, 8, 9])
    np.testing.assert_array_equal(transitions.features[[6, 7]], [[0, 0], [4, 1.5]])


def test_the_same_rows_give_the_same_bytes_however_the_table_is_chunked(tmp_path: Path) -> None:
    chunked = pl.concat([TABLE[:2], TABLE[2:]], rechunk=False)
    write_transitions(tmp_path / "a.parquet", TABLE, SCHEMA)
    write_transitions(tmp_path / "b.parquet", chunked, SCHEMA)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_schema_survives_json_with_its_infinite_range() -> None:
    assert TransitionSchema.from_json(SCHEMA.to_json()) == SCHEMA
    assert "Infinity" not in SCHEMA.to_json()


@pytest.mark.parametrize(
    ("field", "row", "value", "message"),
    [
        ("features", 1, [2.0, float("nan")], "row 1: features.oldest_wait_s.fast = nan"),
        ("features", 4, [float("inf"), 0.0], "row 4: features.queue_length.fast = inf"),
        ("features", 1, None, "row 1: features = None: must not be null"),
        ("features", 1, [2.0, None], "row 1: features = .*: must hold no null"),
        ("completed.fast", 1, float("nan"), "row 1: completed.fast = nan: must be finite"),
        ("energy_j", 2, 3.0, "row 2: energy_j = 3.0: must be 0 in a closing row"),
        ("clock_s", 0, float("inf"), "row 0: clock_s = inf"),
        ("holding_s", 0, -0.1, "row 0: holding_s = -0.1: must be at least 0"),
        ("holding_s", 0, float("nan"), "row 0: holding_s = nan: must be finite"),
        ("holding_s", 4, 0.5, "row 4: holding_s = 0.5: must be 0 in a closing row"),
        ("action", 0, 3, "row 0: action = 3: must be 0 to 2"),
        ("action", 0, -2, "row 0: action = -2: must be 0 to 2"),
        ("action", 0, 2, "row 0: action = 2: must be legal under action_mask"),
        ("action_mask", 2, [False] * 3, "row 2: action_mask = .*: needs at least one legal"),
        ("action_mask", 2, [True, None, True], "row 2: action_mask = .*: must hold no null"),
        ("propensity", 0, 0.0, r"row 0: propensity = 0.0: must be in \(0, 1\]"),
        ("propensity", 0, 1.5, "row 0: propensity = 1.5"),
        ("propensity", 0, float("nan"), "row 0: propensity = nan"),
        ("propensity", 0, None, "row 0: propensity = None"),
        ("propensity", 2, 0.5, "row 2: propensity = 0.5: must be null in a closing row"),
        ("terminated", 0, True, "row 0: terminated = True: must be false before the last"),
        ("terminated", 2, True, "row 2: terminated = True: must be false"),
        ("terminated", 1, False, "row 1: truncated = False: a last decision is terminated or"),
        ("truncated", 1, True, "row 1: truncated = True: must not go with terminated"),
        ("truncated", 1, None, "row 1: truncated = None: must not be null"),
        ("step", 1, 2, "row 1: step = 2: must count 0, 1, 2"),
        ("episode", 4, 6, "row 3: action = 1: the episode's last row must be a closing row"),
        ("action", 4, 1, "row 4: action = 1: the episode's last row must be a closing row"),
        ("action", 1, -1, "row 1: action = -1: a closing row must be the last"),
    ],
)  # fmt: skip
def test_a_broken_value_is_refused_with_file_row_and_field(
    tmp_path: Path, field: str, row: int, value: object, message: str
) -> None:
    table = replaced(field, row, value)
    if field == "action" and value == -1:
        table = table.with_columns(propensity=pl.Series([0.9, None, None, 1.0, None]))
    if field == "action" and row == 4:
        table = table.with_columns(propensity=pl.Series([0.9, 0.05, None, 1.0, 1.0]))
    path = write_unchecked(tmp_path / "broken.parquet", table)
    with pytest.raises(ValueError, match=f"^broken.parquet: {message}"):
        read_transitions([path])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop("seed"), "columns = "),
        (lambda table: table.with_columns(pl.col("step").cast(pl.Int64)), "step: type Int64"),
        (
            lambda table: table.with_columns(pl.col("features").arr.to_list()),
            r"features: type List\(Float32\): must be Array",
        ),
        (lambda table: table[:0], "rows = 0"),
        (lambda table: table[:4], "row 3: action = 1: the episode's last row must be a closing"),
        (lambda table: table[[2, 3, 4]].with_columns(step=pl.lit(0, pl.Int32)), "row 0: action"),
        (lambda table: pl.concat([table, table]), "row 5: episode = 4: rows of an episode must be"),
    ],
    ids=["no seed", "type", "list", "empty", "no closing row", "no decision", "not contiguous"],
)
def test_a_broken_table_is_refused(
    tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    path = write_unchecked(tmp_path / "broken.parquet", change(TABLE))
    with pytest.raises(ValueError, match=f"^broken.parquet: {message}"):
        read_transitions([path])


def test_the_writer_refuses_a_broken_row_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^fifo\.parquet: row 0: propensity = 0\.0"):
        write_transitions(tmp_path / "fifo.parquet", replaced("propensity", 0, 0.0), SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_files_of_different_schemas_are_refused(tmp_path: Path) -> None:
    other = TransitionSchema(
        SCHEMA.encoder, SCHEMA.features[::-1], SCHEMA.actions, SCHEMA.reward_terms, ("fast",)
    )
    paths = [
        write_unchecked(tmp_path / "a.parquet", TABLE),
        write_unchecked(tmp_path / "b.parquet", TABLE, other),
    ]
    with pytest.raises(
        ValueError, match=r"^b\.parquet: features = .* must equal that of a\.parquet"
    ):
        read_transitions(paths)


def test_files_without_our_metadata_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no Parquet")
    TABLE.write_parquet(tmp_path / "plain.parquet")
    TABLE.write_parquet(tmp_path / "odd.parquet", metadata={METADATA_KEY: '{"encoder": "full"}'})
    with pytest.raises(ValueError, match=r"^text\.parquet: is not a Parquet file"):
        read_transitions([tmp_path / "text.parquet"])
    with pytest.raises(ValueError, match=r"^plain\.parquet: metadata lacks the key 'batchwright'"):
        read_transitions([tmp_path / "plain.parquet"])
    with pytest.raises(ValueError, match=r"^odd\.parquet: metadata 'batchwright' is not a transit"):
        read_transitions([tmp_path / "odd.parquet"])
    with pytest.raises(FileNotFoundError):
        read_transitions([tmp_path / "absent.parquet"])
    with pytest.raises(ValueError, match="paths"):
        read_transitions([])
