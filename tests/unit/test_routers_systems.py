"""The routers of llm-d, BLIS, production-stack, SGLang and Dynamo, in moments worked by hand."""

import math

import numpy as np
import pytest

from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies import RULES, build_policy
from simulator.policies.route.predicted_latency import (
    LatencyPredictor,
    Prediction,
    headroom_score,
)
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import RequestClass, Scenario
from tests.unit.router_moments import ask, fresh_router

# Iterations: 10 ms + 0.1 ms a prefill token + 1 ms a sequence + 0.001 ms a token of context.
TOKENS = TokenModel(0.010, 1e-4, 1e-3, 1e-6, 8, 1600, 400)


def cluster(
    replicas: int = 3, slo_ttft_s: float = math.inf, slo_tpot_s: float = math.inf
) -> Scenario:
    return Scenario(
        (RequestClass("chat", 10.0, slo_ttft_s=slo_ttft_s, slo_tpot_s=slo_tpot_s),),
        (continuous_replica(1, TOKENS),) * replicas,
        (1,),
        decision="route",
        queues="replica",
    )


def moment(waiting, running=None, kv_fill=None, size=160.0, number=1, last=-1) -> Observation:
    """One lane at its decision `number`."""
    waiting = np.array([waiting], float)
    empty = empty_observation(cluster(waiting.shape[1]), 1)
    running = empty.in_service if running is None else np.array([running], float)
    return empty._replace(
        queue_length=waiting.sum(axis=1, keepdims=True),
        head_class=np.zeros(1, int),
        head_size=np.array([size]),
        last_replica=np.array([last]),
        can_take=np.ones(waiting.shape),
        in_service=running,
        replica_state=np.full(waiting.shape, ReplicaState.IDLE),
        in_flight=waiting + running,
        kv_fill=empty.kv_fill if kv_fill is None else np.array([kv_fill]),
        replica_queue_length=waiting[:, :, None],
        clock_s=np.array([float(number)]),
        arrived=np.array([[number]]),
    )


def router(name: str, scenario: Scenario | None = None, **parameters):
    return fresh_router(name, scenario or cluster(), parameters)


@pytest.mark.parametrize("name", ["llm_d", "blis"])
def test_queue_and_kv_scores_add_up_by_their_weights(name):
    # Queue scores of 0, 1, 4: 1, 0.75, 0. KV scores 0.3, 0.6, 1. Sums 1.3, 1.35, 1.
    observation = moment([0, 1, 4], kv_fill=[0.7, 0.4, 0.0])
    assert ask(router(name), observation) == [0, 1, 0]
    # Without replica 2 the queue scores are 1 and 0: 1.3 against 0.6.
    assert ask(router(name), observation, [0, 1]) == [1, 0, 0]
    assert ask(router(name), moment([2, 2, 2], kv_fill=[0.5, 0.5, 0.9])) == [0.5, 0.5, 0]


def test_weights_of_llm_d_and_blis_change_the_choice():
    observation = moment([0, 1, 4], kv_fill=[0.7, 0.4, 0.0])
    assert ask(router("blis", queue_depth_weight=20), observation) == [1, 0, 0]
    assert ask(router("llm_d", weights={"kv": 1}), observation) == [0, 0, 1]
    assert ask(router("llm_d", weights={"queue": 1}), observation) == [1, 0, 0]


def test_the_load_aware_score_is_flat_from_128_on():
    policy = router("llm_d", weights={"load_aware": 1, "kv": 0.25})
    # 0.5 (1 - 64 / 128) + 0.25 * 0.5 = 0.375 against 0.5 (1 - 96 / 128) + 0.25 = 0.375: a tie.
    assert ask(policy, moment([64, 96, 300], kv_fill=[0.5, 0.0, 0.5])) == [0.5, 0.5, 0]
    assert ask(policy, moment([128, 300, 129], kv_fill=[0.5, 0.5, 0.5])) == pytest.approx(
        [1 / 3] * 3
    )


def test_the_active_request_score_is_a_share_of_the_most():
    policy = router("llm_d", weights={"active_request": 1, "kv": 1})
    # (4 - 1) / 4 + 0.1 = 0.85, 0 + 1 = 1, (4 - 2) / 4 + 0.3 = 0.8.
    assert ask(policy, moment([0, 2, 0], [1, 2, 2], [0.9, 0.0, 0.7])) == [0, 1, 0]
    assert ask(policy, moment([0, 0, 0], [0, 0, 0])) == pytest.approx([1 / 3] * 3)


