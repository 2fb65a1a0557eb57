"""CSV report of Triton's perf_analyzer: mean times by concurrency or request rate, in microseconds.

Columns vary: percentiles, cache and GPU columns and the verbose ones are not read, and rows are in
order of throughput. The batch size of the clients is on the command line only (`-b`), hence an
option; with dynamic batching the server's batches are larger than that, and its statistics
(`triton_stats`) are to be preferred.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check, check_whole

COLUMNS = (
    "Inferences/Second",
    "Server Queue",
    "Server Compute Input",
    "Server Compute Infer",
    "Server Compute Output",
)
LOADS = ("Concurrency", "Request Rate")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a report of perf_analyzer, or None."""
    has_load = any(name in sample.header for name in LOADS)
    return names_columns(sample, COLUMNS) if has_load else None


def read(intake: Intake) -> Found:
    """Each row is in `profiles`: batch latency = compute input + infer + output."""
    batch_size = intake.option("batch_size")
    check_whole(intake.key("options.batch_size"), batch_size, 1)
    header = admit_files(
        intake, "perf_analyzer_profiles", COLUMNS, LOADS, client_batch_size=batch_size
    )
    rule = f"the header must name {' or '.join(LOADS)}"
    check(any(name in header for name in LOADS), f"{intake.shown}: header", header, rule)
    return intake.found(
        clock="monotonic",
        zone="UTC",
        notes=(
            f"the batch size, {batch_size}, is that of options.batch_size, not of the file: with "
            "dynamic batching the server's batches are larger",
        ),
    )


READER = Reader(
    title="perf_analyzer report", looks_like=looks_like, read=read, options={"batch_size": 1}
)
