"""Logs and traces become the canonical tables, the warehouse over them and its manifest."""

from pipeline.files import plain, write_atomically, write_json
from pipeline.quality import quality_in_words, source_quality
from pipeline.reporting.quality_chart import drawn_quality
from pipeline.settings import Settings
from pipeline.sources import read_source
from pipeline.stage import Folders, stage
from pipeline.store import warehouse_builder


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`tables/`, `warehouse.duckdb` and `warehouse.json` hold the rows of every source of the run.

    `reports/quality.json` says what each is worth, `quality.png` shows it.
    On any error, too many rejects included, the present warehouse stays as it was.
    """
    with warehouse_builder(folders.out) as builder:
        for name in settings.run.sources:
            source = settings.sources[name]
            for counts in read_source(
                builder, name, source, folders.project, settings.ingest, settings.seed
            ):
                print(
                    f"{name}: {counts.path}: {counts.rows_read:,} rows read, "
                    f"{counts.rows_kept:,} kept, {counts.rows_rejected:,} rejected"
                )
    print("Tables: " + ", ".join(f"{name} {count:,}" for name, count in builder.rows.items()))

    qualities = [source_quality(folders.out, name) for name in settings.run.sources]
    described = {"sources": {quality.source: quality for quality in qualities}}
    write_json(folders.reports / "quality.json", plain(described))
    write_atomically(folders.reports / "quality.png", drawn_quality(qualities))
    for quality in qualities:
        print("\n".join(quality_in_words(quality)))


if __name__ == "__main__":
    main()
