"""Writes params.yaml, the composed form of conf/, and checks it: the first stage of `dvc repro`."""

import os
import sys

from omegaconf import DictConfig, OmegaConf

from pipeline.files import write_atomically
from pipeline.stage import PARAMS, compose_config, error_border, read_params, settings_of


def main(arguments: list[str]) -> None:
    """params.yaml holds what conf/ composes to; ValueError where that is not allowed.

    `dvc exp run` has composed it already, with its overrides: then the file is checked and kept.
    """
    if arguments:
        raise ValueError(f"{arguments[0]}: compose takes no overrides; use `dvc exp run -S`")
    if os.environ.get("DVC_EXP_NAME"):
        settings_of(read_params())
        return
    composed = compose_config()
    settings_of(composed)
    # Under DVC the stages were made from the file as it was.
    lists_before = read_params().get("run") if "DVC_STAGE" in os.environ else composed.run
    write_params(composed)
    print("params.yaml: composed from conf/")
    if composed.run != lists_before:
        raise ValueError("run: its lists have changed, and the stages with them; `dvc repro` again")


def write_params(config: DictConfig) -> None:
    """params.yaml has the bytes that DVC's own composition writes: no header, no comments."""
    write_atomically(PARAMS, OmegaConf.to_yaml(config).encode())


if __name__ == "__main__":
    with error_border():
        main(sys.argv[1:])
