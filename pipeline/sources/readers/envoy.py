"""Access log of the Envoy proxy, which Istio and most service meshes write too.

Text lines in Envoy's or Istio's default format or in the user's (option `format`), or JSON lines
whose keys the user chose (option `fields`). It tells arrival (START_TIME), response time, the
upstream chosen and why a request got no answer; not the queue in front of the model, the batch or
the tokens. envoyproxy.io, "Access logging"; reference/traces.md section 2.
"""

import re

from pipeline.sources.access_lines import (
    Layout,
    Names,
    Pattern,
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
    "start_time": ("START_TIME",),
    "duration": ("DURATION",),
    "response_code": ("RESPONSE_CODE",),
    "response_flags": ("RESPONSE_FLAGS",),
    "upstream_host": ("UPSTREAM_HOST",),
    "request_id": ("REQ(X-REQUEST-ID)",),
    "path": ("REQ(X-ENVOY-ORIGINAL-PATH?:PATH)", "REQ(:PATH)", "PATH"),
    "request_class": (),
}
# START_TIME may be given a form, which is no part of its name.
_VARIABLE = re.compile(r"%(?:(START_TIME)\([^)]*\)|([A-Z][A-Z0-9_]*(?:\([^)]*\))?))(?::\d+)?%")

# Envoy's default, and Istio's, which has three more values in the middle and some at the end.
_DEFAULT = Pattern(
    r'^(\[([^\]]*)\] "\S+ (\S+) \S+" (\S+) (\S+)(?: \S+ \S+ ".*?")? \S+ \S+ (\S+) \S+'
    r' ".*?" ".*?" "([^"]*)" ".*?" "([^"]*)"(?: .*)?)()$',
    [
        "whole",
        "start_time",
        "path",
        "response_code",
        "response_flags",
        "duration",
        "request_id",
        "upstream_host",
        "request_class",
    ],
    frozenset(FIELDS) - {"request_class"},
)
_LOOKS = re.compile(r'^\[\d{4}-\d\d-\d\dT[^\]]*\] "\S+ \S+ \S+" \d+ \S+ ')


def looks_like(sample: Sample) -> str | None:
    """Why the sample is an Envoy access log, in words, or None."""
    if sample.lines and _LOOKS.match(sample.lines[0]):
        return 'its lines begin as Envoy\'s default: [start time] "method path protocol" code flags'
    first = sample.first_json
    if isinstance(first, dict) and {"start_time", "duration", "response_code"} <= first.keys():
        return "its JSON lines have start_time, duration and response_code, as Envoy's examples do"
    return None


def read(intake: Intake) -> Found:
    """The requests of the log; ValueError for options that are not as this format asks."""
    parameters = {**_layout(intake)._asdict(), "route_pattern": path_pattern(intake)}
    for file in intake.files():
        intake.lines(file)
        intake.admit("envoy_requests", file, zone=intake.settings.zone, **parameters)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("status",),
        notes=(
            "Envoy tells when a request came and went, not when its service began: queue and "
            "service are one",
            "status is told from code and flags: UO, RL, OM, 429 and a bare 503 are shed; a gRPC "
            "error behind code 200 looks completed",
            "times are in whole milliseconds",
        ),
    )


def _layout(intake: Intake) -> Layout:
    chosen = chosen_fields(intake, FIELDS)
    written = text_option(intake, "format")
    if written is None:
        return Layout.of(_DEFAULT, FIELDS, chosen, json=True)
    key = intake.key("options.format")
    tokens = split_format(key, written, _VARIABLE)
    called = {f: (chosen[f],) if f in chosen else names for f, names in FIELDS.items()}
    pattern = pattern_of(tokens, called, lambda variable, quoted: ".*?")
    for field in ("start_time", "duration", "response_code"):
        rule = f"has no %{field.upper()}%, without which a line tells no arrival, end or outcome"
        check(field in pattern.present, key, written, rule)
    return Layout.of(pattern, FIELDS, chosen, json=False)


READER = Reader(
    title="Envoy access log",
    looks_like=looks_like,
    read=read,
    options={"format": None, "fields": {}, "paths": None},
)
