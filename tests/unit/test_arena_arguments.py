"""The words of `python -m pipeline.arena`: what they say and which are refused."""

import pytest

from pipeline.arena.arguments import read_arguments
from pipeline.arena.entrants import Asked


def test_policies_are_read_with_and_without_parameters() -> None:
    words = "policies=[fifo, a:x=8:y=0.5,b:size.fast=8:size.slow=2,c:menu=[1,2]:word=skip,d:n=null]"
    found = read_arguments(["scenario=all", words, "horizon_s=5", "out=there", "processes=3"])
    assert found.policies == [
        Asked("fifo"),
        Asked("a", {"x": 8, "y": 0.5}),
        Asked("b", {"size": {"fast": 8, "slow": 2}}),
        Asked("c", {"menu": [1, 2], "word": "skip"}),
        Asked("d", {"n": None}),
    ]
    assert found.overrides == ["horizon_s=5"]
    assert (found.budget, found.seed, found.processes, str(found.out)) == (24, 7, 3, "there")
    assert read_arguments(["scenario=a"]).policies is None
    assert read_arguments(["scenario=a", "policies=fifo,c_mu"]).policies == [
        Asked("fifo"),
        Asked("c_mu"),
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["budget=3"], "scenario: must be given, as scenario=NAME or scenario=all"),
        (["scenario=a", "what"], "argument = 'what': must be name=value"),
        (["scenario=a", "scenario=b"], "scenario = 'b': is given already as 'a'"),
        (["scenario=a", "budget=0"], "budget = '0': must be a whole number, at least 1"),
        (["scenario=a", "seed=1.5"], "seed = '1.5': must be a whole number, at least 0"),
        (["scenario=a", "policies="], "policies = '': needs a rule"),
        (["scenario=a", "policies=a,,b"], "policies = 'a,,b': must be rules with a comma"),
        (["scenario=a", "policies=a:b"], "policies = 'a:b': 'b' must be NAME=VALUE"),
        (["scenario=a", "policies=a:b=1:b=2"], "policies = 'a:b=1:b=2': b is given twice"),
        (["scenario=a", "policies=a:b=1:b.c=2"], "policies = 'a:b=1:b.c=2': b is given alone"),
    ],
)
def test_words_that_say_nothing_clear_are_refused(words: list[str], line: str) -> None:
    with pytest.raises(ValueError, match="^" + line.replace("[", r"\[")):
        read_arguments(words)
