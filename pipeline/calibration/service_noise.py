"""The noise of service times: lognormal, or measured factors where its tail is another."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from pipeline.calibration.bootstrap import Bounds, cut_into_blocks, percentile_bounds
from simulator.checks import check

LOGNORMAL, RESIDUALS = "lognormal", "residuals"
_MOST_FACTORS = 1000
_LEAST_RATIOS = 200  # in each of both parts, for measured factors to be chosen
_LEAST_BEYOND = 20  # ratios beyond a quantile, for a figure of the tail
_BODY = np.linspace(0.05, 0.95, 19)
_TAIL = np.array([0.98, 0.99, 0.995, 0.999])


class Reach(NamedTuple):
    """A high quantile over the median, in the log and in both models; NaN: too few ratios."""

    logged: float
    lognormal: float
    residuals: float


class NoiseTail(NamedTuple):
    """How far the noise reaches, in the log (all of it) and in both models.

    An exceedance is the share of held-out ratios above a model's P99: 0.01 where its tail is right.
    A Hill estimate is the mean of `log(x / u)` over the ratios x above their 95th percentile u: the
    tail index of a Pareto tail, and what a lognormal of the same spread would show beside it.
    """

    p99_to_p50: Reach
    p999_to_p50: Reach
    exceedance_lognormal: float
    exceedance_residuals: float
    hill: float
    hill_lognormal: float


class NoiseFit(NamedTuple):
    """The noise of mean 1 that was chosen, and what the choice rests on."""

    kind: str  # `lognormal` or `residuals`
    noise_cv: float
    residuals: tuple[float, ...]  # ascending, mean 1, each as likely as the next
    ratios: int  # fitted to
    held_out_ratios: int
    distance_lognormal: float  # largest gap of distribution functions to held-out (Kolmogorov)
    distance_residuals: float
    body_gain: Bounds  # quantile score of the lognormal less that of the residuals, P5 to P95
    tail_gain: Bounds  # the same, P98 to P99.9
    tail: NoiseTail
    reason: str


def fit_noise(
    ratio: np.ndarray,
    held_out: np.ndarray,
    held_out_s: np.ndarray,
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 300,
) -> NoiseFit:
    """Lognormal noise, unless measured residuals surely tell the held-out ratios better.

    Surely: the interval of the difference of quantile scores, by blocks of held-out time, lies
    above 0; and the lognormal misses by something that matters: its distribution function by 0.03
    or more in the body, or the P99 or P99.9 of the held-out ratios by 5 % or more in the tail. The
    quantile score of q at level p is the mean of `(p - [x < q]) (x - q)`; the true quantile has the
    least (Gneiting and Raftery, 2007).

    Arguments: `ratio [n]` and `held_out [m]`, measured over expected service time, each divided
    by its mean here: a shift of all latencies is not noise; `held_out_s [m]`, when those were
    dispatched, s. Raises ValueError unless the ratios are finite and positive, at least 2 and 0.
    The residuals reach no further than the ratios did, and less than P99.9 needs 1000 of them.
    """
    _check_ratios(ratio, held_out)
    own = ratio / ratio.mean()
    unseen = held_out / held_out.mean() if len(held_out) else held_out
    noise_cv = float(own.std(ddof=1))
    residuals = residual_factors(own)
    models = lognormal_quantiles(noise_cv), np.array(residuals)
    distance_lognormal, distance_residuals = (_distance(unseen, model) for model in models)
    fit = NoiseFit(
        kind=LOGNORMAL,
        noise_cv=noise_cv,
        residuals=residuals,
        ratios=len(own),
        held_out_ratios=len(unseen),
        distance_lognormal=distance_lognormal,
        distance_residuals=distance_residuals,
        body_gain=Bounds.unknown(),
        tail_gain=Bounds.unknown(),
        tail=_tail(own, unseen, noise_cv, models),
        reason=f"fewer than {_LEAST_RATIOS} ratios to fit or to check with",
    )
    if min(len(own), len(unseen)) < _LEAST_RATIOS:
        return fit
    blocks = cut_into_blocks(held_out_s, np.stack([unseen, unseen**2], axis=1))
    gained = (
        _score(unseen, models[0], at) - _score(unseen, models[1], at) for at in (_BODY, _TAIL)
    )
    columns = np.stack([*gained, np.ones(len(unseen))], axis=1)
    sums = blocks.resample(resamples, generator) @ blocks.sums(columns)
    gains = (sums[:, :2] / sums[:, 2:]).T
    body, tail = (percentile_bounds(gain, confidence, blocks.number) for gain in gains)
    return _decide(fit._replace(body_gain=body, tail_gain=tail), unseen, models[0])


def _check_ratios(ratio: np.ndarray, held_out: np.ndarray) -> None:
    for field, values in (("ratio", ratio), ("held_out", held_out)):
        holds = bool(np.isfinite(values).all() and (values > 0).all())
        check(holds, field, float(values.min(initial=np.inf)), "must be finite and above 0")
    check(len(ratio) >= 2, "ratio", len(ratio), "needs at least two batches")


def _decide(fit: NoiseFit, unseen: np.ndarray, lognormal: np.ndarray) -> NoiseFit:
    misses = {
        f"P{level * 100:g}": abs(
            float(_quantile(lognormal, level) / np.quantile(unseen, level) - 1)
        )
        for level in (0.99, 0.999)
        if len(unseen) * (1.0 - level) >= _LEAST_BEYOND or level == 0.99
    }
    worst = max(misses, key=lambda name: misses[name])
    found = f"lognormal misses the held-out distribution by {fit.distance_lognormal:.3f} and "
    found += f"{worst} by {misses[worst]:.1%}"
    if fit.distance_lognormal >= 0.03 and fit.body_gain.low > 0.0:
        return fit._replace(kind=RESIDUALS, reason=f"{found}: another shape")
    if misses[worst] >= 0.05 and fit.tail_gain.low > 0.0:
        return fit._replace(kind=RESIDUALS, reason=f"{found}: another tail")
    return fit._replace(reason=f"{found}: the residuals are not surely and noticeably better")


def residual_factors(ratio: np.ndarray, most: int = _MOST_FACTORS) -> tuple[float, ...]:
    """At most `most` ascending factors of mean 1, each as likely as the next.

    Factor i of m is the mean of the ratios between the quantiles `i / m` and `(i + 1) / m`, so
    that the mean is kept and the last is the mean of what lies above P99.9 (m = 1000).
    """
    ordered = np.sort(ratio / ratio.mean())
    factors = min(most, len(ordered))
    below = np.concatenate([[0.0], np.cumsum(ordered)]) / len(ordered)
    share = np.linspace(0.0, 1.0, factors + 1)
    mass = np.interp(share, np.linspace(0.0, 1.0, len(ordered) + 1), below)
    return tuple((np.diff(mass) * factors).tolist())


def lognormal_quantiles(noise_cv: float, factors: int = 20_000) -> np.ndarray:
    """Equally likely factors of the lognormal of mean 1: fine enough to stand for it."""
    sigma = math.sqrt(math.log1p(noise_cv**2))
    middle = (np.arange(factors) + 0.5) / factors
    return np.asarray(np.exp(sigma * ndtri(middle) - 0.5 * sigma**2))


def _quantile(factors: np.ndarray, level: float | np.ndarray) -> np.ndarray:
    """The quantile of equally likely factors; each stands for the middle of its share."""
    middle = (np.arange(len(factors)) + 0.5) / len(factors)
    return np.interp(level, middle, factors)


def _score(values: np.ndarray, factors: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The quantile score of each value, mean over the levels, `[n]`."""
    missed = values[:, None] - _quantile(factors, levels)
    return np.asarray(np.maximum(levels * missed, (levels - 1.0) * missed).mean(1))


