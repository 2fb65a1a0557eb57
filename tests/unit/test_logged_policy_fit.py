"""Decisions and set-points read off hand-made logs, and how rules are scored."""

import numpy as np
import pytest

from pipeline.calibration.logged_policy import (
    UNKNOWN,
    DispatchDecisions,
    DispatchLog,
    rebuilt_decisions,
    recognize_policy,
    recorded_decisions,
)
from pipeline.calibration.logged_policy.candidates import (
    dispatch_candidates,
    fit_timeout,
    likely_caps,
    roundest,
)
from pipeline.calibration.logged_policy.scoring import MOST_EPSILON, Chances, fit_epsilon, score

# Class 0 arrives at 0, 1 and 6 ms, class 1 at 2 ms. Replica 0 takes two of class 0 at 3 ms and is
# done at 8 ms; replica 1 takes the one of class 1 at 5 ms; replica 0 the last one at 8 ms.
LOG = DispatchLog(
    arrival_s=np.array([0.0, 1.0, 2.0, 6.0]) / 1e3,
    request_class=np.array([0, 0, 1, 0]),
    replica=np.array([0, 1, 0]),
    batch_class=np.array([0, 1, 0]),
    batch_size=np.array([2, 1, 1]),
    dispatch_s=np.array([3.0, 5.0, 8.0]) / 1e3,
    departure_s=np.array([8.0, 20.0, 12.0]) / 1e3,
    classes=2,
    replicas=2,
)


def test_rebuilt_decisions_are_dispatches_and_what_was_waited_for_between_events() -> None:
    decisions, contradictions = rebuilt_decisions(LOG, slack_s=0.0)
    # Waited after the arrivals at 0, 1 and 2 ms, and after the dispatch at 3 ms: class 1 is left,
    # and replica 1 idle. Not after the arrival at 6 ms: both are busy.
    np.testing.assert_allclose(decisions.clock_s * 1e3, [0, 1, 2, 3, 3, 5, 8])
    assert decisions.batch_size.tolist() == [0, 0, 0, 2, 0, 1, 1]
    assert decisions.replica.tolist() == [-1, -1, -1, 0, -1, 1, 0]
    assert decisions.request_class.tolist() == [-1, -1, -1, 0, -1, 1, 0]
    assert decisions.queue_length.tolist() == [
        [1, 0],
        [2, 0],
        [2, 1],
        [2, 1],
        [0, 1],
        [0, 1],
        [1, 0],
    ]
    np.testing.assert_allclose(decisions.oldest_wait_s[:, 0] * 1e3, [0, 1, 2, 3, 0, 0, 2])
    np.testing.assert_allclose(decisions.oldest_wait_s[:, 1] * 1e3, [0, 0, 0, 1, 1, 3, 0])
    assert decisions.idle.tolist() == [[True, True]] * 4 + [[False, True]] * 2 + [[True, False]]
    assert decisions.in_service.tolist() == [[0, 0]] * 4 + [[2, 0]] * 2 + [[0, 1]]
    assert decisions.last_replica.tolist() == [-1, -1, -1, -1, 0, 0, 1]
    assert contradictions == 0


def test_a_dispatch_within_the_slack_of_an_event_is_the_answer_to_it() -> None:
    decisions, _ = rebuilt_decisions(LOG, slack_s=0.0025)
    # 1 and 2 ms lie within 2.5 ms of the dispatch at 3 ms, and 3 ms within that of the one at 5.
    np.testing.assert_allclose(decisions.clock_s * 1e3, [0, 3, 5, 8])


def test_ticks_are_decisions_too() -> None:
    decisions, _ = rebuilt_decisions(LOG, slack_s=0.0, tick_s=0.0008)
    waited = decisions.clock_s[decisions.batch_size == 0] * 1e3
    np.testing.assert_allclose(waited, [0, 0.8, 1, 1.8, 2, 2.8, 3, 3.8, 4.6])


