"""The routing anchor (section 2e of the notes on serving systems), simulated again.

The seed paper's two classes at alpha = 2 ms and beta = 5 and 20 ms on two replicas, a central queue
of 100, batches of one class, at most 32. Cost: mean of weight * response time over answered
requests, weights 200 and 20. The notes' numbers are of one run of 600 s each.
"""

import numpy as np
import pytest

from simulator.conditions import View
from simulator.environment import Environment
from simulator.policies import build_policy
from simulator.replica import Replica
from simulator.reward import Reward
from simulator.rollout import run_episodes
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload

LANES, HORIZON_S = 8, 600.0
WEIGHT = np.array([200.0, 20.0])
SCENARIO = Scenario(
    (RequestClass("fast", 3.0, 200.0), RequestClass("slow", 3.0, 20.0)),
    (Replica((0.002, 0.002), (0.005, 0.020), (0.0, 0.0), 32),) * 2,
    tuple(range(1, 33)),
    queue_capacity=100,
    view=View(oldest_requests=32),  # first in, first out without overtaking
)
RULES = {
    "rr_blocking": ("round_robin", {"batch_size": 32, "on_busy": "blocking", "overtake": False}),
    "fifo": ("fifo", {"batch_size": 32, "overtake": False}),
    "sita": ("sita", {"batch_size": 32}),
    "c_mu": ("c_mu", {"batch_size": {"fast": 32, "slow": 4}}),
    "gpu0": ("shortest_queue_first", {"batch_size": 32, "overtake": False}),
}
# By arrival rate in 1/s: the notes' costs, least first.
NOTES = {
    40: {"c_mu": 1.02, "fifo": 1.03, "sita": 1.08, "rr_blocking": 1.09, "gpu0": 2.30},
    80: {"c_mu": 1.34, "fifo": 1.44, "sita": 1.75, "rr_blocking": 3.30, "gpu0": 137},
    100: {"c_mu": 1.68, "fifo": 1.92, "sita": 16.7, "rr_blocking": 95.1, "gpu0": 147},
    120: {"c_mu": 2.32, "fifo": 3.08, "sita": 24.4, "rr_blocking": 111, "gpu0": 148},
    150: {"c_mu": 7.48, "sita": 25.3, "fifo": 53.2, "rr_blocking": 114, "gpu0": 149},
}
# Where the load is below 1. SITA's is 1 at 100/s: the slow replica alone serves 50 of 20 ms.
STABLE = {
    40: ("c_mu", "fifo", "sita", "rr_blocking", "gpu0"),
    80: ("c_mu", "fifo", "sita", "rr_blocking"),
    100: ("c_mu", "fifo"),
    120: ("c_mu", "fifo"),
    150: (),
}


def costs(rate_rps: float, rule: str) -> np.ndarray:
    """`[LANES]` mean weighted response time of what was answered."""
    environment = Environment(
        SCENARIO,
        PoissonWorkload((rate_rps / 2, rate_rps / 2)),
        LANES,
        HORIZON_S,
        Reward(np.zeros(13)),
        np.random.default_rng(5),
    )
    name, parameters = RULES[rule]
    policy = build_policy(name, SCENARIO, parameters)
    terms = run_episodes(environment, policy, np.random.default_rng(6)).reward_terms
    return (terms[:, 2:4] @ WEIGHT) / terms[:, 0:2].sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("rate_rps", list(NOTES))
def test_the_rules_rank_as_in_the_notes_and_cost_as_much_where_stable(rate_rps):
    found = {rule: costs(rate_rps, rule) for rule in NOTES[rate_rps]}
    for rule, cost in found.items():
        print(f"{rate_rps}/s {rule}: {cost.mean():.3f} (notes {NOTES[rate_rps][rule]})")
    assert sorted(found, key=lambda rule: found[rule].mean()) == list(NOTES[rate_rps])
    for rule in STABLE[rate_rps]:
        assert found[rule].mean() == pytest.approx(NOTES[rate_rps][rule], rel=0.1), rule
