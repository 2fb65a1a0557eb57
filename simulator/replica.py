"""One server: how long a batch or an iteration takes on it, and what it costs."""

import dataclasses
import math
from dataclasses import dataclass
from itertools import pairwise

from simulator.checks import check, check_whole

LatencyTable = tuple[tuple[float, float], ...]  # (total size of the batch, s), ascending


# What may be given for each request class, or not at all.
_BY_CLASS = (
    "serves",
    "latency_table",
    "residuals",
    "request_memory_gib",
    "energy_alpha_j",
    "energy_beta_j",
)


def _check_not_negative(field: str, value: float) -> None:
    check(math.isfinite(value) and value >= 0, field, value, "must be finite, at least 0")


@dataclass(frozen=True)
class TokenModel:
    """Continuous batching (Orca, vLLM): what an iteration of a replica takes.

    `t0 + t_prefill * prefill tokens + t_decode * sequences decoding + t_kv * their context tokens`.
    The tokens of an iteration, prefill and decoding together, are at most `max_batched_tokens`.
    """

    t0_s: float
    t_prefill_s: float  # s per prompt token
    t_decode_s: float  # s per sequence that decodes
    t_kv_s: float  # s per token of context of those sequences
    max_num_seqs: int
    kv_capacity_tokens: int
    max_batched_tokens: int

    def __post_init__(self) -> None:
        for field in ("t0_s", "t_prefill_s", "t_decode_s", "t_kv_s"):
            _check_not_negative(field, getattr(self, field))
        check(self.t0_s + self.t_decode_s > 0, "t0_s + t_decode_s", 0.0, "a token must take time")
        for field in ("max_num_seqs", "kv_capacity_tokens", "max_batched_tokens"):
            check_whole(field, getattr(self, field), 1)
        check(
            self.kv_capacity_tokens >= 2,
            "kv_capacity_tokens",
            self.kv_capacity_tokens,
            "must hold a prompt token and an output token",
        )
        check(
            self.max_batched_tokens >= self.max_num_seqs,
            "max_batched_tokens",
            self.max_batched_tokens,
            f"must give each of {self.max_num_seqs} sequences a token",
        )


