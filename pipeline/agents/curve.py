"""The learning curve: one row an update, and its file."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.files import write_atomically

CURVE_FILE = "curve.csv"


class Losses(NamedTuple):
    """Means over the gradient steps of one update; None where the algorithm has no such figure."""

    policy_loss: float
    value_loss: float
    entropy: float  # nats
    approximate_kl: float | None  # nats, from the policy that collected to the one that learns
    clip_fraction: float | None


class CurveRow(NamedTuple):
    """One update of a training."""

    update: int  # from 1
    steps: int  # decisions so far, all lanes
    episodes: int  # that ended in this update's rollout
    return_mean: float | None  # undiscounted reward of those, None where there were none
    policy_loss: float
    value_loss: float
    entropy: float
    approximate_kl: float | None
    clip_fraction: float | None
    explained_variance: float  # of the returns by the value network, before the update
    validation: float | None  # what the validation callback returned, where it was due


def write_curve(folder: Path, curve: Sequence[CurveRow]) -> None:
    """Write curve.csv of an online agent into its folder."""
    write_rows(folder, [row._asdict() for row in curve])


def write_rows(folder: Path, rows: Sequence[Mapping[str, float | int | None]]) -> None:
    """Write curve.csv: the keys of the first row as header, 9 digits, empty cells for None.

    Raises ValueError where there is no row, or one has other keys.
    """
    if not rows:
        raise ValueError("curve: has no row")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        if row.keys() != rows[0].keys():
            raise ValueError(f"curve: keys {sorted(row)}: must be {sorted(rows[0])}")
        writer.writerow({k: f"{v:.9g}" if isinstance(v, float) else v for k, v in row.items()})
    write_atomically(folder / CURVE_FILE, text.getvalue().encode())
