"""What the batchers share: sizes that the menu lacks, whose turn it is, what has left a queue."""

import numpy as np
import pytest

from simulator.action import action_table, legal_actions
from simulator.policies.axes import clipped
from simulator.policies.batch.ready import ReadyQueues, completed_batches, left_queue, seen_queues
from simulator.policies.space import Choice, Real
from simulator.scenario import ClassChoice
from tests.unit.batcher_timelines import models, observe


def sent(scenario, observation, take, **keywords):
    """(replica, class, batch size) of the action."""
    table = action_table(scenario)
    most = scenario.parameters().max_batch_size
    mask = legal_actions(table, observation.queue_length, observation.can_take, most)
    queues = ReadyQueues(scenario)
    action = int(queues.rows(observation, mask, np.array([take]), **keywords)[0].argmax())
    return tuple(int(c[action]) for c in (table.replica, table.request_class, table.batch_size))


@pytest.mark.parametrize(
    ("waiting", "take", "size"),
    [
        (5, 5, 8),  # all that wait: 8 covers them and is clipped to 5
        (9, 5, 4),  # 5 of 9: 8 would take 8
        (9, 8, 8),
        (9, 1, 2),  # the menu has no smaller one
        (40, 40, 16),
        (9, 0, 0),
    ],
)
def test_a_size_that_the_menu_lacks_becomes_the_largest_below(waiting, take, size):
    scenario = models(batch_sizes=(2, 4, 8, 16))
    assert sent(scenario, observe(scenario, [waiting], [1.0]), [take])[2] == size


def test_the_longest_waiting_ready_class_goes_first_unless_an_order_is_given():
    scenario = models(classes=3, replicas=2)
    observation = observe(scenario, [4, 4, 4], [1.0, 2.0, 3.0])
    assert sent(scenario, observation, [4, 4, 0]) == (0, 1, 4)
    assert sent(scenario, observation, [4, 4, 0], order=np.array([[2, 1, 3]])) == (0, 0, 4)
    busy = observation._replace(can_take=np.array([[0.0, 1.0]]))
    assert sent(scenario, busy, [4, 4, 0]) == (1, 1, 4)


def test_under_head_of_line_a_ready_class_behind_the_head_waits():
    scenario = models(classes=2, class_choice=ClassChoice.HEAD_OF_LINE)
    observation = observe(scenario, [4, 4], [1.0, 2.0])
    assert sent(scenario, observation, [4, 0]) == (-1, -1, 0)
    assert sent(scenario, observation, [4, 4]) == (0, -1, 4)


def test_the_expired_are_given_up_before_anything_is_sent():
    scenario = models(classes=2, may_shed=True)
    observation = observe(scenario, [4, 4], [1.0, 2.0])
    shed = np.array([[False, True]])
    assert sent(scenario, observation, [4, 4], shed=shed) == (-1, 1, -2)


def test_a_queue_has_lost_its_oldest_if_a_later_one_is_oldest_or_fewer_wait():
    scenario = models(classes=3)
    memory = seen_queues(1, 3)
    first = observe(scenario, [5, 5, 5], [2.0, 2.0, 2.0], clock_s=[10.0])
    assert not left_queue(memory, first).any()  # nothing had waited
    # Oldest since 8 s: class 0's still, class 1's since 9 s; class 2's too, but fewer (one burst).
    second = observe(scenario, [9, 5, 2], [3.0, 2.0, 3.0], clock_s=[11.0])
    assert left_queue(memory, second).tolist() == [[False, True, True]]
    # Everything of class 0 went, and new ones came; nothing changed in class 1.
    third = observe(scenario, [9, 5, 0], [0.5, 3.0, 0.0], clock_s=[12.0])
    assert left_queue(memory, third).tolist() == [[True, False, True]]


def test_a_completed_batch_is_seen_once():
    scenario = models(replicas=2)
    batches = np.zeros((1, 2))
    shown = observe(
        scenario,
        [1],
        [0.0],
        batches=[[3, 0]],
        last_batch_class=[[0, -1]],
        last_batch_size=[[4, 0]],
        last_batch_s=[[7.0, 0.0]],
    )
    ((lane, request_class, size, took_s),) = completed_batches(batches, shown)
    assert (lane.item(), request_class.item(), size.item(), took_s.item()) == (0, 0, 4, 7.0)
    assert completed_batches(batches, shown) == []


def test_a_default_is_clipped_into_its_axis():
    assert [clipped(Choice((2, 4, 8)), size) for size in (1, 5, 8, 100)] == [2, 4, 8, 8]
    assert [clipped(Real(1.0, 2.0), value) for value in (0.5, 1.5, 3.0)] == [1.0, 1.5, 2.0]
