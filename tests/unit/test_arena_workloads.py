"""Stretches of public traces as workloads: what is read, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.arena.splits import missing_trace, split_workloads
from pipeline.description import workload_from
from simulator.traffic import PoissonWorkload
from simulator.workload import TraceWorkload, check_arrivals

# As in the files: seven digits, the fraction left out where it is 0, an offset or none, CRLF, a
# column more than needed, and no line end after the last row.
LLM = "\r\n".join(
    [
        "TIMESTAMP,ContextTokens,Region,GeneratedTokens",
        "2024-05-10 23:59:59.7500000,100,east,5",
        "2024-05-11 00:00:00+00:00,200,east,6",
        "2024-05-11T00:00:02.000001Z,300,west,7",
        "2024-05-11 00:00:01.5,400,west,8",
        "2024-05-11 00:00:09.75,500,west,9",
    ]
)
FUNCTIONS = "app,func,end_timestamp,duration\na,f,57.25,57.0\na,g,1.5,0.5\nb,f,3.0,0\nb,g,9.0,1"


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that TRACES_DIR names, with one file of each kind."""
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "llm.csv").write_bytes(LLM.encode())
    (folder / "functions.txt").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.setenv("TRACES_DIR", str(folder))
    return folder


def llm(**fields: Any) -> dict[str, Any]:
    return {"kind": "azure_llm", "file": "llm.csv", "from_s": 0.0, "to_s": 10.0, **fields}


def functions(**fields: Any) -> dict[str, Any]:
    section = {"kind": "azure_functions", "file": "functions.txt", "from_s": 0.0, "to_s": 8.0}
    return {**section, **fields}


def read(section: dict[str, Any]) -> TraceWorkload:
    workload = workload_from(section, ("chat",))
    assert isinstance(workload, TraceWorkload)
    check_arrivals(workload.arrivals, 1)
    return workload


@pytest.mark.usefixtures("traces")
def test_an_llm_trace_starts_at_its_first_row_and_is_sorted_by_time() -> None:
    # After 23:59:59.75: midnight is 0.25 s later, 1.5 s past it 1.75, 2.000001 s past it 2.250001.
    arrivals = read(llm()).arrivals
    np.testing.assert_allclose(arrivals.arrival_s, [0.0, 0.25, 1.75, 2.250001, 10.0][:4], atol=1e-9)
    assert arrivals.prompt_tokens.tolist() == [100, 200, 400, 300]
    assert arrivals.output_tokens.tolist() == [5, 6, 8, 7]


@pytest.mark.usefixtures("traces")
def test_a_call_of_a_function_arrives_a_duration_before_its_end() -> None:
    # 57.25 - 57, 1.5 - 0.5, 3 - 0; the last, at 9 - 1 = 8, is where the stretch ends.
    assert read(functions()).arrivals.arrival_s.tolist() == [0.25, 1.0, 3.0]


