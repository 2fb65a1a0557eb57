"""LiteLLM's log of a gateway: StandardLoggingPayload (callbacks) and SpendLogs (its database).

docs.litellm.ai "Standard Logging Payload"; JSON lines or one array. Payload times are Unix seconds;
those of SpendLogs are texts without a zone, in UTC. It tells which deployment served a request, so
it suits routing; waiting inside the deployment is not seen. Each attempt of a retry is a record.
"""

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import first_object, is_json_lines
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

REPLICAS = ("auto", "pod_ip", "api_base", "model_id")
TIMES = ("startTime", "endTime")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is such a log: startTime, endTime, call_type and the token counts."""
    fields = (*TIMES, "call_type", "prompt_tokens")
    first = first_object(sample)
    start = sample.head[:20000]
    array = sample.head.lstrip().startswith("[") and all(f'"{name}"' in start for name in fields)
    if all(field in first for field in fields) or array:
        return f"records with {', '.join(fields)} (LiteLLM)"
    return None


def read(intake: Intake) -> Found:
    """The attempts as requests, failed ones included."""
    replica = intake.option("replica")
    rule = f"must be one of {', '.join(REPLICAS)}"
    check(replica in REPLICAS, intake.key("options.replica"), replica, rule)
    for file in intake.files():
        if is_json_lines(file):
            intake.lines(file)
        else:
            document = intake.json(file)
            rule = "must be JSON lines or an array of records"
            check(isinstance(document, list), intake.shown, type(document).__name__, rule)
            intake.documents(file, enumerate(document, 1))
        intake.admit("litellm_requests", file, replica=replica, zone=intake.settings.zone)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        notes=(
            "measured by the gateway: queue and service of a deployment are not told apart",
            "a failure whose start equals its end has no known departure (LiteLLM issue 24888)",
            "answers from the gateway's cache have the replica `cache`",
            "a failure with error code 429 counts as shed; each attempt of a retry is a request",
            "the start of a streamed request may be late, at the headers (LiteLLM issue 17335)",
        ),
    )


READER = Reader(
    title="LiteLLM gateway log",
    looks_like=looks_like,
    read=read,
    options={"replica": "auto"},
)
