"""Logs and traces become the warehouse, its Parquet tables and its manifest."""

from pipeline.schema import TABLES
from pipeline.settings import Settings
from pipeline.sources import read_source
from pipeline.stage import Folders, stage
from pipeline.store import read_table, warehouse_builder


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`warehouse.duckdb`, `warehouse.json` and `tables/` hold the rows of every source of the run.

    On any error, too many rejects included, the present warehouse stays as it was.
    """
    limit = settings.ingest.max_reject_fraction
    with warehouse_builder(folders.out) as builder:
        for name in settings.run.sources:
            source = settings.sources[name]
            for counts in read_source(builder, name, source, folders.project, limit):
                print(
                    f"{name}: {counts.path}: {counts.rows_read:,} rows read, "
                    f"{counts.rows_kept:,} kept, {counts.rows_rejected:,} rejected"
                )
    rows = {name: len(read_table(folders.out, name)) for name in TABLES}
    print("Tables: " + ", ".join(f"{name} {count:,}" for name, count in rows.items()))


if __name__ == "__main__":
    main()
