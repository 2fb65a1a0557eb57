"""Whatever happens to a file of any format: rows are kept or rejected, or the file is refused."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.settings.data import SOURCE_KINDS
from pipeline.store import warehouse_builder
from tests.fuzz.cases import CASES, Case, ingested, taken
from tests.fuzz.damage import damaged

CORPUS = Path(__file__).resolve().parents[1] / "fuzz" / "corpus"
# Kinds without a fixture: it refuses every file; it reads two sources, not a file.
WITHOUT_FIXTURE = {"aggregate", "joined"}
# Formats of which each line is one record; in others a line may hold none, or many.
LINE_KINDS = {
    *("aibrix", "azure_functions_2021", "azure_llm", "burstgpt", "mooncake", "ragpulse"),
    *("splitwise_profile", "splitwise_trace", "vidur_trace", "vllm_metrics"),
    *("envoy", "kserve_trace", "nginx", "ray_serve", "tgi", "torchserve"),
}
HEADED = {
    *("aibrix", "azure_functions_2021", "azure_llm", "burstgpt"),
    *("splitwise_profile", "splitwise_trace", "vidur_trace"),
}


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    """A warehouse that one source after another is read into; it is never finished."""
    folder = tmp_path_factory.mktemp("warehouse")
    with warehouse_builder(folder) as builder:
        yield builder
        seed = CASES[0]  # a warehouse cannot be written without a source
        seed.lay(folder, seed.content)
        ingested(builder, folder, seed.source())


def filled_lines(content: bytes) -> list[int]:
    """The numbers of the lines that are not blank, counted from 1."""
    lines = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n")
    return [at for at, line in enumerate(lines, start=1) if line.strip(b" \t")]


def check_case(builder, project: Path, case: Case, content: bytes) -> None:
    """Each record was either kept or rejected, or the file was refused."""
    case.lay(project, content)
    try:
        outcome = ingested(builder, project, case.source())
    except ValueError:
        return
    for file in outcome.read:
        kept, rejected = Counter(outcome.kept[file]), Counter(outcome.rejected[file])
        if case.kind == "serving_log" or case.kind in LINE_KINDS:
            assert not kept & rejected
            assert max((kept | rejected).values()) == 1
    if case.kind in LINE_KINDS:
        lines = filled_lines(content)
        header = 1 if case.kind in HEADED else 0
        assert sorted((kept | rejected).elements()) == lines[header:]


def test_every_reader_has_a_fixture_that_is_damaged_here() -> None:
    assert {case.kind for case in CASES} == set(SOURCE_KINDS) - WITHOUT_FIXTURE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fixture_as_it_is_adds_up(case, builder, tmp_path) -> None:
    check_case(builder, tmp_path, case, case.content)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=st.sampled_from(CASES), random=st.randoms(use_true_random=False))
def test_a_damaged_file_is_read_or_refused_and_its_rows_add_up(
    case, random, builder, tmp_path
) -> None:
    check_case(builder, tmp_path, case, damaged(case.content, random))


@pytest.mark.slow
@settings(
    max_examples=4000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=st.sampled_from(CASES), random=st.randoms(use_true_random=False))
def test_thousands_of_damaged_files_are_read_or_refused_and_their_rows_add_up(
    case, random, builder, tmp_path
) -> None:
    check_case(builder, tmp_path, case, damaged(case.content, random))


def test_the_inputs_that_fuzzing_found_are_read_or_refused(builder, tmp_path) -> None:
    inputs = {case: sorted((CORPUS / case.file).glob("*")) for case in CASES}
    assert sum(map(len, inputs.values())) == sum(file.is_file() for file in CORPUS.rglob("*")) > 0
    for case, files in inputs.items():
        for file in files:
            assert taken(builder, tmp_path, case, file.read_bytes()) in ("read", "refused")
