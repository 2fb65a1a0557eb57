"""Azure Functions 2021: every invocation of about 119 applications in two weeks, by its end.

github.com/Azure/AzurePublicDataset. Seconds count from the start of the trace; duration excludes
the cold start (issue 25 there), and 8.65 % of the durations are 0 (issue 46), which is below the
resolution and not missing. Rows are in order of the start. func is unique within its app only.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

COLUMNS = ("app", "func", "end_timestamp", "duration")
CLASSES = ("function", "app")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a trace of Azure Functions of 2021, or None."""
    return names_columns(sample, COLUMNS)


def read(intake: Intake) -> Found:
    """The invocations are in `requests`; arrival = end_timestamp - duration.

    The request class is `f` and 12 digits of the MD5 of app and func, or `a` and those of app: a
    name that the two ids always give, in other files too.
    """
    class_by = intake.option("class_by")
    rule = f"must be one of {', '.join(CLASSES)}"
    check(class_by in CLASSES, intake.key("options.class_by"), class_by, rule)
    admit_files(
        intake, "azure_functions_2021_requests", COLUMNS, origin_us=0, by_app=class_by == "app"
    )
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=("arrival", "status"),
        notes=(
            "arrival is end_timestamp - duration: what a call waited for, a cold start among it, "
            "is before it",
            "failed calls are not told apart",
            "durations have a resolution of 1 ms: those that read 0 are below it, not missing",
        ),
    )


READER = Reader(
    title="Azure Functions trace of 2021",
    looks_like=looks_like,
    read=read,
    options={"class_by": "function"},
)
