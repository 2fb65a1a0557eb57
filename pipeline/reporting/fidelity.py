"""How well the calibrated simulator retells the log, by class and load band."""

import math
from itertools import groupby

from pipeline.calibration.fidelity import ALL_BANDS, FidelityRow, Gate, Judgment, judged
from pipeline.reporting.charts import specification
from pipeline.reporting.error_chart import error_chart
from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.markup import (
    Column,
    Html,
    chart,
    details,
    element,
    join,
    section,
    table,
)
from pipeline.reporting.quantile_chart import METRICS, quantile_chart
from pipeline.reporting.text import (
    ABSENT,
    count,
    milliseconds,
    percent,
    plural,
    rule_in_words,
    signed_percent,
)

_STATISTICS = {"mean": "mean", "p50": "P50", "p95": "P95", "p99": "P99"}
_JUDGMENTS = {Judgment.HOLDS: "yes", Judgment.UNSURE: "not surely beyond", Judgment.FAILS: "no"}


def fidelity_section(inputs: ReportInputs) -> Html:
    """Logged against simulated times, throughput and batch sizes."""
    fidelity = inputs.fidelity
    metrics = list(dict.fromkeys(row.metric for row in fidelity.rows if row.metric in METRICS))
    return section(
        "fidelity",
        "Fidelity",
        element("p", _status(inputs), class_="status good" if fidelity.passed else "status bad"),
        element("p", _replayed(inputs)),
        element("p", _judged(inputs)),
        _error_figure(inputs),
        *(_error_table(inputs, metric) for metric in metrics),
        _flow_table(inputs),
        _quantile_figure(inputs),
        _every_row(inputs),
    )


def _status(inputs: ReportInputs) -> str:
    gate, rows = inputs.fidelity.gate, inputs.fidelity.rows
    found = [judged(row, gate) for row in rows]
    asked = sum(judgment != Judgment.NOT_ASKED for judgment in found)
    failed, unsure = found.count(Judgment.FAILS), found.count(Judgment.UNSURE)
    if not inputs.fidelity.passed:
        return f"Failed: {failed} of {asked} errors are surely beyond their tolerance."
    beyond = f" {unsure} of {asked} are beyond it, but perhaps by chance." if unsure else ""
    return f"Passed: no error is surely beyond its tolerance.{beyond}"


def _replayed(inputs: ReportInputs) -> str:
    fidelity = inputs.fidelity
    policy = fidelity.policy
    rule = rule_in_words(policy.rule, policy.parameters)
    mixed = f", mixed with {percent(policy.epsilon, 0)} chance" if policy.epsilon else ""
    again = "once" if fidelity.replays == 1 else f"{fidelity.replays} times"
    sizes = " and ".join(f"{size} ({name})" for name, size in fidelity.at_batch_size.items())
    shares = "; ".join(
        f"{band.name}: {percent(band.share, 0)} of the time"
        + (f", mean {band.offered_load:.2f}" if math.isfinite(band.offered_load) else "")
        for band in fidelity.bands
    )
    return (
        f"The logged arrivals were replayed {again} in the simulator under the policy of the log: "
        f"{rule}{mixed} ({policy.method}). The load of a window of 5 s is the service time of "
        f"what arrives in it over the time of the replicas, at batch size {sizes}. {shares}."
    )


def _judged(inputs: ReportInputs) -> str:
    fidelity = inputs.fidelity
    return (
        "An error is simulated over logged, less 1; the simulated figure is the median over the "
        "replays. Its 95 % interval covers the chance in the log and in one replay, by resampling "
        f"blocks of {fidelity.block_s:.0f} s. The gate fails an error whose whole interval lies "
        "beyond the tolerance, over the whole log and in every band with at least "
        f"{plural(fidelity.min_requests, 'request')} of the class: a short log has wide intervals "
        "and may pass for that alone."
    )


def _error_figure(inputs: ReportInputs) -> Html:
    gate = inputs.fidelity.gate
    rows = [row for row in inputs.fidelity.rows if row.metric == "response_s"]
    bands = list(dict.fromkeys(row.band for row in rows))
    drawn = [
        {
            "request_class": row.request_class,
            "band": _load(row.band),
            "statistic": _STATISTICS[row.statistic],
            **{
                key: 100.0 * value if math.isfinite(value) else None
                for key, value in (("error", row.error), ("low", row.low), ("high", row.high))
            },
            "limit": 100.0 * (gate.limit(row) or 0.0),
        }
        for row in rows
    ]
    told = "; ".join(
        f"{row.request_class} {_STATISTICS[row.statistic]} {_with_interval(row)}"
        for row in rows
        if row.band == ALL_BANDS
    )
    spec = error_chart(drawn, [_load(band) for band in bands], list(_STATISTICS.values()))
    return chart(
        "fidelity",
        specification(spec),
        f"Errors of response times with intervals, over all loads: {told}.",
        "Errors of response times by class and load band, with 95 % intervals; those that reach "
        "out of a panel are cut off at its edge. Gray: the tolerance.",
    )


