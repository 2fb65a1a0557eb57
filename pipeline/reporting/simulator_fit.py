"""How the simulator was fitted to the log."""

from typing import Any

import numpy as np
import polars as pl

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.log import LoggedBatches
from pipeline.calibration.replica_service import CalibratedService
from pipeline.calibration.tokens.fit import TokenFit
from pipeline.reporting.charts import service_chart, specification
from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.markup import Column, Html, chart, element, section, table
from pipeline.reporting.text import count, milliseconds, percent, shortened, signed_percent

_SIZES = 24  # total sizes that are drawn one by one; more are put into as many bins
_TABLE_POINTS = 33  # at which a measured table is drawn
_LOW, _HIGH = 0.1, 0.9  # quantiles of the measured spread


def calibration_section(inputs: ReportInputs) -> Html:
    """What was fitted to the log, and how sure it is."""
    calibration = inputs.calibration
    if calibration.tokens is not None:
        fitted = [_token_table(calibration.tokens)]
    else:
        fitted = [_fit_table(inputs), _service_figure(inputs)]
    return section(
        "calibration",
        "Calibration fit",
        element("p", _model(calibration)),
        _facts(calibration),
        *fitted,
    )


def _model(calibration: Calibration) -> str:
    if calibration.tokens is not None:
        return (
            "The log is of continuous batching: an iteration takes t0 + t_prefill * prefill tokens "
            "+ t_decode * sequences decoding + t_kv * tokens of their context."
        )
    return (
        "A batch of b requests takes L(b) = alpha + beta * b on average, times noise; a measured "
        "table takes the place of the line where that does not fit. The train split is fitted; "
        "the held-out error is the mean relative error on the batches after it. Intervals are of "
        "95 %, by resampling blocks of time."
    )


def _facts(calibration: Calibration) -> Html:
    """A line on each part of the calibration that is there."""
    told = {"Batches": calibration.batches_from}
    if calibration.tokens is None:
        told["Noise"] = _noise(calibration)
        tables = _tables(calibration)
        if tables:
            told["Measured tables"] = tables
    if calibration.arrival_model is not None:
        model = calibration.arrival_model
        rate, cv = model.rate_rps, model.interarrival_cv
        told["Arrivals"] = (
            f"{model.name}, {rate.value:.4g} requests/s [{rate.low:.4g}, {rate.high:.4g}]"
            + (f", CV of gaps {cv.value:.2f} [{cv.low:.2f}, {cv.high:.2f}]; " if cv.value else "; ")
            + model.why
        )
    if calibration.mix:
        told["Class mix"] = ", ".join(
            f"{mix.name} {percent(mix.share.share)} [{percent(mix.share.low)}, "
            f"{percent(mix.share.high)}]"
            for mix in calibration.mix
        )
    if calibration.policy is not None:
        policy = calibration.policy
        told["Policy of the log"] = f"{policy.rule}, {policy.method}; {policy.text}"
    if calibration.cold_starts is not None:
        starts = calibration.cold_starts
        low_s, high_s = starts.mean_interval_s
        told["Cold starts"] = (
            f"{starts.cold_start_s:.3g} s [{low_s:.3g}, {high_s:.3g}], CV {starts.cv:.2f}, "
            f"{starts.distribution}; {count(starts.starts)} measured"
        )
    if calibration.assumed:
        told["Assumed"] = "; ".join(calibration.assumed)
    rows = [[what, text] for what, text in told.items()]
    return table("What was fitted", [Column("Part"), Column("As found")], rows)


def _noise(calibration: Calibration) -> str:
    """How the noise of one batch goes with that of the next, in words."""
    path = calibration.noise_path
    if path.exists:
        return (
            f"resampled from the path of {count(len(path.z))} measured batches, in the order of "
            "time: slow spells come as often and last as long as in the log, but do not know the "
            "load"
        )
    share, time_s = calibration.spells
    if share == 0.0:
        return "independent from batch to batch"
    return (
        f"{share:.0%} of it comes in spells: batches within about {time_s * 1e3:.0f} ms of each "
        "other, on any replica, tend to be slow together"
    )


def _tables(calibration: Calibration) -> str:
    """Where a table was chosen, and why."""
    return "; ".join(
        f"replica {replica} {name}: {cell.latency.reason}"
        for replica, cells in enumerate(calibration.service)
        for name, cell in zip(calibration.class_names, cells, strict=True)
        if cell.latency is not None and cell.latency.kind == "table"
    )


def _fit_table(inputs: ReportInputs) -> Html:
    calibration = inputs.calibration
    columns = [
        Column("Replica"),
        Column("Class"),
        Column("Alpha (fixed)", numeric=True),
        Column("Beta (per request)", numeric=True),
        Column("L(b)"),
        Column("Noise"),
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
            *_coefficients(cell),
            "line" if cell.latency is None else cell.latency.kind,
            _noise_kind(calibration, cell),
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


def _coefficients(cell: CalibratedService) -> list[str]:
    """Alpha and beta with their intervals."""
    values_s = (cell.fit.alpha_s, cell.fit.beta_s)
    if cell.intervals is None:
        return [milliseconds(value_s) for value_s in values_s]
    bounds = (cell.intervals.alpha_s, cell.intervals.beta_s)
    return [
        f"{milliseconds(value_s)} [{_bare(bound.low)}, {_bare(bound.high)}]"
        for value_s, bound in zip(values_s, bounds, strict=True)
    ]


def _bare(value_s: float) -> str:
    """In ms, without the unit."""
    return milliseconds(value_s).removesuffix(" ms")


def _noise_kind(calibration: Calibration, cell: CalibratedService) -> str:
    if cell.noise is None:
        return "lognormal"
    # A path carries scores, so its margins are the measured ones whatever was chosen.
    return "as measured" if calibration.noise_path.exists else cell.noise.kind


def _token_table(tokens: TokenFit) -> Html:
    """Times of an iteration with their intervals, and the limits of the engine."""
    columns = [Column("Parameter"), Column("Value", numeric=True), Column("How known")]
    rows = [
        [
            shortened(name),
            f"{1e3 * time.value_s:.4g} ms",
            f"95 % interval {1e3 * time.low_s:.4g} to {1e3 * time.high_s:.4g} ms"
            + ("" if time.identified else "; the log does not pin it down"),
        ]
        for name, time in tokens.times.items()
    ]
    rows += [
        [shortened(name), count(limit.value), shortened(limit.known.value)]
        for name, limit in zip(tokens.limits._fields, tokens.limits, strict=True)
    ]
    return table("Fitted token model, equal replicas", columns, rows)


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
    names = inputs.calibration.class_names
    one_class = inputs.run.batches.request_class >= 0  # no line of a class is of mixed batches
    batches = LoggedBatches(*(column[one_class] for column in inputs.run.batches))
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
    """From the smallest to the largest batch of the class: the ends of a line, or a table."""
    rows = []
    for replica, cells in enumerate(inputs.calibration.service):
        for name, cell in zip(inputs.calibration.class_names, cells, strict=True):
            sizes = [row["total_size"] for row in measured if row["request_class"] == name]
            span = np.array([min(sizes, default=1.0), max(sizes, default=1.0)])
            if cell.latency is not None and cell.latency.kind == "table":
                span = np.linspace(span[0], span[1], _TABLE_POINTS)
            rows += [
                {
                    "request_class": name,
                    "replica": f"replica {replica}",
                    "shown_size": size,
                    "expected_ms": expected_s * 1e3,
                }
                for size, expected_s in zip(
                    span.tolist(), cell.expected_s(span).tolist(), strict=True
                )
            ]
    return rows
