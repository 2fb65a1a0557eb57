"""The registry refuses what it does not know, and its spaces hold what can be built."""

from dataclasses import replace

import pytest

from simulator.conditions import SetPoints
from simulator.policies import RULES, build_policy
from simulator.policies.axes import batch_size_choice
from simulator.policies.registry import fitting_rules
from simulator.replica import Replica
from simulator.scenario import ClassChoice, DecisionKind, QueuePlace, RequestClass, Scenario


def cluster(
    classes: int = 2,
    menu: tuple[int, ...] = (1, 2, 4, 8, 16),
    max_batch_size: tuple[int, ...] = (16, 8),
    class_choice: ClassChoice = ClassChoice.ANY,
) -> Scenario:
    return Scenario(
        request_classes=tuple(RequestClass(f"class{c}", 0.1 * (c + 1)) for c in range(classes)),
        replicas=tuple(
            Replica((0.002,) * classes, (0.005,) * classes, (0.0,) * classes, largest)
            for largest in max_batch_size
        ),
        batch_sizes=menu,
        class_choice=class_choice,
    )


def test_an_unknown_rule_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'fifi'.*static_cap.*c_mu"):
        build_policy("fifi", cluster(), {})


@pytest.mark.parametrize("name", fitting_rules(cluster()))
def test_an_unknown_parameter_is_named(name):
    with pytest.raises(ValueError, match=rf"{name}\.bach_size = 3: no such parameter"):
        build_policy(name, cluster(), {"bach_size": 3})


@pytest.mark.parametrize(
    ("name", "first"),
    [("static_cap", "batch_size"), ("batch_timeout", "max_batch_size"), ("c_mu", "batch_size")],
)
def test_a_missing_parameter_is_named(name, first):
    with pytest.raises(ValueError, match=rf"{name}\.{first}: must be given"):
        build_policy(name, cluster(), {})


def test_a_misspelled_rule_gets_the_nearest_name():
    with pytest.raises(ValueError, match=r"'batch_timeuot': did you mean batch_timeout\?"):
        build_policy("batch_timeuot", cluster(), {})


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("static_cap", {"batch_size": 0}, "batch_size = 0: must be at least 1"),
        ("static_cap", {"batch_size": 1}, "batch_size = 1: the menu has no such small size"),
        ("fifo", {"batch_size": 2.0}, "batch_size = 2.0: must be a whole number"),
        ("fifo", {"batch_size": True}, "batch_size = True: must be a whole number"),
        ("round_robin", {"batch_size": 2, "on_busy": "stop"}, "on_busy = 'stop': must be"),
        ("batch_timeout", {"max_batch_size": 0, "batch_timeout_s": 0.1}, "max_batch_size = 0"),
        ("batch_timeout", {"max_batch_size": 2, "batch_timeout_s": -1}, "batch_timeout_s = -1"),
        ("batch_timeout", {"max_batch_size": 2, "batch_timeout_s": float("nan")}, "= nan"),
        ("batch_timeout", {"max_batch_size": 2, "batch_timeout_s": "1"}, "batch_timeout_s = '1'"),
        ("c_mu", {"batch_size": {"class0": 2}}, "needs one size for each of"),
        ("c_mu", {"batch_size": {"class0": 2, "class1": 0}}, r"batch_size\.class1 = 0"),
    ],
)
def test_a_bad_value_is_refused_by_name_value_and_rule(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy(name, cluster(menu=(2, 4), max_batch_size=(4, 4)), parameters)


@pytest.mark.parametrize("kind", list(DecisionKind))
def test_a_rule_is_refused_where_it_cannot_take_the_decisions_and_told_what_fits(kind):
    scenario = cluster()
    if kind != DecisionKind.DISPATCH:
        scenario = replace(
            scenario,
            decision=kind,
            queues=QueuePlace.REPLICA,
            set_points=SetPoints(max_batch_size=(1, 2)),
        )
    for name, spec in RULES.items():
        if kind in spec.builders:
            continue
        message = f"policy = '{name}': takes .* decisions, .* are {kind}; rules that fit: uniform"
        with pytest.raises(ValueError, match=message):
            build_policy(name, scenario, {})


def test_c_mu_needs_actions_that_name_the_class():
    scenario = cluster(class_choice=ClassChoice.HEAD_OF_LINE)
    with pytest.raises(ValueError, match=r"chooses the request class, .*head_of_line"):
        build_policy("c_mu", scenario, {"batch_size": 8})
    assert "c_mu" not in fitting_rules(scenario)


@pytest.mark.parametrize("classes", [1, 2, 3, 9])
def test_both_ends_of_every_space_build_a_rule_of_that_name(classes):
    scenario = cluster(classes)
    for name in fitting_rules(scenario):
        for high in (False, True):
            point = RULES[name].space(scenario).corner(high)
            assert build_policy(name, scenario, point).name == name


@pytest.mark.parametrize(
    ("menu", "max_batch_size", "expected"),
    [
        (tuple(range(1, 33)), (32, 32), (1, 2, 4, 8, 16, 32)),
        (tuple(range(1, 25)), (24,), (1, 2, 4, 8, 16, 24)),
        ((1, 2, 4, 8), (8, 4), (1, 2, 4, 8)),
        ((1, 2, 4, 8), (4, 2), (1, 2, 4)),  # nobody can take 8
        ((3, 5, 7), (7,), (3, 7)),
        ((4,), (32,), (4,)),
    ],
)
def test_tuned_batch_sizes_double_within_what_some_replica_takes(menu, max_batch_size, expected):
    scenario = cluster(menu=menu, max_batch_size=max_batch_size)
    assert batch_size_choice(scenario).values == expected


def test_the_c_mu_space_varies_each_class_on_its_own():
    points = RULES["c_mu"].space(cluster()).grid()
    assert {"batch_size": {"class0": 16, "class1": 1}} in points
    assert {"batch_size": {"class0": 1, "class1": 16}} in points
    assert len(points) == 5**2


def test_the_timeout_grid_follows_the_tightest_slo():
    points = RULES["batch_timeout"].space(cluster()).grid()
    timeouts_s = sorted({point["batch_timeout_s"] for point in points})
    assert timeouts_s == [0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05]  # tightest slo_s: 0.1
