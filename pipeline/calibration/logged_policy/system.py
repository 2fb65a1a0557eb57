"""The cluster of a log as a scenario, so that the rules of the registry can be asked."""

from collections.abc import Sequence

import numpy as np

from pipeline.calibration.logged_policy.decisions import WAITED, DispatchDecisions, DispatchLog
from pipeline.calibration.logged_policy.scoring import Chances
from pipeline.calibration.service import fit_service
from simulator.action import action_table, legal_actions
from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies.base import Policy
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

LONGEST_MENU = 32  # different sizes up to which every size is on the menu
_FEWEST_BATCHES = 20  # of a replica and class, for a line of its own
_ROWS = 4096  # decisions at a time: bounds the memory of [D, A] arrays
_KINDS = 8
_AS_RULE, _WAITS, _SENDS, _SENDS_ALL, _CLASS, _REPLICA, _SMALLER, _LARGER = range(_KINDS)


def menu_of(log: DispatchLog) -> tuple[int, ...]:
    """Batch sizes that the dispatcher may have had: all, or powers of two where they are many."""
    largest = int(log.batch_size.max())
    if largest <= LONGEST_MENU:
        return tuple(range(1, largest + 1))
    powers = {1 << power for power in range(largest.bit_length())}
    often = np.argsort(-np.bincount(log.batch_size))[:LONGEST_MENU]
    return tuple(sorted({largest, *powers, *(int(size) for size in often if size > 0)}))


def system_of(log: DispatchLog, menu: Sequence[int], order: Sequence[int] = ()) -> Scenario:
    """A scenario with the log's replicas, classes and menu; weights put c * mu into `order`.

    Batch latencies are fitted to the log's own batches: only rules that compare replicas see them.
    `order` lists the classes, the first to be served first; empty: all weights are 1.
    """
    lines = [_lines(log, replica) for replica in range(log.replicas)]
    single_s = np.array([[alpha + beta for alpha, beta in line] for line in lines]).min(axis=0)
    weight = np.ones(log.classes)
    for place, request_class in enumerate(order):
        weight[request_class] = (log.classes - place) * single_s[request_class]
    return Scenario(
        tuple(RequestClass(f"class_{c}", 1.0, float(weight[c])) for c in range(log.classes)),
        tuple(
            Replica(
                tuple(alpha for alpha, _ in line),
                tuple(beta for _, beta in line),
                (0.0,) * log.classes,
                int(max(menu)),
            )
            for line in lines
        ),
        tuple(menu),
        queue_capacity=log.classes * max(menu) + 1,
    )


def _lines(log: DispatchLog, replica: int) -> list[tuple[float, float]]:
    """alpha_s and beta_s of each class on a replica; of all replicas where it has few batches."""
    service_s = log.departure_s - log.dispatch_s
    lines = []
    for request_class in range(log.classes):
        rows = (log.batch_class == request_class) & (service_s > 0)
        own = rows & (log.replica == replica)
        rows = own if own.sum() >= _FEWEST_BATCHES else rows
        if rows.sum() == 0:
            lines.append((1e-3, 0.0))  # never served: nothing depends on it
            continue
        fit = fit_service(log.batch_size[rows].astype(float), service_s[rows])
        lines.append((fit.alpha_s, fit.beta_s))
    return lines


def observation_of(scenario: Scenario, decisions: DispatchDecisions) -> Observation:
    """The decisions as lanes of one observation: rules decide from what they see alone."""
    oldest = np.where(decisions.queue_length > 0, decisions.oldest_wait_s, -1.0)
    busy = np.where(decisions.idle, float(ReplicaState.IDLE), float(ReplicaState.BUSY))
    return empty_observation(scenario, decisions.length)._replace(
        queue_length=decisions.queue_length,
        oldest_wait_s=decisions.oldest_wait_s,
        head_class=np.where(oldest.max(axis=1) < 0, -1, oldest.argmax(axis=1)),
        last_replica=decisions.last_replica,
        can_take=decisions.idle.astype(float),
        in_service=decisions.in_service,
        in_flight=decisions.in_service,
        replica_state=busy,
        clock_s=decisions.clock_s,
    )


def chances_of(policy: Policy, scenario: Scenario, decisions: DispatchDecisions) -> Chances:
    """What a rule gives to the logged decisions; batch sizes count as clipped to the queue."""
    parts = [
        _chances(policy, scenario, decisions.chosen(slice(begin, begin + _ROWS)))
        for begin in range(0, decisions.length, _ROWS)
    ]
    return Chances(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _chances(policy: Policy, scenario: Scenario, decisions: DispatchDecisions) -> Chances:
    table, largest = action_table(scenario), scenario.parameters().max_batch_size
    mask = legal_actions(table, decisions.queue_length, decisions.idle, largest)
    own = policy.action_probabilities(observation_of(scenario, decisions), mask)
    uniform = mask / mask.sum(axis=1, keepdims=True)
    waiting = np.where(table.replica < 0, 0, decisions.queue_length[:, table.request_class])
    size = np.minimum(table.batch_size, waiting)  # [D, A] that is really sent
    logged = size == decisions.batch_size[:, None]
    logged &= (table.replica == decisions.replica[:, None]) | (decisions.batch_size == 0)[:, None]
    of_class = table.request_class == decisions.request_class[:, None]
    logged &= of_class | (decisions.batch_size == 0)[:, None]
    likeliest, rows = own.argmax(axis=1), np.arange(decisions.length)
    rule = (table.replica[likeliest], table.request_class[likeliest], size[rows, likeliest])
    most = np.minimum(waiting, largest.max())
    head = observation_of(scenario, decisions).head_class[:, None]
    deviation = _deviations(
        np.broadcast_to(table.replica, size.shape),
        np.broadcast_to(table.request_class, size.shape),
        size,
        (table.request_class == head) & (size == most),
        rule,
    )
    all_sent = (logged & (table.request_class == head) & (size == most)).any(axis=1)
    told = _deviations(
        decisions.replica[:, None],
        decisions.request_class[:, None],
        decisions.batch_size[:, None],
        all_sent[:, None],
        rule,
    )
    kinds = [deviation == kind for kind in range(_KINDS)]
    return Chances(
        (own * logged).sum(axis=1),
        (uniform * logged).sum(axis=1),
        told[:, 0],
        np.stack([(own * kind).sum(axis=1) for kind in kinds], axis=1),
        np.stack([(uniform * kind).sum(axis=1) for kind in kinds], axis=1),
    )


def _deviations(
    replica: np.ndarray,
    request_class: np.ndarray,
    size: np.ndarray,
    all_of_head: np.ndarray,
    rule: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> np.ndarray:
    """How actions `[D, A]` deviate from the one `[D]` that the rule likes best.

    Sent where the rule waits: `all_of_head` counts apart, for other rules would do just that, and
    exploration does it seldom.
    """
    own_replica, own_class, own_size = (column[:, None] for column in rule)
    sends, rule_sends = replica != WAITED, own_replica != WAITED
    return np.select(
        [
            ~sends & ~rule_sends,
            ~sends,
            ~rule_sends & all_of_head,
            ~rule_sends,
            request_class != own_class,
            replica != own_replica,
            size < own_size,
            size > own_size,
        ],
        [_AS_RULE, _WAITS, _SENDS_ALL, _SENDS, _CLASS, _REPLICA, _SMALLER, _LARGER],
        _AS_RULE,
    )
