"""The fidelity of a simulator in lines for the terminal."""

from itertools import groupby

from pipeline.calibration.fidelity.bands import ALL_BANDS
from pipeline.calibration.fidelity.compare import BATCH_SIZE, DISTANCE, THROUGHPUT, FidelityRow
from pipeline.calibration.fidelity.gate import TITLES, error_text
from pipeline.calibration.fidelity.report import Fidelity

_SHOWN = ("p50", "p95", "p99")


def describe_fidelity(fidelity: Fidelity) -> list[str]:
    """How the log was replayed, then a line for each class and load band with its errors."""
    at = ", ".join(f"{name} {size}" for name, size in fidelity.at_batch_size.items())
    shares = ", ".join(f"{band.name} {band.share:.0%} of the time" for band in fidelity.bands)
    policy = fidelity.policy
    lines = [
        f"replayed {fidelity.replays} times under {policy.rule} ({policy.method}); offered load at "
        f"batch size {at}: {shares or 'one band'}; errors with 95 % intervals"
    ]
    for (name, band), members in groupby(fidelity.rows, lambda row: (row.request_class, row.band)):
        told = list(members)
        load = "all loads" if band == ALL_BANDS else f"load {band}"
        figures = ", ".join(figure for row in told for figure in _figure(row))
        lines.append(f"{name}, {load} ({told[0].requests:,} requests): {figures}")
    return lines


def _figure(row: FidelityRow) -> list[str]:
    """The error in words; nothing for a statistic that has no room here."""
    if row.metric == THROUGHPUT:
        return [f"throughput {error_text(row)}"]
    if row.metric == BATCH_SIZE:
        if row.statistic == DISTANCE:
            return [f"batch sizes {row.error:.1%} apart"]
        return [f"mean batch size {error_text(row)}"]
    if row.statistic not in _SHOWN:
        return []
    return [f"{TITLES.get(row.metric, '')}{row.statistic.upper()} {error_text(row)}"]
