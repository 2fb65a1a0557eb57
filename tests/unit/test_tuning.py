"""The tuner: finds known best settings, spends the same on each, and sees training alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pipeline.assembly import build_trial, training_environment
from pipeline.calibration.log import LoggedRun
from pipeline.validation import tuning
from pipeline.validation.evaluation import Trial
from pipeline.validation.tuning import FINALISTS, TunedRule, evaluations_due, tune_rule
from simulator.policies.registry import RuleSpec
from simulator.policies.space import Choice, Real, RuleParameters, Space, Whole
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import ClassChoice, RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload, Workload

FREE_BATCH = Replica((0.05,), (0.0,), (0.0,), 8)  # any batch takes 50 ms
SPLITS = ("train", "validation")
TEST_START_S = 70.0  # of the log of `make_arrivals`
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


def tune(rule: str, cluster: Scenario, workloads: list[Workload], **search: Any) -> TunedRule:
    """The rule tuned where training and validation show the same workloads."""
    episodes = trial(cluster, workloads)
    found = tune_rule(rule, episodes, episodes, **{"budget": 64, **search})
    assert found is not None
    return found


def test_the_known_best_setting_is_found_and_equals_go_to_the_first() -> None:
    # Groups of four in batches that take 50 ms whatever their size: 4 and 8 both send each group
    # whole, so 4, the first of the two, must win.
    found = tune("static_cap", scenario(FREE_BATCH), [groups(4)])
    assert found.parameters == {"batch_size": 4}
    assert found.reward_per_s == found.training_reward_per_s == pytest.approx(-12 * 0.05)
    assert (found.evaluations, found.validations) == (4, 4)


def test_the_smallest_batch_is_found_where_requests_are_better_apart() -> None:
    # Two together, two replicas: apart they take 50 ms each, in one batch 100 ms each.
    cluster = scenario(COSTLY_BATCH, COSTLY_BATCH)
    found = tune("static_cap", cluster, [groups(2)])
    assert found.parameters == {"batch_size": 1}
    assert found.reward_per_s == pytest.approx(-6 * 0.05)


def test_the_validation_split_chooses_among_the_finalists() -> None:
    # Training comes in groups of four: 4 is best there (8 sends the same batches), then 2, then 1.
    # Validation has groups of two, in which 2, 4 and 8 are equal: training decides for 4. With
    # every request alone all settings are equal, and training decides again.
    cluster = scenario(FREE_BATCH)
    train = trial(cluster, [groups(4)])
    for size in (2, 1):
        found = tune_rule("static_cap", train, trial(cluster, [groups(size)]), budget=64)
        assert found is not None
        assert found.parameters == {"batch_size": 4}
        assert found.reward_per_s == pytest.approx(-3 * size * 0.05)
        assert found.training_reward_per_s == pytest.approx(-12 * 0.05)
    # The other way round: of groups of two 2 is the first of the best, and in validation with
    # groups of four 4 is better than 2. A single finalist leaves no choice.
    train, validation = trial(cluster, [groups(2)]), trial(cluster, [groups(4)])
    chosen = [tune_rule("static_cap", train, validation, 64, count) for count in (2, 1)]
    assert [found and found.parameters["batch_size"] for found in chosen] == [4, 2]
    assert [found and found.validations for found in chosen] == [2, 1]


@dataclass
class Spy:
    """A rule whose reward is read off its parameters, in place of any simulation."""

    name: str
    space: Space
    optimum: dict[str, float]
    met: list[RuleParameters] = field(default_factory=list)


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> Callable[[Space, dict[str, float]], Spy]:
    """Puts a spy in the place of the rule static_cap."""

    def make(space: Space, optimum: dict[str, float]) -> Spy:
        spy = Spy("static_cap", space, optimum)
        monkeypatch.setattr(RuleSpec, "space", lambda rule, scenario: spy.space)
        monkeypatch.setattr(tuning, "build_policy", lambda rule, scenario, point: point)

        def rewards(points: list[RuleParameters], trial: Trial) -> np.ndarray:
            spy.met += points
            gaps = [[point[name] - best for name, best in spy.optimum.items()] for point in points]
            return np.array([[-sum(gap * gap for gap in of_point)] for of_point in gaps])

        monkeypatch.setattr(tuning, "rewards_side_by_side", rewards)
        return spy

    return make


MIXED = Space(
    {
        "wait_s": Real(0.001, 1.0, log=True),
        "size": Whole(1, 64),
        "kind": Choice((None, (1, 2), "word")),
    },
    {"wait_s": 0.5, "size": 60, "kind": (1, 2)},
)


def test_a_large_space_is_searched_from_its_default_on(spied: Any) -> None:
    spy = spied(MIXED, {"size": 7.0})
    found = tune("static_cap", scenario(FREE_BATCH), [groups(1)], budget=24)
    assert spy.met[0] == MIXED.default
    assert (found.evaluations, found.validations) == (24, 4)
    assert len(spy.met) == 24 + 4
    kinds = {point["kind"] for point in spy.met}
    assert kinds == {None, (1, 2), "word"}
    assert all(0.001 <= point["wait_s"] <= 1.0 and 1 <= point["size"] <= 64 for point in spy.met)
    assert abs(found.parameters["size"] - 7) <= 3  # of 64, in 24 evaluations
    assert found.reward_per_s >= max(-((point["size"] - 7.0) ** 2) for point in spy.met)


def test_equal_seeds_search_equally_and_another_one_otherwise(spied: Any) -> None:
    spy = spied(MIXED, {"size": 7.0})
    met = []
    for seed in (1, 1, 2):
        spy.met.clear()
        tune("static_cap", scenario(FREE_BATCH), [groups(1)], budget=9, seed=seed)
        met.append(list(spy.met))
    assert met[0] == met[1]
    assert met[0] != met[2]


def test_the_budget_counts_different_settings_and_repeated_ones_are_free(spied: Any) -> None:
    # 14 of the 15 points: the search must suggest many of them again before it has met 14.
    spy = spied(Space({"size": Whole(1, 15)}), {"size": 15.0})
    found = tune("static_cap", scenario(FREE_BATCH), [groups(1)], budget=14, finalists=1)
    sizes = [point["size"] for point in spy.met[:-1]]
    assert len(sizes) == len(set(sizes)) == found.evaluations <= 14
    assert found.parameters == {"size": 15}


def test_a_space_of_one_point_costs_one_evaluation(spied: Any) -> None:
    spy = spied(Space(), {})
    found = tune("static_cap", scenario(FREE_BATCH), [groups(1)])
    assert (found.parameters, found.evaluations, found.validations) == ({}, 1, 1)
    assert spy.met == [{}, {}]


def test_axes_by_class_become_one_parameter(spied: Any) -> None:
    axes = {"size.fast": Choice((4,)), "size.slow": Choice((2,))}
    spied(Space(axes), {})
    found = tune("static_cap", scenario(FREE_BATCH), [groups(1)])
    assert found.parameters == {"size": {"fast": 4, "slow": 2}}


def test_a_default_outside_of_the_axes_is_refused(spied: Any) -> None:
    for axis, value in ((Real(0.1, 1.0), 2.0), (Choice(tuple(range(99))), 99)):
        spied(Space({"size": axis}, {"size": value}), {"size": 0.0})
        with pytest.raises(ValueError, match=f"static_cap: the default size = {value} is not"):
            tune("static_cap", scenario(FREE_BATCH), [groups(1)])


@pytest.mark.parametrize("search", [{"budget": 0}, {"finalists": 0}])
def test_a_search_of_nothing_is_refused(search: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="= 0: must be a whole number, at least 1"):
        tune("static_cap", scenario(FREE_BATCH), [groups(1)], **search)


def test_what_a_search_will_cost_is_known_before(spied: Any) -> None:
    cluster = scenario(FREE_BATCH)
    assert evaluations_due("static_cap", cluster, 24) == (4, 4)
    assert evaluations_due("static_cap", cluster, 2, 1) == (2, 1)
    ordered = scenario(FREE_BATCH, class_choice=ClassChoice.HEAD_OF_LINE)
    assert evaluations_due("c_mu", ordered, 24) == (0, 0)
    spied(MIXED, {})
    assert evaluations_due("static_cap", cluster, 24) == (24, 4)


def test_a_rule_that_the_scenario_cannot_have_is_not_tuned() -> None:
    episodes = trial(scenario(FREE_BATCH, class_choice=ClassChoice.HEAD_OF_LINE), [groups(2)])
    assert tune_rule("c_mu", episodes, episodes, budget=64) is None


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
    train = trial(scenario(FREE_BATCH), [NotedWorkload(notes)] * 3)
    validation = trial(scenario(FREE_BATCH), [groups(1)])
    tune_rule("batch_timeout", train, validation, 20, advance=lambda: told.append(None))
    assert len(told) == 20 + FINALISTS
    # Three episodes, drawn once for all settings side by side, of which there are at most 8.
    by_pass = [notes[first : first + 3] for first in range(0, len(notes), 3)]
    assert len(by_pass) >= 20 / 8
    assert all(met == by_pass[0] for met in by_pass)
    assert by_pass[0][0] != by_pass[0][1]  # the episodes themselves differ


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


def test_what_is_tuned_does_not_depend_on_the_test_split(
    make_settings: Callable[..., Any],
    make_study: Callable[..., Any],
    make_run: Callable[..., LoggedRun],
    make_arrivals: Callable[..., Arrivals],
) -> None:
    settings = make_settings()
    calm, busy = make_arrivals(40.0), make_arrivals(400.0, seed=9)
    before, after = calm.arrival_s < TEST_START_S, busy.arrival_s >= TEST_START_S
    # The same splits before the test split; ten times the load, from other arrivals, in it.
    changed = Arrivals(
        *(
            np.concatenate([getattr(calm, field)[before], getattr(busy, field)[after]])
            for field in ("arrival_s", "request_class", "size")
        )
    )
    tuned = []
    for arrivals in (calm, changed):
        study = make_study(settings, make_run(arrivals))
        episodes = settings.tune.episodes
        trials = (build_trial(settings, study, name, episodes, 1) for name in SPLITS)
        tuned.append(tune_rule("batch_timeout", *trials, budget=6))
    assert tuned[0] == tuned[1]
