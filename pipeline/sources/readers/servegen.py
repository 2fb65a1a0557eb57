"""ServeGen (alibaba/ServeGen): rates and lengths of clients, from which requests are drawn.

chunk-N-trace.csv is one client: no header, windows of 600 s as start s, rate req/s, CV of the gaps,
Gamma, Weibull or nothing (idle), shape, scale s. The rate is a count / 600. chunk-N-dataset.json
beside it has histograms of token lengths for each 6 h, as Python dict literals in strings. The mean
of shape and scale often contradicts the rate: the count is kept, and the shape. None of the drawn
requests was ever logged.
"""

import ast
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.randomness import stream
from pipeline.sources.drawing import filled_arrivals, text_rows
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from pipeline.store.text import unpacked
from simulator.checks import check, check_whole, checked_number

WINDOW_S, HISTOGRAM_S = 600, 21_600
NAME = re.compile(r"chunk-\d+-trace\.csv(\.gz|\.zst)?")
FAMILIES = ("Gamma", "Weibull")
PROMPT = ("input_tokens", "text_tokens")  # language and reason; multimodal
WINDOW = re.compile(r"\d+(\.0)?,[^,]*,[^,]*,(Gamma|Weibull|),[^,]*,[^,]*")


class Window(NamedTuple):
    """Part of a trace in which gaps have one distribution."""

    start_s: float
    rate_rps: float
    family: str
    shape: float
    scale_s: float

    @property
    def requests(self) -> int:
        """The requests that the rate states."""
        return round(self.rate_rps * WINDOW_S)

    @property
    def contradicts_itself(self) -> bool:
        """Whether the mean gap of shape and scale is over 5 % off the rate."""
        gamma = self.family == "Gamma"
        mean_s = self.scale_s * (self.shape if gamma else math.gamma(1 + 1 / self.shape))
        return abs(mean_s * self.rate_rps - 1) > 0.05


class Histogram(NamedTuple):
    """Token lengths `[N]` and their probabilities `[N]`."""

    lengths: np.ndarray
    probabilities: np.ndarray


