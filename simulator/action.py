"""What an action number means, which are legal, and the one place where actions are drawn."""

from typing import NamedTuple

import numpy as np

from simulator.by_reference import by_reference
from simulator.scenario import ClassChoice, DecisionKind, Scenario

WAIT = 0
HEAD_OF_LINE = -1
SHED = -2  # in place of a batch size: the oldest request of the class is given up
KEPT = -1  # a set-point that the action leaves alone


@by_reference
class ActionTable(NamedTuple):
    """The meaning of each action.

    `dispatch`: action 0 is WAIT (replica -1, batch size 0), the others send a batch, or give up
    the oldest request of a class (replica -1, batch size SHED). `request_class` is HEAD_OF_LINE
    (-1) where that is the class at the head of the line.
    `route`: action k is replica k. `tune`: the set-points, KEPT (-1) where left alone.
    """

    replica: np.ndarray  # [A] -1 under `tune`
    request_class: np.ndarray  # [A]
    batch_size: np.ndarray  # [A] requests, before clipping to the queue; or max_batch_size
    batch_timeout_s: np.ndarray  # [A] s
    max_num_seqs: np.ndarray  # [A]
    replicas_on: np.ndarray  # [A]

    @property
    def size(self) -> int:
        """The number of actions A, WAIT included."""
        return len(self.replica)


def action_table(scenario: Scenario) -> ActionTable:
    """The actions of a scenario, by its decision kind.

    `dispatch`: WAIT, then (replica, class, batch size) with the size fastest. With
    `class_choice: head_of_line` there is one class slot only, so K = 2 and sizes 1..32 give the
    paper's 1 + 2 * 32 = 65 actions (section 4.1). Sizes above a replica's max_batch_size stay in
    the table and are masked. With `may_shed` one more action for each class slot comes last, which
    sheds its oldest request; the next decision is due at the same instant. `tune`: every
    combination of the menus, the last fastest.
    """
    if scenario.decision == DecisionKind.TUNE:
        points = scenario.set_points
        menus = np.meshgrid(
            *(
                np.array(menu or (KEPT,), float)
                for menu in (
                    points.max_batch_size,
                    points.batch_timeout_s,
                    points.max_num_seqs,
                    points.replicas_on,
                )
            ),
            indexing="ij",
        )
        return _table(
            len(menus[0].ravel()), **dict(zip(_SET_POINTS, map(np.ravel, menus), strict=True))
        )
    replicas = np.arange(len(scenario.replicas))
    if scenario.decision == DecisionKind.ROUTE:
        return _table(len(replicas), replica=replicas)
    if scenario.class_choice == ClassChoice.HEAD_OF_LINE:
        classes = np.array([HEAD_OF_LINE])
    else:
        classes = np.arange(len(scenario.request_classes))
    replica, request_class, batch_size = np.meshgrid(
        replicas, classes, np.array(scenario.batch_sizes), indexing="ij"
    )
    shed = classes if scenario.may_shed else classes[:0]
    return _table(
        1 + replica.size + len(shed),
        replica=np.concatenate([[-1], replica.ravel(), np.full(len(shed), -1)]),
        request_class=np.concatenate([[HEAD_OF_LINE], request_class.ravel(), shed]),
        batch_size=np.concatenate([[0], batch_size.ravel(), np.full(len(shed), SHED)]),
    )


_SET_POINTS = ("batch_size", "batch_timeout_s", "max_num_seqs", "replicas_on")


def _table(actions: int, **columns: np.ndarray) -> ActionTable:
    """A table whose other columns are -1."""
    return ActionTable(
        **{
            field: np.asarray(
                columns.get(field, np.full(actions, -1)),
                np.float64 if field == "batch_timeout_s" else np.int64,
            )
            for field in ActionTable._fields
        }
    )


def describe_action(table: ActionTable, action: int, class_names: tuple[str, ...]) -> str:
    """A person's words for an action, such as `replica 1, fast, batch size 8`."""
    request_class = table.request_class[action]
    name = "head of line" if request_class == HEAD_OF_LINE else class_names[request_class]
    if table.batch_size[action] == SHED:
        return f"shed the oldest of {name}"
    if table.replica[action] < 0 and table.batch_size[action] != 0:
        points = (f"{name} {getattr(table, name)[action]:g}" for name in _SET_POINTS)
        return ", ".join(point for point in points if not point.endswith(" -1")).replace(
            "batch_size", "max_batch_size"
        )
    if table.replica[action] < 0:
        return "wait"
    if table.batch_size[action] < 0:
        return f"replica {table.replica[action]}"
    return f"replica {table.replica[action]}, {name}, batch size {table.batch_size[action]}"


def legal_actions(
    table: ActionTable, queue_length: np.ndarray, can_take: np.ndarray, max_batch_size: np.ndarray
) -> np.ndarray:
    """The action mask `[B, A]` of a `dispatch` decision where every replica serves every class.

    From queue lengths `[B, C]` and the replicas that can take a batch `[B, K]`. WAIT is always
    legal, and so is shedding where the class has a request waiting. (replica, class, size) is legal
    where the replica can take a batch, the class has a request waiting, and the size is at most the
    replica's `max_batch_size [K]`. A size above the queue length is legal: it is clipped.
    """
    waiting = np.concatenate([queue_length > 0, (queue_length > 0).any(1, keepdims=True)], axis=1)
    sheds = table.batch_size == SHED
    mask = can_take.astype(bool)[:, table.replica] | sheds
    mask &= waiting[:, table.request_class]
    mask &= (table.batch_size <= max_batch_size[table.replica]) | sheds
    mask[:, WAIT] = True
    return mask


def sample_actions(
    probabilities: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One action for each row of `[B, A]` probabilities, and its propensity; both `[B]`."""
    action = actions_at(probabilities, generator.random(len(probabilities)))
    return action, probabilities[np.arange(len(action)), action]


def actions_at(probabilities: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """The action `[B]` of each row of `[B, A]` probabilities, from `luck [B]`, uniform in [0, 1).

    Inverse transform on the cumulative sum. The largest cumulative value replaces 1, so that a
    row which sums to 1 - 1e-16 never yields an action of probability 0. One-hot rows, which are
    most, are answered without the sums.
    """
    likeliest = probabilities.argmax(axis=1)
    if (probabilities[np.arange(len(likeliest)), likeliest] == 1.0).all():
        return likeliest
    cumulative = np.cumsum(probabilities, axis=1)
    threshold = luck * cumulative[:, -1]
    action: np.ndarray = (cumulative <= threshold[:, None]).sum(axis=1)
    return action
