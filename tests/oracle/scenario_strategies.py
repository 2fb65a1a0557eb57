"""Random small scenarios on a grid of 1/8 s, so that events collide; and requests for them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from simulator.conditions import (
    Autoscaler,
    DispatchDelay,
    Fault,
    Faults,
    Scaling,
    SetPoints,
    View,
)
from simulator.replica import Replica, TokenModel
from simulator.scenario import (
    ClassChoice,
    DecisionEpochs,
    DecisionKind,
    MixedBatches,
    QueuePlace,
    RequestClass,
    Routing,
    Scenario,
)
from simulator.workload import Arrivals

# What a scenario may have beside the plain line; each is drawn, and may come out as nothing.
FEATURES = (
    *("backlog", "delay", "energy", "faults", "memory", "mixed", "noise", "padding"),
    *("residuals", "scaling", "serves", "shed", "tables", "view"),
)
LARGEST_SIZE = 2.5
MOST_TOKENS = 6  # of a prompt, and of an answer
Drawn = dict[str, Any]


def eighths(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda count: count / 8)


def menus(values: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    """Ascending tuples without repeats, of at most 3 values."""
    return st.sets(values, min_size=least, max_size=3).map(lambda menu: tuple(sorted(menu)))


@st.composite
def scenarios(
    draw: st.DrawFn,
    kind: DecisionKind,
    queues: QueuePlace,
    features: frozenset[str] = frozenset(),
    continuous: bool = False,
) -> Scenario:
    """A scenario of this kind of decision with the named features, or what can go with it."""
    classes, replicas = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    mixed = MixedBatches.NEVER
    if "mixed" in features and not continuous:
        mixed = draw(st.sampled_from(MixedBatches))
    if mixed != MixedBatches.NEVER:
        features -= {"serves"}
    if mixed == MixedBatches.SUM:
        features -= {"tables"}
    model = token_replicas if continuous else whole_batch_replicas
    served = draw(served_classes(classes, replicas)) if "serves" in features else [()] * replicas
    choices = list(ClassChoice) if mixed == MixedBatches.NEVER else [ClassChoice.HEAD_OF_LINE]
    central = queues == QueuePlace.CENTRAL
    set_points = draw(set_points_for(replicas, continuous)) if kind == "tune" else SetPoints()
    refresh_s = st.sampled_from([0.0, 0.25, 0.3, 1.0])
    return Scenario(
        request_classes=tuple(draw(request_class(number)) for number in range(classes)),
        replicas=tuple(draw(model(classes, served[k], features)) for k in range(replicas)),
        batch_sizes=draw(st.sampled_from([(1,), (1, 2, 4), (1, 2, 3, 4, 5, 6)])),
        queue_capacity=draw(st.integers(1, 8)),
        class_choice=draw(st.sampled_from(choices)),
        decision_epochs=draw(st.sampled_from(DecisionEpochs)),
        tick_s=draw(st.sampled_from([0.125, 0.3])),
        decision=kind,
        queues=queues,
        replica_backlog=draw(st.integers(0, 2)) if central and "backlog" in features else 0,
        mixed=mixed,
        batch_timeout_s=draw(eighths(0, 8)),
        routing=draw(st.sampled_from(Routing)),
        control_interval_s=draw(st.sampled_from([0.3, 0.5, 1.0])),
        set_points=set_points,
        scaling=draw(scalings(not set_points.replicas_on)) if "scaling" in features else Scaling(),
        faults=draw(faults_of(replicas)) if "faults" in features else Faults(),
        dispatch_delay=draw(delays()) if "delay" in features else DispatchDelay(),
        view=View(
            draw(refresh_s),
            draw(st.booleans()),
            draw(st.integers(0, 3)) if central else 0,
        )
        if "view" in features
        else View(),
        may_shed=kind == "dispatch" and "shed" in features and draw(st.booleans()),
    )


@st.composite
def request_class(draw: st.DrawFn, number: int) -> RequestClass:
    late_s = st.sampled_from([0.25, 1.0])
    return RequestClass(f"class{number}", draw(late_s), 1.0, draw(late_s), draw(late_s) / 4)


@st.composite
def served_classes(draw: st.DrawFn, classes: int, replicas: int) -> list[tuple[bool, ...]]:
    """Which classes each replica serves; every class is served by one of them."""
    rows = [[draw(st.booleans()) for _ in range(classes)] for _ in range(replicas)]
    for number in range(classes):
        if not any(row[number] for row in rows):
            rows[draw(st.integers(0, replicas - 1))][number] = True
    return [tuple(row) for row in rows]


@st.composite
def whole_batch_replicas(
    draw: st.DrawFn, classes: int, serves: tuple[bool, ...], features: frozenset[str]
) -> Replica:
    """A replica that serves whole batches."""
    per_class: Callable[[st.SearchStrategy[Any]], tuple[Any, ...]] = lambda values: tuple(  # noqa: E731
        draw(values) for _ in range(classes)
    )
    largest = draw(st.integers(1, 5))
    special: Drawn = {}
    if "tables" in features and draw(st.booleans()):
        special["latency_table"] = per_class(tables())
    if "residuals" in features and draw(st.booleans()):
        special["residuals"] = per_class(
            st.lists(st.sampled_from([0.5, 1.0, 1.25, 2.0]), max_size=3).map(tuple)
        )
    if "padding" in features:
        special["pads_to_largest"] = draw(st.booleans())
        above = draw(menus(st.integers(1, 7)))
        special["padded_batch_sizes"] = draw(st.sampled_from([(), (*above, 8)]))
    if "memory" in features:
        special["memory_gib"] = draw(st.sampled_from([LARGEST_SIZE, 4.0, 6.0]))
        special["request_memory_gib"] = per_class(st.sampled_from([0.0, 0.5, 1.0]))
    if "energy" in features:
        for field in ("energy_alpha_j", "energy_beta_j"):
            special[field] = per_class(st.sampled_from([0.0, 0.5, 3.0]))
    cv = st.sampled_from([0.0, 0.05, 0.6] if "noise" in features else [0.0])
    return Replica(
        alpha_s=per_class(eighths(0, 4)),
        beta_s=per_class(eighths(1, 4)),
        noise_cv=per_class(cv),
        max_batch_size=largest,
        idle_power_w=10.0,
        busy_power_w=50.0,
        price_per_hour=draw(st.sampled_from([0.0, 3600.0])),
        serves=serves,
        **special,
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[float, float], ...]:
    """Measured batch latencies, rising or not."""
    sizes = draw(menus(eighths(4, 60), least=1))
    return tuple((size, draw(eighths(1, 12))) for size in sizes)


@st.composite
def token_replicas(
    draw: st.DrawFn, classes: int, serves: tuple[bool, ...], features: frozenset[str]
) -> Replica:
    """A replica that runs continuous batching. Every request fits into its memory alone."""
    most = draw(st.integers(1, 4))
    tokens = TokenModel(
        t0_s=draw(eighths(1, 4)),
        t_prefill_s=draw(st.sampled_from([0.0, 1 / 16])),
        t_decode_s=draw(st.sampled_from([0.0, 1 / 8])),
        t_kv_s=draw(st.sampled_from([0.0, 1 / 64])),
        max_num_seqs=most,
        kv_capacity_tokens=draw(st.integers(2 * MOST_TOKENS, 3 * MOST_TOKENS)),
        max_batched_tokens=most + draw(st.integers(0, MOST_TOKENS)),
    )
    nothing = (0.0,) * classes
    return Replica(
        nothing, nothing, nothing, most, 10.0, 50.0, 3600.0, serves=serves, tokens=tokens
    )


@st.composite
def set_points_for(draw: st.DrawFn, replicas: int, continuous: bool) -> SetPoints:
    """Menus of which at least one has something to decide."""
    points = SetPoints(
        max_batch_size=draw(menus(st.integers(1, 6))),
        batch_timeout_s=draw(menus(eighths(0, 8))),
        max_num_seqs=draw(menus(st.integers(1, 5))) if continuous else (),
        replicas_on=draw(menus(st.integers(0, replicas))),
    )
    return points if points.any else SetPoints(max_batch_size=(1, 3))


@st.composite
def scalings(draw: st.DrawFn, may_autoscale: bool) -> Scaling:
    autoscaler = Autoscaler(
        draw(st.sampled_from([0.7, 1.0, 3.0])), draw(st.integers(0, 1)), draw(eighths(0, 8))
    )
    return Scaling(
        cold_start_s=draw(eighths(0, 8)),
        cold_start_cv=draw(st.sampled_from([0.0, 0.0, 0.5])),
        initial_replicas=draw(st.sampled_from([None, 0, 1])),
        autoscaler=autoscaler if may_autoscale and draw(st.booleans()) else None,
    )


@st.composite
def faults_of(draw: st.DrawFn, replicas: int) -> Faults:
    """Scripted faults on the grid that do not touch on a replica, and perhaps random ones."""
    scripted = []
    for replica in range(replicas):
        start_s = 0.0
        for _ in range(draw(st.integers(0, 3))):
            start_s += draw(eighths(1, 16))
            duration_s = draw(eighths(1, 12))
            scripted.append(Fault(replica, start_s, duration_s))
            start_s += duration_s
    between_s = draw(st.sampled_from([np.inf, np.inf, 2.0]))
    return Faults(tuple(scripted), between_s, draw(eighths(1, 4)), draw(st.booleans()))


@st.composite
def delays(draw: st.DrawFn) -> DispatchDelay:
    # A delay that varies a lot: the next one may be on its way for less than the one before.
    return DispatchDelay(
        draw(eighths(0, 3)), draw(eighths(0, 8)), draw(st.sampled_from([0.0, 0.5, 2.0]))
    )


@st.composite
def lanes_of_arrivals(draw: st.DrawFn, classes: int, continuous: bool) -> list[Arrivals]:
    """One to three lanes of up to 25 requests on the same grid of instants."""
    lanes = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, 25))  # by itself: lists of a free length are mostly short
        gaps = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
        generator = np.random.default_rng(draw(st.integers(0, 2**32)))
        tokens = generator.integers(1, MOST_TOKENS + 1, (2, count if continuous else 0))
        lanes.append(
            Arrivals(
                np.cumsum(np.array(gaps, float)) / 8,
                generator.integers(0, classes, count),
                generator.choice([1.0, 1.0, LARGEST_SIZE], count),
                *tokens,
            )
        )
    return lanes
