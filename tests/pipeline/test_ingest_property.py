"""Whatever happens to a log, ingest agrees row by row with a plain reading of the rules."""

import json
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

CLASSES = {"fast", "slow"}
ODD_VALUES = st.sampled_from(
    [None, -1, 0, 5, 2.5, 7.0, math.nan, math.inf, 10**30, True, "", "fast", "shed", [], {}]
)
FIELDS = st.sampled_from(
    ["request_id", "arrival_us", "request_class", "size", "status", "dispatch_us", "departure_us"]
)
DAMAGES = st.one_of(
    st.tuples(st.just("replace"), FIELDS, ODD_VALUES),
    st.tuples(st.just("drop"), FIELDS),
    st.tuples(st.just("truncate"), st.floats(0.0, 0.99)),
    st.tuples(st.just("repeat")),
    st.tuples(st.just("move"), st.integers(0, 19)),
    st.tuples(st.just("blank")),
)


def damaged(lines: list[str], damage: tuple[Any, ...], at: int) -> list[str]:
    kind, line = damage[0], lines[at]
    if kind == "truncate":
        return [*lines[:at], line[: int(damage[1] * len(line))], *lines[at + 1 :]]
    if kind == "repeat":
        return [*lines[:at], line, *lines[at:]]
    if kind == "move":
        rest = lines[:at] + lines[at + 1 :]
        return [*rest[: damage[1]], line, *rest[damage[1] :]]
    if kind == "blank":
        return [*lines[:at], "", *lines[at:]]
    try:
        record = json.loads(line)
    except ValueError:
        return lines
    if kind == "replace":
        record[damage[1]] = damage[2]
    else:
        record.pop(damage[1], None)
    return [*lines[:at], json.dumps(record), *lines[at + 1 :]]


def is_time(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    whole = whole or (isinstance(value, float) and value.is_integer())
    return whole and 0 <= value < 2**63


def is_valid_alone(record: Any, dispatch_known: bool, departure_known: bool) -> bool:
    if not isinstance(record, dict):
        return False
    size, dispatch_us = record.get("size"), record.get("dispatch_us")
    departure_us, status = record.get("departure_us"), record.get("status")
    numeric = isinstance(size, int | float) and not isinstance(size, bool)
    identified = isinstance(record.get("request_id"), int | str)
    if not identified or isinstance(record["request_id"], bool):
        return False
    if not is_time(record.get("arrival_us")) or record.get("request_class") not in [*CLASSES]:
        return False
    if not (numeric and size > 0 and math.isfinite(size)):
        return False
    if status not in ("completed", "shed", "failed"):
        return False
    if not all(value is None or is_time(value) for value in (dispatch_us, departure_us)):
        return False
    times = [record["arrival_us"], dispatch_us, departure_us]
    present = [value for value in times if value is not None]
    if present != sorted(present):
        return False
    if status == "shed":
        return dispatch_us is None and departure_us is None and record.get("batch_id") is None
    if status == "completed":
        return not (
            (dispatch_us is None and dispatch_known) or (departure_us is None and departure_known)
        )
    return True


def plain_reading(lines: list[str]) -> set[int]:
    """The numbers of the lines that the rules let pass, one after another."""
    records: dict[int, Any] = {}
    for number, line in enumerate(lines, start=1):
        if line:
            try:
                records[number] = json.loads(line)
            except ValueError:
                records[number] = None
    known = [
        any(isinstance(r, dict) and is_time(r.get(field)) for r in records.values())
        for field in ("dispatch_us", "departure_us")
    ]
    kept, seen = set(), set()
    for number, record in records.items():
        if not is_valid_alone(record, *known):
            continue
        if str(record["request_id"]) not in seen:
            seen.add(str(record["request_id"]))
            kept.add(number)
    return kept


@settings(max_examples=10, deadline=None)
@given(
    damages=st.lists(st.tuples(DAMAGES, st.integers(0, 19)), max_size=12),
)
def test_a_damaged_log_is_read_as_the_rules_say_and_its_rows_add_up(
    damages, make_log, ingest, tmp_path_factory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = make_log(20).write(folder / "log") / "requests.jsonl"
    lines = path.read_text().splitlines()
    for damage, at in damages:
        lines = damaged(lines, damage, at)
    path.write_text("\n".join(lines))
    ingested = ingest(folder, "log", limit=0.99)
    kept = set(ingested.tables["requests"]["line"])
    rejected = {line for line, _ in ingested.rejects("requests")}
    assert kept == plain_reading(lines)
    assert kept | rejected == {number for number, line in enumerate(lines, start=1) if line}
    assert not kept & rejected
