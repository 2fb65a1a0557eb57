"""conf/ and params.yaml: in step, complete, and checked."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from pipeline.schema import TABLES
from pipeline.settings import SourceSettings
from pipeline.settings.data import SOURCE_KINDS
from pipeline.sources.reader import readers
from pipeline.stage import CONF, PARAMS, compose_config, read_params, settings_of
from simulator.policies.registry import RULES

EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
DEFAULTS = {"cluster": "logged", "scenario": "interactive", "workload": "logged"}
DEFAULTS |= {"reward": "slo_cost", "gate": "standard"}
OPTIONS = sorted(
    (group, path.stem)
    for group, default in DEFAULTS.items()
    for path in (CONF / group).glob("*.yaml")
    if path.stem != default
)


@pytest.fixture(scope="module")
def composed():
    """What conf/ composes to."""
    return compose_config()


def test_params_yaml_is_what_conf_composes_to(composed) -> None:
    text = OmegaConf.to_yaml(composed)
    assert PARAMS.read_text(encoding="utf-8") == text, "run: python -m pipeline.stages.compose"


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_composes_without_missing_keys(experiment) -> None:
    config = compose_config([f"+experiment={experiment}"])
    assert not OmegaConf.missing_keys(config)
    settings_of(config)


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_of_a_group_composes(group, option) -> None:
    settings_of(compose_config([f"{group}={option}"]))


def test_conf_spells_out_every_setting_so_that_dvc_sees_it(composed) -> None:
    # A default of the schema is not in params.yaml: were it changed, no stage would rerun.
    config: Any = OmegaConf.to_container(composed)
    assert leaves(dataclasses.asdict(settings_of(composed))) == leaves(config)


def leaves(value: Any, key: str = "") -> set[str]:
    if not isinstance(value, dict) or not value:
        return {key}
    return {leaf for name, item in value.items() for leaf in leaves(item, f"{key}.{name}")}


def test_no_machine_gets_into_params_yaml() -> None:
    lines = [
        line.partition("#")[0]
        for path in CONF.rglob("*.yaml")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert "${" not in "".join(lines), "interpolations of the environment or the clock would get in"


def test_every_policy_of_conf_is_a_rule_that_exists(composed) -> None:
    policies = settings_of(composed).policies
    assert {policy.rule for policy in policies.values()} <= set(RULES)


def test_every_kind_of_source_has_a_reader() -> None:
    assert set(readers()) == set(SOURCE_KINDS) == set(TABLES["sources"].columns["kind"].values)


def test_a_source_of_the_user_can_be_added_on_the_command_line() -> None:
    config = compose_config(
        ["+sources.mine={kind: serving_log, path: data/raw/mine}", "run.sources=[sample,mine]"]
    )
    assert settings_of(config).sources["mine"] == SourceSettings("serving_log", "data/raw/mine")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("nonsense=1", "Could not override 'nonsense'"),
        ("agent@agents.ppo=nobody", "Could not find 'agent/nobody'"),
        ("seed=[", "LexerNoViableAltException|mismatched input|no viable"),
    ],
)
def test_an_override_that_does_not_compose_is_one_line(override, message) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        compose_config([override])
    assert "\n" not in str(refused.value)
    assert str(Path(CONF)) not in str(refused.value)


def test_under_dvc_only_the_item_of_a_stage_may_be_picked() -> None:
    assert read_params(["pick.agent=discrete_cql"]).pick.agent == "discrete_cql"
    with pytest.raises(ValueError, match="seed=1: under DVC a stage takes pick"):
        read_params(["seed=1"])
    with pytest.raises(ValueError, match=r"pick\.agnet = 'x': no such setting; did you mean agent"):
        settings_of(read_params(["pick.agnet=x"]))
