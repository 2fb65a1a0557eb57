"""What a scorecard comes to: figures for DVC, and the verdict in a sentence."""

from typing import Any

from pipeline.validation.scorecard import RULE, Scorecard, Standing

_METRICS = ("response_p50_s", "response_p95_s", "response_p99_s", "slo_attainment", "shed_fraction")
_DIGITS = 9  # of a figure that goes into git


def metrics_of(card: Scorecard) -> dict[str, Any]:
    """The figures of every policy, nested by its name, rounded to nine digits."""
    return {
        "verdict": {"best_rule": card.best_rule, "winner": card.winner},
        "policies": {standing.name: _figures(standing) for standing in card.standings},
    }


def _figures(standing: Standing) -> dict[str, Any]:
    return {
        "kind": standing.kind,
        "reward_per_s": _rounded(standing.reward_per_s.mean),
        "difference": _rounded(standing.difference.mean),
        "difference_low": _rounded(standing.difference.low),
        "difference_high": _rounded(standing.difference.high),
        "passed": standing.kind != RULE and not standing.reasons,
        **{
            name: {metric: _rounded(values[metric]) for metric in _METRICS}
            for name, values in standing.by_class.items()
        },
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def describe_rule(standing: Standing) -> str:
    """The rule with its parameters, such as `c_mu (batch_size: fast 8, slow 2)`."""
    told = []
    for key, value in standing.parameters.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {number}" for name, number in value.items())
        told.append(f"{key}: {value}")
    return f"{standing.name} ({'; '.join(told)})" if told else standing.name


def describe_standings(card: Scorecard) -> list[str]:
    """A line for each policy: its reward, and the difference to the best rule with its interval."""
    return [
        f"{standing.name}: {standing.reward_per_s.mean:+.3f} reward/s, to the best rule "
        f"{standing.difference.mean:+.3f} [{standing.difference.low:+.3f}, "
        f"{standing.difference.high:+.3f}]"
        for standing in card.standings
    ]


def verdict_sentence(card: Scorecard) -> str:
    """What to do, for a person who decides."""
    standings = {standing.name: standing for standing in card.standings}
    rule = describe_rule(standings[card.best_rule])
    if card.winner is None:
        return (
            f"Keep the rule: {rule}. No learned policy is both surely better than it on the test "
            "traffic and nowhere worse than allowed."
        )
    winner = standings[card.winner]
    gain, base = winner.difference, standings[card.best_rule].reward_per_s
    return (
        f"Use the learned policy {card.winner}: it earns {gain.mean:.3f} reward/s more than the "
        f"best tuned rule, {rule}, which earns {base.mean:.3f} (interval of the gain: "
        f"{gain.low:.3f} to {gain.high:.3f}), and no guarded metric is worse than allowed."
    )
