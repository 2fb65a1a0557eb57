"""How the simulator was fitted to the log, and how well it then retells the log."""

from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.fidelity import ALL_BANDS, FidelityRow
from pipeline.reporting.charts import fidelity_chart, service_chart, specification
from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.markup import Column, Html, chart, element, section, table
from pipeline.reporting.text import count, milliseconds, percent, signed_percent

_SIZES = 24  # total sizes that are drawn one by one; more are put into as many bins
_LOW, _HIGH = 0.1, 0.9  # quantiles of the measured spread


def calibration_section(inputs: ReportInputs) -> Html:
    """The fitted service times against the measured ones."""
    return section(
        "calibration",
        "Calibration fit",
        element(
            "p",
            "A batch of b requests takes L(b) = alpha + beta * b on average, times noise. The "
            "line is fitted to the train split; the held-out error is the mean relative error on "
            "the batches after it.",
        ),
        _fit_table(inputs),
        element("p", _spells(inputs.calibration)),
        _service_figure(inputs),
    )


def _spells(calibration: Calibration) -> str:
    """How the noise of one batch goes with that of the next, in words."""
    share, time_s = calibration.spells
    if share == 0.0:
        return "The noise is independent from batch to batch."
    return (
        f"{share:.0%} of the noise comes in spells: batches within about {time_s * 1e3:.0f} ms of "
        "each other, on any replica, tend to be slow together."
    )


def _fit_table(inputs: ReportInputs) -> Html:
    calibration = inputs.calibration
    columns = [
        Column("Replica"),
        Column("Class"),
        Column("Alpha (fixed)", numeric=True),
        Column("Beta (per request)", numeric=True),
        Column("CV of noise", numeric=True),
        Column("Batches fitted", numeric=True),
        Column("Batches held out", numeric=True),
        Column("Held-out error", numeric=True),
        Column("Held-out bias", numeric=True),
    ]
    rows = [
        [
            f"{replica} (all pooled)" if cell.pooled else f"{replica}",
            name,
            milliseconds(cell.fit.alpha_s),
            milliseconds(cell.fit.beta_s),
            f"{cell.fit.noise_cv:.3f}",
            count(cell.fit.batches),
            count(cell.held_out_batches),
            percent(cell.held_out_error),
            signed_percent(cell.held_out_bias),
        ]
        for replica, cells in enumerate(calibration.service)
        for name, cell in zip(calibration.class_names, cells, strict=True)
    ]
    return table("Fitted service times by replica and class", columns, rows)


def _service_figure(inputs: ReportInputs) -> Html:
    names = inputs.calibration.class_names
    replicas = [f"replica {number}" for number in range(len(inputs.calibration.service))]
    measured = measured_latency(inputs)
    if any(row["replica"] not in replicas for row in measured):
        replicas.append("replica not logged")
    rows = _expected(inputs, measured) + measured
    return chart(
        "service",
        specification(service_chart(rows, replicas, names)),
        "Line charts of expected batch latency by batch size for the classes "
        f"{', '.join(names)}, one line for each replica, with measured means as points and their "
        "spread as bars. The table above has the coefficients.",
        "Lines: expected L(b). Points: measured mean of all logged batches of that size, bars: "
        f"from the {_LOW:.0%} to the {_HIGH:.0%} quantile; replicas are drawn side by side. The "
        "size of a batch is the sum of the sizes of its requests.",
    )


