"""Batches of a log that names none, and how sure they are."""

from pipeline.calibration.batch_reconstruction.rebuild import measured_batches, rebuild_batches
from pipeline.calibration.batch_reconstruction.table import (
    CONCURRENT,
    CONTINUOUS,
    FROM_DEPARTURES,
    FROM_INTERVALS,
    MEASURED,
    MIXED,
    NO_BATCH,
    UNKNOWN_KIND,
    WHOLE,
    RebuiltBatches,
)
from pipeline.calibration.batch_reconstruction.tolerance import infer_tolerance, time_resolution

__all__ = [
    "CONCURRENT",
    "CONTINUOUS",
    "FROM_DEPARTURES",
    "FROM_INTERVALS",
    "MEASURED",
    "MIXED",
    "NO_BATCH",
    "UNKNOWN_KIND",
    "WHOLE",
    "RebuiltBatches",
    "infer_tolerance",
    "measured_batches",
    "rebuild_batches",
    "time_resolution",
]
