"""The simulator's parameters from the serving log, and how well it then retells that log."""

from pipeline.assembly import build_scenario
from pipeline.calibration.calibrate import calibrate, describe_service, to_json
from pipeline.calibration.fidelity import (
    describe_fidelity,
    fidelity_failures,
    fidelity_of_log,
    fidelity_warnings,
)
from pipeline.calibration.log import read_logged_run
from pipeline.files import plain, write_json
from pipeline.randomness import stream
from pipeline.settings import Settings
from pipeline.stage import Folders, stage


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`calibration.json` holds the fit, `fidelity.json` the simulated against the logged log.

    Raises ValueError where a response-time percentile misses the log by more than its tolerance.
    """
    run = read_logged_run(folders.data / "tables", settings.calibration.source)
    split = settings.split
    shares = {"train": split.train, "validation": split.validation, "test": split.test}
    calibration = calibrate(run, shares, settings.calibration.min_batches)
    scenario = build_scenario(settings, calibration, as_logged=True)
    generator = stream(settings.seed, "fidelity")
    rows = fidelity_of_log(run, scenario, settings.calibration.replay_seeds, generator)
    tolerance = settings.calibration.tolerance
    limits = {50: tolerance.p50, 95: tolerance.p95, 99: tolerance.p99}
    failures = fidelity_failures(rows, limits)

    write_json(folders.out / "calibration.json", to_json(calibration))
    fidelity = {
        "passed": not failures,
        "tolerance": {f"p{percentile}": limit for percentile, limit in limits.items()},
        "rows": rows,
    }
    write_json(folders.reports / "fidelity.json", plain(fidelity))
    for line in describe_service(calibration) + describe_fidelity(rows):
        print(line)
    for warning in fidelity_warnings(rows, limits):
        print(f"warning: {warning}")
    if failures:
        raise ValueError("the simulator does not retell the log: " + "; ".join(failures))


if __name__ == "__main__":
    main()
