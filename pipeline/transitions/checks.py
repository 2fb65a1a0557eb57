"""The rules that every row of a transitions file obeys. Nothing is repaired: a breach is named."""

import numpy as np
import polars as pl

from pipeline.transitions.schema import CLOSING_ACTION, TransitionSchema


class _Rows:
    """Refuses rows of one file by name: ValueError with file, row (from 0), field, value, rule."""

    def __init__(self, file: str, table: pl.DataFrame) -> None:
        self.file, self.table = file, table

    def refuse(self, broken: np.ndarray, field: str, rule: str) -> None:
        """Raise for the first row where `broken [R]` is True, if there is one."""
        if broken.any():
            row = int(np.argmax(broken))
            value = self.table[field][row]
            shown = value.to_list() if isinstance(value, pl.Series) else value
            raise ValueError(f"{self.file}: row {row}: {field} = {shown!r}: {rule}")


def check_transitions(table: pl.DataFrame, schema: TransitionSchema, file: str) -> None:
    """Raise ValueError naming `file`, row (from 0) and field where the table breaks a rule.

    Columns and types as the schema says; no null but a closing row's propensity; finite numbers;
    legal actions with propensities in (0, 1]; whole episodes, each ended by one closing row.
    """
    _check_columns(table, schema, file)
    if table.is_empty():
        raise ValueError(f"{file}: rows = 0: needs at least one episode")
    rows = _Rows(file, table)
    _check_nulls(rows)
    _check_numbers(rows, schema)
    _check_actions(rows)
    _check_episodes(rows)
    _check_endings(rows, schema)


def _check_columns(table: pl.DataFrame, schema: TransitionSchema, file: str) -> None:
    expected, found = schema.columns(), table.schema
    if list(found) != list(expected):
        raise ValueError(f"{file}: columns = {list(found)}: must be {list(expected)}")
    for field, dtype in expected.items():
        if found[field] != dtype:
            raise ValueError(f"{file}: {field}: type {found[field]}: must be {dtype}")


def _check_nulls(rows: _Rows) -> None:
    for field in rows.table.columns:
        if field != "propensity":
            rows.refuse(rows.table[field].is_null().to_numpy(), field, "must not be null")
    for field in ("features", "action_mask"):
        column = rows.table[field]
        if column.explode().null_count():
            inner = column.arr.to_list().list.eval(pl.element().is_null()).list.any()
            rows.refuse(inner.to_numpy(), field, "must hold no null")


def _check_numbers(rows: _Rows, schema: TransitionSchema) -> None:
    finite = np.isfinite(rows.table["features"].to_numpy())
    if not finite.all():
        row, number = np.argwhere(~finite)[0]
        name, value = schema.features[number].name, rows.table["features"][int(row)][int(number)]
        raise ValueError(f"{rows.file}: row {row}: features.{name} = {value}: must be finite")
    for field in ("clock_s", "holding_s", *schema.reward_terms):
        rows.refuse(~np.isfinite(rows.table[field].to_numpy()), field, "must be finite")
    negative = (rows.table["holding_s"] < 0).to_numpy()
    rows.refuse(negative, "holding_s", "must be at least 0")


def _check_actions(rows: _Rows) -> None:
    action = rows.table["action"].to_numpy()
    mask = rows.table["action_mask"].to_numpy()
    actions = mask.shape[1]
    closing = action == CLOSING_ACTION
    outside = (action < CLOSING_ACTION) | (action >= actions)
    rows.refuse(outside, "action", f"must be 0 to {actions - 1}, or -1 in a closing row")
    # Also in closing rows: the bootstrap takes a maximum over the legal actions.
    rows.refuse(np.logical_not(mask.any(axis=1)), "action_mask", "needs at least one legal action")
    legal = mask[np.arange(len(action)), action]
    rows.refuse(~closing & ~legal, "action", "must be legal under action_mask")
    propensity = rows.table["propensity"].to_numpy()  # NaN where null
    inside = (propensity > 0) & (propensity <= 1)
    rows.refuse(~closing & ~inside, "propensity", "must be in (0, 1] where a decision was made")
    stated = rows.table["propensity"].is_not_null().to_numpy()
    rows.refuse(closing & stated, "propensity", "must be null in a closing row")


def _check_episodes(rows: _Rows) -> None:
    run, episode = rows.table["run"].to_numpy(), rows.table["episode"].to_numpy()
    closing = rows.table["action"].to_numpy() == CLOSING_ACTION
    starts = np.ones(len(run), bool)
    starts[1:] = (run[1:] != run[:-1]) | (episode[1:] != episode[:-1])
    ends = np.append(starts[1:], True)
    rows.refuse(ends & ~closing, "action", "the episode's last row must be a closing row, -1")
    rows.refuse(closing & ~ends, "action", "a closing row must be the last of its episode")
    rows.refuse(starts & closing, "action", "an episode needs at least one decision")
    first = np.flatnonzero(starts)
    pairs = np.stack([run[first], episode[first]], axis=1)
    _, unique = np.unique(pairs, axis=0, return_index=True)
    returns = np.zeros(len(run), bool)
    returns[np.delete(first, unique)] = True
    rows.refuse(returns, "episode", "rows of an episode must be contiguous: it came before")
    expected = np.arange(len(run)) - np.repeat(first, np.diff(np.append(first, len(run))))
    step = rows.table["step"].to_numpy()
    rows.refuse(step != expected, "step", "must count 0, 1, 2, ... within the episode")


def _check_endings(rows: _Rows, schema: TransitionSchema) -> None:
    terminated = rows.table["terminated"].to_numpy()
    truncated = rows.table["truncated"].to_numpy()
    closing = rows.table["action"].to_numpy() == CLOSING_ACTION
    rows.refuse(terminated & truncated, "truncated", "must not go with terminated")
    last = np.append(closing[1:], False)  # the last decision of an episode
    ended = terminated | truncated
    rows.refuse(last & ~ended, "truncated", "a last decision is terminated or truncated")
    for field in ("terminated", "truncated"):
        early = rows.table[field].to_numpy() & ~last
        rows.refuse(early, field, "must be false before the last decision and in a closing row")
    for field in ("holding_s", *schema.reward_terms):
        nonzero = closing & (rows.table[field].to_numpy() != 0)
        rows.refuse(nonzero, field, "must be 0 in a closing row")
