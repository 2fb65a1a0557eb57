"""Which rule wrote a log: the one that accounts for its decisions, or none that is known."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.logged_policy.behavior import fit_behavior, propensities
from pipeline.calibration.logged_policy.candidates import Candidate, dispatch_candidates
from pipeline.calibration.logged_policy.decisions import DispatchDecisions, DispatchLog
from pipeline.calibration.logged_policy.routes import (
    RouteDecisions,
    fit_routes,
    route_candidates,
    route_chances,
    route_propensities,
    route_system,
)
from pipeline.calibration.logged_policy.scoring import (
    MOST_EPSILON,
    Chances,
    Score,
    fit_epsilon,
    log_chance,
    score,
)
from pipeline.calibration.logged_policy.system import chances_of, menu_of, system_of
from simulator.policies.registry import build_policy

DECLARED, RECOGNIZED, ESTIMATED = "declared", "recognized", "estimated"
UNKNOWN = "unknown"

LEAST_EXPLAINED = 0.95
LEAST_DECISIONS = 200
_CLEARLY = 3.0  # standard errors of the mean difference of log chances
_TRAIN_SHARE = 0.6
_MOST_TRAIN, _MOST_HELD_OUT = 8_000, 20_000
_NONE = Score(math.nan, math.nan, math.nan, math.nan)


class LoggedPolicy(NamedTuple):
    """The policy that ran, as far as its log tells; plain values only. NaN: not known."""

    rule: str  # of the registry, or UNKNOWN
    parameters: dict[str, Any]
    epsilon: float  # share of uniform exploration mixed in
    agreement: float  # mean probability that the rule, without epsilon, gives to the logged action
    explained: float  # share of decisions that rule and exploration account for
    next_best: str | None  # candidate that makes other decisions
    next_agreement: float
    same_decisions: tuple[str, ...]  # candidates that cannot be told from it on this log
    method: str  # DECLARED, RECOGNIZED or ESTIMATED: where propensities come from
    log_likelihood: float  # mean over held-out decisions, nats, of what `method` says
    estimated_log_likelihood: float  # of the empirical behavior policy on the same decisions
    decisions: int
    contradictions: int  # dispatches that the state rebuilt from the log does not allow
    text: str  # why


def recognize_policy(
    log: DispatchLog,
    decisions: DispatchDecisions,
    menu: tuple[int, ...] = (),
    contradictions: int = 0,
) -> LoggedPolicy:
    """The rule of the registry that made the `dispatch` decisions, with its set-points.

    Set-points are read off the first 60 % of the decisions, in time; the candidates are ranked by
    the log likelihood of the rest, each mixed with the epsilon that suits it best. One is
    recognized if it explains at least 95 % of them (`scoring.score`), with an epsilon below
    0.3, is likelier by three standard errors than the next one that decides differently, and is not
    clearly less likely than the empirical policy: then those coarse counts know something that the
    rule does not. Of candidates that decide alike on this log, the simplest is named. Else
    the rule is UNKNOWN, and propensities must come from `behavior.fit_behavior`.

    `menu` are the batch sizes that the dispatcher could choose; empty: all up to the largest seen.
    Only rules without memory are candidates; a batch holds one class; a rule of its own making is
    UNKNOWN, as are two rules in turn. On decisions that were rebuilt, epsilon is approximate: what
    exploration waited for between two events is not seen.
    """
    menu = menu or menu_of(log)
    train, held_out = split_decisions(decisions)
    if decisions.length < LEAST_DECISIONS:
        return unknown_policy(decisions.length, contradictions)
    if contradictions > (1 - LEAST_EXPLAINED) * len(log.dispatch_s):
        text = (
            f"{contradictions} of {len(log.dispatch_s)} dispatches contradict the state rebuilt "
            "from the log: replicas that run several batches, or requests that are missing"
        )
        return unknown_policy(decisions.length, contradictions)._replace(text=text)

    def judge(candidate: Candidate, rows: DispatchDecisions) -> Chances:
        scenario = system_of(log, menu, candidate.order)
        policy = build_policy(candidate.name, scenario, candidate.parameters)
        return chances_of(policy, scenario, rows)

    able = [c for c in dispatch_candidates(train) if _fits(log, menu, c)]
    found = _best(able, train, held_out, judge)
    estimated = np.log(propensities(fit_behavior(train), held_out))
    return _verdict(found, estimated, decisions.length)._replace(contradictions=contradictions)


def _fits(log: DispatchLog, menu: tuple[int, ...], candidate: Candidate) -> bool:
    """Whether the registry can build the candidate for the log's system."""
    try:
        build_policy(candidate.name, system_of(log, menu, candidate.order), candidate.parameters)
    except ValueError:
        return False
    return True


def recognize_routing(decisions: RouteDecisions) -> LoggedPolicy:
    """The rule of the registry that made the `route` decisions; as `recognize_policy`.

    Replicas are taken to be alike. What looks at tokens, memory or caches is UNKNOWN.
    """
    replicas = decisions.in_flight.shape[1]
    if decisions.length < LEAST_DECISIONS or replicas < 2:
        return unknown_policy(decisions.length if replicas > 1 else 0, 0)
    train, held_out = split_decisions(decisions)
    scenario = route_system(replicas)

    def judge(candidate: Candidate, rows: RouteDecisions) -> Chances:
        policy = build_policy(candidate.name, scenario, candidate.parameters)
        return route_chances(policy, scenario, rows)

    found = _best(route_candidates(replicas), train, held_out, judge)
    estimated = np.log(route_propensities(fit_routes(train), held_out))
    return _verdict(found, estimated, decisions.length)