def _quantile_figure(inputs: ReportInputs) -> Html:
    names = ", ".join(inputs.fidelity.at_batch_size)
    return chart(
        "quantiles",
        specification(quantile_chart(inputs.fidelity, 1000)),
        f"Simulated over logged quantiles of the classes {names} by load band, with a diagonal on "
        "which both agree. The tables above have the percentiles.",
        "Quantiles from 1 % up to where five logged requests lie beyond, on log axes.",
    )


def _load(band: str) -> str:
    return "all loads" if band == ALL_BANDS else f"load {band}"


def _error_table(inputs: ReportInputs, metric: str) -> Html:
    gate = inputs.fidelity.gate
    columns = [Column("Class"), Column("Load"), Column("Requests", numeric=True)]
    columns += [
        Column(f"{title} (±{percent(gate.tolerance.get(statistic), 0)})", numeric=True)
        for statistic, title in _STATISTICS.items()
    ]
    members = [row for row in inputs.fidelity.rows if row.metric == metric]
    rows = []
    for (name, band), group in groupby(members, lambda row: (row.request_class, row.band)):
        found = {row.statistic: row for row in group}
        requests = count(max(row.requests for row in found.values()))
        errors = [_cell(found[statistic], gate) for statistic in _STATISTICS]
        rows.append([name, _load(band), requests, *errors])
    return table(
        f"Errors of {METRICS[metric]} with 95 % intervals; red where surely beyond the tolerance",
        columns,
        rows,
    )


def _cell(row: FidelityRow, gate: Gate) -> str:
    told = _with_interval(row)
    judgment = judged(row, gate)
    if judgment == Judgment.FAILS:
        return element("strong", told, class_="bad")
    return join([told, " (?)"]) if judgment == Judgment.UNSURE else told


def _with_interval(row: FidelityRow) -> str:
    if math.isnan(row.low):
        return signed_percent(row.error)
    return (
        f"{signed_percent(row.error)} [{signed_percent(row.low, 0)}, {signed_percent(row.high, 0)}]"
    )


def _flow_table(inputs: ReportInputs) -> Html:
    """Throughput and batch sizes."""
    columns = [Column("Class"), Column("Load")]
    for group, titles in {
        "Throughput (requests/s)": ("Logged", "Simulated", "Error"),
        "Mean batch size": ("Logged", "Simulated", "Error"),
        "Batch sizes": ("Distance",),
    }.items():
        columns += [Column(title, numeric=True, group=group) for title in titles]
    members = [row for row in inputs.fidelity.rows if row.metric not in METRICS]
    rows = []
    for (name, band), told in groupby(members, lambda row: (row.request_class, row.band)):
        found = {(row.metric, row.statistic): row for row in told}
        cells = [name, _load(band)]
        for key in (("throughput_rps", "mean"), ("batch_size", "mean")):
            row = found.get(key)
            cells += [ABSENT] * 3 if row is None else _flow(row, inputs.fidelity.gate)
        distance = found.get(("batch_size", "distance"))
        cells.append(ABSENT if distance is None else percent(distance.error))
        rows.append(cells)
    note = (
        "The distance is half the sum of the differences between the shares of batches by size: "
        "0 % where both agree, 100 % where they have no size in common."
    )
    return join(
        [table("Throughput and batch sizes", columns, rows), element("p", note, class_="note")]
    )


def _flow(row: FidelityRow, gate: Gate) -> list[str]:
    return [f"{row.logged:.2f}", f"{row.simulated:.2f}", _cell(row, gate)]


def _every_row(inputs: ReportInputs) -> Html:
    gate = inputs.fidelity.gate
    columns = [
        Column("Class"),
        Column("Load"),
        Column("Time"),
        Column("Statistic"),
        *(
            Column(title, numeric=True)
            for title in ("Requests", "Logged", "Simulated", "Error", "Tolerance")
        ),
        Column("Within"),
    ]
    rows = [
        [
            row.request_class,
            _load(row.band),
            METRICS[row.metric],
            _STATISTICS[row.statistic],
            count(row.requests),
            milliseconds(row.logged),
            milliseconds(row.simulated),
            _with_interval(row),
            f"±{percent(gate.limit(row), 0)}",
            _JUDGMENTS.get(judged(row, gate), ABSENT),
        ]
        for row in inputs.fidelity.rows
        if row.metric in METRICS
    ]
    return details("Every figure", table("Logged and simulated times", columns, rows))
