"""Numbers as people read them: with their unit, in milliseconds, with the digits that matter."""

import math
from collections.abc import Mapping
from typing import Any

from pipeline.validation.intervals import Interval

ABSENT = "\u2013"
MINUS = "\u2212"


def milliseconds(value_s: float | None) -> str:
    """`34.1 ms` for 0.0341 s: three digits, whole milliseconds from 100 ms on."""
    if value_s is None or not math.isfinite(value_s):
        return ABSENT
    if value_s == 0.0:
        return "0 ms"
    value_ms = value_s * 1e3
    # What rounds up to 100 or 10 must not keep the digits of what lies below.
    decimals = 0 if abs(value_ms) >= 99.95 else 1 if abs(value_ms) >= 9.995 else 2
    return f"{value_ms:,.{decimals}f} ms".replace("-", MINUS)


def percent(share: float | None, decimals: int = 1) -> str:
    """`12.5%` for 0.125."""
    if share is None or not math.isfinite(share):
        return ABSENT
    return f"{share:.{decimals}%}".replace("-", MINUS)


def signed_percent(share: float | None, decimals: int = 1) -> str:
    """`+12.5%` for 0.125."""
    if share is None or not math.isfinite(share):
        return ABSENT
    return f"{share:+.{decimals}%}".replace("-", MINUS)


def reward(value: float | None) -> str:
    """Reward per second with three decimals, as the verdict has it."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{value:,.3f}".replace("-", MINUS)


def gain(value: float | None) -> str:
    """A difference of reward per second, with its sign."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{value:+,.3f}".replace("-", MINUS)


def reward_interval(interval: Interval) -> str:
    """`12.100 to 12.900`."""
    return f"{reward(interval.low)} to {reward(interval.high)}"


def gain_interval(interval: Interval) -> str:
    """`+0.100 to +0.900`."""
    return f"{gain(interval.low)} to {gain(interval.high)}"


def count(number: int) -> str:
    """`12,345`."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """`1 window`, `2 windows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shortened(name: str) -> str:
    """The name of a parameter or metric in words: without its unit, which the value carries."""
    return name.removesuffix("_s").replace("_", " ")


def parameters_in_words(parameters: Mapping[str, Any]) -> str:
    """`max batch size 16, batch timeout 5.00 ms`; `none` where there are none."""
    return ", ".join(_parameter(name, value) for name, value in parameters.items()) or "none"


def _parameter(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        inner = " and ".join(f"{key} {_number(name, item)}" for key, item in value.items())
        return f"{shortened(name)}: {inner}"
    return f"{shortened(name)} {_number(name, value)}"


def _number(name: str, value: Any) -> str:
    """Three digits of what is no whole number; what is not set, the rule finds by itself."""
    if value is None:
        return "by its own rule"
    if isinstance(value, list | tuple) and not value:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return "/".join(_number(name, item) for item in value)
    if name.endswith("_s") and isinstance(value, int | float):
        long = math.isfinite(value) and abs(value) >= 1.0
        return f"{_three_digits(float(value))} s" if long else milliseconds(float(value))
    return _three_digits(value) if isinstance(value, float) else str(value)


def _three_digits(value: float) -> str:
    """`0.0123`, `12.3`, `12,346`: whole numbers keep all their digits."""
    told = f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.3g}"
    return told.replace("-", MINUS) if "e" not in told else told


def rule_in_words(name: str, parameters: Mapping[str, Any]) -> str:
    """`c_mu (batch size: fast 8 and slow 2)`."""
    return f"{name} ({parameters_in_words(parameters)})" if parameters else name
