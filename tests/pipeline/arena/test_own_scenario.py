"""A scenario file of one's own: what is told of slips, and splits that lean on another."""

import re
from pathlib import Path

import pytest

from pipeline import stage
from pipeline.arena import suite
from pipeline.arena.splits import merged
from pipeline.arena.suite import load_arena_scenario, reason_for
from simulator.traffic import PoissonWorkload


def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """A suite of one file, in a folder of its own."""
    folder = tmp_path / "conf" / "scenario" / "arena"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (tmp_path / "conf" / "config.yaml").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(suite, "SUITE", folder)
    monkeypatch.setattr(stage, "CONF", tmp_path / "conf")
    monkeypatch.setattr(stage, "ROOT", tmp_path)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("why: a\nhorizon_s 3: 1: 2\n", "line 2, column 15: mapping values are not allowed here"),
        ("why:\n\ta: 1\n", "line 2, column 1: found character '\\t' that cannot start any token"),
        ("why: a\nwhy: b\n", "line 2, column 1: found duplicate key why"),
    ],
)
def test_a_slip_in_a_file_of_ones_own_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, where: str
) -> None:
    own(tmp_path, monkeypatch, "mine.yaml", text)
    for load in (load_arena_scenario, reason_for):
        told = re.escape(f"conf/scenario/arena/mine.yaml: {where}")
        with pytest.raises(ValueError, match=f"^{told}$"):
            load("mine")


def test_a_file_with_another_ending_is_to_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(tmp_path, monkeypatch, "mine.yml", "why: a\n")
    with pytest.raises(ValueError, match=r"'mine': rename mine\.yml to mine\.yaml"):
        load_arena_scenario("mine")


def test_a_split_with_fields_beside_same_as_replaces_these() -> None:
    # Training has {fast: 300, slow: 36}.
    train, *others = ("splits.validation.rate_rps.slow=9", "splits.test={same_as: train}")
    workloads = load_arena_scenario("drift_mix", [train, *others, "~splits.test.kind"]).workloads
    assert workloads["train"] == PoissonWorkload((300.0, 36.0))
    assert workloads["validation"] == PoissonWorkload((300.0, 9.0))
    assert workloads["test"] == PoissonWorkload((150.0, 105.0))


def test_a_split_of_a_kind_of_its_own_takes_nothing_over() -> None:
    sized = "splits.train.sizes=[{size: {kind: constant, value: 2.0}}]"
    other = "splits.test={kind: poisson, rate_rps: [7.0]}"
    workloads = load_arena_scenario("noisy_service", [sized, other]).workloads
    assert workloads["validation"] is workloads["train"]
    assert workloads["test"] == PoissonWorkload((7.0,))


def test_the_sections_of_a_section_are_merged_but_for_those_of_a_kind() -> None:
    section = {"a": {"b": 1, "c": 2}, "size": {"kind": "lognormal", "mean": 1.0}}
    fields = {"a": {"c": 3}, "size": {"kind": "constant"}, "d": 4}
    expected = {"a": {"b": 1, "c": 3}, "size": {"kind": "constant"}, "d": 4}
    assert merged(section, fields) == expected
    assert section["a"] == {"b": 1, "c": 2}
