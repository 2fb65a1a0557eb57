"""The compiled engine and the plain reference tell the same story, event by event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import reference
from simulator.environment import Environment
from simulator.parameters import ClassChoice, DecisionEpochs, Replica, RequestClass, Scenario
from simulator.reward import Reward
from simulator.state import Ending, Recording
from simulator.workload import Arrivals, RecordedWorkload

EVENTS = 2000


@st.composite
def scenarios(draw: st.DrawFn, noisy: bool) -> Scenario:
    """Small clusters whose latencies lie on a grid of 1/8 s, so that events collide."""
    classes = draw(st.integers(1, 3))
    eighths = st.integers(0, 4).map(lambda n: n / 8)
    per_class = st.tuples(*[eighths] * classes)

    def replica() -> Replica:
        alpha_s = draw(per_class)
        beta_s = tuple(max(beta, 1 / 8) for beta in draw(per_class))
        cv = tuple(draw(st.sampled_from([0.0, 0.05, 0.6])) if noisy else 0.0 for _ in beta_s)
        return Replica(alpha_s, beta_s, cv, draw(st.integers(1, 5)), 10.0, 50.0)

    return Scenario(
        request_classes=tuple(
            RequestClass(f"class{number}", draw(st.sampled_from([0.25, 1.0])))
            for number in range(classes)
        ),
        replicas=tuple(replica() for _ in range(draw(st.integers(1, 3)))),
        batch_sizes=draw(st.sampled_from([(1,), (1, 2, 4), (1, 2, 3, 4, 5, 6)])),
        queue_capacity=draw(st.integers(1, 8)),
        class_choice=draw(st.sampled_from(ClassChoice)),
        decision_epochs=draw(st.sampled_from(DecisionEpochs)),
        tick_s=draw(st.sampled_from([0.125, 0.3])),
    )


@st.composite
def lanes_of_arrivals(draw: st.DrawFn, classes: int) -> list[Arrivals]:
    """One to three lanes of up to 25 requests on the same grid of instants."""
    lanes = []
    for _ in range(draw(st.integers(1, 3))):
        gaps = draw(st.lists(st.integers(0, 4), max_size=25))
        generator = np.random.default_rng(draw(st.integers(0, 2**32)))
        lanes.append(
            Arrivals(
                arrival_s=np.cumsum(np.array(gaps, float)) / 8,
                request_class=generator.integers(0, classes, len(gaps)),
                size=generator.choice([1.0, 1.0, 2.5], len(gaps)),
            )
        )
    return lanes


def compare(scenario: Scenario, lanes: list[Arrivals], horizon_s: float, drain_s: float, seed: int):
    """Runs both on the same random legal actions and compares at every decision."""
    weights = np.ones(5 * len(scenario.request_classes) + 2)
    environment = Environment(
        scenario,
        [RecordedWorkload(arrivals) for arrivals in lanes],
        len(lanes),
        horizon_s,
        Reward(weights),
        np.random.default_rng(seed),
        drain_s,
        Recording(requests=True, events=EVENTS),
    )
    observation, action_mask = environment.reset()
    state, table = environment.state, environment.table
    clusters = [
        reference.Cluster(
            scenario,
            arrivals.window(0.0, horizon_s),
            state.noise_z[lane] if state.noise_z.shape[1] else np.zeros(len(arrivals.arrival_s)),
            horizon_s + drain_s,
            drains=drain_s > 0,
        )
        for lane, arrivals in enumerate(lanes)
    ]
    for cluster in clusters:
        reference.advance(cluster)
    terms = np.zeros((len(lanes), len(weights)))
    generator = np.random.default_rng(seed + 1)
    while True:
        for lane, cluster in enumerate(clusters):
            assert state.clock_s[lane] == cluster.clock_s
            assert state.ending[lane] == cluster.ending
            assert [len(queue) for queue in cluster.queues] == list(observation.queue_length[lane])
            idle = [batch is None for batch in cluster.replicas]
            assert idle == list(observation.can_take[lane] == 1.0)
            assert state.event_count[lane] == len(cluster.events)
        if not environment.running().any():
            break
        action = (action_mask * generator.random(action_mask.shape)).argmax(1)
        step = environment.step(action)
        action_mask = step.action_mask
        terms += step.reward_terms
        for lane, cluster in enumerate(clusters):
            if cluster.ending != Ending.RUNNING:
                continue
            chosen = action[lane]
            request_class = int(table.request_class[chosen])
            reference.take_action(
                cluster,
                int(table.replica[chosen]) if chosen else None,
                request_class if request_class >= 0 else None,
                int(table.batch_size[chosen]),
            )
            reference.advance(cluster)
    for lane, cluster in enumerate(clusters):
        count = state.event_count[lane]
        assert count <= EVENTS
        told = list(
            zip(
                state.event_clock_s[lane, :count],
                state.event_kind[lane, :count],
                state.event_subject[lane, :count],
                strict=True,
            )
        )
        assert told == cluster.events
        # An episode without a decision never hands its terms to a step.
        terms[lane] += state.reward_terms[lane]
        np.testing.assert_allclose(terms[lane], cluster.reward_terms(), rtol=1e-12, atol=1e-12)


def run_example(data: st.DataObject, noisy: bool) -> None:
    scenario = data.draw(scenarios(noisy=noisy))
    lanes = data.draw(lanes_of_arrivals(len(scenario.request_classes)))
    horizon_s = data.draw(st.sampled_from([1.0, 4.0, 9.5]))
    drain_s = data.draw(st.sampled_from([0.0, 2.0, 50.0]))
    compare(scenario, lanes, horizon_s, drain_s, data.draw(st.integers(0, 2**16)))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_engine_equals_reference_event_by_event_without_noise(data: st.DataObject) -> None:
    run_example(data, noisy=False)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_engine_equals_reference_event_by_event_with_noise(data: st.DataObject) -> None:
    run_example(data, noisy=True)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=2000, deadline=None)
def test_engine_equals_reference_on_two_thousand_random_scenarios(data: st.DataObject) -> None:
    run_example(data, noisy=data.draw(st.booleans()))
