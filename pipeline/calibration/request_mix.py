"""What the requests of a log ask for: shares of the classes, and sizes and tokens of each."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kstest, lognorm, norm, rankdata

from simulator.checks import check
from simulator.sizes import (
    Constant,
    Distribution,
    Empirical,
    Lognormal,
    Quantiles,
    RequestSizes,
)

MOST_VALUES = 64  # of an empirical distribution
QUANTILES = 33
_HELD_OUT = 0.3  # of the amounts, against which the forms are judged
_KINDS: dict[str, type] = {
    "constant": Constant,
    "empirical": Empirical,
    "lognormal": Lognormal,
    "quantiles": Quantiles,
}


class ClassShare(NamedTuple):
    """Share of a class among all requests, with the bounds of its interval."""

    share: float
    low: float
    high: float
    requests: int


class ClassMix(NamedTuple):
    """A class of requests: how many, how large, and whether long prompts get long answers."""

    name: str
    share: ClassShare
    sizes: RequestSizes
    token_rank_correlation: float  # Spearman, of prompt and output tokens; NaN where not known


def fit_request_mix(
    class_names: tuple[str, ...],
    request_class: np.ndarray,
    size: np.ndarray,
    prompt_tokens: np.ndarray,
    output_tokens: np.ndarray,
    confidence: float = 0.95,
) -> list[ClassMix]:
    """The share and the distributions of each class `[C]`, from R requests in time order.

    `request_class [R]` in 0..C-1; `size [R]`; tokens `[R]`, or `[0]` where requests have none. Size
    and tokens are fitted apart: the simulator draws them independently, so a rank correlation far
    from 0 is a dependence that it leaves out. Dependence between requests is left out as well.
    Raises ValueError for lengths that differ, amounts that are not finite and above 0, and a class
    without a request, whose sizes nothing tells.
    """
    _check_columns(request_class, size, prompt_tokens, output_tokens, len(class_names))
    mixes = []
    for number, name in enumerate(class_names):
        rows = request_class == number
        count = int(rows.sum())
        check(count > 0, "class_names", name, "the log has no request of this class")
        prompt = prompt_tokens[rows] if len(prompt_tokens) else None
        output = output_tokens[rows] if len(output_tokens) else None
        sizes = RequestSizes(
            fit_distribution(size[rows], "size"),
            None if prompt is None else fit_distribution(prompt, "prompt_tokens"),
            None if output is None else fit_distribution(output, "output_tokens"),
        )
        share = ClassShare(count / len(rows), *wilson_interval(count, len(rows), confidence), count)
        mixes.append(ClassMix(name, share, sizes, rank_correlation(prompt, output)))
    return mixes


def _check_columns(
    request_class: np.ndarray,
    size: np.ndarray,
    prompt_tokens: np.ndarray,
    output_tokens: np.ndarray,
    classes: int,
) -> None:
    count = len(request_class)
    check(count > 0, "len(request_class)", count, "a mix needs requests")
    check(len(size) == count, "len(size)", len(size), f"must be {count}, as of request_class")
    for field, tokens in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        rule = f"must be {count}, as of request_class, or 0"
        check(len(tokens) in (0, count), f"len({field})", len(tokens), rule)
    known = (request_class >= 0) & (request_class < classes)
    if not known.all():
        first = int(np.argmin(known))
        rule = f"must be in 0..{classes - 1}"
        check(False, f"request_class[{first}]", request_class[first].item(), rule)


def wilson_interval(count: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Bounds of the probability of which `count` of `total` are seen.

    `(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)` (Wilson 1927). Requests
    count as independent: where a class comes in bursts, the interval is too narrow.
    """
    check(0 <= count <= total and total > 0, "count", count, f"must be in 0..{total}, total > 0")
    check(0.0 < confidence < 1.0, "confidence", confidence, "must be above 0 and below 1")
    z, share = float(norm.ppf(0.5 + confidence / 2.0)), count / total
    middle = share + z * z / (2.0 * total)
    half = z * math.sqrt(share * (1.0 - share) / total + (z / (2.0 * total)) ** 2)
    scale = 1.0 + z * z / total
    return max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0)


