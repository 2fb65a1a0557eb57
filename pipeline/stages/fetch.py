"""Downloads the public files of the run's sources; no other stage and no `dvc repro` calls it."""

from pipeline.fetching import fetch_source
from pipeline.settings import Settings
from pipeline.stage import Folders, stage


@stage
def main(settings: Settings, folders: Folders) -> None:
    """The files that the `fetch` sections of `run.sources` name lie below data/raw, checked.

    The name of the stage is the consent: it is not in dvc.yaml.
    """
    for name in settings.run.sources:
        for line in fetch_source(name, settings.sources[name], folders.project):
            print(line)


if __name__ == "__main__":
    main()
