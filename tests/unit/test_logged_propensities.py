"""Propensities estimated from a log, routes read off it, and declared ones checked."""

import json
import math

import numpy as np
import pytest

from pipeline.calibration.logged_policy import (
    UNKNOWN,
    DispatchDecisions,
    DispatchLog,
    check_propensities,
    declared_policy,
    fit_behavior,
    fit_routes,
    propensities,
    rebuilt_decisions,
    recognize_routing,
    route_decisions,
    route_propensities,
)
from pipeline.files import plain

# One class, one replica: two requests wait for each other, and are sent together.
LOG = DispatchLog(
    arrival_s=np.array([0.0, 1.0]) / 1e3,
    request_class=np.array([0, 0]),
    replica=np.array([0]),
    batch_class=np.array([0]),
    batch_size=np.array([2]),
    dispatch_s=np.array([3.0]) / 1e3,
    departure_s=np.array([8.0]) / 1e3,
    classes=1,
    replicas=1,
)


def four_wait(size: list[int], idle: tuple[bool, bool] = (True, True)) -> DispatchDecisions:
    """Decisions where four requests of one class wait, sent to replica 0 if at all."""
    count, sent = len(size), np.array(size) > 0
    return DispatchDecisions(
        np.arange(count, dtype=float),
        np.full((count, 1), 4),
        np.full((count, 1), 0.01),
        np.tile(idle, (count, 1)),
        np.zeros((count, 2), int),
        np.full(count, -1),
        np.where(sent, 0, -1),
        np.where(sent, 0, -1),
        np.array(size),
    )


def habits() -> tuple[DispatchDecisions, np.ndarray]:
    """3000 decisions: with 4 waiting, 30 % wait, 70 % send; of these 80 % all, the others 2."""
    generator = np.random.default_rng(1)
    sent = generator.random(3000) < 0.7
    size = np.where(sent, np.where(generator.random(3000) < 0.8, 4, 2), 0)
    return four_wait(size.tolist()), size


def test_the_empirical_propensities_are_the_habits_of_the_log() -> None:
    seen, size = habits()
    told = propensities(fit_behavior(seen), seen)
    # All went to the lowest of two idle replicas: that habit is all but 1. Fewer than all: 1 to 3.
    assert told[size == 0].mean() == pytest.approx(0.3, abs=0.03)
    assert told[size == 4].mean() == pytest.approx(0.7 * 0.8, abs=0.03)
    assert told[size == 2].mean() == pytest.approx(0.7 * 0.2 / 3, abs=0.01)


def test_the_empirical_propensities_of_all_actions_sum_to_one() -> None:
    table = fit_behavior(habits()[0])
    size = [0, 1, 2, 3, 4, 1, 2, 3, 4]
    every = four_wait(size)
    every = every._replace(replica=np.array([-1, 0, 0, 0, 0, 1, 1, 1, 1]))
    assert propensities(table, every).sum() == pytest.approx(1.0, abs=1e-3)


def test_a_state_that_was_never_met_has_the_overall_habit() -> None:
    table = fit_behavior(habits()[0])
    strange = four_wait([0], idle=(True, False))
    assert propensities(table, strange)[0] == pytest.approx(0.3, abs=0.03)


def test_requests_in_flight_are_those_sent_before_and_not_yet_answered() -> None:
    found = route_decisions(
        np.array([0.0, 1.0, 2.0, 3.0]),
        np.array([2.0, np.nan, 9.0, 9.0]),  # the second is never answered
        np.array([0, 1, 0, 1]),
        2,
    )
    # At 2 s the first has just departed.
    assert found.in_flight.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert found.last_replica.tolist() == [-1, 0, 1, 0]


def test_turns_are_recognized_and_a_fixed_choice_is_not() -> None:
    count = 1000
    arrival_s = np.arange(count) * 0.01
    departure_s = arrival_s + 0.025
    turns = route_decisions(arrival_s, departure_s, np.arange(count) % 3, 3)
    found = recognize_routing(turns)
    assert (found.rule, found.agreement, found.epsilon) == ("round_robin", 1.0, 0.0)
    fixed = route_decisions(arrival_s, departure_s, np.zeros(count, int), 3)
    found = recognize_routing(fixed)
    assert (found.rule, found.method) == (UNKNOWN, "estimated")
    assert json.dumps(plain(found._asdict()), allow_nan=False)


def test_estimated_route_propensities_sum_to_one() -> None:
    generator = np.random.default_rng(2)
    arrival_s = np.cumsum(generator.exponential(0.01, 300))
    chosen = generator.integers(0, 3, 300)
    seen = route_decisions(arrival_s, arrival_s + 0.02, chosen, 3)
    table = fit_routes(seen)
    total = sum(
        route_propensities(table, seen._replace(replica=np.full(300, replica)))
        for replica in range(3)
    )
    np.testing.assert_allclose(total, 1.0)


def test_one_replica_leaves_nothing_to_recognize() -> None:
    instants_s = np.arange(500.0)
    found = recognize_routing(route_decisions(instants_s, instants_s, np.zeros(500, int), 1))
    assert found.rule == UNKNOWN
    assert found.text.startswith("0 decisions with a choice are too few")


def test_declared_propensities_hold_if_their_inverses_count_the_legal_actions() -> None:
    generator = np.random.default_rng(3)
    legal = generator.integers(2, 9, 20_000)
    likely = 0.9 + 0.1 / legal  # epsilon 0.1
    as_rule = generator.random(20_000) < likely
    propensity = np.where(as_rule, likely, 0.1 / legal)
    assert check_propensities(propensity, legal).holds
    told_too_small = check_propensities(propensity / 2, legal)
    assert not told_too_small.holds
    assert told_too_small.mean_inverse == pytest.approx(2 * legal.mean(), rel=0.1)


def test_propensities_of_a_rule_without_exploration_do_not_hold() -> None:
    checked = check_propensities(np.ones(100), np.full(100, 4))
    assert (checked.mean, checked.holds, checked.errors) == (1.0, False, -math.inf)


def test_a_propensity_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"propensity\[1\] = 0.0: must be in \(0, 1\]"):
        check_propensities(np.array([0.5, 0.0]), np.array([2, 2]))


def test_a_declared_rule_with_a_memory_is_believed_and_not_checked() -> None:
    seen = rebuilt_decisions(LOG, slack_s=0.0)[0].chosen(np.tile(np.arange(3), 100))
    told = {"name": "clipper_aimd", "parameters": {}}
    found = declared_policy(LOG, seen, (1, 2), told)
    assert (found.rule, found.method) == ("clipper_aimd", "declared")
    assert math.isnan(found.agreement)
    assert found.text.endswith("not checked")


def test_a_declared_rule_that_nobody_knows_is_refused() -> None:
    seen = rebuilt_decisions(LOG, slack_s=0.0)[0]
    with pytest.raises(ValueError, match="policy = 'home_made'"):
        declared_policy(LOG, seen, (1, 2), {"name": "home_made"})
