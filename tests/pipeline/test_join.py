"""A gateway's log and an engine's joined by request id, on the gateway's clock."""

import json
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from pipeline.schema import TABLES
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import read_table, warehouse_builder
from tests.pipeline.readers.json_logs import completed, simulated
from tests.pipeline.readers.writers import SimulatedLog, litellm, vllm_spans

SHIFT_US = 41_500_000  # what the engine's clock is behind
TIMES = ("arrival_us", "dispatch_us", "first_token_us", "departure_us")


class Two(NamedTuple):
    """The log of the gateway and that of the engine, on their clocks."""

    gateway: SimulatedLog
    engine: SimulatedLog


def seen_twice(count: int = 200) -> Two:
    """A simulated log as two: the network takes 100 to 600 us each way, and 300 at least once."""
    truth = simulated(count)
    generator = np.random.default_rng(5)
    there, back = generator.integers(100, 600, (2, count))
    served = np.array([status == "completed" for status in truth.status])
    arrival_us = np.minimum(truth.arrival_us + there, truth.dispatch_us)
    arrival_us = np.where(served, arrival_us, truth.arrival_us + there)
    gateway = truth._replace(departure_us=np.where(served, truth.departure_us + back, -1))
    engine = truth._replace(arrival_us=arrival_us, origin_us=truth.origin_us - SHIFT_US)
    return Two(gateway, engine)


def join(tmp_path, two: Two, limit: float = 0.01, **options):
    """The tables after the gateway's log, the engine's and their join were ingested."""
    litellm.write(two.gateway, tmp_path / "gateway.jsonl")
    vllm_spans.write(two.engine, tmp_path / "engine.jsonl")
    sources = {
        "front": SourceSettings("litellm", "gateway.jsonl"),
        "back": SourceSettings("vllm_spans", "engine.jsonl"),
        "both": SourceSettings(
            "joined", ".", options={"gateway": "front", "engine": "back", **options}
        ),
    }
    with warehouse_builder(tmp_path / "data") as builder:
        for name, source in sources.items():
            read_source(builder, name, source, tmp_path, IngestSettings(limit))
    return {name: read_table(tmp_path / "data", name, "both") for name in TABLES}


def notes(tables) -> list[str]:
    return json.loads(tables["sources"]["notes"].item())


def test_a_simulated_log_that_was_seen_twice_is_put_together_again(tmp_path) -> None:
    two = seen_twice()
    tables = join(tmp_path, two)
    requests = tables["requests"].sort("arrival_us")
    assert requests["request_id"].to_list() == two.gateway.request_id
    assert requests["status"].to_list() == two.gateway.status
    rows = completed(two.gateway)
    start_us = int(two.gateway.arrival_us[0])
    told = requests[rows]
    # The gateway writes floats of seconds, exact to 1 us; the engine's are within the uncertainty.
    for name in TIMES:
        truth = getattr(two.gateway, name)[rows] - start_us
        within = 1 if name in ("arrival_us", "departure_us") else 150
        assert np.abs(told[name].to_numpy() - truth).max() <= within, name
    assert told["output_tokens"].to_list() == two.gateway.output_tokens[rows].tolist()
    # The engine knows completed requests only.
    others = requests.filter(pl.col("status") != "completed")
    assert others["dispatch_us"].null_count() == len(others) > 0
    assert tables["rejects"].is_empty()


def test_the_match_rate_the_offset_and_its_uncertainty_are_told(tmp_path) -> None:
    two = seen_twice()
    said = notes(join(tmp_path, two))
    rows = len(completed(two.gateway))
    assert f"matched: {rows} of 200 requests of the gateway ({rows / 200:.2%}), " in said[0]
    assert f"{rows} of {rows} rows of the engine (100.00%)" in said[0]
    # Time 0 is the first arrival in each log: the origins, not the clocks' difference, are apart.
    first = completed(two.engine)[0]
    apart_s = (int(two.engine.arrival_us[first]) - int(two.gateway.arrival_us[0])) / 1e6
    told = float(said[1].partition("engine's clock ")[2].partition(" s")[0])
    within = float(said[1].partition("within ")[2].partition(" s")[0])
    assert abs(told - apart_s) <= within < 0.001
    assert f"the spans of 0 of {rows} pairs (0.00%) do not nest" in said[1]