class Drawing(NamedTuple):
    """What the options ask for, and what was met meanwhile."""

    from_s: float
    to_s: float
    max_requests: int
    generator: np.random.Generator
    met: Counter[str]


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a client of ServeGen, or None."""
    if any(NAME.fullmatch(name) for name in sample.names):
        return "it has files called chunk-N-trace.csv"
    lines = [line.strip() for line in sample.lines[:5]]
    if not lines or not all(WINDOW.fullmatch(line) for line in lines):
        return None
    return "its lines have six cells and no header: a number, .., Gamma, Weibull or nothing, .."


def read(intake: Intake) -> Found:
    """The drawn requests of each client are in `requests`; class = the client, `chunk-N`."""
    from_s = checked_number(intake.key("options.from_s"), intake.option("from_s"))
    to_s = checked_number(intake.key("options.to_s"), intake.option("to_s"), from_s, above=True)
    most = intake.option("max_requests")
    check_whole(intake.key("options.max_requests"), most, 1)
    generator = stream(intake.seed, "servegen", intake.name)
    drawing = Drawing(from_s, to_s, most, generator, Counter())
    traces = [file for file in intake.files() if NAME.fullmatch(file.name)]
    rule = "must be, or hold, chunk-N-trace.csv with chunk-N-dataset.json beside it"
    check(bool(traces), intake.key("path"), intake.shown, rule)
    for file in traces:
        client = file.name.partition("-trace")[0]
        dataset = _dataset(intake, file, client)
        intake.documents(file, _requests(file, client, dataset, drawing))
        intake.admit("servegen_requests", file, origin_us=0, client=client)
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=("arrival", "tokens", "status"),
        notes=_notes(drawing),
    )


def _dataset(intake: Intake, file: Path, client: str) -> dict[str, Any]:
    for packed in ("", ".gz", ".zst"):
        beside = file.with_name(f"{client}-dataset.json{packed}")
        if beside.is_file():
            try:
                with unpacked(beside) as opened:
                    dataset = json.load(opened)
            except (ValueError, RecursionError, EOFError, OSError, zlib.error) as error:
                raise ValueError(f"{beside.name}: not a JSON document: {error}") from None
            rule = "must be an object of objects"
            holds = isinstance(dataset, dict) and all(isinstance(v, dict) for v in dataset.values())
            check(holds, beside.name, type(dataset).__name__, rule)
            return dict(dataset)
    raise ValueError(f"{intake.shown}: {client}-dataset.json: must lie beside {file.name}")


def _requests(
    file: Path, client: str, dataset: dict[str, Any], drawing: Drawing
) -> Iterator[tuple[int, dict[str, Any]]]:
    """A document for each drawn request, and for each window that cannot be read one."""
    number = 0
    histograms: dict[tuple[int, str], Histogram | None] = {}
    for line, cells in text_rows(file):
        window, fault = _window(cells)
        if window is None:
            number += 1
            yield number, {"row": line, "fault": fault, "cells": cells[:6]}
            continue
        drawing.met["windows"] += 1
        drawing.met["idle"] += window.rate_rps == 0
        if window.rate_rps == 0 or not drawing.from_s <= window.start_s < drawing.to_s:
            continue
        drawing.met["drawn"] += 1
        drawing.met["contradicted"] += window.contradicts_itself
        drawing.met["requests"] += window.requests
        rule = "is too few; narrow options.from_s and options.to_s, or raise it"
        most = drawing.max_requests
        check(drawing.met["requests"] <= most, "options.max_requests", most, rule)
        period = int(window.start_s // HISTOGRAM_S) * HISTOGRAM_S
        for side in ("prompt", "output"):
            if (period, side) not in histograms:
                histograms[period, side] = _histogram(dataset, period, side, client)
        lengths = [histograms[period, side] for side in ("prompt", "output")]
        for document in _window_requests(window, lengths, drawing):
            number += 1
            yield number, document


def _window(cells: list[str]) -> tuple[Window | None, str | None]:
    """The window that a row states, or None and what is wrong with it."""
    if len(cells) != 6:
        return None, "row: must have six cells"
    try:
        start_s, rate_rps, _, shape, scale_s = (float(cells[i]) for i in (0, 1, 2, 4, 5))
    except ValueError:
        return None, "row: all cells but the fourth must be numbers"
    window = Window(start_s, rate_rps, cells[3], shape, scale_s)
    numbers = (start_s, rate_rps, shape, scale_s)
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        return None, "row: numbers must be finite and at least 0"
    if rate_rps == 0:
        return (window, None) if cells[3] == "" else (None, "rate: 0, though a family is named")
    if cells[3] not in FAMILIES:
        return None, "family: must be Gamma or Weibull where the rate is above 0"
    if shape < 0.01 or scale_s == 0:  # gamma(1 + 1 / shape) is beyond a float below 0.006
        return None, "shape, scale: must be at least 0.01, and above 0"
    return window, None


def _histogram(dataset: dict[str, Any], period: int, side: str, client: str) -> Histogram | None:
    """The lengths of a period of 6 h; None where it has none."""
    columns = dataset.get(str(period), {})
    names = PROMPT if side == "prompt" else ("output_tokens",)
    text = next((columns[name] for name in names if name in columns), "{}")
    key = f"{client}-dataset.json: {period}: {side}"
    try:
        literal = ast.literal_eval(text)
        pairs = {int(length): float(share) for length, share in literal.items()}
    except (ValueError, TypeError, SyntaxError, AttributeError, MemoryError, RecursionError):
        raise ValueError(f"{key}: must be a text that holds {{length: probability}}") from None
    if not pairs:
        return None
    lengths, shares = np.array(list(pairs)), np.array(list(pairs.values()))
    check(bool((lengths >= 0).all()), key, int(lengths.min()), "lengths must be at least 0")
    check(bool((shares >= 0).all()), key, float(shares.min()), "must be at least 0")
    total = float(shares.sum())
    check(abs(total - 1) < 1e-6, key, total, "probabilities must add up to 1")
    return Histogram(lengths, shares / total)


def _window_requests(
    window: Window, lengths: list[Histogram | None], drawing: Drawing
) -> Iterator[dict[str, Any]]:
    arrivals_s = window.start_s + filled_arrivals(
        window.family, window.shape, window.requests, WINDOW_S, drawing.generator
    )
    drawing.met["without lengths"] += len(arrivals_s) if None in lengths else 0
    tokens = [
        [None] * len(arrivals_s)
        if histogram is None
        else drawing.generator.choice(
            histogram.lengths, len(arrivals_s), p=histogram.probabilities
        ).tolist()
        for histogram in lengths
    ]
    arrivals_us = np.floor(arrivals_s * 1e6).astype(np.int64).tolist()
    for arrival_us, prompt, output in zip(arrivals_us, *tokens, strict=True):
        yield {"arrival_us": arrival_us, "prompt_tokens": prompt, "output_tokens": output}


def _notes(drawing: Drawing) -> tuple[str, ...]:
    met = drawing.met
    window = f"from {drawing.from_s:g} s to {drawing.to_s:g} s"
    return (
        f"requests are drawn with the run's seed from {met['drawn']} windows of {WINDOW_S} s "
        f"({window}) of {met['windows']} in the files, {met['idle']} of them idle: rows are "
        "requests, and windows where they are rejected",
        f"in {met['contradicted']} of the windows drawn the mean gap of shape and scale is over "
        "5 % off the rate: the rate and the shape were kept",
        f"lengths of prompt and output are drawn independently; {met['without lengths']} requests "
        "lie in a period without lengths; image, audio and video tokens are not read",
    )


READER = Reader(
    title="ServeGen client",
    looks_like=looks_like,
    read=read,
    options={"from_s": 0.0, "to_s": 1e9, "max_requests": 1_000_000},
)
