"""Which errors are too large to go on, and the sentences that say so."""

import math
from enum import StrEnum
from typing import NamedTuple

from pipeline.calibration.fidelity.bands import ALL_BANDS
from pipeline.calibration.fidelity.compare import BATCH_SIZE, THROUGHPUT, FidelityRow

TITLES = {"response_s": "", "ttft_s": "TTFT ", "tpot_s": "TPOT "}


class Gate(NamedTuple):
    """Largest relative error of each statistic of a time (mean, p50, ..) and of `throughput`."""

    tolerance: dict[str, float]
    min_requests: int  # of a class in a load band, below which the band cannot stop a run

    def limit(self, row: FidelityRow) -> float | None:
        """The tolerance of a row; None: none is asked."""
        if row.metric == BATCH_SIZE:
            return None
        return self.tolerance.get("throughput" if row.metric == THROUGHPUT else row.statistic)


class Judgment(StrEnum):
    """What the gate says of a row."""

    HOLDS = "within"
    UNSURE = "beyond, not surely"  # the error is beyond the tolerance, its interval reaches inside
    FAILS = "beyond"
    NOT_ASKED = "not asked"


def judged(row: FidelityRow, gate: Gate) -> Judgment:
    """An error fails if its whole interval lies beyond the tolerance.

    So a log that is too short to tell does not stop a run; it is UNSURE, and a warning. Where no
    interval can be told, the error itself decides over the whole log, and nothing fails in a band.
    """
    limit = gate.limit(row)
    if limit is None:
        return Judgment.NOT_ASKED
    if abs(row.error) <= limit:
        return Judgment.HOLDS
    whole = row.band == ALL_BANDS
    if not whole and row.requests < gate.min_requests:
        return Judgment.UNSURE
    if math.isnan(row.error):  # nothing simulated, or nothing logged
        return Judgment.FAILS
    if math.isnan(row.low):
        return Judgment.FAILS if whole else Judgment.UNSURE
    return Judgment.FAILS if row.low > limit or row.high < -limit else Judgment.UNSURE


def fidelity_failures(rows: list[FidelityRow], gate: Gate) -> list[str]:
    """A sentence for each row whose error is surely too large."""
    return [_miss(row, gate) for row in rows if judged(row, gate) == Judgment.FAILS]


def fidelity_warnings(rows: list[FidelityRow], gate: Gate) -> list[str]:
    """A sentence for each row whose error is beyond the tolerance, but perhaps by chance."""
    return [_miss(row, gate) for row in rows if judged(row, gate) == Judgment.UNSURE]


def _miss(row: FidelityRow, gate: Gate) -> str:
    where = "" if row.band == ALL_BANDS else f" at load {row.band}"
    if row.metric == THROUGHPUT:
        what, logged, simulated = (
            "throughput",
            f"{row.logged:.2f} requests/s",
            f"{row.simulated:.2f} requests/s",
        )
    else:
        statistic = row.statistic if row.statistic == "mean" else row.statistic.upper()
        what = f"{TITLES.get(row.metric, row.metric)}{statistic}"
        logged, simulated = f"{row.logged * 1e3:.1f} ms", f"{row.simulated * 1e3:.1f} ms"
    return (
        f"{row.request_class} {what}{where}: logged {logged}, simulated {simulated}, "
        f"error {error_text(row)} against a tolerance of {gate.limit(row):.0%}"
    )


def error_text(row: FidelityRow) -> str:
    """`+12.3% [-4%, +20%]`, without the interval where there is none."""
    if math.isnan(row.low):
        return f"{row.error:+.1%}"
    return f"{row.error:+.1%} [{row.low:+.0%}, {row.high:+.0%}]"