def test_predictions_follow_the_iteration_times():
    predicted = LatencyPredictor(cluster(2), 500.0).predict(moment([0, 2], [3, 8], [0.5, 1.0]))
    # Replica 0: 160 tokens in one iteration: 16 ms + 10 + 3 + 0.8. Replica 1: 1160 tokens in three:
    # 116 + 3 (10 + 8 + 1.6).
    np.testing.assert_allclose(predicted.ttft_s, [[0.0298, 0.1748]])
    # One sequence and 160 tokens of context more: 10 + 4 + 0.96 and 10 + 9 + 1.76.
    np.testing.assert_allclose(predicted.tpot_s, [[0.01496, 0.02076]])


def scores(ttft_s, tpot_s, slo_ttft_s, slo_tpot_s, allowed=None) -> np.ndarray:
    mask = np.ones((1, len(ttft_s)), bool)
    if allowed is not None:
        mask &= np.isin(np.arange(mask.shape[1]), allowed)
    predicted = Prediction(np.array([ttft_s]), np.array([tpot_s]))
    return headroom_score(predicted, (np.array([slo_ttft_s]), np.array([slo_tpot_s])), mask)[0]


def test_the_least_positive_headroom_scores_best():
    # TTFT headrooms 0.8, 0.4, 0.0 and -1 at an SLO of 1: replica 3 would miss.
    score = scores([0.2, 0.6, 1.0, 2.0], [0.1] * 4, 1.0, math.inf)
    np.testing.assert_allclose(score, [0, 0.5, 1, 0])
    # TPOT headrooms 0, 0.1, 0.2: 0.8 (0, 0.5, 1) + 0.2 (1, 0.5, 0).
    score = scores([0.2, 0.6, 1.0], [0.2, 0.1, 0.0], 1.0, 0.2)
    np.testing.assert_allclose(score, [0.2, 0.5, 0.8])


def test_where_all_would_miss_the_least_deficit_scores_best():
    # Deficits 1, 3 and, masked, 0.5; TPOT keeps everywhere, so it ranks nothing.
    score = scores([2.0, 4.0, 1.5], [0.1, 0.0, 0.2], 1.0, 1.0, [0, 1])
    np.testing.assert_allclose(score, [1, 0, 0])


def test_without_targets_the_least_prediction_scores_best():
    score = scores([0.2, 0.6, 1.0], [0.2, 0.1, 0.0], math.inf, math.inf)
    np.testing.assert_allclose(score, [0.8, 0.5, 0.2])
    np.testing.assert_allclose(scores([1.0, 1.0], [2.0, 2.0], 5.0, 5.0), [1, 1])


def test_llm_d_packs_by_headroom_where_there_is_a_target():
    # TTFT of 500-token prompts as above: 29.8 ms idle, longer with two waiting.
    observation = moment([0, 2, 8], [3, 8, 8], [0.5, 1.0, 1.0])
    policy = router(
        "llm_d", cluster(slo_ttft_s=0.2), weights={"latency": 1}, mean_prompt_tokens=500
    )
    assert ask(policy, observation) == [0, 1, 0]  # 174.8 of 200 ms; replica 2 would miss
    policy = router("llm_d", weights={"latency": 1}, mean_prompt_tokens=500)
    assert ask(policy, observation) == [1, 0, 0]


def test_production_stack_takes_the_least_load_when_no_prefix_matches():
    for beta in (0.1, 1.0):
        policy = router("production_stack", beta=beta)
        assert ask(policy, moment([3, 0, 1], [0, 2, 1])) == [0, 0.5, 0.5]
        assert ask(policy, moment([3, 0, 1], [0, 2, 1]), [0]) == [1, 0, 0]
    assert ask(router("production_stack", beta=0), moment([3, 0, 1])) == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("pending", "expected"),
    [
        ([65, 64, 0], [0, 0, 1]),  # 65 > 64 and 65 > 0: the shortest queue
        ([64, 64, 0], None),  # 64 is not above 64
        ([194, 150, 129], [0, 0, 1]),  # 65 > 64 and 194 > 193.5
        ([195, 150, 130], None),  # 65 > 64, but 195 = 1.5 * 130
    ],
)
def test_sglang_balances_only_where_both_thresholds_are_passed(pending, expected):
    row = ask(router("sglang"), moment([0, 0, 0], pending))
    assert row == (expected or pytest.approx([1 / 3] * 3))


