"""Generated traffic by hand-made draws and algebra, and traffic that is refused."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from simulator.arrivals import (
    GapLaw,
    markov_phases,
    phase_instants,
    square_phases,
    stationary_shares,
    weibull_shape,
)
from simulator.sizes import Constant, Lognormal, RequestMix, RequestSizes
from simulator.traffic import (
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
    SquareBurstWorkload,
)
from simulator.workload import Workload, check_arrivals

TWO = (
    RequestSizes(Lognormal(1.0, 0.5), Lognormal(300.0, 1.0), Constant(20.0)),
    RequestSizes(Constant(2.0), Constant(50.0), Lognormal(100.0, 0.7)),
)
JUMPS = ((0.0, 1.0, 0.0), (0.5, 0.0, 0.5), (0.0, 1.0, 0.0))
RATES = ((5.0, 1.0), (20.0, 10.0), (60.0, 0.0))
ON_OFF = MarkovModulatedWorkload.on_off


def workloads(sizes: tuple[RequestSizes, ...]) -> list[Workload]:
    """One of each kind, with two request classes."""
    mix = RequestMix((0.25, 0.75), sizes)
    return [
        PoissonWorkload((30.0, 10.0), sizes),
        SquareBurstWorkload((1.0, 0.0), (50.0, 30.0), 2.0, 1.0, True, sizes),
        MarkovModulatedWorkload(RATES, (1.0, 2.0, 0.5), JUMPS, sizes=sizes),
        ON_OFF((70.0, 20.0), 1.0, 2.0, sizes=sizes),
        RenewalWorkload(30.0, 3.0, GapLaw.GAMMA, mix),
        RenewalWorkload(30.0, 0.3, GapLaw.WEIBULL, mix),
        DiurnalWorkload((30.0, 10.0), (1.0, 0.5), 20.0, (3.0, -4.0), True, sizes),
    ]


KINDS = ["poisson", "square", "modulated", "on_off", "gamma", "weibull", "diurnal"]
every_kind = pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)


def drawn(workload: Workload, horizon_s: float = 40.0, seed: int = 4) -> tuple[np.ndarray, ...]:
    return workload.draw(horizon_s, np.random.default_rng(seed))


@every_kind
def test_arrivals_are_possible_and_end_before_the_horizon(kind: int) -> None:
    arrivals = drawn(workloads(TWO)[kind])
    check_arrivals(arrivals, classes=2)
    assert arrivals.arrival_s[-1] < 40.0
    assert set(arrivals.request_class.tolist()) == {0, 1}
    assert [column.dtype for column in arrivals] == [
        np.float64,
        np.int64,
        np.float64,
        np.int64,
        np.int64,
    ]


@every_kind
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(kind: int) -> None:
    first, again, other = (drawn(workloads(TWO)[kind], seed=seed) for seed in (4, 4, 5))
    for mine, same in zip(first, again, strict=True):
        assert mine.tobytes() == same.tobytes()
    assert first.arrival_s.tobytes() != other.arrival_s.tobytes()


@every_kind
def test_sizes_move_no_arrival_and_change_no_class(kind: int) -> None:
    plain, sized = drawn(workloads(())[kind]), drawn(workloads(TWO)[kind])
    assert plain.arrival_s.tobytes() == sized.arrival_s.tobytes()
    assert plain.request_class.tobytes() == sized.request_class.tobytes()
    assert (plain.size == 1.0).all()
    assert len(plain.prompt_tokens) == len(plain.output_tokens) == 0
    assert (sized.size[sized.request_class == 1] == 2.0).all()
    assert (sized.output_tokens[sized.request_class == 0] == 20).all()
    assert (sized.prompt_tokens[sized.request_class == 1] == 50).all()


@every_kind
def test_an_episode_without_length_has_no_requests(kind: int) -> None:
    check_arrivals(drawn(workloads(TWO)[kind], horizon_s=0.0), classes=2)
    assert len(drawn(workloads(TWO)[kind], horizon_s=0.0).arrival_s) == 0


def test_poisson_draws_are_a_count_and_sorted_uniforms_class_by_class() -> None:
    arrivals = PoissonWorkload((3.0, 8.0)).draw(20.0, np.random.default_rng(1))
    generator = np.random.default_rng(1)
    for number, rate_rps in enumerate((3.0, 8.0)):
        count = generator.poisson(rate_rps * 20.0)
        expected_s = np.sort(generator.uniform(0.0, 20.0, count))
        assert arrivals.arrival_s[arrivals.request_class == number].tolist() == expected_s.tolist()


def test_a_square_burst_draws_phase_by_phase_then_class_by_class() -> None:
    burst = SquareBurstWorkload((2.0, 4.0), (30.0, 0.0), 5.0, 3.0, random_phase=True)
    arrivals = burst.draw(20.0, np.random.default_rng(1))
    generator = np.random.default_rng(1)
    expected: list[tuple[float, int]] = []
    for start_s, end_s, high in square_phases(5.0, 3.0, generator.uniform(0.0, 8.0), 20.0):
        for number, rate_rps in enumerate((30.0, 0.0) if high else (2.0, 4.0)):
            count = generator.poisson(rate_rps * (end_s - start_s))
            expected += [(s, number) for s in generator.uniform(start_s, end_s, count)]
    found = zip(arrivals.arrival_s.tolist(), arrivals.request_class.tolist(), strict=True)
    assert list(found) == sorted(expected)


def test_square_burst_is_silent_in_the_low_phase_and_starts_low() -> None:
    burst = SquareBurstWorkload((0.0,), (100.0,), low_s=5.0, high_s=5.0)
    arrival_s = burst.draw(20.0, np.random.default_rng(8)).arrival_s
    assert ((arrival_s % 10.0) >= 5.0).all()
    assert abs(len(arrival_s) - 1000) < 4 * np.sqrt(1000)


def test_square_phases_cover_the_horizon_without_gaps() -> None:
    phases = square_phases(2.0, 3.0, offset_s=4.0, horizon_s=9.0)
    assert phases == [
        (0.0, 1.0, True),
        (1.0, 3.0, False),
        (3.0, 6.0, True),
        (6.0, 8.0, False),
        (8.0, 9.0, True),
    ]


def test_phase_instants_keep_to_phases_whose_rate_is_not_zero() -> None:
    edge_s = np.array([0.0, 2.0, 3.0, 7.0, 9.0])
    instants_s = phase_instants(np.array([0.0, 50.0, 0.0, 80.0]), edge_s, np.random.default_rng(2))
    first, second = (instants_s >= 2.0) & (instants_s < 3.0), (instants_s >= 7.0)
    assert (first | second).all()
    assert (np.diff(instants_s) >= 0).all()
    assert abs(first.sum() - 50) < 4 * math.sqrt(50)
    assert abs(second.sum() - 160) < 4 * math.sqrt(160)
    assert abs((instants_s >= 8.0).sum() - 80) < 4 * math.sqrt(80)  # spread over the whole phase


def test_phase_shares_are_jump_shares_weighted_by_length() -> None:
    # nu = nu J gives nu = (1/4, 1/2, 1/4); times lengths (1, 2, 4): (0.25, 1, 1) / 2.25.
    shares = stationary_shares(np.array([1.0, 2.0, 4.0]), np.array(JUMPS))
    assert shares == pytest.approx(np.array([1.0, 4.0, 4.0]) / 9.0)


def test_mean_rates_weigh_the_rates_of_the_phases_by_their_shares() -> None:
    workload = MarkovModulatedWorkload(RATES, (1.0, 2.0, 4.0), JUMPS)
    assert workload.mean_rate_rps == pytest.approx(
        [(5.0 + 4 * 20.0 + 4 * 60.0) / 9.0, (1.0 + 4 * 10.0) / 9.0]
    )
    assert ON_OFF((50.0,), on_s=1.0, off_s=4.0).mean_rate_rps == pytest.approx([10.0])


def test_a_chain_covers_the_horizon_and_never_jumps_to_its_own_phase() -> None:
    jumps = np.array(((0.0, 0.3, 0.7), (1.0, 0.0, 0.0), (0.5, 0.5, 0.0)))
    lengths_s = np.array([0.1, 0.2, 0.05])
    phase, edge_s = markov_phases(lengths_s, jumps, 2, 50.0, np.random.default_rng(3))
    assert phase[0] == 2
    assert (edge_s[0], edge_s[-1]) == (0.0, 50.0)
    assert len(edge_s) == len(phase) + 1 > 100
    assert (np.diff(edge_s) > 0).all()
    assert (jumps[phase[:-1], phase[1:]] > 0).all()


def test_an_on_off_episode_starts_in_the_phase_that_is_asked_for() -> None:
    for first, silent in ((0, True), (1, False)):
        workload = ON_OFF((1000.0,), on_s=1e6, off_s=1e6, first_phase=first)
        assert (len(drawn(workload, 1.0).arrival_s) == 0) == silent


def test_a_generator_matrix_gives_lengths_and_jump_probabilities() -> None:
    matrix = ((-0.5, 0.5, 0.0), (1.0, -4.0, 3.0), (0.0, 2.0, -2.0))
    workload = MarkovModulatedWorkload.from_generator_matrix(RATES, matrix)
    jumps = ((0.0, 1.0, 0.0), (0.25, 0.0, 0.75), (0.0, 1.0, 0.0))
    assert workload == MarkovModulatedWorkload(RATES, (2.0, 0.25, 0.5), jumps)
    assert workload.phase_shares @ np.array(matrix) == pytest.approx(np.zeros(3))


def test_the_weibull_shape_is_the_root_of_its_coefficient_of_variation() -> None:
    assert weibull_shape(1.0) == pytest.approx(1.0, rel=1e-12)  # exponential
    assert weibull_shape(math.sqrt(5.0)) == pytest.approx(0.5, rel=1e-12)  # G(5)/G(3)^2 - 1 = 5
    assert weibull_shape(math.sqrt(19.0)) == pytest.approx(1 / 3, rel=1e-12)  # G(7)/G(4)^2 - 1
    assert weibull_shape(math.sqrt(4 / math.pi - 1)) == pytest.approx(2.0, rel=1e-12)  # Rayleigh


def test_the_weibull_shape_covers_the_cv_that_a_workload_may_have() -> None:
    for cv in (0.001, 0.01, 0.1, 10.0, 100.0):
        over = 1.0 / weibull_shape(cv)
        found = math.expm1(math.lgamma(1 + 2 * over) - 2 * math.lgamma(1 + over))
        assert math.sqrt(found) == pytest.approx(cv, rel=1e-7)


def test_a_class_of_probability_zero_never_arrives() -> None:
    for probability in ((0.0, 0.4, 0.6), (0.7, 0.3, 0.0), (0.1,) * 10 + (0.0,)):
        workload = RenewalWorkload(500.0, 1.0, mix=RequestMix(probability))
        seen = set(drawn(workload).request_class.tolist())
        assert seen == {number for number, share in enumerate(probability) if share > 0}


def test_amplitude_zero_is_a_plain_poisson_process() -> None:
    flat = DiurnalWorkload((30.0,), (0.0,), 10.0, (0.0,)).draw(40.0, np.random.default_rng(1))
    plain = PoissonWorkload((30.0,)).draw(40.0, np.random.default_rng(1))
    assert flat.arrival_s.tolist() == plain.arrival_s.tolist()


def modulated(**changed: object) -> MarkovModulatedWorkload:
    fields = {"rate_rps": RATES, "mean_phase_s": (1.0, 2.0, 4.0), "jump_probability": JUMPS}
    return MarkovModulatedWorkload(**{**fields, **changed})


def diurnal(**changed: object) -> DiurnalWorkload:
    fields = {"rate_rps": (5.0,), "amplitude": (0.5,), "period_s": 60.0, "rise_s": (0.0,)}
    return DiurnalWorkload(**{**fields, **changed})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PoissonWorkload(()), r"rate_rps = \(\): needs a finite rate"),
        (lambda: PoissonWorkload((-1.0,)), r"rate_rps = \(-1.0,\): needs a finite rate of at"),
        (lambda: PoissonWorkload((math.nan,)), r"rate_rps = \(nan,\): needs a finite rate"),
        (lambda: PoissonWorkload((1.0,), TWO), "sizes = .*: needs the sizes of each of 1 classes"),
        (lambda: SquareBurstWorkload((0.0,), (1.0, 2.0), 1.0, 1.0), "high_rps = .* as low_rps"),
        (lambda: SquareBurstWorkload((0.0,), (1.0,), 0.0, 1.0), "low_s = 0.0: must be positive"),
        (lambda: SquareBurstWorkload((0.0,), (1.0,), 1.0, math.inf), "high_s = inf: must be"),
        (lambda: SquareBurstWorkload((0.0,), (1.0,), 1.0, 1.0, sizes=TWO), "sizes = .* needs"),
        (lambda: modulated(rate_rps=()), r"rate_rps = \(\): needs two phases or more"),
        (lambda: modulated(rate_rps=RATES[:1]), "rate_rps = .* needs two phases or more"),
        (lambda: modulated(rate_rps=((1.0,), (-2.0,), (3.0,))), r"rate_rps\[1\] = \(-2.0,\): nee"),
        (lambda: modulated(rate_rps=((1.0,), (1.0, 2.0), (3.0,))), r"rate_rps\[1\] = .* as many"),
        (lambda: modulated(mean_phase_s=(1.0, 2.0)), "mean_phase_s = .* one entry for each of 3"),
        (lambda: modulated(mean_phase_s=(1.0, 0.0, 2.0)), r"mean_phase_s\[1\] = 0.0: must be pos"),
        (lambda: modulated(jump_probability=JUMPS[:2]), "jump_probability = .* each of 3 phases"),
        (
            lambda: modulated(jump_probability=(JUMPS[0], (0.5, 0.0, 0.6), JUMPS[2])),
            r"jump_probability\[1\] = \(0.5, 0.0, 0.6\): must be probabilities .* sum to 1",
        ),
        (
            lambda: modulated(jump_probability=(JUMPS[0], (0.5, 0.5, 0.0), JUMPS[2])),
            r"jump_probability\[1\]\[1\] = 0.5: a jump must leave its phase",
        ),
        (
            lambda: modulated(jump_probability=(JUMPS[0], (0.5, 0.0), JUMPS[2])),
            r"jump_probability\[1\] = \(0.5, 0.0\): needs one entry for each of 3 phases",
        ),
        (
            lambda: modulated(jump_probability=((0, 1.0, 0), (1.0, 0, 0), (0, 1.0, 0))),
            "jump_probability = .* every phase must be reachable",
        ),
        (lambda: modulated(first_phase=3), r"first_phase = 3: must be in 0\.\.2, or None"),
        (lambda: modulated(sizes=TWO[:1]), "sizes = .* needs the sizes of each of 2 classes"),
        (lambda: ON_OFF((1.0,), 0.0, 1.0), r"mean_phase_s\[1\] = 0.0: must be positive"),
        (lambda: ON_OFF((1.0,), 1.0, -2.0), r"mean_phase_s\[0\] = -2.0: must be positive"),
        (
            lambda: MarkovModulatedWorkload.from_generator_matrix(RATES[:2], ((-1, 2), (1, -1))),
            r"jumps_per_s\[0\] = \(-1, 2\): must sum to 0, with its only negative entry at 0",
        ),
        (
            lambda: MarkovModulatedWorkload.from_generator_matrix(RATES[:2], ((-1, 1), (0, 0))),
            r"jumps_per_s\[1\] = \(0, 0\): must sum to 0",
        ),
        (lambda: RenewalWorkload(0.0, 1.0), "rate_rps = 0.0: must be positive"),
        (lambda: RenewalWorkload(1.0, 0.0), r"cv = 0.0: must be in \[0.001, 100\]"),
        (lambda: RenewalWorkload(1.0, -1.0), "cv = -1.0: must be in"),
        (lambda: RenewalWorkload(1.0, math.nan), "cv = nan: must be in"),
        (lambda: RenewalWorkload(1.0, 1.0, "pareto"), "law = 'pareto': must be one of gamma, wei"),
        (lambda: diurnal(rate_rps=(-5.0,)), r"rate_rps = \(-5.0,\): needs a finite rate"),
        (lambda: diurnal(amplitude=(1.5,)), r"amplitude\[0\] = 1.5: must be in \[0, 1\]"),
        (lambda: diurnal(amplitude=(-0.1,)), r"amplitude\[0\] = -0.1: must be in \[0, 1\]"),
        (lambda: diurnal(amplitude=(0.1, 0.2)), "amplitude = .* needs one for each of 1 classes"),
        (lambda: diurnal(period_s=0.0), "period_s = 0.0: must be positive"),
        (lambda: diurnal(rise_s=(math.nan,)), r"rise_s\[0\] = nan: must be finite"),
        (lambda: diurnal(rise_s=()), r"rise_s = \(\): needs one for each of 1 classes"),
        (lambda: diurnal(sizes=TWO), "sizes = .* needs the sizes of each of 1 classes"),
    ],
)
def test_impossible_traffic_is_refused(build: Callable[[], Workload], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
