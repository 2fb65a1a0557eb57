"""Where the model of `smdp_rvi` holds, nothing in the arena beats it beyond its interval."""

import dataclasses

import pytest

from pipeline.arena.compete import compete, contest_of
from pipeline.arena.entrants import Kind, entrants_of
from pipeline.arena.suite import load_arena_scenario
from pipeline.workers import workers
from simulator.optimal import BatchingProblem, solve

BUDGET = 6  # settings of each rule: the optimum has no need of a search, the others get a short one


@pytest.mark.slow
def test_no_policy_beats_the_optimum_of_the_single_queue_with_energy() -> None:
    arena = load_arena_scenario("single_queue_energy")
    replica = arena.scenario.replicas[0]
    yardstick = arena.yardsticks["smdp_rvi"]
    problem = BatchingProblem(
        yardstick["arrival_rate_rps"],
        replica.alpha_s[0],
        replica.beta_s[0],
        replica.energy_alpha_j[0],
        replica.energy_beta_j[0],
        yardstick["response_weight"],
        yardstick["power_weight"],
        replica.max_batch_size,
    )
    least = solve(problem).average_cost
    assert least == pytest.approx(38.859, rel=5e-3)  # section 2b of the notes
    arena = dataclasses.replace(arena, episodes=60, tuning_episodes=8)
    with workers(1) as run:
        league = compete(contest_of(arena, 7), entrants_of(arena), BUDGET, 7, run, lambda *_: None)
    standings = {standing.name: standing for standing in league.standings}
    optimum = standings["smdp_rvi (yardstick)"]
    print(f"optimum {optimum.cost_per_s.mean:.3f} in {arena.episodes} episodes, {least:.3f} exact")
    assert optimum.cost_per_s.low < least * 1.005
    assert optimum.cost_per_s.high > least * 0.995
    for standing in league.standings:
        print(f"{standing.name}: {standing.cost_per_s.mean:.3f}, {standing.difference}")
    # Differences are to the first: whoever is before the optimum must tie with it.
    first = league.standings[0]
    assert optimum.tie, first.name
    others = [s for s in league.standings if s.rule != "smdp_rvi" and s.kind == Kind.TUNED]
    assert len(others) > 10
    assert all(s.cost_per_s.mean > 0.99 * optimum.cost_per_s.mean for s in others)
