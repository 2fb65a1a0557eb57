"""The simulator's parameters from the log, and how well it then retells that log."""

from dataclasses import asdict

from pipeline.assembly import build_scenario
from pipeline.calibration.calibrate import CalibrationRules, calibrate
from pipeline.calibration.describe import describe_calibration, to_json
from pipeline.calibration.fidelity import (
    FidelityRules,
    Gate,
    describe_fidelity,
    fidelity_failures,
    fidelity_of_log,
    fidelity_warnings,
    replay_batches,
    replay_tokens,
    replayed_policy,
)
from pipeline.calibration.fidelity import to_json as fidelity_to_json
from pipeline.calibration.log import read_cold_starts, read_logged_run
from pipeline.files import write_atomically, write_json
from pipeline.randomness import stream
from pipeline.reporting.quantile_chart import drawn_quantiles
from pipeline.settings import Settings
from pipeline.stage import Folders, stage


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`calibration.json` holds the fit, `fidelity.json` the simulated against the logged log.

    `fidelity.png` shows the quantiles of both. Raises ValueError where a statistic surely misses
    the log by more than its tolerance, unless `calibration.on_failure` is `warn`.
    """
    run = read_logged_run(folders.data / "tables", settings.calibration.source)
    split = settings.split
    shares = {"train": split.train, "validation": split.validation, "test": split.test}
    rules = CalibrationRules(
        shares,
        settings.calibration.min_batches,
        read_cold_starts(folders.data / "tables"),
        {
            name: told
            for name, told in asdict(settings.calibration.engine).items()
            if told is not None
        },
        settings.calibration.service,
    )
    calibration = calibrate(run, rules, stream(settings.seed, "calibration"))
    policy = replayed_policy(run.system, calibration)
    generator = stream(settings.seed, "fidelity")
    if calibration.tokens is not None:
        replay = replay_tokens(run, calibration.tokens)
    else:
        run = run._replace(system=calibration.system)  # with the policy that ran
        scenario = build_scenario(settings, calibration, as_logged=True)
        replay = replay_batches(run, scenario, settings.calibration.replay_seeds, generator)
    gate = Gate(asdict(settings.calibration.tolerance), settings.calibration.min_requests)
    bands = FidelityRules(settings.calibration.bands)
    fidelity = fidelity_of_log(replay, policy, gate, bands, generator)

    write_json(folders.out / "calibration.json", to_json(calibration))
    write_json(folders.reports / "fidelity.json", fidelity_to_json(fidelity))
    write_atomically(folders.reports / "fidelity.png", drawn_quantiles(fidelity))
    for line in describe_calibration(calibration) + describe_fidelity(fidelity):
        print(line)
    for warning in fidelity_warnings(fidelity.rows, gate):
        print(f"warning: {warning}")
    failures = fidelity_failures(fidelity.rows, gate)
    for failure in failures:
        print(f"failed: {failure}")
    if failures and settings.calibration.on_failure == "stop":
        raise ValueError(
            f"the simulator does not retell the log: {len(failures)} checks failed, told above; "
            "fidelity.png shows where. calibration.on_failure=warn goes on, with a simulator that "
            "misses the log"
        )
    print("the log is retold within the tolerance" if not failures else "going on all the same")


if __name__ == "__main__":
    main()