def measured_latency(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Mean and spread of the measured latency by class, replica and total size of the batch."""
    batches, names = inputs.run.batches, inputs.calibration.class_names
    frame = pl.DataFrame(
        {
            "replica": batches.replica,
            "request_class": batches.request_class,
            "total_size": batches.total_size.astype(float),
            "service_ms": batches.service_s * 1e3,
        }
    ).with_columns(pl.col("total_size").alias("bin"))
    if frame["bin"].n_unique() > _SIZES:
        width = np.ptp(batches.total_size) / _SIZES
        frame = frame.with_columns((pl.col("bin") / width).floor())
    replicas = len(inputs.calibration.service)
    widest = float(batches.total_size.max())
    found = (
        frame.group_by("request_class", "replica", "bin")
        .agg(
            pl.col("total_size").mean(),
            pl.col("service_ms").mean().alias("mean_ms"),
            pl.col("service_ms").quantile(_LOW, "linear").alias("low_ms"),
            pl.col("service_ms").quantile(_HIGH, "linear").alias("high_ms"),
            pl.len().alias("batches"),
        )
        .sort("request_class", "replica", "bin")
    )
    return [
        {
            **{key: row[key] for key in ("total_size", "mean_ms", "low_ms", "high_ms", "batches")},
            "request_class": names[row["request_class"]],
            "replica": f"replica {row['replica']}" if row["replica"] >= 0 else "replica not logged",
            "shown_size": row["total_size"]
            + (row["replica"] - (replicas - 1) / 2) * 0.012 * widest,
        }
        for row in found.to_dicts()
    ]


def _expected(inputs: ReportInputs, measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The two ends of each line: the smallest and the largest batch of the class."""
    rows = []
    for replica, cells in enumerate(inputs.calibration.service):
        for name, cell in zip(inputs.calibration.class_names, cells, strict=True):
            sizes = [row["total_size"] for row in measured if row["request_class"] == name]
            for size in (min(sizes, default=1.0), max(sizes, default=1.0)):
                rows.append(
                    {
                        "request_class": name,
                        "replica": f"replica {replica}",
                        "shown_size": size,
                        "expected_ms": (cell.fit.alpha_s + cell.fit.beta_s * size) * 1e3,
                    }
                )
    return rows


def fidelity_section(inputs: ReportInputs) -> Html:
    """Logged against simulated response times, over all and by load band."""
    fidelity = inputs.fidelity
    overall = [row for row in fidelity.rows if row.band == ALL_BANDS]
    bands = [row for row in fidelity.rows if row.band != ALL_BANDS]
    missed = [row for row in overall if not _holds(row, fidelity.tolerance)]
    if fidelity.passed:
        told = "Passed: every percentile of every class is within its tolerance."
    else:
        told = f"Failed: {len(missed)} of {len(overall)} percentiles miss the log by more than "
        told += "their tolerance."
    return section(
        "fidelity",
        "Fidelity",
        element("p", told, class_="status good" if fidelity.passed else "status bad"),
        element(
            "p",
            "The logged arrivals were replayed in the simulator under the policy that ran while "
            "the log was recorded. Response times should come out as logged.",
        ),
        _fidelity_figure(inputs, overall),
        _overall_table(overall, fidelity.tolerance),
        element("h3", "By load"),
        element(
            "p",
            "The log is cut into windows of 5 s, and these into thirds by the work that arrives. "
            "The tolerance is asked of the whole log only; the bands show at which load the "
            "simulator is weakest.",
        ),
        _band_table(bands, fidelity.tolerance),
    )


def _holds(row: FidelityRow, tolerance: dict[int, float]) -> bool:
    return abs(row.error) <= tolerance[row.percentile]


def _fidelity_figure(inputs: ReportInputs, overall: list[FidelityRow]) -> Html:
    rows = []
    for row in overall:
        limit = inputs.fidelity.tolerance[row.percentile]
        rows.append(
            {
                "request_class": row.request_class,
                "percentile": f"P{row.percentile}",
                "logged": row.logged_s * 1e3,
                "simulated": row.simulated_s * 1e3,
                "low_ms": row.logged_s * max(0.0, 1.0 - limit) * 1e3,
                "high_ms": row.logged_s * (1.0 + limit) * 1e3,
            }
        )
    percentiles = [f"P{percentile}" for percentile in sorted(inputs.fidelity.tolerance)]
    told = "; ".join(
        f"{row.request_class} P{row.percentile} {milliseconds(row.logged_s)} logged and "
        f"{milliseconds(row.simulated_s)} simulated"
        for row in overall
    )
    return chart(
        "fidelity",
        specification(fidelity_chart(rows, inputs.calibration.class_names, percentiles)),
        f"Logged and simulated response times: {told}.",
        "A simulated percentile within the gray band, the tolerance around the logged one, is "
        "close enough.",
    )


def _overall_table(overall: list[FidelityRow], tolerance: dict[int, float]) -> Html:
    columns = [
        Column("Class"),
        Column("Percentile"),
        Column("Requests", numeric=True),
        Column("Logged", numeric=True),
        Column("Simulated", numeric=True),
        Column("Error", numeric=True),
        Column("Tolerance", numeric=True),
        Column("Within"),
    ]
    rows = [
        [
            row.request_class,
            f"P{row.percentile}",
            count(row.requests),
            *_figures(row, tolerance),
            f"±{percent(tolerance[row.percentile], 0)}",
            "yes" if _holds(row, tolerance) else element("strong", "no", class_="bad"),
        ]
        for row in overall
    ]
    return table("Response times over the whole log", columns, rows)


def _band_table(bands: list[FidelityRow], tolerance: dict[int, float]) -> Html:
    columns = [Column("Class"), Column("Load band"), Column("Requests", numeric=True)]
    for percentile, limit in sorted(tolerance.items()):
        group = f"P{percentile}, tolerance ±{percent(limit, 0)}"
        titles = ("Logged", "Simulated", "Error")
        columns += [Column(title, numeric=True, group=group) for title in titles]
    rows = []
    for (name, band), members in groupby(bands, lambda row: (row.request_class, row.band)):
        found = {row.percentile: row for row in members}
        row = [name, band, count(max(member.requests for member in found.values()))]
        for percentile in sorted(tolerance):
            row += _figures(found[percentile], tolerance)
        rows.append(row)
    return table("Response times by load band; errors beyond the tolerance in red", columns, rows)


def _figures(row: FidelityRow, tolerance: dict[int, float]) -> list[str]:
    error = signed_percent(row.error)
    return [
        milliseconds(row.logged_s),
        milliseconds(row.simulated_s),
        error if _holds(row, tolerance) else element("strong", error, class_="bad"),
    ]
