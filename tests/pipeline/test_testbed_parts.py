"""The parts of the testbed that need no worker, against values computed by hand."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.testbed.command import main
from pipeline.testbed.dispatcher import Dispatcher
from pipeline.testbed.gateway import serve_load
from pipeline.testbed.load import BurstWorkload, OpenLoopLoad
from pipeline.testbed.profiling import fit_batch_latency
from pipeline.testbed.recorder import Decision, Recording, write_serving_log
from pipeline.testbed.session import NOMINAL, profiled_scenario
from pipeline.testbed.trackers import LoadAverages, ResponseWindow
from simulator.action import action_table
from simulator.conditions import Faults, View
from simulator.environment import Environment
from simulator.observation import RESPONSE_WINDOW, ReplicaState
from simulator.policies.registry import build_policy
from simulator.reward import paper_reward
from simulator.scenario import DecisionEpochs
from simulator.workload import Arrivals, RecordedWorkload

SYSTEM = {"format": "batchwright-serving-log", "request_classes": ["fast", "slow"]}


def test_the_arrival_rate_jumps_by_one_over_the_window_and_decays() -> None:
    averages = LoadAverages(classes=2, replicas=1, window_s=2.0)
    averages.arrives(0, 1.0)
    assert averages.arrival_rate_rps.tolist() == [[0.5, 0.0]]
    averages.arrives(0, 3.0)  # one window later
    assert averages.arrival_rate_rps[0, 0] == pytest.approx(0.5 / math.e + 0.5)
    averages.arrives(1, 3.0)
    averages.advance(4.0)
    assert averages.arrival_rate_rps[0] == pytest.approx(
        [(0.5 / math.e + 0.5) * math.exp(-0.5), 0.5 * math.exp(-0.5)]
    )


def test_utilization_moves_towards_busy_and_back() -> None:
    averages = LoadAverages(classes=1, replicas=2, window_s=1.0)
    averages.set_busy(1, True, 5.0)
    averages.advance(6.0)
    busy = 1.0 - math.exp(-1.0)
    assert averages.utilization[0] == pytest.approx([0.0, busy])
    averages.set_busy(1, False, 6.0)
    averages.advance(6.5)
    assert averages.utilization[0] == pytest.approx([0.0, busy * math.exp(-0.5)])


def test_the_p95_is_the_nearest_rank_of_the_last_32_answers() -> None:
    responses = ResponseWindow()
    assert responses.p95_s() == 0.0
    for response_s in range(19, 0, -1):  # m = 19: ceil(18.05) = 19th smallest
        responses.answered(float(response_s))
    assert responses.p95_s() == 19.0
    responses.answered(20.0)  # m = 20: 19th smallest
    assert responses.p95_s() == 19.0
    responses.answered(21.0)  # m = 21: ceil(19.95) = 20th smallest
    assert responses.p95_s() == 20.0
    for _ in range(RESPONSE_WINDOW):
        responses.answered(2.0)
    assert responses.p95_s() == 2.0
    responses.answered(9.0)  # m = 32: ceil(30.4) = 31st smallest, the largest but one
    assert responses.p95_s() == 2.0
    responses.answered(8.0)
    assert responses.p95_s() == 8.0


def test_a_dispatcher_sees_its_own_timeline() -> None:
    dispatcher = Dispatcher(profiled_scenario(NOMINAL))  # fast 4 + b ms, slow 8 + 6 b ms
    assert not dispatcher.decision_due
    for number, request_class in enumerate((1, 0, 1)):
        assert dispatcher.arrives(number, request_class, 1.0, 0.010 * number)
    assert dispatcher.decision_due
    seen = dispatcher.observe(0.030)
    assert seen.queue_length.tolist() == [[1, 2]]
    assert seen.oldest_wait_s[0] == pytest.approx([0.020, 0.030])
    assert (seen.head_class[0], seen.last_replica[0]) == (1, -1)
    batch = dispatcher.starts(replica=1, request_class=1, batch_size=8, clock_s=0.030)
    assert [request.request_id for request in batch.requests] == [0, 2]
    seen = dispatcher.observe(0.040)
    assert seen.remaining_service_s[0] == pytest.approx([0.0, 0.008 + 2 * 0.006 - 0.010])
    assert seen.in_service.tolist() == [[0, 2]]
    assert (seen.head_class[0], seen.last_replica[0]) == (0, 1)
    assert seen.since_dispatch_s[0] == pytest.approx(0.010)
    with pytest.raises(RuntimeError, match="replica 1"):
        dispatcher.starts(replica=1, request_class=0, batch_size=1, clock_s=0.041)
    dispatcher.completes(1, 0.060)
    seen = dispatcher.observe(0.060)
    assert seen.response_p95_s[0] == pytest.approx(0.060)  # of 0.060 and 0.040
    assert seen.can_take.tolist() == [[1.0, 1.0]]


def test_a_dispatcher_observes_what_the_simulator_does() -> None:
    # A slow batch of 2 is in service when a fast request of size 2.5 arrives.
    scenario = profiled_scenario(NOMINAL)
    size, arrival_s = np.array([1.0, 1.5, 2.5]), np.array([0.001, 0.001, 0.004])
    arrivals = Arrivals(arrival_s, np.array([1, 1, 0]), size)
    lanes = Environment(
        scenario,
        RecordedWorkload(arrivals),
        lanes=1,
        horizon_s=1.0,
        reward=paper_reward(scenario),
        generator=np.random.default_rng(0),
    )
    dispatcher = Dispatcher(scenario)
    for number in range(2):
        dispatcher.arrives(number, 1, size[number], arrival_s[number])
    table = action_table(scenario)
    first, _ = lanes.reset()
    for theirs, ours in zip(first, dispatcher.observe(0.001), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    columns = (table.replica, table.request_class, table.batch_size)
    action = np.flatnonzero([row == (1, 1, 2) for row in zip(*columns, strict=True)])
    second = lanes.step(action).observation
    dispatcher.starts(replica=1, request_class=1, batch_size=2, clock_s=0.001)
    dispatcher.arrives(2, 0, size[2], arrival_s[2])
    for theirs, ours in zip(second, dispatcher.observe(0.004), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert second.head_size[0] == 2.5
    assert second.in_flight[0].tolist() == [0.0, 2.0]
    dispatcher.completes(1, 0.030)
    assert dispatcher.observe(0.030).in_flight[0].tolist() == [0, 0]
    assert (dispatcher.observe(0.030).replica_state[0] == ReplicaState.IDLE).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decision_epochs": DecisionEpochs.TICKS}, "decision_epochs = .*: the gateway has events"),
        ({"replica_backlog": 1}, "replica_backlog = 1: the gateway has 0"),
        ({"view": View(0.5)}, "view = .*: the gateway has"),
        ({"faults": Faults(mean_time_between_s=9.0)}, "faults = .*: the gateway has"),
    ],
)
def test_a_gateway_refuses_a_scenario_that_it_could_not_play(
    changes: dict[str, Any], message: str
) -> None:
    scenario = replace(profiled_scenario(NOMINAL), **changes)
    policy = build_policy("uniform_random", scenario, {})
    nothing = Arrivals(np.zeros(0), np.zeros(0, int), np.zeros(0))
    with pytest.raises(ValueError, match=message):
        serve_load(scenario, policy, [], nothing, np.random.default_rng(0))


def test_the_fitted_line_is_exact_and_never_starts_below_zero() -> None:
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    assert fit_batch_latency(sizes, 3.0 + 0.5 * sizes) == pytest.approx((3.0, 0.5))
    # y = x - 0.5 wants alpha = -0.5: through the origin, beta = sum x y / sum x^2.
    beta_s = (sizes @ (sizes - 0.5)) / (sizes @ sizes)
    assert fit_batch_latency(sizes, sizes - 0.5) == pytest.approx((0.0, beta_s))


def test_the_load_sends_every_request_in_order_and_not_early() -> None:
    arrival_s = np.array([0.0, 0.02, 0.02, 0.05])
    load = OpenLoopLoad(Arrivals(arrival_s, np.array([0, 1, 0, 1]), np.ones(4)))
    sent: list[tuple[int, int]] = []

    async def send_all() -> list[float]:
        loop, clocks_s = asyncio.get_running_loop(), []

        def arrive(request_id: int, request_class: int, size: float) -> None:
            sent.append((request_id, request_class))
            clocks_s.append(loop.time() - origin_s)

        origin_s = loop.time()
        load.start(loop, origin_s, arrive)
        while not load.exhausted:
            await asyncio.sleep(0.01)
        return clocks_s

    clocks_s = np.array(asyncio.run(send_all()))
    assert sent == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert (clocks_s >= arrival_s).all()
    assert (load.lateness_s <= clocks_s - arrival_s).all()


def test_the_bursts_have_the_rates_and_shares_asked_for() -> None:
    workload = BurstWorkload(50.0, 150.0, (0.7, 0.3), shortest_s=5.0, longest_s=5.0)
    arrivals = workload.draw(400.0, np.random.default_rng(0))
    high = (arrivals.arrival_s // 5.0) % 2 == 1
    for count, mean in ((high.sum(), 30_000), ((~high).sum(), 10_000)):
        assert abs(count - mean) < 4 * math.sqrt(mean)
    share = (arrivals.request_class == 0).mean()
    assert abs(share - 0.7) < 4 * math.sqrt(0.7 * 0.3 / len(high))
    assert arrivals.arrival_s[-1] < 400.0


def one_request_of_each_fate() -> Recording:
    recording = Recording(Arrivals(np.zeros(3), np.array([0, 1, 1]), np.ones(3)))
    for number, joined in enumerate((True, False, True)):
        recording.arrives(number, 10 + number, joined)
    recording.decisions.append(Decision(20, (1, 1), (True, False), 3, 0.25, 0))
    recording.dispatches(0, 0, [0], 21)
    recording.departs(0, [0], 40)
    return recording


def test_the_log_has_the_records_of_the_contract(tmp_path: Path) -> None:
    write_serving_log(tmp_path / "log", one_request_of_each_fate(), SYSTEM, "card")
    requests = pl.read_parquet(tmp_path / "log" / "requests.parquet")
    assert requests.rows() == [
        (0, 10, "fast", 1.0, "completed", 21, 40, 0),
        (1, 11, "slow", 1.0, "shed", None, None, None),
        (2, 12, "slow", 1.0, "failed", None, None, None),
    ]
    batches = pl.read_parquet(tmp_path / "log" / "batches.parquet")
    assert batches.rows() == [(0, 0, "fast", 1, 21, 40)]
    decisions = pl.read_parquet(tmp_path / "log" / "decisions.parquet")
    assert decisions.rows() == [(0, 20, [1, 1], [True, False], 3, 0.25, 0)]
    instants = ("arrival_us", "dispatch_us", "departure_us", "batch_id")
    assert {requests.schema[name] for name in instants} == {pl.Int64()}


def test_a_log_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    write_serving_log(folder, one_request_of_each_fate(), SYSTEM, "first")
    with pytest.raises(ValueError, match="--replace"):
        write_serving_log(folder, one_request_of_each_fate(), SYSTEM, "second")
    broken = SYSTEM | {"seed": object()}
    with pytest.raises(TypeError, match="JSON"):
        write_serving_log(folder, one_request_of_each_fate(), broken, "second", replace=True)
    assert (folder / "CARD.md").read_text() == "first"
    write_serving_log(folder, one_request_of_each_fate(), SYSTEM, "second", replace=True)
    assert (folder / "CARD.md").read_text() == "second"
    assert json.loads((folder / "system.json").read_text()) == SYSTEM
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "no_such_rule"], "policy = 'no_such_rule'"),
        (["--policy", "static_cap"], "static_cap.batch_size: must be given"),
        (["--policy", "uniform_random", "--load", "0"], "load = 0.0"),
        (["--policy", "uniform_random", "--epsilon", "2"], "epsilon = 2.0"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line_before_anything_starts(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "log"), *words]) == 1
    output = capsys.readouterr()
    assert output.err.startswith(f"error: {message}")
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_a_folder_that_is_not_a_log_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path), "--replace", "--policy", "uniform_random"]) == 1
    assert "not a serving log" in capsys.readouterr().err