@dataclass(frozen=True)
class Replica:
    """One server. A batch of class c takes `(alpha_s[c] + beta_s[c] * sum of sizes) * noise`.

    The noise is lognormal with mean 1 and coefficient of variation `noise_cv[c]`, or one of
    `residuals[c]`, measured over expected batch latency, each as likely as the next. A
    `latency_table[c]` of (total size, s) takes the place of the line: interpolated between its
    points, constant before the first, and continued along its last segment, never falling.
    With `tokens` the replica runs continuous batching and these do not apply.
    """

    alpha_s: tuple[float, ...]  # [C] seconds per batch
    beta_s: tuple[float, ...]  # [C] seconds per request of size 1
    noise_cv: tuple[float, ...]  # [C]
    max_batch_size: int
    idle_power_w: float = 0.0
    busy_power_w: float = 0.0
    price_per_hour: float = 0.0  # money per hour that the replica is on
    serves: tuple[bool, ...] = ()  # [C], or all classes where empty
    latency_table: tuple[LatencyTable, ...] = ()  # [C], or none where empty
    residuals: tuple[tuple[float, ...], ...] = ()  # [C], or none where empty
    padded_batch_sizes: tuple[int, ...] = ()  # a batch costs as the next of these, ascending
    pads_to_largest: bool = False  # every request of a batch costs as its largest
    memory_gib: float = math.inf  # for the requests of a batch
    request_memory_gib: tuple[float, ...] = ()  # [C] for each unit of size, or 0 where empty
    energy_alpha_j: tuple[float, ...] = ()  # [C] J per batch, beside the power; 0 where empty
    energy_beta_j: tuple[float, ...] = ()  # [C] J per request of it
    tokens: TokenModel | None = None

    def __post_init__(self) -> None:
        self._check_line()
        check_whole("max_batch_size", self.max_batch_size, 1)
        for field in ("idle_power_w", "busy_power_w", "price_per_hour"):
            _check_not_negative(field, getattr(self, field))
        classes = len(self.alpha_s)
        for field in _BY_CLASS:
            values = getattr(self, field)
            check(len(values) in (0, classes), field, values, f"needs {classes} values, or none")
        for request_class, table in enumerate(self.latency_table):
            _check_table(f"latency_table[{request_class}]", table)
        for factors in self.residuals:
            rule = "must all be positive and finite"
            check(all(math.isfinite(f) and f > 0 for f in factors), "residuals", factors, rule)
        for field in ("energy_alpha_j", "energy_beta_j"):
            for value in getattr(self, field):
                _check_not_negative(field, value)
        self._check_padding_and_memory()

    def _check_line(self) -> None:
        classes = len(self.alpha_s)
        for field in ("alpha_s", "beta_s", "noise_cv"):
            values = getattr(self, field)
            check(len(values) == classes, field, values, f"needs one value for each of {classes}")
            for value in values:
                _check_not_negative(field, value)
        if self.tokens is not None:
            noisy = any(cv > 0 for cv in self.noise_cv) or bool(self.residuals)
            check(not noisy, "noise_cv", self.noise_cv, "continuous batching has no noise")
            return
        for alpha_s, beta_s in zip(self.alpha_s, self.beta_s, strict=True):
            check(alpha_s + beta_s > 0, "alpha_s + beta_s", 0.0, "a batch must take some time")

    def _check_padding_and_memory(self) -> None:
        menu = self.padded_batch_sizes
        rule = f"must ascend from at least 1 to at least max_batch_size {self.max_batch_size}"
        holds = not menu or (
            menu[0] >= 1
            and menu[-1] >= self.max_batch_size
            and all(a < b for a, b in pairwise(menu))
        )
        check(holds, "padded_batch_sizes", menu, rule)
        check(self.memory_gib > 0, "memory_gib", self.memory_gib, "must be above 0")
        for value in self.request_memory_gib:
            _check_not_negative("request_memory_gib", value)

    def at_speed(self, speed: float) -> "Replica":
        """The same server `speed` times as fast: every time is divided by it."""
        check(math.isfinite(speed) and speed > 0, "speed", speed, "must be positive and finite")
        tokens = self.tokens and dataclasses.replace(
            self.tokens,
            t0_s=self.tokens.t0_s / speed,
            t_prefill_s=self.tokens.t_prefill_s / speed,
            t_decode_s=self.tokens.t_decode_s / speed,
            t_kv_s=self.tokens.t_kv_s / speed,
        )
        return dataclasses.replace(
            self,
            alpha_s=tuple(value / speed for value in self.alpha_s),
            beta_s=tuple(value / speed for value in self.beta_s),
            latency_table=tuple(
                tuple((size, latency_s / speed) for size, latency_s in table)
                for table in self.latency_table
            ),
            tokens=tokens,
        )


def continuous_replica(classes: int, tokens: TokenModel, price_per_hour: float = 0.0) -> Replica:
    """A replica that runs continuous batching, the same for every request class."""
    nothing = (0.0,) * classes
    return Replica(
        alpha_s=nothing,
        beta_s=nothing,
        noise_cv=nothing,
        max_batch_size=tokens.max_num_seqs,
        price_per_hour=price_per_hour,
        tokens=tokens,
    )


def _check_table(field: str, table: LatencyTable) -> None:
    sizes = [size for size, _ in table]
    check(bool(table), field, table, "needs at least one point")
    check(all(a < b for a, b in pairwise(sizes)), field, sizes, "sizes must ascend")
    for size, latency_s in table:
        check(math.isfinite(size) and size > 0, field, size, "a size must be positive and finite")
        rule = "a batch latency must be positive and finite"
        check(math.isfinite(latency_s) and latency_s > 0, field, latency_s, rule)