def _distance(values: np.ndarray, factors: np.ndarray) -> float:
    """The largest difference of the distribution functions; NaN without values."""
    if len(values) == 0:
        return float("nan")
    ordered = np.sort(values)
    middle = (np.arange(len(factors)) + 0.5) / len(factors)
    expected = np.interp(ordered, factors, middle, left=0.0, right=1.0)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


def _tail(
    own: np.ndarray, unseen: np.ndarray, noise_cv: float, models: tuple[np.ndarray, np.ndarray]
) -> NoiseTail:
    every = np.concatenate([own, unseen])
    lognormal, residuals = models
    return NoiseTail(
        p99_to_p50=_reach(every, 0.99, models),
        p999_to_p50=_reach(every, 0.999, models),
        exceedance_lognormal=_exceedance(unseen, lognormal),
        exceedance_residuals=_exceedance(unseen, residuals),
        hill=_hill(every),
        hill_lognormal=_lognormal_hill(noise_cv),
    )


def _reach(logged: np.ndarray, level: float, models: tuple[np.ndarray, np.ndarray]) -> Reach:
    if len(logged) * (1.0 - level) < 1.0:  # no ratio lies beyond it
        return Reach(*(float("nan"),) * 3)
    modelled = (float(_quantile(model, level) / _quantile(model, 0.5)) for model in models)
    return Reach(float(np.quantile(logged, level) / np.median(logged)), *modelled)


def _exceedance(unseen: np.ndarray, factors: np.ndarray) -> float:
    return float((unseen > _quantile(factors, 0.99)).mean()) if len(unseen) else float("nan")


def _hill(values: np.ndarray) -> float:
    beyond = values[values > np.quantile(values, 0.95)]
    if len(beyond) < _LEAST_BEYOND:
        return float("nan")
    return float(np.log(beyond / np.quantile(values, 0.95)).mean())


def _lognormal_hill(noise_cv: float) -> float:
    """`sigma (phi(z) / (1 - Phi(z)) - z)` at the 95th percentile z of the normal."""
    z = float(ndtri(0.95))
    mean_excess = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) / float(1.0 - ndtr(z)) - z
    return math.sqrt(math.log1p(noise_cv**2)) * mean_excess
