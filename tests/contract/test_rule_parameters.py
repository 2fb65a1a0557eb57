"""Whatever is given as a parameter of a rule, it is taken or refused by name, never a crash."""

import inspect
import math

import pytest

from simulator.policies import RULES, build_policy
from simulator.scenario import Scenario
from tests.contract.played import SCENARIOS

NONSENSE = (
    True,
    "x",
    -1.5,
    math.nan,
    math.inf,
    [],
    [1],
    [None],
    [[1]],
    [[1, 2, 3]],
    ["a", "b"],
    {"a": 1},
)


def fitting() -> list[tuple[str, Scenario]]:
    """A scenario for each rule and kind of decision."""
    found = {}
    for scenario in SCENARIOS.values():
        for name, spec in RULES.items():
            if spec.misfit(scenario) is None:
                found.setdefault((name, scenario.decision), scenario)
    return [(name, scenario) for (name, _), scenario in found.items()]


@pytest.mark.parametrize(
    ("name", "scenario"),
    [pytest.param(*case, id=f"{case[0]}-{case[1].decision}") for case in fitting()],
)
def test_nonsense_is_refused_by_the_name_of_the_parameter(name: str, scenario: Scenario) -> None:
    usual = RULES[name].space(scenario).corner(high=False)
    parameters = inspect.signature(RULES[name].builders[scenario.decision]).parameters
    taken = [each for each, field in parameters.items() if field.kind != field.VAR_KEYWORD][1:]
    for parameter in taken:
        refusals = []
        for value in NONSENSE:
            try:
                build_policy(name, scenario, {**usual, parameter: value})
            except ValueError as error:
                refusals.append(str(error))
        assert [told for told in refusals if not told.startswith(f"{name}.{parameter}")] == []
        assert len(refusals) > len(NONSENSE) // 2, parameter
    with pytest.raises(ValueError, match=f"{name}.nonsense = 1: no such parameter"):
        build_policy(name, scenario, {**usual, "nonsense": 1})