class _Judged(NamedTuple):
    candidate: Candidate
    score: Score  # on the held-out decisions
    log_chance: np.ndarray  # [D]
    own: np.ndarray  # [D]
    place: int  # among the candidates: the simpler come first


def _above(gap: np.ndarray, errors: float) -> bool:
    """Whether the mean gap is at least this many of its standard errors."""
    return float(gap.mean()) >= errors * float(gap.std(ddof=1)) / math.sqrt(len(gap))


def _best(
    candidates: list[Candidate],
    train: Any,
    held_out: Any,
    judge: Callable[[Candidate, Any], Chances],
) -> list[_Judged]:
    """The best candidate of each name, the likeliest on the held-out decisions first."""
    best: dict[str, tuple[float, float, Candidate]] = {}
    for candidate in candidates:
        chances = judge(candidate, train)
        epsilon = fit_epsilon(chances.own, chances.uniform)
        likelihood = float(log_chance(chances.own, chances.uniform, epsilon).mean())
        if candidate.name not in best or likelihood > best[candidate.name][0] + 1e-9:
            best[candidate.name] = (likelihood, epsilon, candidate)
    judged = []
    for place, (_, epsilon, candidate) in enumerate(best.values()):
        chances = judge(candidate, held_out)
        told = log_chance(chances.own, chances.uniform, epsilon)
        judged.append(_Judged(candidate, score(chances, epsilon), told, chances.own, place))
    return sorted(judged, key=lambda entry: -round(entry.score.log_likelihood, 9))


def split_decisions(decisions: Any) -> tuple[Any, Any]:
    """Decisions to fit and to judge by, evenly spaced where there are many; not shuffled."""
    end = int(decisions.length * _TRAIN_SHARE)
    rows = np.arange(decisions.length)
    parts = []
    for part, most in ((rows[:end], _MOST_TRAIN), (rows[end:], _MOST_HELD_OUT)):
        step = max(1, -(-len(part) // most))
        parts.append(decisions.chosen(part[::step]))
    return parts[0], parts[1]


def _misgivings(
    first: _Judged, others: list[_Judged], estimated: np.ndarray
) -> tuple[list[str], str]:
    """Why the candidate may not be what ran, and how far it is ahead of the next."""
    found, ahead = [], ""
    if first.score.explained < LEAST_EXPLAINED:
        found.append(f"less than {LEAST_EXPLAINED:.0%}")
    if first.score.epsilon >= MOST_EPSILON:
        found.append("too much exploration to say")
    if others:
        gap = first.log_chance - others[0].log_chance
        ahead = f"; {float(gap.mean()):.3f} nats a decision ahead of {others[0].candidate.name}"
        if not _above(gap, _CLEARLY):
            found.append("not clearly likelier than the next")
    if not _above(first.log_chance - estimated, -_CLEARLY):
        found.append("counts by coarse state foretell more")
    return found, ahead


def _verdict(found: list[_Judged], estimated: np.ndarray, count: int) -> LoggedPolicy:
    """The likeliest candidate if it accounts for the log, else UNKNOWN."""
    likeliest = found[0]
    same = [e for e in found if np.allclose(e.own, likeliest.own, atol=1e-9)]
    first = min(same, key=lambda entry: entry.place)
    others = [e for e in found if not np.allclose(e.own, likeliest.own, atol=1e-9)]
    misgivings, ahead = _misgivings(first, others, estimated)
    told = (
        f"{first.candidate.name} explains {first.score.explained:.1%} of the held-out decisions "
        f"with epsilon {first.score.epsilon:.3f}{ahead}"
    )
    recognized = not misgivings
    if misgivings:
        told = f"no rule is recognized: the likeliest, {told}: {', '.join(misgivings)}"
    chance = float(estimated.mean())
    return LoggedPolicy(
        rule=first.candidate.name if recognized else UNKNOWN,
        parameters=first.candidate.told if recognized else {},
        epsilon=first.score.epsilon if recognized else math.nan,
        agreement=first.score.agreement,
        explained=first.score.explained,
        next_best=others[0].candidate.name if others else None,
        next_agreement=others[0].score.agreement if others else math.nan,
        same_decisions=tuple(e.candidate.name for e in same if e is not first),
        method=RECOGNIZED if recognized else ESTIMATED,
        log_likelihood=first.score.log_likelihood if recognized else chance,
        estimated_log_likelihood=chance,
        decisions=count,
        contradictions=0,
        text=told,
    )


def unknown_policy(count: int, contradictions: int) -> LoggedPolicy:
    text = f"{count} decisions with a choice are too few: needs {LEAST_DECISIONS}"
    nan = math.nan
    return LoggedPolicy(
        UNKNOWN, {}, nan, nan, nan, None, nan, (), ESTIMATED, nan, nan, count, contradictions, text
    )
