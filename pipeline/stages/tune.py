"""Every rule with its best parameters, found on the training split with the same budget for all."""

from functools import partial

from pipeline.assembly import build_trial, read_study
from pipeline.files import write_json
from pipeline.progress import progress
from pipeline.randomness import derived_seed
from pipeline.settings import Settings
from pipeline.stage import Folders, stage
from pipeline.validation.tuning import points_to_try, tune_rule
from pipeline.workloads import describe_load
from simulator.policies.registry import RULES


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`heuristics.json` holds each rule's parameters and what they earned in training."""
    study = read_study(settings, folders.data)
    seed = derived_seed(settings.seed, "tune")
    trial = build_trial(settings, study, "train", settings.tune.episodes, seed)
    points = settings.tune.points
    total = sum(len(points_to_try(rule, trial.scenario, points)) for rule in RULES)
    tuned = {}
    with progress("tune", total) as advance:
        for rule in RULES:
            found = tune_rule(rule, trial, points, partial(advance, 1, rule))
            if found is not None:
                tuned[rule] = found._asdict()

    write_json(folders.out / "heuristics.json", {"episodes": len(trial.window), "rules": tuned})
    print(describe_load(settings, study.calibration))
    for rule, values in sorted(tuned.items(), key=lambda item: -item[1]["reward_per_s"]):
        print(f"{rule}: {values['reward_per_s']:+.3f} reward/s with {values['parameters']}")


if __name__ == "__main__":
    main()
