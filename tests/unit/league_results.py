"""Results of a small arena with costs that are set by hand, and their league."""

from collections.abc import Mapping

import numpy as np

from pipeline.arena.compete import contest_of
from pipeline.arena.entrants import Entrant, Kind
from pipeline.arena.figures import figures_of
from pipeline.arena.league import League, Result, build_league
from pipeline.arena.suite import ArenaScenario
from pipeline.validation.evaluation import Trial, play
from pipeline.validation.tuning import TunedRule
from simulator.policies.registry import build_policy
from simulator.policies.space import RuleParameters
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.workload import Arrivals, RecordedWorkload

EPISODES = 40
SCENARIO = Scenario(
    (RequestClass("fast", 0.05), RequestClass("slow", 0.07)),
    (Replica((0.01, 0.02), (0.01, 0.02), (0.0, 0.0), 4, price_per_hour=36.0),),
    batch_sizes=(1, 2, 4),
    queue_capacity=2,
    tick_s=0.001,
)
# Fast at 0; at 0.5 s a slow one and three fast ones, for which two places are left.
RECORDED = RecordedWorkload(
    Arrivals(np.array([0.0, 0.5, 0.5, 0.5]), np.array([0, 1, 1, 1]), np.ones(4))
)


def arena(
    baselines: Mapping[str, RuleParameters] | None = None,
    yardsticks: Mapping[str, RuleParameters] | None = None,
    policies: tuple[str, ...] | None = None,
) -> ArenaScenario:
    """A small arena whose cost is the sum of response times."""
    return ArenaScenario(
        name="small",
        why="Two classes share a replica.",
        scenario=SCENARIO,
        reward=weighted_reward(SCENARIO, {"response_s": -1.0}, {}),
        workloads=dict.fromkeys(("train", "validation", "test"), RECORDED),
        horizon_s=2.0,
        drain_s=1.0,
        episodes=EPISODES,
        tuning_episodes=2,
        baselines=baselines or {},
        yardsticks=yardsticks or {},
        policies=policies,
    )


def trial(episodes: int = EPISODES) -> Trial:
    reward = weighted_reward(SCENARIO, {"response_s": -1.0}, {})
    return Trial(SCENARIO, reward, [RECORDED] * episodes, np.arange(episodes), 2.0, 1, 1.0)


FIGURES = figures_of(play(build_policy("fifo", SCENARIO, {"batch_size": 4}), trial(2)), trial(2))
NOISE = np.random.default_rng(5).normal(0.0, 1.0, EPISODES)
NOISE -= NOISE.mean()
OWN = np.resize([0.5, -0.5], EPISODES)  # what is not shared with the others


def result(
    rule: str, cost: float, kind: Kind = Kind.TUNED, own: float = 0.0, noise: float = 1.0
) -> Result:
    """A cost with the mean `cost`: noise that all share, and luck of its own."""
    tuned = TunedRule(rule, {}, -cost, -cost, 5, 4) if kind == Kind.TUNED else None
    name = rule if kind == Kind.TUNED else f"{rule} ({kind})"
    costs = cost + noise * NOISE + own * OWN
    return Result(Entrant(name, kind, rule, {"batch_size": 4}), tuned, costs, FIGURES)


def league(*results: Result) -> League:
    return build_league(contest_of(arena(), 7), results, budget=24, seed=7)
