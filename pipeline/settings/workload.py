"""Settings of the load: logged arrivals, or generated ones with their sizes."""

from dataclasses import dataclass, field

from pipeline.settings.checks import check_by_class, check_choice, check_name, check_positive
from pipeline.settings.sizes import SIZE_KINDS, SizeSettings
from simulator.checks import check

ClassSizesSettings = dict[str, SizeSettings]  # by request class; empty: every size is 1
BY_KIND = {"choose": ("kind", SIZE_KINDS)}


def check_classes(section: object, first: str, *keys: str) -> None:
    """Raises ValueError unless each attribute is empty or has the classes of the first one."""
    names = getattr(section, first)
    for key in keys:
        given = getattr(section, key)
        if given:
            rule = f"needs the classes of {first}: {', '.join(names)}"
            check(set(given) == set(names), key, given, rule)


@dataclass(frozen=True)
class LoggedWorkloadSettings:
    """Windows of the logged arrivals."""

    kind: str = "logged"
    rate_scale: float = 1.0  # above 1: time is compressed
    rate_rps: float | None = None  # mean rate to show the training split at; null: by rate_scale

    def __post_init__(self) -> None:
        check_positive(self, "rate_scale", "rate_rps")
        rule = "rate_rps sets the scale; needs 1"
        check(self.rate_rps is None or self.rate_scale == 1.0, "rate_scale", self.rate_scale, rule)


@dataclass(frozen=True)
class PoissonWorkloadSettings:
    """Independent Poisson arrivals at a constant rate."""

    rate_rps: dict[str, float]  # by request class
    sizes: ClassSizesSettings = field(default_factory=dict, metadata=BY_KIND)
    kind: str = "poisson"

    def __post_init__(self) -> None:
        check_by_class(self, "rate_rps")
        check_classes(self, "rate_rps", "sizes")


@dataclass(frozen=True)
class SquareBurstWorkloadSettings:
    """Poisson arrivals whose rate switches squarely between low and high."""

    low_rps: dict[str, float]  # by request class
    high_rps: dict[str, float]  # by request class
    low_s: float
    high_s: float
    random_phase: bool = True  # an episode enters the cycle at a uniform instant
    sizes: ClassSizesSettings = field(default_factory=dict, metadata=BY_KIND)
    kind: str = "square_burst"

    def __post_init__(self) -> None:
        check_by_class(self, "low_rps", "high_rps")
        check_positive(self, "low_s", "high_s")
        check_classes(self, "low_rps", "high_rps", "sizes")


@dataclass(frozen=True)
class PhaseSettings:
    """A phase of Markov-modulated arrivals."""

    rate_rps: dict[str, float]  # by request class, while it lasts
    mean_phase_s: float  # of its exponential length
    jump_probability: dict[str, float]  # to each other phase, by name; they sum to 1

    def __post_init__(self) -> None:
        check_by_class(self, "rate_rps")
        check_positive(self, "mean_phase_s")


@dataclass(frozen=True)
class MarkovModulatedWorkloadSettings:
    """Poisson arrivals whose rates follow the phase of a Markov chain."""

    phases: dict[str, PhaseSettings]
    first_phase: str | None = None  # that an episode starts in; null: drawn from the steady state
    sizes: ClassSizesSettings = field(default_factory=dict, metadata=BY_KIND)
    kind: str = "markov_modulated"

    def __post_init__(self) -> None:
        check(len(self.phases) >= 2, "phases", [*self.phases], "needs two phases or more")
        for name, phase in self.phases.items():
            check_name("phases", name)
            for other, probability in phase.jump_probability.items():
                key = f"phases.{name}.jump_probability"
                leaves = other in self.phases and other != name
                check(leaves, key, other, "must be the name of another phase")
                key = f"{key}.{other}"
                check(0 <= probability <= 1, key, probability, "must be in [0, 1]")
            total = sum(phase.jump_probability.values())
            key = f"phases.{name}.jump_probability"
            check(abs(total - 1.0) <= 1e-9, key, phase.jump_probability, "must sum to 1")
            rule = f"needs the classes of the first phase: {', '.join(self.rate_rps)}"
            same = set(phase.rate_rps) == set(self.rate_rps)
            check(same, f"phases.{name}.rate_rps", phase.rate_rps, rule)
        known = self.first_phase is None or self.first_phase in self.phases
        rule = f"must be null or one of {', '.join(self.phases)}"
        check(known, "first_phase", self.first_phase, rule)
        check_classes(self, "rate_rps", "sizes")

    @property
    def rate_rps(self) -> dict[str, float]:
        """The rates of the first phase, by request class."""
        return next(iter(self.phases.values())).rate_rps


@dataclass(frozen=True)
class RenewalWorkloadSettings:
    """One stream of requests with independent gaps; each request draws its class."""

    rate_rps: float  # of all classes together
    cv: float  # coefficient of variation of the gaps; 1 is Poisson
    law: str = "gamma"  # of the gaps: gamma, or weibull
    mix: dict[str, float] = field(default_factory=dict)  # shares by class; empty: as in training
    sizes: ClassSizesSettings = field(default_factory=dict, metadata=BY_KIND)
    kind: str = "renewal"

    def __post_init__(self) -> None:
        check_positive(self, "rate_rps", "cv")
        check_choice(self, "law", ("gamma", "weibull"))
        if self.mix:
            check_by_class(self, "mix")
            total = sum(self.mix.values())
            check(abs(total - 1.0) <= 1e-9, "mix", self.mix, "shares must sum to 1")
            check_classes(self, "mix", "sizes")


@dataclass(frozen=True)
class DiurnalWorkloadSettings:
    """Poisson arrivals whose rates rise and fall like a sine."""

    rate_rps: dict[str, float]  # by request class, mean over a period
    amplitude: dict[str, float]  # by request class, share of the rate, in [0, 1]
    rise_s: dict[str, float]  # by request class, when the rate passes its mean upward
    period_s: float
    random_phase: bool = True  # an episode enters the cycle at a uniform instant
    sizes: ClassSizesSettings = field(default_factory=dict, metadata=BY_KIND)
    kind: str = "diurnal"

    def __post_init__(self) -> None:
        check_by_class(self, "rate_rps", "amplitude", "rise_s")
        check_classes(self, "rate_rps", "amplitude", "rise_s", "sizes")
        check_positive(self, "period_s")
        for name, share in self.amplitude.items():
            check(share <= 1, f"amplitude.{name}", share, "must be in [0, 1]")


WorkloadSettings = (
    LoggedWorkloadSettings
    | PoissonWorkloadSettings
    | SquareBurstWorkloadSettings
    | MarkovModulatedWorkloadSettings
    | RenewalWorkloadSettings
    | DiurnalWorkloadSettings
)
WORKLOADS: dict[str, type] = {
    "logged": LoggedWorkloadSettings,
    "poisson": PoissonWorkloadSettings,
    "square_burst": SquareBurstWorkloadSettings,
    "markov_modulated": MarkovModulatedWorkloadSettings,
    "renewal": RenewalWorkloadSettings,
    "diurnal": DiurnalWorkloadSettings,
}


def workload_classes(workload: WorkloadSettings) -> tuple[str, dict[str, float]] | None:
    """The key that names the request classes of a load, with its value; None: as logged."""
    if isinstance(workload, LoggedWorkloadSettings):
        return None
    if isinstance(workload, SquareBurstWorkloadSettings):
        return "low_rps", workload.low_rps
    if isinstance(workload, RenewalWorkloadSettings):
        return ("mix", workload.mix) if workload.mix else None
    return "rate_rps", workload.rate_rps
