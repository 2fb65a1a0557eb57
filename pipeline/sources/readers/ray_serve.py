"""Access log of Ray Serve, text (of 2.0 to 2.50, three layouts) or JSON.

Replicas and proxies each log a request at its end, with the latency in the message. A replica's
latency begins when the replica got the request: the router's queue is not in it (option `component:
proxy` reads the proxy's lines, which hold it, but name no replica). Batch and tokens are not told.
docs.ray.io, "Monitor your application"; reference/traces.md section 2; ray issues 48903, 55851.
"""

import re

from pipeline.sources.access_lines import text_option
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

_LOOKS = re.compile(
    r"^(?:\([^)]*\) )?[A-Z]+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ \S+ \S+ .*(?:-- |\.py:\d+ - )"
)


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a Ray Serve log, in words, or None."""
    if sample.lines and _LOOKS.match(sample.lines[0]):
        return "its lines begin as Ray Serve's: level, time, component, its id, then -- or a file"
    first = sample.first_json
    keys = {"asctime", "component_name", "component_id"}
    if isinstance(first, dict) and keys <= first.keys():
        return "its JSON lines have asctime, component_name and component_id"
    return None


def read(intake: Intake) -> Found:
    """The requests of the log; ValueError for options that are not as this format asks."""
    component = intake.option("component")
    rule = "must be replica or proxy"
    check(component in ("replica", "proxy"), intake.key("options.component"), component, rule)
    deployment = text_option(intake, "deployment")
    for file in intake.files():
        intake.lines(file)
        intake.admit(
            "ray_serve_requests",
            file,
            zone=intake.settings.zone,
            component=component,
            deployment=deployment,
        )
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("arrival", "status"),
        notes=(
            "the time of a line is the end of the request: arrival is the end less the latency",
            "a replica's latency leaves out the router's queue, and is wrong where the code blocks "
            "the event loop (ray issue 48903)",
            "a request id that comes again, from another deployment or by a fault of buffered logs "
            "(ray issue 55851), is a reject: the first line stays",
            "429 and 503 are shed; ERROR, CANCELLED and other codes from 400 on are failed",
        ),
    )


READER = Reader(
    title="Ray Serve access log",
    looks_like=looks_like,
    read=read,
    options={"component": "replica", "deployment": None},
)
