"""All agents and all tuned rules on the same test episodes, and the gate."""

from pipeline.assembly import read_study
from pipeline.files import plain, write_json
from pipeline.progress import progress
from pipeline.settings import Settings
from pipeline.stage import Folders, stage
from pipeline.validation.entrants import build_comparison, build_trials, read_candidates
from pipeline.validation.scorecard import score
from pipeline.validation.summary import describe_standings, metrics_of, verdict_sentence
from pipeline.workloads import describe_load


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`scorecard.json` holds the comparison in full, `metrics.json` its figures for DVC."""
    study = read_study(settings, folders.data)
    candidates = read_candidates(settings, folders.data, study.scenario)
    trials = build_trials(settings, study)
    comparison = build_comparison(settings)
    with progress("validate", len(candidates)) as advance:
        card = score(candidates, trials.decisive, trials.validation, comparison, lambda: advance(1))

    full = {**plain(card), "sentence": verdict_sentence(card)}
    write_json(folders.out / "scorecard.json", full)
    write_json(folders.reports / "metrics.json", plain(metrics_of(card)))
    print(describe_load(settings, study.calibration))
    for line in describe_standings(card):
        print(line)
    print(verdict_sentence(card))


if __name__ == "__main__":
    main()
