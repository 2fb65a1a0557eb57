"""dvc.yaml: its stages, and that each lists what it depends on."""

import ast
from functools import cache
from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo
from omegaconf import OmegaConf

from pipeline.stage import PARAMS, ROOT

STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
RUN = OmegaConf.load(PARAMS).run
# They carry values and say nothing themselves: every value is in params.yaml.
NO_DEPENDENCIES = ("pipeline/settings", "pipeline/stage.py", "pipeline/progress.py")
PARTS = ("pipeline", "simulator")


@pytest.fixture(scope="module")
def expanded():
    """The stages as DVC expands them, by name."""
    repository = Repo(str(ROOT), config={"core": {"no_scm": True}})
    return {stage.addressing: stage for stage in repository.index.stages}


def test_the_stages_expand_to_one_for_each_policy_and_agent_of_the_run(expanded) -> None:
    assert set(expanded) == {
        *("compose", "ingest", "calibrate", "tune", "arena", "validate", "export", "report"),
        *(f"replay@{name}" for name in RUN.behavior),
        *(f"train_offline@{name}" for name in RUN.offline),
        *(f"train_online@{name}" for name in RUN.online),
    }


def params_of(stage) -> set[str]:
    return {key for dep in stage.deps if hasattr(dep, "params") for key in dep.params}


def test_only_the_training_of_an_agent_reruns_when_its_hyperparameters_change(expanded) -> None:
    readers = {
        name: {key for key in params_of(stage) if key.split(".")[0] == "agents"}
        for name, stage in expanded.items()
    }
    for name, keys in readers.items():
        trains = name.startswith("train_")
        assert keys == ({f"agents.{name.partition('@')[2]}"} if trains else set()), name


def test_every_key_that_a_stage_lists_is_in_params_yaml(expanded) -> None:
    params = OmegaConf.load(PARAMS)
    missing = object()
    for name, stage in expanded.items():
        for key in params_of(stage):
            assert OmegaConf.select(params, key, default=missing) is not missing, f"{name}: {key}"


DRAWS = ("calibrate", "tune", "arena", "replay", "train_offline", "train_online")


@pytest.mark.parametrize("name", DRAWS)
def test_a_stage_that_draws_random_numbers_depends_on_the_seed(name) -> None:
    assert "seed" in STAGES[name]["params"]


def says_nothing(file: Path) -> bool:
    """Whether a file is a docstring, or the import that fixes the number of threads."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return file.name == "__init__.py" and len(body) <= (2 if file.parent.name == "stages" else 1)


def module_file(name: str) -> Path | None:
    path = ROOT / Path(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.exists()), None)


@cache
def imported_files(file: Path) -> frozenset[Path]:
    """The files of this project that a file imports itself, packages on the way included."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    ours = [name for name in names if name.split(".")[0] in PARTS]
    prefixes = {
        ".".join(name.split(".")[: i + 1]) for name in ours for i in range(name.count(".") + 1)
    }
    return frozenset(found for name in prefixes if (found := module_file(name)) is not None)


def reachable_files(file: Path) -> set[Path]:
    """The files that a file imports, through others too, but not through NO_DEPENDENCIES."""
    found: set[Path] = set()
    new = {file}
    while new:
        found |= new
        new = {
            other
            for one in new
            for other in imported_files(one)
            if not any(other.is_relative_to(ROOT / exempt) for exempt in NO_DEPENDENCIES)
        } - found
    return found


@pytest.mark.parametrize("name", [name for name in STAGES if name != "compose"])
def test_a_stage_depends_on_every_module_that_it_imports(name) -> None:
    file = ROOT / "pipeline" / "stages" / f"{name}.py"
    listed = STAGES[name]["deps"]
    for found in reachable_files(file):
        path = found.relative_to(ROOT)
        covered = any(path.is_relative_to(dependency) for dependency in listed)
        assert covered or says_nothing(found), f"{name} imports {path}: list it in dvc.yaml"


def test_git_ignores_what_dvc_caches_and_nothing_else_of_the_pipeline() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    for name, stage in STAGES.items():
        for out in (*stage.get("outs", ()), *stage.get("metrics", ())):
            cached = isinstance(out, str)
            path = out if cached else next(iter(out))
            covered = any(f"/{path}".startswith(line) for line in ignored if line.startswith("/"))
            assert covered == cached, f"{name}: {path}"
    assert not any("/data/sample".startswith(line) for line in ignored if line.startswith("/"))
