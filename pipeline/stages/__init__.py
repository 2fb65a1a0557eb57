"""The commands of dvc.yaml, one module each: `python -m pipeline.stages.<stage>`."""

import pipeline.stage  # noqa: F401  before a stage loads NumPy: it fixes the number of threads
