"""The words of the command line: `name=value`, the rest being overrides of conf/."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulator.checks import check

OUT = "reports/inspect/episode.png"
FORMATS = (".png", ".svg")
USAGE = f"""python -m pipeline.inspect [name=value ...] draws one episode as a timeline picture.

  out={OUT}   where to; .png or .svg
  episode=NAME      a described episode of conf/episode; without it the calibrated cluster
  policy=RULE       a rule by its name; without it the best tuned one, or that of the episode
  policy.NAME=VALUE a parameter of the rule; without any, as tuned
  seed=N            arrivals, noise, faults and random actions
  horizon_s=S       length of the episode
  start_s=S end_s=S the part that is shown; without them all of it
  anything else     an override of conf/, such as cluster.replicas=3 or
                    episode.scenario.queue_capacity=20
"""


class Arguments(NamedTuple):
    """What was asked for."""

    out: Path
    start_s: float
    end_s: float | None  # None: to the end of the episode
    horizon_s: float | None  # None: as configured
    episode: str | None  # None: the calibrated cluster
    policy: str | None  # None: the tuned best, or that of the episode
    parameters: dict[str, Any]  # of the policy
    overrides: list[str]  # of conf/


def read_arguments(words: Sequence[str]) -> Arguments:
    """The arguments that the words say; ValueError naming the one that is at fault."""
    own: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    overrides = []
    for word in words:
        name, equals, value = word.partition("=")
        complete = bool(name and equals) or word.startswith("~")  # which deletes a key of conf/
        check(complete, "argument", word, "must be name=value; --help lists them")
        if name.startswith("policy."):
            parameters[name.removeprefix("policy.")] = _parsed(value)
        elif name in ("out", "start_s", "end_s", "horizon_s", "episode", "policy"):
            own[name] = value
        else:
            overrides.append(word)
    out = Path(own.get("out", OUT))
    check(out.suffix in FORMATS, "out", str(out), f"must end in {' or '.join(FORMATS)}")
    start_s, end_s = _seconds(own, "start_s") or 0.0, _seconds(own, "end_s")
    check(end_s is None or start_s < end_s, "start_s", start_s, f"must be below end_s = {end_s}")
    horizon_s = _seconds(own, "horizon_s")
    check(horizon_s != 0, "horizon_s", horizon_s, "must be above 0")
    named = own.get("episode"), own.get("policy")
    return Arguments(out, start_s, end_s, horizon_s, *named, parameters, overrides)


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value  # a word, such as on_busy=skip


def _seconds(own: dict[str, str], name: str) -> float | None:
    if name not in own:
        return None
    try:
        value = float(own[name])
    except ValueError:
        value = math.nan
    check(math.isfinite(value) and value >= 0, name, own[name], "must be seconds, at least 0")
    return value
