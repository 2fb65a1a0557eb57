"""Every rule that fits with its best parameters, found with the same budget for all."""

from pipeline.assembly import build_trial, read_study
from pipeline.files import write_json
from pipeline.progress import progress
from pipeline.randomness import derived_seed
from pipeline.settings import Settings
from pipeline.stage import Folders, stage
from pipeline.validation.tuning import TunedRule, tune_rule
from pipeline.workers import workers
from pipeline.workloads import describe_load
from simulator.policies.registry import fitting_rules


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`heuristics.json` holds each rule's parameters and what they earned."""
    study, asked = read_study(settings, folders.data), settings.tune
    train, validation = (
        build_trial(settings, study, split, asked.episodes, derived_seed(settings.seed, word))
        for split, word in (("train", "tune"), ("validation", "finalists"))
    )
    rules, seed = fitting_rules(study.scenario), derived_seed(settings.seed, "search")
    calls = [(rule, train, validation, asked.budget, asked.finalists, seed) for rule in rules]
    found: dict[str, TunedRule] = {}
    with progress("tune", len(rules)) as advance, workers(asked.processes) as run:
        for number, tuned in run(tune_rule, calls):
            found[rules[number]] = tuned
            advance(1, rules[number])

    tuned_rules = {rule: found[rule]._asdict() for rule in rules}
    write_json(
        folders.out / "heuristics.json", {"episodes": len(train.window), "rules": tuned_rules}
    )
    print(describe_load(settings, study.calibration))
    for rule, values in sorted(tuned_rules.items(), key=lambda item: -item[1]["reward_per_s"]):
        print(f"{rule}: {values['reward_per_s']:+.3f} reward/s with {values['parameters']}")


if __name__ == "__main__":
    main()
