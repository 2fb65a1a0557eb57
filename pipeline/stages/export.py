"""The winner of the gate becomes a policy bundle, or the verdict is to keep the rule."""

import json
import os
import shutil

from pipeline.assembly import read_study
from pipeline.bundle.winner import export_winner
from pipeline.files import write_json
from pipeline.settings import Settings
from pipeline.stage import PARAMS, Folders, stage


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`policies/verdict.json` says what to do; `policies/<name>/` is the bundle of a winner."""
    card = json.loads((folders.data / "scorecard.json").read_text(encoding="utf-8"))
    verdict = {key: card[key] for key in ("winner", "best_rule", "sentence")}
    fresh = folders.out / f".policies.{os.getpid()}.partial"
    try:
        if card["winner"] is not None:
            study = read_study(settings, folders.data)
            bundle = fresh / card["winner"]
            fault = export_winner(settings, study, card, folders.data, PARAMS, bundle)
            if fault is not None:
                sentence = f"Keep the rule {card['best_rule']}: {fault}"
                verdict |= {"winner": None, "sentence": sentence}

        write_json(fresh / "verdict.json", verdict)
        shutil.rmtree(folders.out / "policies", ignore_errors=True)
        fresh.rename(folders.out / "policies")
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    print(verdict["sentence"])


if __name__ == "__main__":
    main()