def test_sglang_grows_the_smallest_tree():
    policy = router("sglang")
    # (size of the request, where the one before it went) and the row: trees in the comments.
    history = [
        (100, -1, pytest.approx([1 / 3] * 3)),  # 0 0 0
        (300, 1, [0.5, 0, 0.5]),  # 0 100 0
        (50, 0, [0, 0, 1]),  # 300 100 0
        (60, 2, [0, 0, 1]),  # 300 100 50
        (10, 2, [0, 1, 0]),  # 300 100 110
        (10, 0, [0, 1, 0]),  # 310 100 110: the answer was 1, but 0 got it
    ]
    for number, (size, last, expected) in enumerate(history, start=1):
        observation = moment([0, 0, 0], size=size, number=number, last=last)
        assert ask(policy, observation) == expected
    assert ask(policy, observation) == [0, 1, 0]  # asked again


def test_dynamo_counts_prefill_and_decode_blocks():
    # Blocks of 16. Prefill (160 + 512 q) / 16: 10, 42, 10. Decode 1600 u / 16: 50, 0, 45.
    observation = moment([0, 1, 0], [5, 0, 9], [0.5, 0.0, 0.45])
    assert ask(router("dynamo_kv"), observation) == [0, 1, 0]  # 60, 42, 55
    assert ask(router("dynamo_kv"), observation, [0, 2]) == [0, 0, 1]
    assert ask(router("dynamo_kv", prefill_scale=2), observation) == [0, 0, 1]  # 70, 84, 65
    # With weight 2 for each active: 60 + 10, 42 + 2, 55 + 18.
    assert ask(router("dynamo_kv", active_weight=2), observation, [0, 2]) == [1, 0, 0]
    row = ask(router("dynamo_kv", mean_prompt_tokens=208), observation, [1, 2])
    assert row == [0, 1, 0]  # 10 + 13 = 23


def test_dynamo_draws_from_the_softmax_of_the_cost_over_its_range():
    # Costs 60, 42, 55: over the range of 18 they are 1, 0 and 13/18 above the least.
    observation = moment([0, 1, 0], [5, 0, 9], [0.5, 0.0, 0.45])
    weight = np.exp(-np.array([1.0, 0.0, 13 / 18]) / 0.5)
    row = ask(router("dynamo_kv", temperature=0.5), observation)
    assert row == pytest.approx(weight / weight.sum())
    # Of 60 and 55 the range is 5.
    weight = np.exp(-np.array([1.0, 0.0]) / 0.5)
    row = ask(router("dynamo_kv", temperature=0.5), observation, [0, 2])
    assert row == pytest.approx([weight[0] / weight.sum(), 0, weight[1] / weight.sum()])
    assert row[1] == 0.0
    row = ask(router("dynamo_kv", temperature=0.5), moment([1, 1, 1]))
    assert row == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("llm_d", {"weights": {"prefix": 3}}, "weights = .*: must be by names of queue"),
        ("llm_d", {"weights": {"kv": -1}}, "weights.kv = -1: .* at least 0"),
        ("blis", {"kv_weight": math.nan}, "kv_weight = nan"),
        ("production_stack", {"beta": True}, "beta = True"),
        ("sglang", {"balance_abs_threshold": "64"}, "balance_abs_threshold = '64'"),
        ("dynamo_kv", {"temperature": -0.1}, "temperature = -0.1"),
        ("dynamo_kv", {"block_tokens": 0}, "block_tokens = 0: .* at least 1"),
    ],
)
def test_bad_parameters_are_refused(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy(name, cluster(), parameters)


def test_routers_by_kv_memory_need_continuous_batching():
    scenario = Scenario(
        (RequestClass("only", 0.1),),
        (Replica((0.002,), (0.005,), (0.0,), 4),) * 2,
        (1,),
        decision="route",
        queues="replica",
    )
    for name in ("llm_d", "blis", "dynamo_kv"):
        assert RULES[name].misfit(scenario) == "needs continuous batching"