@pytest.mark.parametrize(
    "impossible",
    [
        LOG._replace(dispatch_s=np.array([3.0, 5.0, 7.0]) / 1e3),  # replica 0 is busy until 8 ms
        LOG._replace(batch_size=np.array([2, 1, 2])),  # one of class 0 waits
    ],
)
def test_dispatches_that_contradict_the_log_are_left_out_and_counted(
    impossible: DispatchLog,
) -> None:
    decisions, contradictions = rebuilt_decisions(impossible, slack_s=0.0)
    assert contradictions == 1
    assert (decisions.batch_size > 0).sum() == 2


def test_recorded_decisions_take_the_waits_from_the_arrivals() -> None:
    decisions = recorded_decisions(
        LOG,
        np.array([2.5, 3.0, 5.0]) / 1e3,
        np.array([[2, 1], [2, 1], [0, 1]]),
        np.array([[True, True], [True, True], [False, True]]),
        np.array([-1, 0, 1]),
    )
    np.testing.assert_allclose(decisions.oldest_wait_s[:, 0] * 1e3, [2.5, 3, 0])
    assert decisions.batch_size.tolist() == [0, 2, 1]
    assert decisions.replica.tolist() == [-1, 0, 1]


def test_recorded_decisions_must_number_the_batches_in_order() -> None:
    with pytest.raises(ValueError, match=r"batch = .* must number the dispatches of the log"):
        recorded_decisions(
            LOG, np.zeros(2), np.zeros((2, 2), int), np.ones((2, 2), bool), np.array([1, 0])
        )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arrival_s": np.array([0.0, 2.0, 1.0, 6.0])}, r"arrival_s\[2\] = 1.0: must be ascending"),
        ({"replica": np.array([0, 2, 0])}, r"replica\[1\] = 2: must be in 0..1"),
        ({"batch_class": np.array([0, -1, 0])}, r"batch_class\[1\] = -1: must be in 0..1"),
        ({"departure_s": np.array([8.0, 0.001, 12.0])}, r"departure_s\[1\] = 0.001: must not be"),
        ({"dispatch_s": np.array([0.0, np.nan, 1.0])}, r"dispatch_s = 'not finite'"),
    ],
)
def test_a_log_that_could_not_have_happened_is_refused(
    changed: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rebuilt_decisions(LOG._replace(**changed))


def test_epsilon_is_the_share_of_deviations_over_their_chance_under_a_uniform_draw() -> None:
    # Four legal actions; a tenth of 1000 decisions deviate: (1 - e) + e / 4 = 0.9, so e = 2 / 15.
    own = np.repeat([1.0, 0.0], [900, 100])
    assert fit_epsilon(own, np.full(1000, 0.25)) == pytest.approx(2 / 15, abs=1e-5)
    assert fit_epsilon(np.ones(1000), np.full(1000, 0.25)) == 0.0
    assert fit_epsilon(np.zeros(1000), np.full(1000, 0.25)) == MOST_EPSILON


def test_a_rule_that_is_itself_uniform_needs_no_exploration() -> None:
    assert fit_epsilon(np.full(1000, 0.25), np.full(1000, 0.25)) == 0.0


def chances(kinds: list[int]) -> Chances:
    """Decisions for which a one-hot rule leaves three other actions of three other kinds."""
    count = len(kinds)
    kind = np.array(kinds)
    return Chances(
        (kind == 0).astype(float),
        np.full(count, 0.25),
        kind,
        np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
        np.full((count, 4), 0.25),
    )


def test_deviations_that_spread_as_exploration_does_are_explained() -> None:
    spread = chances([0] * 850 + [1] * 50 + [2] * 50 + [3] * 50)
    told = score(spread, fit_epsilon(spread.own, spread.uniform))
    assert (told.agreement, told.explained) == (pytest.approx(0.85), pytest.approx(1.0))


def test_deviations_of_one_kind_are_not_explained_by_exploration() -> None:
    one_kind = chances([0] * 850 + [1] * 150)
    told = score(one_kind, fit_epsilon(one_kind.own, one_kind.uniform))
    # Epsilon is 0.2: 50 of each kind are expected, 3 errors (3 sqrt(50 * 0.95) = 20.7) more may be.
    assert told.epsilon == pytest.approx(0.2, abs=1e-4)
    assert told.explained == pytest.approx(1 - (150 - 50 - 20.7) / 1000, abs=1e-3)


def decisions(queue: list[int], wait_s: list[float], size: list[int]) -> DispatchDecisions:
    """Decisions with one class, sent to replica 0 if at all."""
    count, sent = len(queue), np.array(size) > 0
    return DispatchDecisions(
        np.arange(count, dtype=float),
        np.array(queue)[:, None],
        np.array(wait_s, float)[:, None],
        np.ones((count, 2), bool),
        np.zeros((count, 2), int),
        np.full(count, -1),
        np.where(sent, 0, -1),
        np.where(sent, 0, -1),
        np.array(size),
    )


def test_a_size_at_which_requests_are_left_behind_is_the_likeliest_maximum() -> None:
    seen = decisions([9, 12, 10, 6, 3, 0], [0.0] * 6, [8, 8, 8, 4, 3, 0])
    assert likely_caps(seen) == [8, 4]  # 8 left some thrice, 4 once; 3 left nothing


def test_without_any_left_behind_the_largest_batch_is_all_that_is_known() -> None:
    assert likely_caps(decisions([5, 3], [0.0, 0.0], [5, 3])) == [5]


def test_the_timeout_is_the_round_number_that_parts_sending_from_waiting() -> None:
    wait_s = [0.0, 0.011, 0.024, 0.0292, 0.0301, 0.033, 0.031, 0.002]
    size = [0, 0, 0, 0, 2, 1, 3, 8]  # the last is full, and says nothing of the timeout
    queue = [1, 1, 2, 2, 2, 1, 3, 8]
    assert fit_timeout(decisions(queue, wait_s, size), cap=8) == pytest.approx(0.03)


def test_a_rule_that_never_waits_has_no_timeout() -> None:
    assert fit_timeout(decisions([1, 2, 1], [0.0, 0.1, 0.2], [1, 2, 1]), cap=8) == 0.0


@pytest.mark.parametrize(
    ("above", "most", "expected"),
    [(0.0292, 0.0301, 0.03), (0.9, 1.7, 1.0), (0.0251, 0.0259, 0.0255), (0.011, 0.0119, 0.0115)],
)
def test_the_roundest_number_has_the_fewest_decimals(
    above: float, most: float, expected: float
) -> None:
    found = roundest(above, most)
    assert above < found <= most
    assert len(f"{found:g}") <= len(f"{expected:g}")


def test_classes_are_tried_in_every_order() -> None:
    found = dispatch_candidates(rebuilt_decisions(LOG, slack_s=0.0)[0])
    orders = {candidate.order for candidate in found if candidate.name == "c_mu"}
    assert orders == {(0, 1), (1, 0)}
    assert found[0].name == "static_cap"  # the simplest first


def test_a_short_log_recognizes_nothing() -> None:
    found = recognize_policy(LOG, rebuilt_decisions(LOG, slack_s=0.0)[0])
    assert (found.rule, found.decisions) == (UNKNOWN, 7)
    assert "too few" in found.text


def test_a_log_that_contradicts_itself_recognizes_nothing() -> None:
    seen = rebuilt_decisions(LOG, slack_s=0.0)[0]
    many = seen.chosen(np.tile(np.arange(7), 50))
    found = recognize_policy(LOG, many, contradictions=1)
    assert found.rule == UNKNOWN
    assert found.text.startswith("1 of 3 dispatches contradict the state rebuilt")
