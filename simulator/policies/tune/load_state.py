"""The load states of the adaptive scheduler, and the numbers that tell them apart."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from simulator.checks import check, check_section, checked_number

# The article's proportions, for what is not given: 5 of 50 requests/s, 2 of 5 s, 30 of 1 minutes.
LOW_SHARE, WARNING_SHARE, IDLE_TIMEOUT_COOLDOWNS = 0.1, 0.4, 30


class LoadState(IntEnum):
    """How loaded the cluster is: a long P95, much, some, little or no traffic."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    IDLE = 4


class Thresholds(NamedTuple):
    """Where the states begin, and what a load jump is."""

    high_rps: float
    low_rps: float
    idle_rps: float
    p95_critical_s: float
    p95_warning_s: float
    jump_factor: float  # ours: how many times the rate before it a load jump has at least

    def load_state(
        self, rate_rps: np.ndarray, p95_s: np.ndarray, warning_first: bool
    ) -> np.ndarray:
        """`LoadState [B]` by arrival rate and P95 response time, both `[B]`.

        The article's order: CRITICAL, IDLE, LOW, HIGH, and a P95 beyond the warning is CRITICAL
        where none of these held. With `warning_first` that comes before HIGH.
        """
        high, warned = rate_rps > self.high_rps, p95_s > self.p95_warning_s
        pair = [(warned, LoadState.CRITICAL), (high, LoadState.HIGH)]
        order = [
            (p95_s > self.p95_critical_s, LoadState.CRITICAL),
            (rate_rps <= self.idle_rps, LoadState.IDLE),
            (rate_rps < self.low_rps, LoadState.LOW),
            *(pair if warning_first else reversed(pair)),
        ]
        states = [np.int64(state) for _, state in order]
        return np.select([holds for holds, _ in order], states, np.int64(LoadState.NORMAL))


class Times(NamedTuple):
    """How long the rule holds still, looks back, and lets idle replicas be."""

    cooldown_s: float
    window_s: float
    idle_timeout_s: float


def thresholds_from(given: Mapping[str, float]) -> Thresholds:
    """The article's thresholds where nothing is given; `low_rps` and `p95_warning_s` follow the
    others in its proportions. ValueError for what cannot be."""
    known = _numbers("thresholds", given, Thresholds._fields)
    high_rps, idle_rps = known.get("high_rps", 50.0), known.get("idle_rps", 0.0)
    low_rps = known.get("low_rps", max(idle_rps, LOW_SHARE * high_rps))
    rule = f"must be from idle_rps {idle_rps:g} to high_rps {high_rps:g}"
    check(idle_rps <= low_rps <= high_rps, "thresholds.low_rps", low_rps, rule)
    critical_s = known.get("p95_critical_s", 5.0)
    warning_s = known.get("p95_warning_s", WARNING_SHARE * critical_s)
    rule = f"must be at most p95_critical_s {critical_s:g}"
    check(warning_s <= critical_s, "thresholds.p95_warning_s", warning_s, rule)
    jump_factor = known.get("jump_factor", 2.0)
    check(jump_factor > 1.0, "thresholds.jump_factor", jump_factor, "must be above 1")
    return Thresholds(high_rps, low_rps, idle_rps, critical_s, warning_s, jump_factor)


def times_from(given: Mapping[str, float]) -> Times:
    """The article's times where nothing is given; the others follow the cooldown in proportion."""
    known = _numbers("times", given, Times._fields)
    cooldown_s = known.get("cooldown_s", 60.0)
    return Times(
        cooldown_s,
        known.get("window_s", cooldown_s),
        known.get("idle_timeout_s", IDLE_TIMEOUT_COOLDOWNS * cooldown_s),
    )


def _numbers(field: str, given: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """The given values as floats; ValueError for another name, or what is no number from 0 on."""
    check_section(field, given)
    for name, value in given.items():
        rule = f"no such parameter; it has: {', '.join(names)}"
        check(name in names, f"{field}.{name}", value, rule)
    return {name: checked_number(f"{field}.{name}", value, 0.0) for name, value in given.items()}
