r"""Access log of nginx, in a log_format that has $request_time.

The lines are taken apart by the log_format string itself (option `format`), JSON lines by their
keys if no format is given. nginx logs at the end of a request: arrival = end - response time. It
tells response time, upstream and status; not the queue, the batch or the tokens.
nginx.org, ngx_http_log_module and ngx_http_upstream_module; reference/traces.md section 2.
"""

import re

from pipeline.sources.access_lines import (
    Layout,
    Names,
    chosen_fields,
    path_pattern,
    pattern_of,
    split_format,
    text_option,
)
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

FIELDS: Names = {
    "msec": ("msec",),
    "time_iso8601": ("time_iso8601",),
    "time_local": ("time_local",),
    "request_time": ("request_time",),
    "upstream_response_time": ("upstream_response_time",),
    "upstream_addr": ("upstream_addr",),
    "status": ("status",),
    "request_id": ("request_id",),
    "uri": ("uri", "request_uri"),
    "request": ("request",),
    "request_class": (),
}
COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent"'
)
# The layout of nginx.org's guide to timing variables, with milliseconds of the end and an id.
TIMED = (
    f'{COMBINED} $msec $request_id $upstream_addr rt=$request_time uct="$upstream_connect_time" '
    'uht="$upstream_header_time" urt="$upstream_response_time"'
)
FORMATS = {"combined": COMBINED, "timed": TIMED}
_TIMES = ("msec", "time_iso8601", "time_local")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LOOKS = re.compile(r'^\S+ - \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:[^\]]*\] "[^"]*" \d{3} ')
_LIST = r"(?:[^\s,\"]+(?:, | : ))*[^\s,\"]*"  # of the tries of a request


def looks_like(sample: Sample) -> str | None:
    """Why the sample is an nginx access log, in words, or None."""
    if sample.lines and _LOOKS.match(sample.lines[0]):
        return 'its lines begin as the combined log format: address - user [time] "request" status'
    keys = sample.first_json.keys() if isinstance(sample.first_json, dict) else set()
    if "request_time" in keys and "status" in keys and keys & set(_TIMES):
        return "its JSON lines are named after nginx variables: request_time, status and a time"
    return None


def read(intake: Intake) -> Found:
    """The requests of the log; ValueError for options that are not as this format asks."""
    layout, response = _layout(intake), text_option(intake, "response")
    rule = "must be request_time or upstream_response_time"
    holds = response in ("request_time", "upstream_response_time")
    check(holds, intake.key("options.response"), response, rule)
    parameters = {
        **layout._asdict(),
        "upstream": response == "upstream_response_time",
        "route_pattern": path_pattern(intake),
    }
    for file in intake.files():
        intake.lines(file)
        intake.admit("nginx_requests", file, zone=intake.settings.zone, **parameters)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("arrival", "status"),
        notes=(
            f"nginx logs at the end of a request: arrival is the end less {response}",
            "nginx tells when a request came and went, not when its service began: queue and "
            "service are one",
            "429 and 503 are shed; other codes from 400 on, 499 and 000 are failed",
            "with $time_local or $time_iso8601 in place of $msec, instants are whole seconds",
        ),
    )


def _layout(intake: Intake) -> Layout:
    chosen = chosen_fields(intake, FIELDS)
    called = {
        field: (chosen[field].lstrip("$"),) if field in chosen else names
        for field, names in FIELDS.items()
    }
    written = text_option(intake, "format")
    key = intake.key("options.format")
    layout = FORMATS.get(written or "timed", written or TIMED)
    pattern = pattern_of(split_format(key, layout, _VARIABLE), called, _shape)
    for field in ("request_time", "status"):
        rule = f"has no ${field}, without which a line tells no arrival or no outcome"
        check(field in pattern.present, key, written, rule)
    check(bool(pattern.present & set(_TIMES)), key, written, f"has none of ${', $'.join(_TIMES)}")
    return Layout.of(pattern, FIELDS, chosen, json=written is None)


def _shape(variable: str, quoted: bool) -> str:
    if quoted:
        return r'(?:[^"\\]|\\.)*'
    return _LIST if variable.startswith("upstream_") else ".*?"


READER = Reader(
    title="nginx access log",
    looks_like=looks_like,
    read=read,
    options={"format": None, "fields": {}, "paths": None, "response": "request_time"},
)
