"""Everything the page shows, read and checked from what the other stages wrote."""

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.describe import from_json
from pipeline.calibration.fidelity import Fidelity
from pipeline.calibration.fidelity import from_json as fidelity_from_json
from pipeline.calibration.log import LoggedRun, read_logged_run
from pipeline.settings import Settings
from pipeline.validation.gate import Guard
from pipeline.validation.intervals import Interval
from pipeline.validation.scorecard import Scorecard, Standing
from pipeline.validation.tuning import TunedRule

Built = TypeVar("Built")


class LearnedAgent(NamedTuple):
    """An agent and its learning curve."""

    name: str
    kind: str  # offline or online
    description: dict[str, Any]  # agent.json
    curve: pl.DataFrame  # Float64 columns, null where a figure is absent


class Verdict(NamedTuple):
    """What to do."""

    winner: str | None
    best_rule: str
    sentence: str


class ReportInputs(NamedTuple):
    """What the page is made of."""

    warehouse: dict[str, Any]  # rows, columns and digests of each table
    sources: list[dict[str, Any]]  # rows of the table, `files` and `system` parsed
    rejects: pl.DataFrame
    run: LoggedRun  # the log that the simulator is calibrated to
    calibration: Calibration
    fidelity: Fidelity
    tuning_episodes: int
    rules: dict[str, TunedRule]
    agents: list[LearnedAgent]
    card: Scorecard
    verdict: Verdict


def read_inputs(settings: Settings, data: Path, reports: Path) -> ReportInputs:
    """Reads the folders `data` and `reports`.

    Raises FileNotFoundError or ValueError naming the file that is missing, empty or not as its
    stage writes it, or that does not agree with another.
    """
    tables = data / "tables"
    names = ("sources", "rejects", "requests", "batches")
    sources, rejects, *_ = (_read_table(tables / name) for name in names)
    tuning = _parsed(data / "heuristics.json", lambda told: told)
    card = _parsed(data / "scorecard.json", _scorecard)
    verdict = _parsed(data / "policies" / "verdict.json", lambda told: _built(Verdict, told))
    agents = [
        _read_agent(data / "agents" / name, name, kind)
        for kind, names in (("offline", settings.run.offline), ("online", settings.run.online))
        for name in names
    ]
    inputs = ReportInputs(
        _parsed(data / "warehouse.json", lambda told: dict(told["tables"])),
        _parsed_at("tables/sources", sources.to_dicts(), _sources),
        rejects,
        read_logged_run(tables, settings.calibration.source),
        _parsed(data / "calibration.json", from_json),
        _parsed(reports / "fidelity.json", fidelity_from_json),
        _parsed_at("heuristics.json", tuning, lambda told: int(told["episodes"])),
        _parsed_at("heuristics.json", tuning, _rules),
        agents,
        card,
        verdict,
    )
    _check_agreement(inputs)
    return inputs


def _present(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "missing; `dvc repro` writes it", str(path))
    if path.stat().st_size == 0:
        raise ValueError(f"{os.path.relpath(path)}: is empty; `dvc repro` writes it")
    return path


def _read_table(folder: Path) -> pl.DataFrame:
    files = sorted(folder.glob("*.parquet"))
    if not files:
        _present(folder / "*.parquet")
    try:
        return pl.read_parquet([_present(file) for file in files], glob=False)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"tables/{folder.name}: not readable as Parquet: {error}") from None


def _parsed(path: Path, build: Callable[[Any], Built]) -> Built:
    """What `build` makes of a JSON file; ValueError with its name where it cannot."""
    try:
        told = json.loads(_present(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: is not JSON: {error}") from None
    if not isinstance(told, dict) or not told:
        raise ValueError(f"{path.name}: is empty; `dvc repro` writes it")
    return _parsed_at(path.name, told, build)


def _parsed_at(name: str, told: Any, build: Callable[[Any], Built]) -> Built:
    try:
        return build(told)
    except KeyError as error:
        raise ValueError(f"{name}: lacks the key {error}") from None
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{name}: is not as its stage writes it: {error}") from None


def _built(schema: Callable[..., Built], told: dict[str, Any]) -> Built:
    """A named tuple of the keys that it has; others may stand beside them."""
    fields: tuple[str, ...] = schema._fields  # type: ignore[attr-defined]
    return schema(**{field: told[field] for field in fields})


def _sources(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "files": json.loads(row["files"]),
            "system": None if row["system"] is None else json.loads(row["system"]),
        }
        for row in rows
    ]


def _rules(told: dict[str, Any]) -> dict[str, TunedRule]:
    return {name: _built(TunedRule, values) for name, values in told["rules"].items()}


def _scorecard(told: dict[str, Any]) -> Scorecard:
    if not told["standings"]:
        raise ValueError("it has no standing")
    standings = [_standing(values) for values in told["standings"]]
    return _built(Scorecard, {**told, "standings": standings})


def _standing(told: dict[str, Any]) -> Standing:
    intervals = {name: _numbers(Interval, told[name]) for name in ("reward_per_s", "difference")}
    if not all(math.isfinite(interval.mean) for interval in intervals.values()):
        raise ValueError(f"a mean of {told['name']!r} is no number")
    guards = [_numbers(Guard, guard) for guard in told["guards"]]
    return _built(Standing, {**told, **intervals, "guards": guards})


def _numbers(schema: Callable[..., Built], told: dict[str, Any]) -> Built:
    """As `_built`; what JSON has as null was NaN."""
    return _built(schema, {key: math.nan if v is None else v for key, v in told.items()})


def _read_agent(folder: Path, name: str, kind: str) -> LearnedAgent:
    description = _parsed(folder / "agent.json", dict)
    shown = f"agents/{name}/curve.csv"
    try:
        curve = pl.read_csv(_present(folder / "curve.csv"), infer_schema_length=None)
        curve = curve.cast(pl.Float64).with_columns(
            pl.when(pl.all().is_finite()).then(pl.all()).otherwise(None)
        )
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{shown}: must hold numbers alone: {error}") from None
    if curve.is_empty() or "update" not in curve.columns:
        raise ValueError(f"{shown}: must have a column `update` and at least one row")
    return LearnedAgent(name, kind, description, curve)


def _check_agreement(inputs: ReportInputs) -> None:
    """Raises ValueError where files are of different runs."""
    card, verdict = inputs.card, inputs.verdict
    kinds = {standing.name: standing.kind for standing in card.standings}
    if verdict.best_rule != card.best_rule or kinds.get(card.best_rule) != "rule":
        raise ValueError(
            f"policies/verdict.json: best_rule = {verdict.best_rule!r}: scorecard.json says "
            f"{card.best_rule!r} of {sorted(kinds)}; run `dvc repro`"
        )
    if verdict.winner not in (None, card.winner):
        raise ValueError(
            f"policies/verdict.json: winner = {verdict.winner!r}: scorecard.json says "
            f"{card.winner!r}; run `dvc repro`"
        )
    for agent in inputs.agents:
        if kinds.get(agent.name) != agent.kind:
            raise ValueError(
                f"scorecard.json: has no {agent.kind} agent {agent.name!r} of the run; "
                "run `dvc repro`"
            )
