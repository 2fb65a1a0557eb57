"""What makes a function the command of a stage: typed settings, folders, and clean errors.

Under DVC a stage reads params.yaml and writes to data/ and reports/. By hand it is a Hydra app
that takes any override (also `-m` and launchers) and writes to its own folder below outputs/.
"""

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError  # type: ignore[import-untyped]

from pipeline.settings import Settings, build_settings

# One thread: results repeat to the bit, and small networks are slower with more. It must be set
# before NumPy, torch or polars are loaded; `pipeline.stages` imports this module first.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
CONF, PARAMS = ROOT / "conf", ROOT / "params.yaml"


class Folders(NamedTuple):
    """Where a stage reads and writes."""

    project: Path  # the root: relative paths of sources start here
    data: Path  # what earlier stages wrote
    out: Path  # where this one writes; the same as `data` under DVC
    reports: Path  # where it writes metrics, plots and pages


def compose_config(overrides: Sequence[str] = ()) -> DictConfig:
    """The composed and resolved configuration of conf/; ValueError where it does not compose."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException

    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            config = compose("config", overrides=list(overrides))
        OmegaConf.resolve(config)
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        cause = f": {_one_line(error.__cause__)}" if isinstance(error.__cause__, Exception) else ""
        raise ValueError(_one_line(error) + cause) from None
    return config


def settings_of(config: DictConfig) -> Settings:
    """The typed settings of a composed configuration; ValueError for what is not allowed."""
    plain: Any = OmegaConf.to_container(config, resolve=True)
    return build_settings(plain)


def read_params(overrides: Sequence[str] = ()) -> DictConfig:
    """params.yaml with `pick.<key>=<value>` applied; ValueError for any other override."""
    for override in overrides:
        if not override.startswith("pick.") or "=" not in override:
            raise ValueError(
                f"{override}: under DVC a stage takes pick.<key>=<value> alone; "
                "use `dvc exp run -S` for the rest"
            )
    if not PARAMS.exists():
        raise ValueError("params.yaml: missing; run `python -m pipeline.stages.compose`")
    try:
        config = OmegaConf.load(PARAMS)
    except YAMLError:  # a merge conflict, mostly
        config = OmegaConf.create([])
    if not isinstance(config, DictConfig):
        raise ValueError("params.yaml: not YAML; run `python -m pipeline.stages.compose`")
    config.merge_with_dotlist(list(overrides))
    return config


def stage(function: Callable[[Settings, Folders], None]) -> Callable[[], None]:
    """`function` as the command of a stage; call the result under `if __name__ == "__main__"`."""

    @functools.wraps(function)
    def command() -> None:
        with error_border():
            if "DVC_STAGE" in os.environ:  # DVC sets it for every command
                settings = settings_of(read_params(sys.argv[1:]))
                data = ROOT / "data"
                function(settings, Folders(ROOT, data, data, ROOT / "reports"))
            else:
                _run_by_hand(function)

    return command


def _run_by_hand(function: Callable[[Settings, Folders], None]) -> None:
    import hydra
    from hydra.core.hydra_config import HydraConfig

    def job(config: DictConfig) -> None:
        with error_border():
            own = Path(HydraConfig.get().runtime.output_dir)
            folders = Folders(ROOT, ROOT / "data", own / "data", own / "reports")
            function(settings_of(config), folders)
            print(f"Written below {os.path.relpath(own)}")

    job.__module__ = function.__module__
    # With it Hydra raises what it would else print over many lines before it ends the process.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(job)()


@contextmanager
def error_border() -> Iterator[None]:
    """Ends the process with one line on stderr and exit code 1 where the input was at fault.

    That is ValueError, OSError, a failed composition, and RuntimeError of our own code; other
    exceptions are bugs and keep their traceback. An interrupt ends it with 130. With
    BATCHWRIGHT_FULL_ERROR=1 in the environment every traceback is shown.
    """
    try:
        yield
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("BATCHWRIGHT_FULL_ERROR") == "1" or not _is_expected(error):
            raise
        print(f"error: {_one_line(error)}", file=sys.stderr)
        sys.exit(1)


def _is_expected(error: Exception) -> bool:
    if isinstance(error, ValueError | OSError | OmegaConfBaseException | YAMLError):
        return True
    if type(error).__module__.startswith("hydra."):
        return True
    return isinstance(error, RuntimeError) and _raised_by_us(error)


def _raised_by_us(error: Exception) -> bool:
    """Whether the innermost frame is in this project: torch raises RuntimeError too."""
    innermost = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return any(innermost.is_relative_to(ROOT / package) for package in ("pipeline", "simulator"))


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.path.relpath(error.filename)}: {error.strerror}"
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark  # it counts from 0
        where = f"line {mark.line + 1}, column {mark.column + 1}"
        return f"{os.path.relpath(mark.name, ROOT)}: {where}: {error.problem}"
    text = str(error).partition("Config search path:")[0]  # Hydra's list of its folders
    return " ".join(text.split()) or type(error).__name__