def test_the_gateway_decides_what_became_of_a_request_and_when_it_ended(tmp_path) -> None:
    two = seen_twice()
    gave_up = completed(two.gateway)[3]
    status = [*two.gateway.status]
    status[gave_up] = "failed"
    tables = join(tmp_path, two._replace(gateway=two.gateway._replace(status=status)))
    row = tables["requests"].filter(pl.col("request_id") == f"request-{gave_up}")
    assert row["status"].item() == "failed"
    assert row["departure_us"].item() is None  # as this gateway writes failures
    assert row["dispatch_us"].item() is not None


def test_rows_of_the_engine_that_no_request_is_of_are_rejects(tmp_path) -> None:
    two = seen_twice()
    row = completed(two.engine)[5]
    ids = [*two.engine.request_id]
    ids[row] = "other"
    tables = join(tmp_path, two._replace(engine=two.engine._replace(request_id=ids)))
    source = tables["sources"].row(0, named=True)
    assert (source["rows_read"], source["rows_kept"], source["rows_rejected"]) == (201, 200, 1)
    reject = tables["rejects"].row(0, named=True)
    assert reject["reason"] == "request_id: not in the gateway log"
    assert reject["file"] == "tables/requests/front.parquet"
    assert json.loads(reject["raw"].partition(',"arrival')[0] + "}")["request_id"] == "other"
    # What the gateway says of it is kept, without anything of the engine.
    kept = tables["requests"].filter(pl.col("request_id") == f"request-{row}")
    assert kept["dispatch_us"].item() is None
    assert kept["departure_us"].item() is not None


def test_of_several_attempts_the_last_that_succeeded_is_taken(tmp_path) -> None:
    two = seen_twice()
    rows = completed(two.engine)
    # The engine names its attempts; the fifth request was tried before, as the eighth's work.
    ids = [f"cmpl-{name}-0" for name in two.engine.request_id]
    ids[rows[1]] = f"cmpl-request-{rows[5]}-1"
    tables = join(
        tmp_path,
        two._replace(engine=two.engine._replace(request_id=ids)),
        engine_id=r"^cmpl-(.+)-\d+$",
    )
    told = tables["requests"].filter(pl.col("request_id") == f"request-{rows[5]}")
    truth_us = int(two.gateway.dispatch_us[rows[5]] - two.gateway.arrival_us[0])
    assert abs(told["dispatch_us"].item() - truth_us) <= 150  # the later one, not rows[1]
    assert "retries: 1 rows of the engine" in notes(tables)[2]


def test_logs_that_do_not_nest_are_refused(tmp_path) -> None:
    two = seen_twice()
    ids = [*two.engine.request_id]
    generator = np.random.default_rng(2)
    generator.shuffle(ids)
    shuffled = two._replace(engine=two.engine._replace(request_id=ids))
    with pytest.raises(ValueError, match=r"both\.options = .* of the pairs do not nest': must be"):
        join(tmp_path, shuffled)


def test_logs_without_a_common_id_are_refused_with_an_id_of_each(tmp_path) -> None:
    two = seen_twice()
    ids = [f"x{name}" for name in two.engine.request_id]
    with pytest.raises(ValueError, match="such as 'request-0' of the gateway and 'xrequest-0' of"):
        join(tmp_path, two._replace(engine=two.engine._replace(request_id=ids)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "none"}, "engine = 'none': must be a source that run.sources names before"),
        ({"engine_id": "cmpl-.*"}, "engine_id = 'cmpl-.*': must have one group, not 0"),
        ({"engine_id": "("}, "engine_id = '.': not a pattern"),
        ({"tolerance_s": -1}, "tolerance_s = -1: must be finite and at least 0"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(tmp_path, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        join(tmp_path, seen_twice(), **options)
