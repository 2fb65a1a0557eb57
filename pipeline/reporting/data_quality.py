"""What was read, what was refused and why, and how the log is cut into splits."""

import numpy as np
import polars as pl

from pipeline.reporting.charts import load_chart, specification
from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.markup import Column, Html, chart, details, element, join, section, table
from pipeline.reporting.text import ABSENT, count, percent, plural
from pipeline.settings import Settings

_REASONS = 10  # that are listed
_WINDOWS = 120  # of the load chart, at most
_SHORTEST_S = 1.0  # of a window


def data_quality_section(inputs: ReportInputs, settings: Settings) -> Html:
    """Sources, rejects, splits."""
    return section(
        "data-quality",
        "Data quality",
        element("p", _told(inputs)),
        _sources(inputs),
        _files(inputs),
        _rejects(inputs),
        element("h3", "Splits"),
        element(
            "p",
            "Splits follow one another in logged time. Rules are tuned and agents trained on "
            "train, winners chosen on validation, and everything is compared on test.",
        ),
        _load(inputs, settings.calibration.source),
        _splits(inputs),
        _tables(inputs),
    )


def _told(inputs: ReportInputs) -> str:
    read = sum(source["rows_read"] for source in inputs.sources)
    rejected = sum(source["rows_rejected"] for source in inputs.sources)
    share = percent(rejected / read if read else None, 2)
    return (
        f"{plural(len(inputs.sources), 'source')}, {plural(read, 'row')} read, "
        f"{count(rejected)} rejected ({share}). Nothing was repaired or filled in."
    )


def _sources(inputs: ReportInputs) -> Html:
    columns = [
        Column("Source"),
        Column("Kind"),
        Column("License"),
        Column("Clock"),
        Column("Time 0"),
        Column("Files", numeric=True),
        Column("Rows read", numeric=True),
        Column("Kept", numeric=True),
        Column("Rejected", numeric=True),
    ]
    rows = [
        [
            source["source"],
            source["kind"],
            source["license"],
            source["clock"],
            f"{source['origin']} ({source['zone']})",
            count(len(source["files"])),
            *(count(source[key]) for key in ("rows_read", "rows_kept", "rows_rejected")),
        ]
        for source in inputs.sources
    ]
    return table("Sources", columns, rows)


def _files(inputs: ReportInputs) -> Html:
    columns = [
        Column("File"),
        Column("Records"),
        Column("Rows read", numeric=True),
        Column("Kept", numeric=True),
        Column("Rejected", numeric=True),
        Column("sha256"),
    ]
    rows = [
        [
            file["path"],
            file["record"],
            *(count(file[key]) for key in ("rows_read", "rows_kept", "rows_rejected")),
            element("code", file["sha256"][:12], title=file["sha256"]),
        ]
        for source in inputs.sources
        for file in source["files"]
    ]
    return details("Every file", table("Files of the sources", columns, rows))


def _rejects(inputs: ReportInputs) -> Html:
    if inputs.rejects.is_empty():
        return element("p", "No row was rejected.")
    reasons = (
        inputs.rejects.group_by("source", "file", "reason")
        .agg(pl.len().alias("rows"), pl.col("line").min())
        .sort(["rows", "source", "file", "line", "reason"], descending=[True, *[False] * 4])
    )
    columns = [
        Column("Reason"),
        Column("File"),
        Column("Rows", numeric=True),
        Column("First in line", numeric=True),
    ]
    rows = [
        [row["reason"], row["file"], count(row["rows"]), count(row["line"])]
        for row in reasons.head(_REASONS).to_dicts()
    ]
    caption = f"Most frequent reasons of rejects ({len(rows)} of {len(reasons)})"
    return table(caption, columns, rows)


def _load(inputs: ReportInputs, source: str) -> Html:
    run, calibration = inputs.run, inputs.calibration
    window_s = max(_SHORTEST_S, run.duration_s / _WINDOWS)
    # A last window that is cut short would look like a drop of the load.
    windows = max(1, int(run.duration_s / window_s + 1e-9))
    rows = []
    for number, name in enumerate(calibration.class_names):
        arrival_s = run.arrivals.arrival_s[run.arrivals.request_class == number]
        arrived = np.histogram(arrival_s, bins=windows, range=(0.0, windows * window_s))[0]
        rows += [
            {
                "clock_s": (window + 0.5) * window_s,
                "request_class": name,
                "rate_rps": float(requests / window_s),
            }
            for window, requests in enumerate(arrived.tolist())
        ]
    splits = [{"split": name, "start_s": span.start_s} for name, span in calibration.splits.items()]
    return chart(
        "load",
        specification(load_chart(rows, splits, calibration.class_names)),
        "Line chart of the arrival rate over logged time by class; dashed lines begin the splits "
        f"{', '.join(calibration.splits)}. The table below has the mean rates.",
        f"Arrivals of the source {source}, in windows of {window_s:.3g} s.",
    )


def _splits(inputs: ReportInputs) -> Html:
    calibration = inputs.calibration
    columns = [
        Column("Split"),
        Column("From", numeric=True),
        Column("To", numeric=True),
        Column("Length", numeric=True),
    ]
    for name in calibration.class_names:
        columns += [
            Column("requests/s", numeric=True, group=name),
            Column("CV of gaps", numeric=True, group=name),
        ]
    rows = []
    for split, span in calibration.splits.items():
        row = [split, *(f"{value:,.0f} s" for value in (span.start_s, span.end_s, span.span_s))]
        for fit in calibration.arrivals[split]:
            cv = ABSENT if np.isnan(fit.interarrival_cv) else f"{fit.interarrival_cv:.2f}"
            row += [f"{fit.arrival_rate_rps:.1f}", cv]
        rows.append(row)
    note = "The gaps between Poisson arrivals have a coefficient of variation (CV) of 1."
    return join([table("Splits of the log", columns, rows), element("p", note, class_="note")])


def _tables(inputs: ReportInputs) -> Html:
    columns = [Column("Table"), Column("Rows", numeric=True), Column("Content (sha256)")]
    rows = [
        [name, count(told["rows"]), _digests(told["sha256"])]
        for name, told in inputs.warehouse.items()
    ]
    return details("Tables of the warehouse", table("Tables of the warehouse", columns, rows))


def _digests(by_source: dict[str, str]) -> Html:
    """The begin of the digest of each source's rows."""
    parts = []
    for source, digest in by_source.items():
        parts += [f"{source} ", element("code", digest[:12], title=digest), " "]
    return join(parts)
