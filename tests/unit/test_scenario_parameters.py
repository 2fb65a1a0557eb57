"""A scenario refuses what cannot be, and says which field and why."""

import dataclasses

import numpy as np
import pytest

from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

FAST, SLOW = RequestClass("fast", 0.1), RequestClass("slow", 0.5)
GPU = Replica((0.002, 0.002), (0.005, 0.02), (0.0, 0.1), 32)
SCENARIO = Scenario((FAST, SLOW), (GPU, GPU), (1, 2, 4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_sizes": (0, 1)}, "batch_sizes = 0: must be a whole number, at least 1"),
        ({"batch_sizes": ()}, "batch_sizes = .*: needs at least one batch size"),
        ({"batch_sizes": (4, 2)}, "batch_sizes = .*: must ascend"),
        ({"batch_sizes": (64,)}, "batch_sizes = .*: no size fits max_batch_size 32"),
        ({"queue_capacity": 0}, "queue_capacity = 0: must be a whole number, at least 1"),
        ({"tick_s": 0.0}, "tick_s = 0.0: must be positive and finite"),
        ({"rate_window_s": float("inf")}, "rate_window_s = inf: must be positive and finite"),
        ({"replicas": ()}, "replicas = .*: needs at least one replica"),
        ({"request_classes": (FAST, FAST)}, "request_classes = .*: names must differ"),
        (
            {"request_classes": (FAST,)},
            r"replicas\[0\].alpha_s = .*: needs one value for each of 1",
        ),
    ],
)
def test_an_impossible_scenario_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SCENARIO, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta_s": (-0.1, 0.1)}, "beta_s = -0.1: must be finite, at least 0"),
        ({"alpha_s": (float("nan"), 0.1)}, "alpha_s = nan: must be finite"),
        ({"noise_cv": (0.1,)}, "noise_cv = .*: needs one value for each of 2"),
        ({"max_batch_size": 0}, "max_batch_size = 0: must be a whole number, at least 1"),
        ({"alpha_s": (0.0, 0.0), "beta_s": (0.0, 0.1)}, "a batch must take some time"),
        ({"busy_power_w": -1.0}, "busy_power_w = -1.0: must be finite"),
    ],
)
def test_an_impossible_replica_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(GPU, **changes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 0.1), "request_class.name = '': must not be empty"),
        (("fast", 0.0), "fast.slo_s = 0.0: must be a positive, finite"),
        (("fast", 0.1, -1.0), "fast.weight = -1.0: must be finite and at least 0"),
    ],
)
def test_an_impossible_request_class_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RequestClass(*arguments)


def test_noise_sigma_gives_the_lognormal_the_coefficient_of_variation() -> None:
    sigma = SCENARIO.parameters().noise_sigma[0, 1]
    draws = np.exp(sigma * np.random.default_rng(0).standard_normal(400_000) - sigma**2 / 2)
    # Standard errors: 0.1 / sqrt(4e5) of the mean, about 0.1 / sqrt(2 * 4e5) of the deviation.
    assert draws.mean() == pytest.approx(1.0, abs=3 * 0.1 / 632)
    assert draws.std() == pytest.approx(0.1, abs=5 * 0.1 / 894)
