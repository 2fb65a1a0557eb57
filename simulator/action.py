"""What an action number means, which are legal, and the one place where actions are drawn."""

from typing import NamedTuple

import numpy as np

from simulator.parameters import ClassChoice, Scenario

WAIT = 0
HEAD_OF_LINE = -1


class ActionTable(NamedTuple):
    """The meaning of each action. Action 0 is WAIT; its row holds replica -1 and batch size 0.

    `request_class` is HEAD_OF_LINE (-1) where the action takes the class at the head of the line.
    """

    replica: np.ndarray  # [A]
    request_class: np.ndarray  # [A]
    batch_size: np.ndarray  # [A] requests, before clipping to the queue

    @property
    def size(self) -> int:
        """The number of actions A, WAIT included."""
        return len(self.replica)


def action_table(scenario: Scenario) -> ActionTable:
    """The actions of a scenario: WAIT, then (replica, class, batch size) with the size fastest.

    With `class_choice: head_of_line` there is one class slot only, so K = 2 and sizes 1..32 give
    the paper's 1 + 2 * 32 = 65 actions (section 4.1). Sizes above a replica's max_batch_size stay
    in the table and are masked.
    """
    if scenario.class_choice == ClassChoice.HEAD_OF_LINE:
        classes = np.array([HEAD_OF_LINE])
    else:
        classes = np.arange(len(scenario.request_classes))
    replica, request_class, batch_size = np.meshgrid(
        np.arange(len(scenario.replicas)), classes, np.array(scenario.batch_sizes), indexing="ij"
    )
    return ActionTable(
        replica=np.concatenate([[-1], replica.ravel()]).astype(np.int64),
        request_class=np.concatenate([[HEAD_OF_LINE], request_class.ravel()]).astype(np.int64),
        batch_size=np.concatenate([[0], batch_size.ravel()]).astype(np.int64),
    )


def describe_action(table: ActionTable, action: int, class_names: tuple[str, ...]) -> str:
    """A person's words for an action, such as `replica 1, fast, batch size 8`."""
    if action == WAIT:
        return "wait"
    request_class = table.request_class[action]
    name = "head of line" if request_class == HEAD_OF_LINE else class_names[request_class]
    return f"replica {table.replica[action]}, {name}, batch size {table.batch_size[action]}"


def legal_actions(
    table: ActionTable, queue_length: np.ndarray, can_take: np.ndarray, max_batch_size: np.ndarray
) -> np.ndarray:
    """The action mask `[B, A]`, from queue lengths `[B, C]` and idle replicas `[B, K]`.

    WAIT is always legal. (replica, class, size) is legal where the replica can take a batch, the
    class has a request waiting, and the size is at most the replica's `max_batch_size [K]`. A size
    above the queue length is legal: it is clipped.
    """
    waiting = np.concatenate([queue_length > 0, (queue_length > 0).any(1, keepdims=True)], axis=1)
    mask = can_take.astype(bool)[:, table.replica] & waiting[:, table.request_class]
    mask &= table.batch_size <= max_batch_size[table.replica]
    mask[:, WAIT] = True
    return mask


def sample_actions(
    probabilities: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One action for each row of `[B, A]` probabilities, and its propensity; both `[B]`.

    Inverse transform on the cumulative sum. The largest cumulative value replaces 1, so that a
    row which sums to 1 - 1e-16 never yields an action of probability 0.
    """
    cumulative = np.cumsum(probabilities, axis=1)
    threshold = generator.random(len(probabilities)) * cumulative[:, -1]
    action = (cumulative <= threshold[:, None]).sum(axis=1)
    return action, probabilities[np.arange(len(action)), action]
