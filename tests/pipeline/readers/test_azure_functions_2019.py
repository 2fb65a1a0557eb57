"""The Azure Functions trace of 2019, from whose counts requests are drawn."""

from collections import Counter

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import FIXTURES, needs_traces, rejects, source, values

KIND = "azure_functions_2019"
MINUTE_US, DAY_US = 60_000_000, 86_400_000_000
EQUIDISTANT = {"spread": "equidistant"}


@pytest.fixture
def read(ingest, tmp_path):
    """Takes the two days of the fixture through ingest."""

    def ingested(seed: int = 0, name: str = "out", **options):
        out = tmp_path / name
        return ingest(
            FIXTURES, "azure_functions_2019", kind=KIND, out=out, seed=seed, options=options
        )

    return ingested


def test_equidistant_requests_lie_in_the_middle_of_equal_parts_of_their_minute(read):
    # Day 1: f1 has 3 calls in minute 1 (at 10, 30 and 50 s) and 1 in minute 3 (at 150 s); f2 one in
    # each of minutes 1 to 3; o2's f2 two in minute 1440. Day 2: two in minute 1 (at 15 and 45 s).
    ingested = read(spread="equidistant")
    end_us = 1439 * MINUTE_US
    seconds = [(10, "http"), (30, "http"), (30, "timer"), (50, "http"), (90, "timer")]
    seconds += [(150, "http"), (150, "timer")]
    expected = [(1_000_000 * at, trigger) for at, trigger in seconds]
    expected += [(end_us + 15_000_000, "queue"), (end_us + 45_000_000, "queue")]
    expected += [(DAY_US + 15_000_000, "others"), (DAY_US + 45_000_000, "others")]
    assert sorted(values(ingested.tables["requests"], "arrival_us", "request_class")) == expected


def test_a_function_that_comes_again_or_cannot_be_read_is_a_reject(read):
    # The lines are those of the drawn records: 7 requests of two functions come before.
    assert rejects(read(**EQUIDISTANT)) == [
        (8, "HashFunction: seen before in this day"),
        (9, "1 .. 1440: must be whole numbers of at least 0"),
        (12, "row: has not as many cells as the header"),
    ]


@pytest.mark.parametrize("spread", ["uniform", "exponential"])
def test_drawn_requests_keep_the_counts_of_each_minute_and_depend_on_the_seed_only(spread, read):
    drawn = read(spread=spread)
    arrivals_us = drawn.tables["requests"]["arrival_us"].to_list()
    minutes = Counter(arrival_us // MINUTE_US for arrival_us in arrivals_us)
    assert minutes == {0: 4, 1: 1, 2: 2, 1439: 2, 1440: 2}
    assert read(spread=spread, name="again").tables["requests"].equals(drawn.tables["requests"])
    other = read(spread=spread, name="other", seed=1).tables["requests"]
    assert other["arrival_us"].to_list() != arrivals_us
    assert f"drawn, {spread} inside each minute" in source(drawn)["notes"]


def test_a_mean_duration_gives_the_departure_unless_it_is_unknown(read):
    # f1 of day 1: 100 ms. Unknown: f2 of o1 reads 0 though called, f2 of o2 comes twice with other
    # values, and day 2 has no durations.
    ingested = read(spread="equidistant", service="average")
    served = ingested.tables["requests"].drop_nulls("departure_us")
    service_us = served["departure_us"] - served["arrival_us"]
    assert served["request_class"].to_list() == ["http"] * 4
    assert service_us.to_list() == [100_000] * 4
    assert "1 functions twice in the durations" in source(ingested)["notes"]
    assert "1 functions with mean duration 0 though called" in source(ingested)["notes"]
    assert "arrival" in source(ingested)["derived"]


def test_only_the_minutes_asked_for_are_drawn(read):
    ingested = read(spread="equidistant", minutes=[2, 3])
    arrivals_us = ingested.tables["requests"]["arrival_us"].to_list()
    assert arrivals_us == [1_000_000 * at for at in (90, 150, 150)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spread": "normal"}, r"options\.spread = 'normal': must be one of uniform, exponential"),
        ({"minutes": [0, 5]}, r"options\.minutes = \[0, 5\]: must be the first and the last"),
        ({"max_requests": 5}, r"max_requests = 5: is too few"),
        ({"service": "median"}, r"options\.service = 'median'"),
        ({"speed": 2}, r"options = 'speed'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message, read):
    with pytest.raises(ValueError, match=message):
        read(**options)


def test_a_folder_without_invocations_is_refused(ingest, tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "app_memory.csv").write_text("HashOwner\n")
    with pytest.raises(ValueError, match=r"must have files called \*invocations\*"):
        ingest(tmp_path, "log", kind=KIND)


def test_its_look_fits_this_format_alone():
    folder = FIXTURES / "azure_functions_2019"
    assert list(fits(folder)) == [KIND]
    assert list(fits(folder / "invocations_per_function_md.anon.d01.csv")) == [KIND]


@needs_traces
def test_the_example_of_the_public_layout_gives_as_many_requests_as_calls(ingest, tmp_path):
    # Its four functions have 4,525 calls in the day, by adding up the cells of the file.
    path = "azure-functions/azure2019_example_invocations.csv"
    ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces")
    assert source(ingested)["rows_kept"] == 4_525