def rank_correlation(first: np.ndarray | None, second: np.ndarray | None) -> float:
    """Spearman's rank correlation of two columns `[R]`, ties at their mean rank.

    NaN where a column is missing or constant, or with fewer than three rows.
    """
    if first is None or second is None or len(first) < 3:
        return math.nan
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def fit_distribution(amount: np.ndarray, field: str = "amount") -> Distribution:
    """The simplest form that tells amounts `[R]` in time order.

    One value: Constant. At most 64 values: Empirical. Else the Lognormal of the same mean and cv of
    logarithms, if it is as good as 33 quantiles: fitted to the first 70 % in time, its largest
    distance from the distribution of the last 30 % (Kolmogorov-Smirnov) is no larger than that of
    the quantiles, or too small to be told from 0 at the 5 % level. Otherwise the quantiles.
    Raises ValueError unless all amounts are finite and above 0.
    """
    check(len(amount) > 0, f"len({field})", len(amount), "a distribution needs amounts")
    amount = np.asarray(amount, float)
    sound = np.isfinite(amount) & (amount > 0)
    if not sound.all():
        first = int(np.argmin(sound))
        check(False, f"{field}[{first}]", amount[first].item(), "must be finite and above 0")
    values, counts = np.unique(amount, return_counts=True)
    if len(values) == 1:
        return Constant(float(values[0]))
    if len(values) <= MOST_VALUES:
        return Empirical(tuple(values.tolist()), tuple(counts.astype(float).tolist()))
    train = int((1.0 - _HELD_OUT) * len(amount))
    if _lognormal_is_as_good(amount[:train], amount[train:]):
        return _lognormal(amount)
    return _quantiles(amount)


def _lognormal(amount: np.ndarray) -> Lognormal:
    logs = np.log(amount)
    variance = float(logs.var())
    return Lognormal(math.exp(float(logs.mean()) + variance / 2.0), math.sqrt(math.expm1(variance)))


def _quantiles(amount: np.ndarray) -> Quantiles:
    levels = np.linspace(0.0, 1.0, QUANTILES)
    # Rounding must not make a quantile smaller than the one before it.
    values = np.maximum.accumulate(np.quantile(amount, levels))
    return Quantiles(tuple(levels.tolist()), tuple(values.tolist()))


def _lognormal_is_as_good(train: np.ndarray, held_out: np.ndarray) -> bool:
    if np.ptp(train) == 0:
        return False
    fitted, quantiles = _lognormal(train), _quantiles(train)
    sigma = math.sqrt(math.log1p(fitted.cv**2))
    law = lognorm(sigma, scale=fitted.mean * math.exp(-sigma * sigma / 2.0))
    of_lognormal = kstest(held_out, law.cdf)
    values, levels = np.array(quantiles.values), np.array(quantiles.levels)
    # Equal quantiles are a step: its upper end is the distribution function there.
    upper = np.append(np.diff(values) > 0, True)
    below = kstest(held_out, lambda x: np.interp(x, values[upper], levels[upper], left=0.0))
    return bool(of_lognormal.pvalue > 0.05 or of_lognormal.statistic <= below.statistic)


def to_json(distribution: Distribution) -> dict[str, Any]:
    """The distribution as plain values with the key `kind`; `from_json` is its inverse."""
    for kind, form in _KINDS.items():
        if isinstance(distribution, form):
            fields = vars(distribution).items()
            listed = {key: list(at) if isinstance(at, tuple) else at for key, at in fields}
            return {"kind": kind, **listed}
    raise ValueError(f"distribution = {distribution!r}: must be one of {', '.join(_KINDS)}")


def from_json(values: dict[str, Any]) -> Distribution:
    """The distribution that `to_json` wrote; ValueError for another kind."""
    kind = values.get("kind")
    check(kind in _KINDS, "kind", kind, f"must be one of {', '.join(_KINDS)}")
    fields = {key: tuple(at) if isinstance(at, list) else at for key, at in values.items()}
    del fields["kind"]
    distribution: Distribution = _KINDS[str(kind)](**fields)
    return distribution
