"""The testbed, run for real: workers, models, gateway and load; its log against itself."""

import json
import math
import platform
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import onnxruntime
import polars as pl
import pytest

from pipeline.testbed.description import card_text, system_record
from pipeline.testbed.gateway import serve_load
from pipeline.testbed.load import BurstWorkload
from pipeline.testbed.models import CLASS_NAMES, ModelFiles, build_models
from pipeline.testbed.profiling import Profile, profile_workers
from pipeline.testbed.recorder import UNSET, write_serving_log
from pipeline.testbed.session import NOMINAL, Session, Settings, capacity_rps
from pipeline.testbed.worker import Worker, running_workers
from simulator.action import WAIT, action_table
from simulator.observation import RESPONSE_WINDOW, Observation
from simulator.policies.base import Policy
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario
from simulator.workload import Arrivals

BATCH_SIZES = (1, 2, 4)
CAPACITY = 10
WINDOW_S = 1.0
SETTINGS = Settings(
    "batch_timeout", {"max_batch_size": 4, "batch_timeout_s": 0.02}, epsilon=0.2, duration_s=3.0
)


class Witness:
    """The policy it wraps, with a copy of all that was asked and answered since the last reset."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name = policy, policy.name
        self.seen: list[Observation] = []
        self.answers: list[np.ndarray] = []

    def reset(self, lanes: int) -> None:
        self.policy.reset(lanes)
        self.seen, self.answers = [], []

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        self.seen.append(Observation(*(field.copy() for field in observation)))
        self.answers.append(self.policy.action_probabilities(observation, action_mask))
        return self.answers[-1]


class Run:
    """A finished run and its log."""

    def __init__(self, session: Session, witness: Witness, folder: Path) -> None:
        self.session, self.witness, self.folder = session, witness, folder
        self.recording = session.recording
        self.requests = pl.read_parquet(folder / "requests.parquet")
        self.batches = pl.read_parquet(folder / "batches.parquet")
        self.decisions = pl.read_parquet(folder / "decisions.parquet")


def scenario_of(profile: Profile, replicas: int) -> Scenario:
    replica = Replica(*profile[:3], max_batch_size=BATCH_SIZES[-1])
    classes = tuple(RequestClass(name, 0.1) for name in CLASS_NAMES)
    return Scenario(
        classes, (replica,) * replicas, BATCH_SIZES, queue_capacity=CAPACITY, rate_window_s=WINDOW_S
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelFiles, ...]:
    return build_models(tmp_path_factory.mktemp("models"), seed=3, max_batch_size=BATCH_SIZES[-1])


@pytest.fixture(scope="module")
def workers(models: tuple[ModelFiles, ...]) -> Iterator[tuple[Worker, ...]]:
    paths = [(files.model, files.requests) for files in models]
    with running_workers(2, paths, BATCH_SIZES[-1]) as running:
        yield running


@pytest.fixture(scope="module")
def run(
    models: tuple[ModelFiles, ...],
    workers: tuple[Worker, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    profile = profile_workers(workers, 2, BATCH_SIZES, repeats=4)
    scenario = scenario_of(profile, 2)
    # Half a second at a modest load, half a second far above it: something is shed.
    mean_rps = capacity_rps(profile, (0.7, 0.3), 2)
    workload = BurstWorkload(0.3 * mean_rps, 1.6 * mean_rps, (0.7, 0.3), 0.5, 0.5)
    arrivals = workload.draw(SETTINGS.duration_s, np.random.default_rng(1))
    rule = build_policy(SETTINGS.policy, scenario, SETTINGS.parameters)
    witness = Witness(EpsilonMixture(rule, SETTINGS.epsilon))
    recording = serve_load(scenario, witness, workers, arrivals, np.random.default_rng(2))
    session = Session(recording, scenario, workload, profile, models)
    system = system_record(SETTINGS, session)
    folder = tmp_path_factory.mktemp("log") / "sample"
    write_serving_log(folder, recording, system, card_text(system, SETTINGS))
    return Run(session, witness, folder)


def test_every_request_offered_is_completed_or_shed(run: Run) -> None:
    status = run.requests["status"]
    assert set(status) == {"completed", "shed"}
    answered = run.requests.filter(status == "completed")
    assert len(answered.drop_nulls()) == len(answered)
    assert run.requests.filter(status="shed")["dispatch_us"].is_null().all()
    assert run.batches["batch_size"].sum() == len(answered)
    assert (answered["arrival_us"] <= answered["dispatch_us"]).all()
    assert (answered["dispatch_us"] < answered["departure_us"]).all()


def test_an_arrival_is_shed_exactly_when_it_finds_the_queue_full(run: Run) -> None:
    log = run.recording
    joined = ~log.shed
    for number, arrival_us in enumerate(log.arrival_us):
        earlier = joined[:number] & (log.dispatch_us[:number] > arrival_us)
        assert log.shed[number] == (earlier.sum() == CAPACITY)
    assert log.shed.any()


def test_requests_of_a_class_start_in_the_order_of_arrival(run: Run) -> None:
    assert run.requests["arrival_us"].is_sorted()
    for _, requests in run.requests.filter(status="completed").group_by("request_class"):
        assert requests.sort("request_id")["batch_id"].is_sorted()


def test_a_batch_has_one_class_and_a_size_within_the_limits(run: Run) -> None:
    by_batch = run.requests.drop_nulls("batch_id").group_by("batch_id")
    members = by_batch.agg(
        pl.col("request_class").n_unique().alias("classes"),
        pl.col("request_class").first().alias("member_class"),
        pl.len().alias("members"),
        pl.col("dispatch_us").min().alias("dispatches"),
    )
    joined = run.batches.join(members, on="batch_id")
    assert len(joined) == len(run.batches)
    assert (joined["classes"] == 1).all()
    assert (joined["member_class"] == joined["request_class"]).all()
    assert (joined["members"] == joined["batch_size"]).all()
    assert joined["batch_size"].is_between(1, BATCH_SIZES[-1]).all()
    assert (joined["dispatches"] == joined["dispatch_us"]).all()


def test_a_batch_is_sent_to_an_idle_replica_only(run: Run) -> None:
    for _, batches in run.batches.group_by("replica"):
        ordered = batches.sort("dispatch_us")
        assert (ordered["dispatch_us"][1:] >= ordered["departure_us"][:-1]).all()
    assert run.batches["replica"].n_unique() == 2


def test_every_batch_has_the_decision_that_sent_it(run: Run) -> None:
    table = action_table(run.session.scenario)
    sent = run.decisions.drop_nulls("batch_id").join(run.batches, on="batch_id")
    assert sent["batch_id"].to_list() == run.batches["batch_id"].to_list()
    assert (run.decisions["batch_id"].is_null() == (run.decisions["action"] == WAIT)).all()
    assert (sent["clock_us"] <= sent["dispatch_us"]).all()
    for row in sent.iter_rows(named=True):
        action, request_class = row["action"], CLASS_NAMES.index(row["request_class"])
        assert table.replica[action] == row["replica"]
        assert table.request_class[action] == request_class
        waiting = row["queue_length"][request_class]
        assert row["batch_size"] == min(table.batch_size[action], waiting)
        assert row["can_take"][row["replica"]]


def test_a_decision_is_made_only_where_one_is_due(run: Run) -> None:
    assert (run.decisions["queue_length"].list.sum() > 0).all()
    assert run.decisions["can_take"].list.any().all()
    assert run.decisions["clock_us"].is_sorted()
    # After WAIT: at the next event, or a tick later (here within the machine's own delays).
    next_us = pl.col("clock_us").shift(-1).alias("next_us")
    held = run.decisions.with_columns(next_us).drop_nulls("next_us")
    waits = held.filter(action=WAIT)
    events_us = np.sort(np.concatenate([run.recording.arrival_us, run.recording.departure_us]))
    for row in waits.iter_rows(named=True):
        after = np.searchsorted(events_us, row["clock_us"], side="right")
        event_follows = after < len(events_us) and events_us[after] <= row["next_us"]
        assert event_follows or row["next_us"] - row["clock_us"] >= 5000


def test_the_propensity_is_the_policys_probability_of_the_action(run: Run) -> None:
    answers = run.witness.answers
    assert len(answers) == len(run.decisions)
    own = [row[0, action] for row, action in zip(answers, run.decisions["action"], strict=True)]
    assert run.decisions["propensity"].to_list() == own
    assert (run.decisions["propensity"] > 0).all()


def test_what_the_policy_saw_follows_from_the_log(run: Run) -> None:
    log, (alpha_s, beta_s, _, _) = run.recording, run.session.profile
    arrival_s, departure_s = log.arrival_us * 1e-6, log.departure_us * 1e-6
    batches = np.array(log.batches)
    begin_s, end_s = (batches[:, 3:] * 1e-6).T
    order = np.argsort(log.departure_us, kind="stable")[(log.departure_us == UNSET).sum() :]
    for seen, decision in zip(run.witness.seen, log.decisions, strict=True):
        clock_s = decision.clock_us * 1e-6
        here = (log.arrival_us <= decision.clock_us) & ~log.shed
        waiting = here & ((log.dispatch_us > decision.clock_us) | (log.dispatch_us == UNSET))
        assert seen.head_class[0] == log.request_class[waiting.argmax()]
        for number in range(2):
            queue = np.flatnonzero(waiting & (log.request_class == number))
            assert seen.queue_length[0, number] == len(queue) == decision.queue_length[number]
            wait_s = clock_s - arrival_s[queue[0]] if len(queue) else 0.0
            assert seen.oldest_wait_s[0, number] == pytest.approx(wait_s, abs=1e-9)
            mine = (log.request_class == number) & (arrival_s <= clock_s)
            rate_rps = np.exp((arrival_s[mine] - clock_s) / WINDOW_S).sum() / WINDOW_S
            assert seen.arrival_rate_rps[0, number] == pytest.approx(rate_rps)
        before = begin_s <= clock_s
        assert seen.last_replica[0] == (batches[before][-1, 0] if before.any() else -1)
        since_s = clock_s - (begin_s[before][-1] if before.any() else 0.0)
        assert seen.since_dispatch_s[0] == pytest.approx(since_s, abs=1e-9)
        for replica in range(2):
            own = before & (batches[:, 0] == replica)
            busy = own & (end_s > clock_s)
            assert (seen.can_take[0, replica] == 0.0) == busy.any() != decision.can_take[replica]
            share = np.exp((np.minimum(end_s[own], clock_s) - clock_s) / WINDOW_S)
            share -= np.exp((begin_s[own] - clock_s) / WINDOW_S)
            assert seen.utilization[0, replica] == pytest.approx(share.sum(), abs=1e-9)
            number, size = batches[busy][0, 1:3] if busy.any() else (0, 0)
            expected_s = begin_s[busy] + alpha_s[number] + beta_s[number] * size - clock_s
            assert seen.in_service[0, replica] == size
            assert seen.remaining_service_s[0, replica] == pytest.approx(
                max(expected_s.sum(), 0.0), abs=1e-9
            )
        answered = order[log.departure_us[order] <= decision.clock_us][-RESPONSE_WINDOW:]
        response_s = np.sort(departure_s[answered] - arrival_s[answered])
        p95_s = response_s[math.ceil(0.95 * len(answered)) - 1] if len(answered) else 0.0
        assert seen.response_p95_s[0] == pytest.approx(p95_s, abs=1e-9)


def test_system_json_says_what_ran_and_not_on_which_host(run: Run) -> None:
    system = json.loads((run.folder / "system.json").read_text(encoding="utf-8"))
    known = "format version origin zone clock license request_classes replicas queue_capacity"
    known += " batch_sizes max_batch_size class_choice decision_epochs tick_s rate_window_s policy"
    known += " workload models machine duration_s seed profile measured"
    assert set(known.split()) <= set(system)
    assert datetime.fromisoformat(system["origin"]).utcoffset() == timedelta(0)
    scenario, profile = run.session.scenario, run.session.profile
    assert (system["queue_capacity"], system["replicas"]) == (CAPACITY, len(scenario.replicas))
    assert list(system["profile"]["alpha_s"].values()) == pytest.approx(profile.alpha_s, abs=1e-6)
    policy = {"name": SETTINGS.policy, "parameters": SETTINGS.parameters, "epsilon": 0.2}
    assert system["policy"] == policy
    assert system["measured"]["arrived"] == len(run.requests)
    assert "Apache-2.0" in (run.folder / "CARD.md").read_text(encoding="utf-8")
    assert platform.node() not in map(str, system["machine"].values())


def test_no_request_is_sent_before_its_time(run: Run) -> None:
    assert (run.recording.lateness_s >= 0).all()


def test_a_model_answers_a_batch_as_it_answers_each_request(models: tuple[ModelFiles, ...]) -> None:
    for files in models:
        session = onnxruntime.InferenceSession(files.model, providers=["CPUExecutionProvider"])
        requests = np.load(files.requests, allow_pickle=False)
        together = session.run(None, {"request": requests})[0]
        alone = [session.run(None, {"request": request[None]})[0][0] for request in requests]
        np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4)
        assert np.unique(together.round(5)).size > 1
        assert [path.suffix for path in files.model.parent.glob(f"{files.name}.*")] == [".onnx"]


def test_requests_that_nobody_serves_have_failed(
    workers: tuple[Worker, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waits(Witness):
        def action_probabilities(self, observation, action_mask):
            return np.eye(1, action_mask.shape[1])

    monkeypatch.setattr("pipeline.testbed.gateway.DRAIN_LIMIT_S", 0.2)
    scenario = scenario_of(NOMINAL, 1)
    arrivals = Arrivals(np.array([0.0, 0.01]), np.array([0, 1]), np.ones(2))
    rule = build_policy("static_cap", scenario, {"batch_size": 1})
    waits = serve_load(scenario, Waits(rule), workers[:1], arrivals, np.random.default_rng(0))
    assert waits.counts() == {"arrived": 2, "completed": 0, "shed": 0, "failed": 2}
    assert waits.requests_frame(CLASS_NAMES)["status"].to_list() == ["failed", "failed"]


def test_a_worker_that_dies_ends_the_run(workers: tuple[Worker, ...]) -> None:
    class Kills(Witness):
        def action_probabilities(self, observation, action_mask):
            if observation.queue_length.any():
                workers[0].process.kill()
            return super().action_probabilities(observation, action_mask)

    scenario = scenario_of(NOMINAL, 1)
    arrivals = Arrivals(np.zeros(1), np.array([1]), np.ones(1))
    rule = build_policy("static_cap", scenario, {"batch_size": 1})
    with pytest.raises((RuntimeError, OSError), match=r"ended unexpectedly|Broken pipe"):
        serve_load(scenario, Kills(rule), workers[:1], arrivals, np.random.default_rng(0))
