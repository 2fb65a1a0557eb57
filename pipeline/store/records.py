"""What a file holds as the view `records`: line numbers, raw text, and cells by name."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb

from pipeline.store.connection import Connection, identifier, one_file, sql
from pipeline.store.tables import brief
from pipeline.store.text import LINE_BYTES, CleanText, checked_text, copied_text, plain_name


def load_text(connection: Connection, path: Path, copy: Path) -> CleanText:
    """The lines of a text file become `records` (line, raw); see pipeline/store/text for them.

    Blank lines are no records, but counted in `line`. Lines that are too long are none either. The
    file is loaded as it is while it is checked; one that is not clean is copied and loaded again.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        checking = pool.submit(checked_text, path)
        loaded = plain_name(path) == path.name and _loads(connection, path)
        text = checking.result()
    if text is None:
        text = copied_text(path, copy)
    if text.path == copy or not loaded:
        connection.execute(_loading(text.path))
    letters = "true" if text.letters else "false"
    connection.execute(sql("plain_number").replace("$letters", letters))
    numbered = sql("number_lines")
    connection.execute(numbered if text.blanks else numbered.partition("\nWHERE")[0])
    connection.execute("CREATE OR REPLACE TEMP VIEW records AS FROM lines")
    return text


def _loads(connection: Connection, path: Path) -> bool:
    try:
        connection.execute(_loading(path))
    except duckdb.Error:  # not UTF-8, or a line that is too long: the check will tell
        return False
    return True


def _loading(path: Path) -> str:
    query = sql("load_text").replace("$path", one_file(path))
    return query.replace("$line_bytes", str(LINE_BYTES + 2))


def cut_cells(
    connection: Connection,
    text: CleanText,
    columns: Mapping[str, int | None],
    cells: int,
    delimiter: str,
    header: bool,
) -> None:
    """The `records` of a loaded text get a text column for each of `columns`.

    `text` is what was loaded. A column is given by its place in the row, from 0; None makes it
    NULL, as an empty cell is. `malformed` is true in rows without exactly `cells` cells. With
    `header` the first line is no record.
    """
    named = "".join(
        f",\n    {_cell(text, place)} AS {identifier(name)}" for name, place in columns.items()
    )
    mark = "'" + delimiter.replace("'", "''") + "'"
    split = f"string_split(raw, {mark})"
    if text.quotes:
        split = f"CASE WHEN contains(raw, '\"') THEN quoted_cells(raw, {mark}) ELSE {split} END"
    query = sql("cut_cells").replace("$cells", str(cells)).replace("$columns", named)
    connection.execute(
        query.replace("$first_line", "2" if header else "1").replace("$split", split)
    )


def _cell(text: CleanText, place: int | None) -> str:
    if place is None:
        return "NULL::VARCHAR"
    cell = f"cells[{place + 1}]"
    trimmed = f"trim({cell}, ' ' || chr(9))" if text.padded or text.quotes else cell
    return f"nullif({trimmed}, '')"


def load_parquet(connection: Connection, path: Path) -> int:
    """The rows of a Parquet file become `records` (line, raw), each as one JSON object.

    Returns how many there are. Raises ValueError where it is not a readable Parquet file.
    """
    try:
        connection.execute(sql("load_parquet").replace("$path", one_file(path)))
        return connection.count("SELECT count(raw) FROM records")
    except (duckdb.Error, OSError) as error:
        raise ValueError(f"{path.name}: not a readable Parquet file: {brief(error)}") from None