@pytest.mark.usefixtures("traces")
def test_a_stretch_counts_from_its_start_and_is_shown_at_its_scale() -> None:
    workload = read(functions(from_s=0.5, to_s=4.5, rate_scale=2.0))
    assert workload.arrivals.arrival_s.tolist() == [0.5, 2.5]
    assert workload.span_s == 4.0
    assert workload.rate_rps == 2.0 * 2 / 4.0
    # An episode of 2 s shows all 4 s: there is one window.
    drawn = workload.draw(2.0, np.random.default_rng(1))
    assert drawn.arrival_s.tolist() == [0.25, 1.25]


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize(
    ("section", "message"),
    [
        (llm(to_s=10.5), "workload: to_s = 10.5: must be at most 10, the last arrival in llm.csv"),
        (llm(from_s=3.0, to_s=9.0), "no request arrives before 9 s"),
        (llm(from_s=5.0, to_s=5.0), r"workload\.from_s = 5\.0: must be from 0 to below to_s"),
        (llm(to_s=float("inf")), r"workload\.to_s = inf: must be finite"),
        (llm(rate_scale=0.0), r"workload\.rate_scale = 0\.0: must be positive"),
        (llm(file="../llm.csv"), r"workload\.file = '\.\./llm\.csv': must be a path below"),
        (llm(file="/llm.csv"), "must be a path below TRACES_DIR"),
        (llm(file="C:\\llm.csv"), "must be a path below TRACES_DIR"),
        (llm(file=""), "must be a path below TRACES_DIR"),
        (llm(file="functions.txt"), "header = .*must name TIMESTAMP, ContextTokens"),
        (llm(file="absent.csv"), "absent.csv: no such file in the folder that TRACES_DIR names"),
        (llm(file="absent.csv"), "get it from https://github.com/Azure/AzurePublicDataset"),
        (llm(until_s=1.0), r"workload\.until_s = 1\.0: no such field"),
        ({"kind": "azure_llm", "file": "llm.csv", "from_s": 0.0}, r"to_s: must be given"),
    ],
)
def test_what_is_no_stretch_of_a_trace_is_refused(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        workload_from(section, ("chat",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not CSV"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "has a header only"),
        (LLM.replace("200,", "0,"), "line 3 = '1 of 5 rows are not valid'"),
        (LLM.replace(",8", ",eight"), "line 5 = '1 of 5"),
        (LLM.replace("00:00:01.5", "00:00:01.5+02:00"), "line 5 = .*needs an instant in UTC"),
        (LLM.replace("2024-05-11 00:00:01.5", "11.05.2024"), "line 5"),
        (LLM.replace("23:59:59.75", "24:59:59.75"), "line 2"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(traces: Path, text: str, message: str) -> None:
    (traces / "llm.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as refused:
        workload_from(llm(), ("chat",))
    assert str(traces) not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("duration", ["-1", "nan", "", "inf"])
def test_a_duration_that_is_none_is_refused(traces: Path, duration: str) -> None:
    text = FUNCTIONS.replace("1.5,0.5", f"1.5,{duration}")
    (traces / "functions.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="line 3"):
        workload_from(functions(), ("chat",))


def test_a_link_out_of_the_folder_is_not_followed(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_bytes(LLM.encode())
    (traces / "link.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(ValueError, match=r"file = 'link\.csv': leads out of TRACES_DIR"):
        workload_from(llm(file="link.csv"), ("chat",))


@pytest.mark.usefixtures("traces")
def test_a_trace_has_one_request_class() -> None:
    with pytest.raises(ValueError, match=r"workload\.file = 'llm\.csv': has one request class"):
        workload_from(llm(), ("chat", "code"))


def test_without_traces_dir_the_file_and_its_place_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRACES_DIR", raising=False)
    told = "TRACES_DIR: not set; it must name the folder that holds llm.csv; get it from https"
    with pytest.raises(ValueError, match=told):
        workload_from(llm(), ("chat",))
    assert str(missing_trace({"train": llm()})).startswith(told)


POISSON = {"kind": "poisson", "rate_rps": [3.0]}


def splits(**given: Any) -> dict[str, Any]:
    return {"train": POISSON, "validation": {"same_as": "train"}, "test": POISSON, **given}


@pytest.mark.usefixtures("traces")
def test_only_what_is_not_there_is_missing() -> None:
    assert missing_trace(splits(test=llm())) is None
    told = missing_trace(splits(train=llm(), test=functions(file="fn.txt")))
    assert told is not None
    assert told.startswith("fn.txt: no such file")
    for wrong in (None, [], {"train": 1}, {"train": {"kind": ["x"]}}, {"train": llm(file=3)}):
        assert missing_trace(wrong) is None


def test_a_split_may_be_the_same_as_another() -> None:
    workloads = split_workloads(
        splits(test={"kind": "poisson", "rate_rps": [9.0]}), ("any",), 5.0, "splits"
    )
    assert list(workloads) == ["train", "validation", "test"]
    assert workloads["validation"] is workloads["train"]
    assert workloads["test"] == PoissonWorkload((9.0,))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"train": POISSON, "test": POISSON}, r"splits\.validation: must be given"),
        (splits(dev=POISSON), r"splits\.dev = .*no such split"),
        (splits(train={"same_as": "validation"}), r"splits\.train\.same_as = 'validation': must"),
        (splits(test={"same_as": "night"}), r"splits\.test\.same_as = 'night': must be another"),
        (splits(test={"same_as": "test"}), r"splits\.test\.same_as = 'test': must be another"),
        (splits(test={"same_as": ["x"]}), r"splits\.test\.same_as = \['x'\]: must be another"),
        (splits(test=3), r"splits\.test = 3: must be a section"),
        (
            splits(test={"kind": "poison"}),
            r"splits\.test\.kind = 'poison': did you mean poisson\? must be one of",
        ),
        ([POISSON], r"splits = .*must be a section with a key per split"),
    ],
)
def test_splits_that_are_none_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_workloads(given, ("any",), 5.0, "splits")


@pytest.mark.usefixtures("traces")
def test_a_stretch_must_hold_an_episode() -> None:
    assert split_workloads(splits(test=functions(rate_scale=4.0)), ("any",), 2.0, "splits")
    with pytest.raises(ValueError, match=r"splits\.test\.to_s - from_s = 8\.0: .* needs 12 s"):
        split_workloads(splits(test=functions(rate_scale=4.0)), ("any",), 3.0, "splits")
