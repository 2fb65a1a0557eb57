"""The tuner: finds known best settings, spends the same on each, and sees training alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeline.assembly import build_trial, training_environment
from pipeline.calibration.log import LoggedRun
from pipeline.validation.evaluation import Trial
from pipeline.validation.tuning import points_to_try, tune_rule
from simulator.policies.registry import RULES
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import ClassChoice, RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload, Workload

FREE_BATCH = Replica((0.05,), (0.0,), (0.0,), 8)  # any batch takes 50 ms
COSTLY_BATCH = Replica((0.0,), (0.05,), (0.0,), 8)  # 50 ms for each request


def scenario(*replicas: Replica, class_choice: ClassChoice = ClassChoice.ANY) -> Scenario:
    return Scenario(
        (RequestClass("only", 1.0),),
        replicas,
        batch_sizes=(1, 2, 4, 8),
        class_choice=class_choice,
    )


def trial(cluster: Scenario, workloads: list[Workload]) -> Trial:
    reward = weighted_reward(cluster, {"response_s": -1.0}, {})
    return Trial(cluster, reward, workloads, np.arange(len(workloads)), 1.0, seed=2)


def groups(size: int) -> RecordedWorkload:
    """Three groups of requests that arrive together."""
    instants_s = np.repeat([0.0, 0.4, 0.8], size)
    count = len(instants_s)
    return RecordedWorkload(Arrivals(instants_s, np.zeros(count, int), np.ones(count)))


def test_the_known_best_setting_is_found_and_equals_go_to_the_first() -> None:
    # Groups of four in batches that take 50 ms whatever their size: 4 and 8 both send each group
    # whole, so 4, the first of the two, must win.
    found = tune_rule("static_cap", trial(scenario(FREE_BATCH), [groups(4)]), points=64)
    assert found is not None
    assert found.parameters == {"batch_size": 4}
    assert found.reward_per_s == pytest.approx(-12 * 0.05)
    assert found.points == 4


def test_the_smallest_batch_is_found_where_requests_are_better_apart() -> None:
    # Two together, two replicas: apart they take 50 ms each, in one batch 100 ms each.
    cluster = scenario(COSTLY_BATCH, COSTLY_BATCH)
    found = tune_rule("static_cap", trial(cluster, [groups(2)]), points=64)
    assert found is not None
    assert found.parameters == {"batch_size": 1}
    assert found.reward_per_s == pytest.approx(-6 * 0.05)


def test_a_large_grid_is_thinned_evenly_and_keeps_both_ends() -> None:
    cluster = scenario(FREE_BATCH)
    grid = RULES["batch_timeout"].grid(cluster)
    assert len(grid) == 28
    # 0, 6.75, 13.5, 20.25, 27: rounded.
    chosen = [grid[number] for number in (0, 7, 14, 20, 27)]
    assert points_to_try("batch_timeout", cluster, 5) == chosen
    assert points_to_try("batch_timeout", cluster, 28) == grid
    assert points_to_try("batch_timeout", cluster, 1) == [grid[0]]


@pytest.mark.parametrize("points", range(2, 28))
def test_a_thinned_grid_has_no_setting_twice(points: int) -> None:
    thinned = points_to_try("batch_timeout", scenario(FREE_BATCH), points)
    assert len({str(parameters) for parameters in thinned}) == points


def test_a_rule_that_the_scenario_cannot_have_is_not_tuned() -> None:
    cluster = scenario(FREE_BATCH, class_choice=ClassChoice.HEAD_OF_LINE)
    assert tune_rule("c_mu", trial(cluster, [groups(2)]), points=64) is None


class NotedWorkload:
    """Poisson arrivals; every draw is kept."""

    def __init__(self, notes: list[list[float]]) -> None:
        self._notes = notes

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests that arrive in [0, horizon_s)."""
        arrivals = PoissonWorkload((30.0,)).draw(horizon_s, generator)
        self._notes.append(arrivals.arrival_s.tolist())
        return arrivals


def test_every_setting_meets_the_same_arrivals() -> None:
    notes: list[list[float]] = []
    told: list[None] = []
    episodes = trial(scenario(FREE_BATCH), [NotedWorkload(notes)] * 3)
    tune_rule("static_cap", episodes, 64, lambda: told.append(None))
    by_setting = [notes[first : first + 3] for first in range(0, len(notes), 3)]
    assert len(by_setting) == len(told) == 4
    assert all(met == by_setting[0] for met in by_setting)
    assert by_setting[0][0] != by_setting[0][1]  # the episodes themselves differ


def sizes_met(trial: Trial) -> set[float]:
    """The sizes of all requests of a trial; they tell the split of the log."""
    draws = (
        workload.draw(trial.horizon_s, np.random.default_rng(0)) for workload in trial.workloads
    )
    return {float(size) for draw in draws for size in draw.size}


def test_a_trial_of_a_split_sees_no_other_split(
    make_settings: Callable[..., Any], make_study: Callable[..., Any], run: LoggedRun
) -> None:
    settings = make_settings()
    study = make_study(settings, run)
    for split, size in (("train", 1.0), ("validation", 2.0), ("test", 3.0)):
        assert sizes_met(build_trial(settings, study, split, 4, seed=1)) == {size}


def test_replay_and_training_see_the_training_split_alone(
    make_settings: Callable[..., Any], make_study: Callable[..., Any], run: LoggedRun
) -> None:
    settings = make_settings()
    study = make_study(settings, run)
    environment = training_environment(settings, study, 64, np.random.default_rng(0))
    for _ in range(5):
        environment.reset()
        arrived = np.isfinite(environment.state.arrival_s)
        assert arrived.any()
        assert set(environment.state.size[arrived].tolist()) == {1.0}


def test_what_is_tuned_does_not_depend_on_the_validation_and_test_splits(
    make_settings: Callable[..., Any],
    make_study: Callable[..., Any],
    make_run: Callable[..., LoggedRun],
    make_arrivals: Callable[..., Arrivals],
) -> None:
    settings = make_settings()
    calm, busy = make_arrivals(40.0), make_arrivals(400.0, seed=9)
    train, after = calm.arrival_s < 50.0, busy.arrival_s >= 50.0
    # The same training split; ten times the load, from other arrivals, after it.
    changed = Arrivals(
        *(
            np.concatenate([getattr(calm, field)[train], getattr(busy, field)[after]])
            for field in ("arrival_s", "request_class", "size")
        )
    )
    tuned = []
    for arrivals in (calm, changed):
        study = make_study(settings, make_run(arrivals))
        episodes = build_trial(settings, study, "train", settings.tune.episodes, seed=1)
        tuned.append(tune_rule("batch_timeout", episodes, settings.tune.points))
    assert tuned[0] == tuned[1]
