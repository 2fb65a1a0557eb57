"""Rows that sum to exactly 1, and the batch size of an action, for any input."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from simulator.policies.choose import SUM_TOLERANCE, action_batch_size, exact_rows, uniform

MENUS = st.sets(st.integers(1, 64), min_size=1, max_size=12).map(sorted)


def assert_sums_to_1_in_any_order(rows: np.ndarray) -> None:
    assert (rows.sum(axis=1) == 1.0).all()
    assert (rows[:, ::-1].sum(axis=1) == 1.0).all()
    assert (np.cumsum(rows, axis=1)[:, -1] == 1.0).all()
    assert all(math.fsum(row) == 1.0 for row in rows)


@given(
    weights=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(1, 70)), elements=st.floats(0, 1)
    )
)
@settings(max_examples=150, deadline=None)
def test_exact_rows_move_by_rounding_only_and_sum_to_1_in_any_order(weights):
    weights[:, 0] += 1e-3  # at least one is positive
    rows = weights / weights.sum(axis=1, keepdims=True)
    exact = exact_rows(rows)
    assert_sums_to_1_in_any_order(exact)
    assert (exact >= 0).all()
    assert (exact[rows == 0] == 0).all()
    assert np.abs(exact - rows).max() <= rows.shape[1] * 2.0**-52


@given(
    rows=hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(2, 70)),
        elements=st.floats(0, 1, width=32),
    )
)
@settings(max_examples=60, deadline=None)
def test_exact_rows_accept_the_rounding_of_float32(rows):
    rows[:, 0] += np.float32(0.5)
    rows /= rows.sum(axis=1, keepdims=True)
    exact = exact_rows(rows)
    assert_sums_to_1_in_any_order(exact)
    assert np.abs(exact - rows).max() <= SUM_TOLERANCE


@given(
    chosen=hnp.arrays(np.bool_, st.tuples(st.integers(1, 5), st.integers(1, 130))),
)
@settings(max_examples=100, deadline=None)
def test_uniform_shares_differ_by_rounding_only_and_sum_to_1_in_any_order(chosen):
    chosen[:, 0] = True
    rows = uniform(chosen)
    assert_sums_to_1_in_any_order(rows)
    assert ((rows > 0) == chosen).all()
    expected = chosen / chosen.sum(axis=1, keepdims=True)
    assert np.abs(rows - expected).max() <= chosen.shape[1] * 2.0**-52


@given(menu=MENUS, waiting=st.integers(1, 100), extra=st.integers(0, 100))
@settings(max_examples=300, deadline=None)
def test_an_action_sends_as_many_as_the_rule_wants_if_the_menu_allows_it(menu, waiting, extra):
    limit = menu[0] + extra
    size = action_batch_size(menu, waiting, limit)
    wanted = min(waiting, limit)
    assert size in menu
    assert size <= limit
    covers = [other for other in menu if wanted <= other <= limit]
    if covers:
        assert size == min(covers)
        assert min(waiting, size) == wanted  # what the engine really sends
    else:
        assert size == max(other for other in menu if other <= limit)


@given(menu=MENUS, limit_above=st.integers(0, 100))
@settings(max_examples=100, deadline=None)
def test_more_waiting_requests_never_make_the_batch_smaller(menu, limit_above):
    limit = menu[0] + limit_above
    sizes = [action_batch_size(menu, waiting, limit) for waiting in range(1, 120)]
    assert sizes == sorted(sizes)
