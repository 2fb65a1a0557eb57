"""Which way imports point (STYLE.md), read from the import statements."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("simulator/**/*.py"), *ROOT.glob("pipeline/**/*.py")])

# Who may import a library: path prefixes.
ONLY = {
    "hydra": ("pipeline/stage.py", "pipeline/settings/", "pipeline/stages/compose.py"),
    "omegaconf": ("pipeline/stage.py", "pipeline/settings/", "pipeline/stages/compose.py"),
    "duckdb": ("pipeline/store/",),
    "torch": (
        "pipeline/agents/",
        "pipeline/offline/",
        "pipeline/bundle/onnx_export.py",
        "pipeline/testbed/models.py",
    ),
    "d3rlpy": ("pipeline/offline/",),
    "altair": ("pipeline/reporting/", "pipeline/inspect/", "pipeline/arena/"),
    "vl_convert": ("pipeline/reporting/", "pipeline/inspect/", "pipeline/arena/"),
    "gymnasium": ("simulator/gymnasium_env.py",),
    "numba": ("simulator/jit.py", "simulator/by_reference.py"),
    "llvmlite": ("simulator/jit.py", "simulator/by_reference.py"),
}

# The levels of the simulator: a module may import those at its own level or below.
LEVELS = [
    {"checks", "jit", "by_reference"},
    {"conditions", "noise", "replica", "parameters", "scenario"},
    {"observation", "action", "arrivals", "sizes"},
    {"queueing_theory", "multiserver_theory", "batch_theory", "optimal"},
    {"state", "workload", "reward", "traffic"},
    {"layout", "future", "bookkeeping", "fifo"},
    {"service", "scaling"},
    {"batching_rule", "signals"},
    {"events", "episode"},
    {"engine"},
    {"environment"},
    {"metrics", "rollout", "windows", "gymnasium_env"},
]
MAY_NOT = {
    "simulator/policies": {"environment", "engine", "events", "state", "rollout", "jit"},
}
# The reference judges the engine, so it shares nothing with it but the words.
REFERENCE_MAY = {"reference", "scenario", "replica", "conditions", "state", "workload"}


def imports(path: Path) -> set[str]:
    """The dotted names of all modules that the file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def simulator_parts(path: Path) -> set[str]:
    """The second word of every `simulator.x` that the file imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("simulator.")}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_libraries_are_known_only_where_they_belong(path: Path) -> None:
    used = {name.split(".")[0] for name in imports(path)}
    for library, allowed in ONLY.items():
        if library in used:
            assert name_of(path).startswith(allowed), f"{library} is not for this file"


@pytest.mark.parametrize("path", sorted(ROOT.glob("simulator/**/*.py")), ids=name_of)
def test_simulator_needs_numpy_and_numba_alone(path: Path) -> None:
    import sys

    outside = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names)
    compiler = {"llvmlite"} if path.stem in ("jit", "by_reference") else set()
    interface = {"gymnasium"} if path.stem == "gymnasium_env" else set()
    assert outside <= {"numpy", "numba", "simulator"} | compiler | interface


@pytest.mark.parametrize("path", sorted(ROOT.glob("simulator/*.py")), ids=name_of)
def test_simulator_modules_import_downward(path: Path) -> None:
    level = next((n for n, names in enumerate(LEVELS) if path.stem in names), None)
    if path.stem == "__init__":
        return
    assert level is not None, "give the new module a level"
    allowed = set().union(*LEVELS[: level + 1]) | (
        {"policies"} if path.stem == "rollout" else set()
    )
    assert simulator_parts(path) <= allowed


@pytest.mark.parametrize("prefix", MAY_NOT)
def test_rules_do_not_know_the_engine(prefix: str) -> None:
    for path in FILES:
        if name_of(path).startswith(prefix):
            assert not simulator_parts(path) & MAY_NOT[prefix], name_of(path)


def test_the_reference_does_not_know_what_it_judges() -> None:
    files = sorted(ROOT.glob("simulator/reference/*.py"))
    assert files
    for path in files:
        assert simulator_parts(path) <= REFERENCE_MAY, name_of(path)


def test_stages_are_imported_by_no_one() -> None:
    for path in FILES:
        if not name_of(path).startswith("pipeline/stages/"):
            assert not any(name.startswith("pipeline.stages") for name in imports(path))


def test_the_bundle_runtime_imports_nothing_of_the_project() -> None:
    runtime = imports(ROOT / "pipeline" / "bundle" / "runtime.py")
    assert not any(name.startswith(("pipeline", "simulator", "torch")) for name in runtime)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_loads_a_pickle(path: Path) -> None:
    assert not imports(path) & {"pickle", "cloudpickle", "joblib", "dill", "shelve"}
    text = path.read_text(encoding="utf-8")
    assert "allow_pickle=True" not in text
    assert "torch.load" not in text
    assert "load_learnable" not in text
