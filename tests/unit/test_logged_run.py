"""Reading a serving log from the canonical tables: with and without batches, and what it lacks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.calibration.log import LoggedRun, read_logged_run
from pipeline.schema import POLARS_TYPES, TABLES, check_table

SYSTEM = {"request_classes": ["fast", "slow"], "replicas": 2, "duration_s": 10.0}
Records = list[dict[str, Any]]
NO_BATCHES: Records = []


def request(number: int, arrival_us: int, **changes: Any) -> dict[str, Any]:
    """A completed request of class `fast` that was served alone; `changes` replaces fields."""
    return {
        "source": "log",
        "file": 0,
        "line": number + 1,
        "request_id": str(number),
        "arrival_us": arrival_us,
        "request_class": "fast",
        "size": 1.0,
        "status": "completed",
        "dispatch_us": arrival_us + 1_000,
        "departure_us": arrival_us + 21_000,
        "batch_id": number,
        "queue_origin": "measured",
        "service_origin": "measured",
        **changes,
    }


UNANSWERED = {"dispatch_us": None, "departure_us": None, "batch_id": None}


def batch(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "source": "log",
        "file": 0,
        "line": number + 1,
        "batch_id": number,
        "replica": "0",
        "request_class": "fast",
        "batch_size": 1,
        "dispatch_us": 1_000,
        "departure_us": 21_000,
        **changes,
    }


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., LoggedRun]:
    """Writes canonical tables and reads the source `log` from them."""

    def written_and_read(
        requests: Records, batches: Records = NO_BATCHES, system: dict[str, Any] | None = SYSTEM
    ) -> LoggedRun:
        source = {
            **dict.fromkeys(
                ("files", "license", "clock", "zone", "origin", "derived", "notes"), ""
            ),
            **dict.fromkeys(("rows_read", "rows_kept", "rows_rejected"), 0),
            "source": "log",
            "kind": "serving_log",
            "system": None if system is None else json.dumps(system),
        }
        for name, rows in (("sources", [source]), ("requests", requests), ("batches", batches)):
            types = {key: POLARS_TYPES[column.type] for key, column in TABLES[name].columns.items()}
            frame = pl.DataFrame(
                [{key: row.get(key) for key in types} for row in rows], schema=types
            )
            check_table(name, frame)
            (tmp_path / name).mkdir(exist_ok=True)
            frame.write_parquet(tmp_path / name / "log.parquet")
        return read_logged_run(tmp_path, "log")

    return written_and_read


def test_microseconds_become_seconds_and_classes_numbers(read: Callable[..., LoggedRun]) -> None:
    run = read(
        [request(0, 0), request(1, 1_500_000, request_class="slow")],
        [batch(0), batch(1, request_class="slow", dispatch_us=1_501_000, departure_us=1_521_000)],
    )
    assert run.arrivals.arrival_s.tolist() == [0.0, 1.5]
    assert run.arrivals.request_class.tolist() == [0, 1]
    assert run.response_s == pytest.approx([0.021, 0.021])
    assert run.batches.dispatch_s == pytest.approx([0.001, 1.501])
    assert run.batches.service_s == pytest.approx([0.020, 0.020])
    assert run.batches.request_class.tolist() == [0, 1]
    assert run.system == SYSTEM
    assert run.duration_s == 10.0


def test_the_total_size_of_a_batch_is_the_sum_of_the_sizes_of_its_requests(
    read: Callable[..., LoggedRun],
) -> None:
    requests = [request(n, n, batch_id=7, size=size) for n, size in enumerate((0.5, 2.0, 3.0))]
    run = read(requests, [batch(7, batch_size=3)])
    assert run.batches.total_size.tolist() == [5.5]


def test_rejected_requests_of_a_batch_count_as_large_as_the_others_in_it(
    read: Callable[..., LoggedRun],
) -> None:
    requests = [request(n, n, batch_id=7, size=size) for n, size in enumerate((2.0, 4.0))]
    run = read(requests, [batch(7, batch_size=3), batch(8, batch_size=5, dispatch_us=2_000)])
    assert run.batches.total_size.tolist() == [9.0, 5.0]  # 3 * (2 + 4) / 2; none is left of five


def test_batches_are_rebuilt_from_the_requests_where_the_log_has_none(
    read: Callable[..., LoggedRun],
) -> None:
    together = {"dispatch_us": 5_000, "departure_us": 30_000, "batch_id": 3}
    run = read(
        [
            request(0, 1_000, **together, size=2.0),
            request(1, 2_000, **together, size=0.5),
            request(2, 3_000, request_class="slow", batch_id=4),
        ]
    )
    assert run.batches.replica.tolist() == [-1, -1]
    assert run.batches.request_class.tolist() == [1, 0]  # by dispatch, not by number
    assert run.batches.total_size.tolist() == [1.0, 2.5]
    assert run.batches.dispatch_s == pytest.approx([0.004, 0.005])
    assert run.batches.service_s == pytest.approx([0.020, 0.025])


def test_rejected_and_failed_requests_arrive_and_have_no_response(
    read: Callable[..., LoggedRun],
) -> None:
    run = read(
        [
            request(0, 0),
            request(1, 1_000, status="shed", **UNANSWERED),
            request(2, 2_000, status="failed", **UNANSWERED),
            request(3, 3_000, status="failed", departure_us=9_000_000),  # failed late
        ]
    )
    assert len(run.arrivals.arrival_s) == 4
    assert run.response_s[0] == pytest.approx(0.021)
    assert np.isnan(run.response_s[1:]).all()


def test_a_failed_request_does_not_stretch_the_batch_that_it_was_in(
    read: Callable[..., LoggedRun],
) -> None:
    together = {"dispatch_us": 1_000, "batch_id": 0}
    run = read(
        [
            request(0, 0, **together, departure_us=21_000),
            request(1, 0, **together, departure_us=9_000_000, status="failed"),
            request(2, 0, batch_id=1, departure_us=9_000_000, status="failed"),
        ]
    )
    assert run.batches.service_s == pytest.approx([0.020])
    assert run.batches.total_size.tolist() == [2.0]


def test_a_request_without_size_counts_one(read: Callable[..., LoggedRun]) -> None:
    requests = [request(0, 0, batch_id=0, size=None), request(1, 1, batch_id=0, size=3.0)]
    run = read(requests)
    assert run.arrivals.size.tolist() == [1.0, 3.0]
    assert run.batches.total_size.tolist() == [4.0]


@pytest.mark.parametrize(
    ("duration_s", "expected_s"),
    [
        (10.0, 10.0),
        (0.5, 1.500001),  # the load ran late: the last arrival belongs to the log
        (None, 1.500001),  # not told: up to the last arrival
    ],
)
def test_the_logged_time_reaches_past_the_last_arrival(
    read: Callable[..., LoggedRun], duration_s: float | None, expected_s: float
) -> None:
    run = read([request(0, 0), request(1, 1_500_000)], system={**SYSTEM, "duration_s": duration_s})
    assert run.duration_s == pytest.approx(expected_s, abs=1e-9)
    window = run.arrivals.window(0.0, run.duration_s)
    assert len(window.arrival_s) == len(run.arrivals.arrival_s)


@pytest.mark.parametrize("bad", [0, -1.0, "10 s", float("inf")])
def test_a_duration_that_is_none_is_refused(read: Callable[..., LoggedRun], bad: Any) -> None:
    with pytest.raises(ValueError, match=r"system\.json: duration_s = .*: must be positive"):
        read([request(0, 0)], system={**SYSTEM, "duration_s": bad})


def without(*fields: str) -> dict[str, Any]:
    return request(0, 0, **dict.fromkeys(fields))


@pytest.mark.parametrize(
    ("requests", "batches", "message"),
    [
        ([], [batch(0)], "the log holds no request"),
        ([without("dispatch_us")], [], "no batch of the log has both dispatch_us and departure_us"),
        ([without("departure_us")], [batch(0)], "needs departure_us in completed requests"),
        ([request(0, 0, status="shed", **UNANSWERED)], [batch(0)], "needs departure_us"),
        (
            [request(0, 0)],
            [batch(0), batch(1, departure_us=1_000)],
            "departure_us = 1000 of batch 1 must be after its dispatch_us; 1 of 2 batches",
        ),
    ],
)
def test_a_log_says_what_it_lacks(
    read: Callable[..., LoggedRun], requests: Records, batches: Records, message: str
) -> None:
    with pytest.raises(ValueError, match=f"calibration.source = 'log': {message}"):
        read(requests, batches)


def test_a_source_that_was_not_ingested_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'unknown': must be an ingested source"):
        read_logged_run(tmp_path, "unknown")


NO_SYSTEM: dict[str, Any] = {"system": None}


def test_batches_are_rebuilt_from_overlaps_where_requests_do_not_name_them(
    read: Callable[..., LoggedRun],
) -> None:
    # Two replicas by name; on each, two requests are in service from the same instant to the same.
    spans = [("a", 5_000, 30_000), ("a", 5_000, 30_000), ("b", 6_000, 31_000), ("b", 6_000, 31_000)]
    requests = [
        request(n, n * 100, batch_id=None, replica=name, dispatch_us=begin, departure_us=end)
        for n, (name, begin, end) in enumerate(spans)
    ]
    run = read([*requests, request(4, 40_000, batch_id=None, replica="a")], **NO_SYSTEM)
    assert run.batches_from.startswith("rebuilt from service intervals")
    assert run.batches.total_size.tolist() == [2.0, 2.0, 1.0]
    assert run.batches.replica.tolist() == [0, 1, 0]
    assert run.batches.service_s == pytest.approx([0.025, 0.025, 0.020])
    assert run.requests is not None
    assert run.requests.batch.tolist() == [0, 0, 1, 1, 2]
    assert run.system["replicas"] == 2
    assert run.system["max_batch_size"] == 2
    assert run.system["request_classes"] == ["fast"]
    assert any("central queue" in sentence for sentence in run.assumed)


def test_requests_that_met_an_idle_system_tell_service_where_no_dispatch_is_logged(
    read: Callable[..., LoggedRun],
) -> None:
    alone = {"dispatch_us": None, "batch_id": None}
    run = read(
        [
            request(0, 0, **alone),  # leaves at 21 ms
            request(1, 10_000, **alone),  # meets it
            request(2, 50_000, **alone),
        ],
        **NO_SYSTEM,
    )
    assert run.batches_from == "requests that met an idle system"
    assert run.batches.service_s == pytest.approx([0.021, 0.021])
    assert run.requests is not None
    assert run.requests.batch.tolist() == [0, -1, 1]
    assert run.system["max_batch_size"] == 1


def test_a_log_without_classes_has_one(read: Callable[..., LoggedRun]) -> None:
    run = read([request(0, 0, request_class=None)], **NO_SYSTEM)
    assert run.system["request_classes"] == ["all"]
    assert run.arrivals.request_class.tolist() == [0]


def test_tokens_arrive_where_every_answer_has_some(read: Callable[..., LoggedRun]) -> None:
    tokens = {"prompt_tokens": 7, "output_tokens": 3, "first_token_us": 2_000}
    run = read([request(0, 0, **tokens)], **NO_SYSTEM)
    assert run.arrivals.prompt_tokens.tolist() == [7]
    assert run.continuous
    for lacking in ({"output_tokens": 0}, {"prompt_tokens": None}):
        assert not read([request(0, 0, **{**tokens, **lacking})], **NO_SYSTEM).continuous


def test_a_class_that_is_no_name_must_be_mapped(read: Callable[..., LoggedRun]) -> None:
    rule = r"'meta/llama': a class needs a name of letters.*\{meta/llama: \.\.\}"
    with pytest.raises(ValueError, match=rule):
        read([request(0, 0, request_class="meta/llama")], **NO_SYSTEM)
