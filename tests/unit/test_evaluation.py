"""One policy in a trial: hand-computed figures, and the same luck for every policy."""

import numpy as np
import pytest

from pipeline.validation.evaluation import DRAIN_S, Trial, evaluate, play, rewards_side_by_side
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.reward import Reward, weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload, Workload


def scenario(noise_cv: float = 0.0, slo_s: float = 0.1) -> Scenario:
    """One replica that takes 10 ms and 10 ms for each request."""
    return Scenario(
        (RequestClass("only", slo_s),),
        (Replica((0.01,), (0.01,), (noise_cv,), 4),),
        batch_sizes=(1, 2, 4),
        queue_capacity=5,
        tick_s=0.001,
    )


def recorded(*instants_s: float) -> RecordedWorkload:
    count = len(instants_s)
    return RecordedWorkload(Arrivals(np.array(instants_s), np.zeros(count, int), np.ones(count)))


def trial(
    workloads: list[Workload],
    cluster: Scenario | None = None,
    horizon_s: float = 2.0,
    seed: int = 1,
) -> Trial:
    """A trial whose reward is the negative sum of response times."""
    cluster = cluster or scenario()
    reward = weighted_reward(cluster, {"response_s": -1.0}, {})
    return Trial(cluster, reward, workloads, np.arange(len(workloads)), horizon_s, seed)


def cap(cluster: Scenario | None = None, batch_size: int = 4):
    return build_policy("static_cap", cluster or scenario(), {"batch_size": batch_size})


def test_rewards_and_metrics_of_two_episodes_are_as_computed_by_hand() -> None:
    # Alone a request takes 20 ms. The two that come together: 10 + 2 * 10 = 30 ms each.
    found = evaluate(cap(), trial([recorded(0.5), recorded(0.1, 0.1)]))
    # The first of two equal arrivals is sent once all events of the instant are past.
    assert found.reward_per_s == pytest.approx([-0.02 / 2.0, -(0.03 + 0.03) / 2.0])
    only = found.by_class[0]
    assert (only.offered, only.served, only.shed, only.in_system) == (3, 3, 0, 0)
    assert only.throughput_rps == pytest.approx(3 / (2 * 2.0))
    assert only.response_mean_s == pytest.approx((0.02 + 0.03 + 0.03) / 3)
    assert only.slo_attainment == 1.0


def test_metrics_tell_late_and_shed_requests() -> None:
    # Seven at once, five places: two are shed. Four take 50 ms, then the last one 20 ms more.
    found = evaluate(cap(), trial([recorded(*[0.1] * 7)], scenario(slo_s=0.06)))
    only = found.by_class[0]
    assert (only.served, only.shed) == (5, 2)
    assert only.shed_fraction == pytest.approx(2 / 7)
    assert only.slo_attainment == pytest.approx(4 / 7)
    assert found.reward_per_s == pytest.approx([-(4 * 0.05 + 0.07) / 2.0])


def test_answers_after_the_last_arrival_are_seen() -> None:
    found = evaluate(cap(), trial([recorded(1.999)]))
    assert found.by_class[0].served == 1
    assert DRAIN_S > 0


def test_two_policies_meet_the_same_arrivals() -> None:
    workloads: list[Workload] = [PoissonWorkload((30.0,))] * 6
    offered = {
        evaluate(cap(batch_size=size), trial(workloads)).by_class[0].offered for size in (1, 2, 4)
    }
    assert len(offered) == 1
    assert evaluate(cap(), trial(workloads, seed=2)).by_class[0].offered not in offered


def test_two_policies_meet_the_same_noise() -> None:
    # With one request an episode, a timeout of 30 ms delays every response by 30 ms and nothing
    # else: a policy with other luck would not differ by exactly that.
    noisy = scenario(noise_cv=0.5)
    episodes = trial([recorded(0.25)] * 20, noisy)
    at_once = evaluate(cap(noisy), episodes).reward_per_s
    parameters = {"max_batch_size": 4, "batch_timeout_s": 0.03}
    waits = evaluate(build_policy("batch_timeout", noisy, parameters), episodes).reward_per_s
    assert np.ptp(at_once) > 0.001  # the episodes differ in their noise
    assert waits - at_once == pytest.approx(np.full(20, -0.03 / 2.0), abs=1e-9)


def test_equal_seeds_repeat_a_trial_and_others_do_not() -> None:
    noisy = scenario(noise_cv=0.5)
    first, again, other = (
        evaluate(cap(noisy), trial([PoissonWorkload((30.0,))] * 3, noisy, seed=seed)).reward_per_s
        for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_a_reward_that_is_no_number_is_refused() -> None:
    broken = trial([recorded(0.5)])._replace(reward=Reward(np.full(8, np.nan)))
    with pytest.raises(RuntimeError, match="static_cap: the reward of an episode is not finite"):
        evaluate(cap(), broken)


@pytest.mark.parametrize("rule", ["static_cap", "uniform_random"])
def test_policies_side_by_side_earn_what_each_earns_alone(rule: str) -> None:
    # Noise, faults of luck and random actions are the same; so the rewards are, to the last bit.
    noisy = scenario(noise_cv=0.5)
    episodes = trial([PoissonWorkload((60.0,)), PoissonWorkload((20.0,))] * 2, noisy, seed=3)
    settings = [{"batch_size": size} for size in (1, 4, 2)] if rule == "static_cap" else [{}] * 3
    policies = [build_policy(rule, noisy, parameters) for parameters in settings]
    together = rewards_side_by_side(policies, episodes)
    alone = [play(policy, episodes).reward_per_s for policy in policies]
    assert together.tolist() == np.array(alone).tolist()
    assert (len({tuple(row) for row in together.tolist()}) == 1) == (rule == "uniform_random")


def test_an_outcome_holds_what_an_evaluation_sums_up_and_the_bill() -> None:
    episodes = trial([recorded(0.5), recorded(0.1, 0.1)])
    outcome = play(cap(), episodes)
    assert outcome.reward_per_s.tolist() == evaluate(cap(), episodes).reward_per_s.tolist()
    assert outcome.records.lane.tolist() == [0, 1, 1]
    replica_seconds = outcome.rollout.reward_terms[:, -3]
    assert replica_seconds == pytest.approx([0.52, 0.13])  # until the trace is drained


def test_the_time_for_slow_answers_is_that_of_the_trial() -> None:
    # At 1.999 s a request that takes 20 ms: 10 ms after 2 s it is not answered.
    late = trial([recorded(1.999)])
    answered = [
        evaluate(cap(), late._replace(drain_s=drain_s)).by_class[0].served
        for drain_s in (0.01, 0.03)
    ]
    assert answered == [0, 1]
    assert late.drain_s == DRAIN_S
