"""Sizes and tokens: means by algebra, what a draw may give, and what is refused."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from simulator.sizes import (
    Constant,
    Empirical,
    Lognormal,
    Quantiles,
    RequestMix,
    RequestSizes,
    draw_sizes,
)


def generator() -> np.random.Generator:
    return np.random.default_rng(8)


def test_means_follow_from_the_parameters() -> None:
    assert Constant(3.0).mean == 3.0
    assert Lognormal(7.0, 2.0).mean == 7.0
    assert Empirical((1.0, 2.0, 6.0)).mean == pytest.approx(3.0)
    assert Empirical((1.0, 2.0, 4.0), (1, 1, 2)).mean == pytest.approx(11.0 / 4.0)
    # Half of the amounts are uniform in 1..3, the others in 3..7: (2 + 5) / 2.
    assert Quantiles((0.0, 0.5, 1.0), (1.0, 3.0, 7.0)).mean == pytest.approx(3.5)


def test_a_constant_draws_nothing() -> None:
    stream = generator()
    assert Constant(3).draw(4, stream).tolist() == [3.0] * 4
    assert stream.random() == generator().random()


def test_a_lognormal_is_the_exponential_of_a_normal_with_its_mean_and_cv() -> None:
    variance = math.log(1.0 + 0.5**2)
    normal = generator().standard_normal(5)
    expected = 3.0 * np.exp(math.sqrt(variance) * normal - variance / 2)
    assert Lognormal(3.0, 0.5).draw(5, generator()) == pytest.approx(expected)


def test_an_empirical_draw_inverts_the_cumulative_counts() -> None:
    uniform = generator().random(1000)
    expected = np.select([uniform < 0.25, uniform < 0.5], [5.0, 2.0], 9.0)
    drawn = Empirical((5.0, 2.0, 9.0), (1, 1, 2)).draw(1000, generator())
    assert drawn.tolist() == expected.tolist()


def test_values_that_were_never_counted_are_never_drawn() -> None:
    drawn = Empirical((1.0, 2.0, 3.0, 4.0), (0, 3, 7, 0)).draw(10_000, generator())
    assert set(drawn.tolist()) == {2.0, 3.0}


def test_a_quantile_draw_interpolates_between_levels() -> None:
    uniform = generator().random(1000)
    expected = np.where(uniform < 0.5, 1.0 + 4.0 * uniform, 3.0 + 8.0 * (uniform - 0.5))
    drawn = Quantiles((0.0, 0.5, 1.0), (1.0, 3.0, 7.0)).draw(1000, generator())
    assert drawn == pytest.approx(expected)


def test_tokens_are_whole_and_at_least_one() -> None:
    sizes = (RequestSizes(prompt_tokens=Lognormal(0.4, 2.0), output_tokens=Constant(2.6)),)
    drawn = draw_sizes(np.zeros(1000, np.int64), sizes, generator())
    assert drawn.prompt_tokens.dtype == drawn.output_tokens.dtype == np.int64
    assert drawn.prompt_tokens.min() == 1 < drawn.prompt_tokens.max()
    assert (drawn.output_tokens == 3).all()
    assert (drawn.size == 1.0).all()


def test_draws_go_class_by_class_through_sizes_prompts_and_outputs() -> None:
    law = Lognormal(50.0, 1.0)
    sizes = (RequestSizes(law, law, law), RequestSizes(Constant(2.0), law, Constant(7.0)))
    request_class = np.array([1, 0, 0, 1, 0])
    drawn = draw_sizes(request_class, sizes, generator())
    stream = generator()
    size, prompt, output = (law.draw(3, stream) for _ in range(3))
    assert drawn.size.tolist() == [2.0, size[0], size[1], 2.0, size[2]]
    assert drawn.prompt_tokens[[1, 2, 4]].tolist() == np.rint(prompt).tolist()
    assert drawn.output_tokens.tolist() == [7, *np.rint(output[:2]), 7, np.rint(output[2])]
    assert drawn.prompt_tokens[[0, 3]].tolist() == np.rint(law.draw(2, stream)).tolist()


def test_requests_may_have_prompts_without_outputs() -> None:
    sizes = (RequestSizes(prompt_tokens=Constant(4.0)),)
    drawn = draw_sizes(np.zeros(3, np.int64), sizes, generator())
    assert drawn.prompt_tokens.tolist() == [4, 4, 4]
    assert len(drawn.output_tokens) == 0


def test_a_mix_draws_classes_by_their_probabilities() -> None:
    uniform = generator().random(1000)
    expected = np.select([uniform < 0.2, uniform < 0.7], [0, 1], 2)
    drawn = RequestMix((0.2, 0.5, 0.3)).draw_classes(1000, generator())
    assert drawn.tolist() == expected.tolist()


def test_a_mix_of_one_class_draws_nothing() -> None:
    stream = generator()
    assert RequestMix((1.0,)).draw_classes(3, stream).tolist() == [0, 0, 0]
    assert stream.random() == generator().random()


PLAIN, PROMPT = RequestSizes(), RequestSizes(prompt_tokens=Constant(4.0))
OUTPUT = RequestSizes(output_tokens=Constant(4.0))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Constant(0.0), "value = 0.0: must be positive and finite"),
        (lambda: Constant(math.nan), "value = nan: must be positive and finite"),
        (lambda: Lognormal(-1.0, 1.0), "mean = -1.0: must be positive"),
        (lambda: Lognormal(1.0, 0.0), "cv = 0.0: must be positive"),
        (lambda: Empirical(()), r"values = \(\): needs one value or more"),
        (lambda: Empirical((1.0, 0.0)), r"values\[1\] = 0.0: must be positive"),
        (lambda: Empirical((1.0, 2.0), (1,)), r"counts = \(1,\): needs one count for each of 2"),
        (lambda: Empirical((1.0, 2.0), (1, -1)), r"counts\[1\] = -1: must be finite and at least"),
        (lambda: Empirical((1.0, 2.0), (0, 0)), r"counts = \(0, 0\): must not all be 0"),
        (lambda: Quantiles((0.0, 0.9), (1.0, 2.0)), r"levels = \(0.0, 0.9\): must rise from 0 to"),
        (lambda: Quantiles((0.1, 1.0), (1.0, 2.0)), "levels = .* must rise from 0 to 1"),
        (lambda: Quantiles((0.0, 0.5, 0.5, 1.0), (1.0,) * 4), "levels = .* without equals"),
        (lambda: Quantiles((), ()), r"levels = \(\): must rise"),
        (lambda: Quantiles((0.0, 1.0), (1.0,)), r"values = \(1.0,\): needs one value for each of"),
        (lambda: Quantiles((0.0, 1.0), (0.0, 1.0)), r"values\[0\] = 0.0: must be positive"),
        (lambda: Quantiles((0.0, 1.0), (2.0, 1.0)), r"values = \(2.0, 1.0\): must be ascending"),
        (lambda: RequestMix(()), r"probability = \(\): must be probabilities"),
        (lambda: RequestMix((0.5, 0.4)), r"probability = \(0.5, 0.4\): .* that sum to 1"),
        (lambda: RequestMix((1.5, -0.5)), r"probability = \(1.5, -0.5\): .* of at least 0"),
        (lambda: RequestMix((math.nan, 1.0)), r"probability = \(nan, 1.0\): must be"),
        (lambda: RequestMix((1.0,), (PLAIN, PLAIN)), "sizes = .* needs the sizes of each of 1"),
        (lambda: RequestMix((0.5, 0.5), (PLAIN, PROMPT)), r"sizes.prompt_tokens = .* every class"),
        (lambda: RequestMix((0.5, 0.5), (PLAIN, OUTPUT)), r"sizes.output_tokens = .* every class"),
    ],
)
def test_impossible_sizes_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
