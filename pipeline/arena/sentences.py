"""What a league says in words: the best heuristic, its margins, and the room for a learner."""

import math
from collections.abc import Sequence

from pipeline.arena.entrants import Kind
from pipeline.arena.standing import CONTENDERS, Share, Standing
from pipeline.reporting.text import percent, plural
from pipeline.validation.intervals import Interval

NEAR = 0.03  # share of the cost that is not worth a learner
DUST = 1e-9  # share of a cost that is rounding


def margin_sentence(best: str, margins: Sequence[Share], standings: Sequence[Standing]) -> str:
    """What the best heuristic costs less, or more, than each baseline.

    `margins` are of the best in the order of the `standings`, the least cost first: where the first
    of them is below 0, that baseline is cheaper than any policy.
    """
    if not margins:
        return f"Best heuristic: {best}. There are no baselines to hold it against."
    told = [f"Best heuristic: {best}."]
    if margins[0].share.mean < -DUST:
        told.insert(0, f"No policy beats {_baseline(margins[0].of, standings)}.")
    names: dict[str, list[str]] = {}  # often several baselines do the same
    free = [margin.of for margin in margins if math.isnan(margin.share.mean)]
    for margin in margins:
        if margin.of not in free:
            names.setdefault(_compared(margin.share), []).append(margin.of)
    if names:
        compared = "; ".join(f"{words} {_listed(of)}" for words, of in names.items())
        told.append(f"It costs {compared}.")
    if free:
        told.append(
            f"With {_listed(free)} there is nothing to compare: the baseline costs nothing."
        )
    return " ".join(told)


def _baseline(name: str, standings: Sequence[Standing]) -> str:
    standing = next(each for each in standings if each.name == name)
    kind = "baseline" if standing.kind == Kind.BASELINE else "logged rule"
    return f"the {kind} {standing.rule}"


def _compared(share: Interval) -> str:
    """`87.5% (86.5% to 88.6%) less than`, or more than, or as much as."""
    if max(abs(value) for value in share) <= DUST:
        return "as much as"
    if share.mean < 0:
        return f"{_unsigned(Interval(-share.mean, -share.high, -share.low))} more than"
    return f"{_unsigned(share)} less than"


def _unsigned(share: Interval) -> str:
    """`4.2% (3.1% to 5.0%)`; a bound beyond 0 keeps its minus."""
    mean, low, high = (percent(value) for value in share)
    return f"{mean} ({low} to {high})"


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def optimum_sentence(leader: str, headroom: Share) -> str:
    """What the optimum leaves for a learner, of the cost of the leader."""
    of, share = headroom
    if math.isnan(share.mean):
        return f"{leader} costs nothing: nothing is left for a learner."
    if share.high < 0:
        return f"{of} costs more than {leader}: it is not the optimum of this scenario."
    told = f"{of} is the optimum: a learner can save {_unsigned(share)} of {leader}'s cost"
    return f"{told}, less than {NEAR:.0%}." if share.high < NEAR else f"{told}."


def room_sentence(standings: Sequence[Standing], simple: Sequence[str]) -> str:
    """What simple rules leave for a learner, where no optimum is known.

    They are held against the cheapest of all but yardsticks, whether policy or baseline: a learner
    has to beat that one.
    """
    able = [standing for standing in standings if standing.kind != Kind.YARDSTICK]
    leader = able[0]
    for standing in standings:
        near = standing.rule in simple or standing.kind == Kind.YARDSTICK
        if near and standing is not leader and _is_near(standing, leader):
            return (
                f"{standing.name} is within {NEAR:.0%} of {leader.name}: a learner has less than "
                f"{NEAR:.0%} left, as far as these policies can tell."
            )
    rivals = [each for each in able[1:] if each.kind in CONTENDERS or each.rule in simple]
    if not rivals:
        return (
            f"{leader.name} met no other heuristic, so this says nothing of what is left for a "
            "learner."
        )
    if leader.rule in simple:
        others = plural(len(rivals), "other heuristic")
        return f"{leader.name} is the best itself; of {others} none gains on it."
    if not any(each.rule in simple for each in able):
        return "No optimum is known here and no simple rule took part: a learner may have room."
    return (
        f"No optimum is known here and no simple rule is near {leader.name}: "
        "a learner may have room."
    )


def _is_near(standing: Standing, leader: Standing) -> bool:
    """Whether their costs differ by less than `NEAR` of the other's, or neither costs anything."""
    cost, least = standing.cost_per_s.mean, leader.cost_per_s.mean
    return abs(cost - least) < NEAR * abs(cost) or cost == least
