"""The league of every rule that fits the calibrated cluster, each tuned with the same budget."""

from pipeline.arena.calibrated import calibrated_contest, calibrated_entrants
from pipeline.arena.chart import drawn_league
from pipeline.arena.compete import compete
from pipeline.arena.table import print_league
from pipeline.assembly import read_study
from pipeline.files import plain, write_atomically, write_json
from pipeline.progress import progress
from pipeline.randomness import derived_seed
from pipeline.settings import Settings
from pipeline.stage import Folders, stage
from pipeline.workers import workers


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`reports/league.json` holds the figures of all, `league.png` shows them."""
    study = read_study(settings, folders.data)
    contest = calibrated_contest(settings, study)
    entrants = calibrated_entrants(settings, study, contest.scenario)
    seed, budget = derived_seed(settings.seed, "arena", "search"), settings.arena.budget
    with (
        progress("arena", len(entrants)) as advance,
        workers(settings.tune.processes) as run,
    ):
        league = compete(contest, entrants, budget, seed, run, advance)

    write_json(folders.reports / "league.json", plain(league))
    write_atomically(folders.reports / "league.png", drawn_league(league))
    print_league(league)


if __name__ == "__main__":
    main()
