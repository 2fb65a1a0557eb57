"""A token model from a log, and what the log could and could not tell of it."""

from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.tokens.limits import Known, Limit, StatedLimits, TokenLimits, fit_limits
from pipeline.calibration.tokens.log import LoggedTokens, check_tokens, cut_at
from pipeline.calibration.tokens.refine import Refined, refine, typical_s
from pipeline.calibration.tokens.regression import regress
from pipeline.calibration.tokens.replay import TokenCluster, replay
from simulator.checks import check_whole
from simulator.replica import TokenModel
from simulator.scenario import Routing
from simulator.workload import Arrivals

# Shares of an iteration that t0, t_prefill, t_decode, t_kv and the delay take where the search
# begins. Faster than the log, because a replay that is overloaded by mistake tells no direction.
_STARTS = (
    (0.48, 0.4, 0.32, 0.02, 0.1),
    (0.24, 0.4, 0.48, 0.08, 0.1),
    (0.24, 0.4, 0.08, 0.48, 0.1),
    (0.48, 0.4, 0.08, 0.24, 0.1),
    (0.24, 0.4, 0.28, 0.28, 0.1),
)
_IDENTIFIED = 0.5  # an estimate is identified where its interval is within this share of it
NAMES = ("t0_s", "t_prefill_s", "t_decode_s", "t_kv_s", "dispatch_delay_s")


class Estimate(NamedTuple):
    """A fitted time and its 95 % interval."""

    value_s: float
    low_s: float
    high_s: float

    @property
    def identified(self) -> bool:
        """True where the log tells the value to within half of it."""
        return max(self.high_s - self.value_s, self.value_s - self.low_s) <= (
            _IDENTIFIED * self.value_s
        )


class TokenFit(NamedTuple):
    """Continuous batching as fitted to a log: what `TokenModel` takes, and how sure it is."""

    times: dict[str, Estimate]  # by NAMES
    limits: TokenLimits
    replicas: int
    routing: Routing
    seen: int  # requests with token times that the fit could compare
    loss: float  # what the fit minimizes: to compare routing rules, or capacities, on one log
    residual: float  # median absolute log error of their TTFT, TPOT and response times

    @property
    def identified(self) -> dict[str, bool]:
        """For each time and limit, whether the log or the configuration told it."""
        limits = {name: limit.known != Known.NOT_REACHED for name, limit in _named(self.limits)}
        return {**{name: time.identified for name, time in self.times.items()}, **limits}

    def cluster(self) -> TokenCluster:
        """The cluster to simulate."""
        t0_s, t_prefill_s, t_decode_s, t_kv_s, delay_s = (
            self.times[name].value_s for name in NAMES
        )
        limits = (limit.value for _, limit in _named(self.limits))
        tokens = TokenModel(t0_s, t_prefill_s, t_decode_s, t_kv_s, *limits)
        return TokenCluster(tokens, self.replicas, self.routing, delay_s)


def fit_tokens(
    log: LoggedTokens,
    replicas: int = 1,
    stated: StatedLimits | None = None,
    routing: Routing = Routing.SHORTEST_QUEUE,
) -> TokenFit:
    """The token model with which the simulator retells the log best.

    Limits come from the configuration or from what the log reached (`fit_limits`). Times start from
    a regression over what happened before the last seen dispatch, and from five fixed divisions of
    the median TPOT; then the engine itself is run on the arrivals and they are moved until its
    TTFT, TPOT and response times are those of the log (`refine`). `dispatch_delay_s` stands for
    what a request waits although it could be admitted: an engine that schedules asynchronously
    (vLLM) has the next iteration planned already. Several replicas are equal, and requests are
    routed as `routing` says. Nothing is random.

    The model has one price for a prompt token wherever in the prompt it stands, one for a sequence
    and one for a token of context; it knows no attention among prompt tokens, no padding to sizes
    of CUDA graphs, no prefix cache, no blocks of memory, no noise.

    Raises ValueError where the log is impossible, or tells no time per output token.
    """
    check_whole("replicas", replicas, 1)
    check_tokens(log, replicas)
    limits = fit_limits(log, replicas, stated or StatedLimits())
    values = [limit.value for _, limit in _named(limits)]
    cluster = TokenCluster(TokenModel(1.0, 0.0, 0.0, 0.0, *values), replicas, routing)
    refined = refine(log, cluster, _starts(log, replicas))
    return TokenFit(
        _estimates(refined),
        limits,
        replicas,
        routing,
        int(np.isfinite(log.departure_s).sum()),
        refined.loss,
        refined.residual,
    )


def predict(fit: TokenFit, arrivals: Arrivals) -> LoggedTokens:
    """The log that the fitted cluster would write of the arrivals."""
    return replay(fit.cluster(), arrivals)


def _starts(log: LoggedTokens, replicas: int) -> list[np.ndarray]:
    """Where the search begins: shares `[5]` of the typical values."""
    starts = [np.array(shares) for shares in _STARTS]
    dispatched = np.flatnonzero(~np.isnan(log.dispatch_s))
    if len(dispatched) == 0:
        return starts  # a gateway tells no dispatch
    try:
        regression = regress(cut_at(log, int(dispatched[-1]) + 1), replicas)
    except ValueError:
        return starts  # no seen request departed before the last seen dispatch
    shares = regression.value / typical_s(log, replicas)[:4]
    return [*starts, np.append(np.maximum(shares, 0.02), 0.1)]


def _estimates(refined: Refined) -> dict[str, Estimate]:
    rows = zip(NAMES, refined.value, refined.low, refined.high, strict=True)
    return {name: Estimate(float(v), float(low), float(high)) for name, v, low, high in rows}


def _named(limits: TokenLimits) -> list[tuple[str, Limit]]:
    return list(zip(TokenLimits._fields, limits, strict=True))


def to_dict(fit: TokenFit) -> dict[str, Any]:
    """Plain numbers, strings and dictionaries, for JSON. An interval without an end has None."""
    return {
        "times": {
            name: {field: _plain(value) for field, value in time._asdict().items()}
            for name, time in fit.times.items()
        },
        "limits": {
            name: {"value": limit.value, "known": limit.known.value}
            for name, limit in _named(fit.limits)
        },
        "replicas": fit.replicas,
        "routing": fit.routing.value,
        "seen": fit.seen,
        "loss": fit.loss,
        "residual": fit.residual,
        "identified": fit.identified,
    }


def from_dict(values: dict[str, Any]) -> TokenFit:
    """The fit that `to_dict` wrote."""
    times = {
        name: Estimate(
            *(float("inf") if time[field] is None else time[field] for field in Estimate._fields)
        )
        for name, time in values["times"].items()
    }
    limits = {
        name: Limit(limit["value"], Known(limit["known"]))
        for name, limit in values["limits"].items()
    }
    return TokenFit(
        times,
        TokenLimits(**limits),
        values["replicas"],
        Routing(values["routing"]),
        values["seen"],
        values["loss"],
        values["residual"],
    )


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None
