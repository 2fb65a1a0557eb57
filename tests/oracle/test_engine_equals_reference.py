"""The compiled engine and the plain reference tell the same story, event by event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.conditions import Fault, Faults, SetPoints
from simulator.replica import Replica
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.state import EventKind
from simulator.workload import Arrivals
from tests.oracle.comparison import compare
from tests.oracle.scenario_strategies import FEATURES, lanes_of_arrivals, scenarios

CENTRAL, REPLICA = QueuePlace.CENTRAL, QueuePlace.REPLICA
DISPATCH, ROUTE, TUNE = DecisionKind.DISPATCH, DecisionKind.ROUTE, DecisionKind.TUNE
some_examples = settings(max_examples=60, deadline=None)


def run_example(data: st.DataObject, scenario_drawn: st.SearchStrategy[Scenario]) -> None:
    scenario = data.draw(scenario_drawn)
    lanes = data.draw(lanes_of_arrivals(len(scenario.request_classes), scenario.continuous))
    horizon_s = data.draw(st.sampled_from([1.0, 4.0, 9.5]))
    drain_s = data.draw(st.sampled_from([0.0, 2.0, 50.0]))
    compare(scenario, lanes, horizon_s, drain_s, data.draw(st.integers(0, 2**16)))


@st.composite
def any_scenarios(draw: st.DrawFn) -> Scenario:
    """Whatever can be put together."""
    kind = draw(st.sampled_from(DecisionKind))
    continuous = kind != DISPATCH and draw(st.booleans())
    places = {DISPATCH: [CENTRAL], ROUTE: [REPLICA], TUNE: list(QueuePlace)}[kind]
    queues = REPLICA if continuous else draw(st.sampled_from(places))
    features = frozenset(feature for feature in FEATURES if draw(st.booleans()))
    return draw(scenarios(kind, queues, features, continuous))


FAMILIES = {
    "dispatch": scenarios(DISPATCH, CENTRAL),
    "dispatch_noise": scenarios(DISPATCH, CENTRAL, frozenset({"noise", "residuals"})),
    "dispatch_backlog_delay": scenarios(
        DISPATCH, CENTRAL, frozenset({"backlog", "delay", "serves"})
    ),
    "dispatch_batch_latency": scenarios(
        DISPATCH, CENTRAL, frozenset({"mixed", "padding", "tables", "memory"})
    ),
    "route": scenarios(ROUTE, REPLICA, frozenset({"delay", "serves", "memory"})),
    "route_mixed": scenarios(ROUTE, REPLICA, frozenset({"mixed", "padding", "noise"})),
    "tune_central": scenarios(TUNE, CENTRAL, frozenset({"backlog", "delay", "mixed", "serves"})),
    "tune_replica": scenarios(TUNE, REPLICA, frozenset({"delay", "mixed", "serves", "scaling"})),
    "route_continuous": scenarios(ROUTE, REPLICA, frozenset({"delay"}), continuous=True),
    "tune_continuous": scenarios(TUNE, REPLICA, frozenset({"scaling"}), continuous=True),
    "dispatch_scaling": scenarios(DISPATCH, CENTRAL, frozenset({"scaling", "serves", "backlog"})),
    "dispatch_faults": scenarios(DISPATCH, CENTRAL, frozenset({"faults", "backlog", "delay"})),
    "route_faults": scenarios(ROUTE, REPLICA, frozenset({"faults", "delay", "scaling"})),
    "route_continuous_faults": scenarios(
        ROUTE, REPLICA, frozenset({"faults", "scaling", "view"}), continuous=True
    ),
    "tune_faults": scenarios(TUNE, CENTRAL, frozenset({"faults", "backlog", "scaling"})),
    "dispatch_view": scenarios(DISPATCH, CENTRAL, frozenset({"view", "backlog", "delay"})),
    "dispatch_shed": scenarios(DISPATCH, CENTRAL, frozenset({"shed", "view", "energy", "faults"})),
    "route_view": scenarios(ROUTE, REPLICA, frozenset({"view", "delay"})),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_engine_equals_reference_event_by_event(family: str) -> None:
    @given(st.data())
    @some_examples
    def examples(data: st.DataObject) -> None:
        run_example(data, FAMILIES[family])

    examples()


def test_a_batch_that_is_overdue_already_goes_at_once() -> None:
    # Request 0 is lost on replica 0, then 1 and 2 on replica 1: the queue is 1, 2, 0. Replica 1
    # takes 1 and 2 at 2.1875, which leaves request 0 to replica 0, overdue since 1.0.
    def replica(largest: int) -> Replica:
        return Replica((4.0,), (0.125,), (0.0,), largest)

    scenario = Scenario(
        (RequestClass("only", 1.0),),
        (replica(4), replica(2)),
        (1,),
        decision=TUNE,
        batch_timeout_s=1.0,
        set_points=SetPoints(batch_timeout_s=(1.0,)),
        faults=Faults((Fault(0, 1.75, 0.375), Fault(1, 2.0, 0.1875))),
    )
    arrivals = Arrivals(np.array([0.0, 1.25, 1.5]), np.zeros(3, int), np.ones(3))
    (cluster,) = compare(scenario, [arrivals], 9.5, 0.0, seed=0)
    assert (2.1875, EventKind.BATCH_DISPATCH, 0) in cluster.events


@pytest.mark.slow
@given(st.data())
@settings(max_examples=2000, deadline=None)
def test_engine_equals_reference_whatever_is_put_together(data: st.DataObject) -> None:
    run_example(data, any_scenarios())
