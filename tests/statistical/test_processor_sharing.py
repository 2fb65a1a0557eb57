"""Continuous batching with only a cost per decoding sequence is processor sharing.

An iteration of n sequences takes n quanta and gives each a token: each is served at speed 1/n.
The quantum is 1/20,000 of the mean demand. A newcomer joins at the next boundary, has its prompt
and first token in the iteration that follows, and pays for the other tokens: those are its demand.
It so loses about 1.5 iterations, 1.5 rho / 20,000 of the mean response time: far below the error.
"""

import numpy as np
import pytest

from simulator.conditions import SetPoints
from simulator.queueing_theory import (
    mg1_processor_sharing_response_of_s,
    mg1_processor_sharing_response_s,
)
from simulator.replica import TokenModel, continuous_replica
from simulator.scenario import DecisionKind, QueuePlace, Scenario
from tests.statistical.steady_state import (
    NEVER_S,
    ONLY,
    Records,
    Span,
    assert_agrees,
    estimate,
    mean_where,
    measured,
    poisson_arrivals,
    simulate,
)

pytestmark = pytest.mark.slow
MEAN_TOKENS = 20_000
SEQUENCES = 400  # never reached: 0.8^400
SPAN = Span(measured=12_000, tail=2_000)  # later arrivals slow down those in service
SHORT, LONG, SHARE_LONG = 5_000, 125_000, 0.125


def demand_tokens(law: str, count: int, generator: np.random.Generator) -> np.ndarray:
    """Tokens that cost time, `[count]`; the mean is MEAN_TOKENS."""
    if law == "deterministic":
        return np.full(count, MEAN_TOKENS)
    if law == "geometric":
        return generator.geometric(1.0 / MEAN_TOKENS, count)
    return np.where(generator.random(count) < SHARE_LONG, LONG, SHORT)


def sharing_scenario() -> Scenario:
    """One replica whose mean demand is 1 s; the engine runs it without a decision."""
    tokens = TokenModel(0.0, 0.0, 1.0 / MEAN_TOKENS, 0.0, SEQUENCES, 10**9, 2 * SEQUENCES)
    return Scenario(
        ONLY,
        (continuous_replica(1, tokens),),
        batch_sizes=(1,),
        queue_capacity=1_000,
        decision=DecisionKind.TUNE,
        queues=QueuePlace.REPLICA,
        set_points=SetPoints(max_num_seqs=(SEQUENCES,)),
        control_interval_s=NEVER_S,
    )


def responses(law: str, load: float, seed: int) -> tuple[Records, np.ndarray]:
    """The measured requests and their demands `[B, n]` s."""
    generator = np.random.default_rng(seed)
    lanes = [
        arrivals._replace(
            prompt_tokens=np.ones(SPAN.count, np.int64),
            output_tokens=1 + demand_tokens(law, SPAN.count, generator),
        )
        for arrivals in poisson_arrivals(load, SPAN, generator)
    ]
    records = measured(simulate(sharing_scenario(), lanes, generator), SPAN, load)
    cut = slice(SPAN.warmup, SPAN.warmup + SPAN.measured)
    tokens = np.array([arrivals.output_tokens[cut] - 1 for arrivals in lanes])
    return records, tokens / MEAN_TOKENS


@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("law", ["deterministic", "geometric", "two_point"])
def test_response_is_that_of_processor_sharing_whatever_the_law_of_the_demand(
    law: str, load: float
) -> None:
    records, demand_s = responses(law, load, seed=41)
    # Two points have cv 2: FIFO would respond in 11 s at load 0.8, not in 5.
    assert demand_s.mean() == pytest.approx(1.0, rel=0.01)
    theory_s = mg1_processor_sharing_response_s(load, 1.0)
    found = estimate(records.response_s.mean(1), records.gap_excess)
    assert_agrees(f"processor sharing {law} load {load}", found, theory_s, 0.02)


@pytest.mark.parametrize(
    ("edges_s", "law"), [((0.25, 1.0, 2.5), "geometric"), ((1.0,), "two_point")]
)
def test_response_given_the_demand_is_in_proportion_to_it(
    edges_s: tuple[float, ...], law: str
) -> None:
    records, demand_s = responses(law, 0.7, seed=42)
    group = np.digitize(demand_s, edges_s)
    for number in range(len(edges_s) + 1):
        chosen = group == number
        # In proportion, so the mean over a group is the response of the mean demand.
        mean_s = float(demand_s[chosen].mean())
        theory_s = mg1_processor_sharing_response_of_s(0.7, 1.0, mean_s)
        beside_s = mean_where(records.response_s - demand_s * theory_s / mean_s, chosen)
        found = estimate(beside_s, records.gap_excess)
        shifted = found._replace(mean=theory_s + found.mean)
        assert_agrees(f"demand {mean_s:.3f} s, {law}", shifted, theory_s, 0.02)
