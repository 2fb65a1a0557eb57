"""What a reader found in a source, beside its rows."""

from typing import NamedTuple

from pipeline.store import FileCounts


class Found(NamedTuple):
    """What a source says of itself, and what became of each of its files."""

    files: list[FileCounts]
    license: str
    clock: str  # monotonic or wall
    zone: str
    origin: str  # ISO 8601 instant of time 0
    system: str | None  # JSON

    def facts(self) -> dict[str, str | None]:
        """The columns of `sources` that the reader fills."""
        return {name: value for name, value in self._asdict().items() if name != "files"}
