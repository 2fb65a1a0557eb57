"""What happens to logs: bytes and lines that are lost, repeated, swapped or replaced."""

from collections.abc import Callable
from random import Random

ODD = (
    *(b"-1", b"0", b"1e400", b"1e9", b"1_000", b"NaN", b"inf", b"0x10", b"21073.0", b".", b""),
    *(b"9" * 10, b"9" * 19, b"9" * 20, b"9" * 60, b"-9223372036854775808", b"4503599627370497.5"),
    *(b'"', b'""', b'a"b', b"'", b",", b";", b"\t", b" ", b"{", b"}", b"[", b"]", b"{}", b"[]"),
    *(b":", b"null", b"true", b"\\u0000", b"\\ud800", b"\\", b"\x00", b"\x1a", b"\xff\xfe"),
    *(
        b"\xef\xbb\xbf",
        b"\xe9",
        b"\r",
        b"\n",
        b"\r\n",
        b"\x0b",
        b"\x0c",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
    ),
    *(b"+99:99", b"+0530", b"Z", b"0000-00-00 00:00:00", b"9999-12-31 23:59:60", b"infinity"),
    *(b"1969-12-31T23:59:59Z", b"290000-01-01 00:00:00", b"=1+1", b"-", b"- : -", b"0.1, 0.2"),
    *(b'"; DROP TABLE requests; --', b"select", b"%s", b"$file", b"\xf0\x9f\x98\x80"),
)


def damaged(content: bytes, random: Random) -> bytes:
    """The content after one to four mishaps."""
    for _ in range(random.choice((1, 1, 2, 4))):
        content = random.choice(_MISHAPS)(content, random)
    return content


def _span(content: bytes, random: Random, most: int) -> tuple[int, int]:
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + random.randrange(most))


def _lose(content: bytes, random: Random) -> bytes:
    start, end = _span(content, random, 20)
    return content[:start] + content[end:]


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _repeat(content: bytes, random: Random) -> bytes:
    start, end = _span(content, random, 40)
    return content[:start] + content[start:end] * random.randrange(2, 5) + content[end:]


def _insert(content: bytes, random: Random) -> bytes:
    start, end = _span(content, random, 12)
    return content[:start] + random.choice(ODD) + content[end:]


def _replace_token(content: bytes, random: Random) -> bytes:
    """A word or number, or what stands between two, becomes something odd."""
    start, _ = _span(content, random, 1)
    end = start
    while start > 0 and content[start - 1 : start].isalnum():
        start -= 1
    while end < len(content) and content[end : end + 1].isalnum():
        end += 1
    return content[:start] + random.choice(ODD) + content[end:]


def _flip(content: bytes, random: Random) -> bytes:
    if not content:
        return content
    place = random.randrange(len(content))
    return content[:place] + bytes([random.randrange(256)]) + content[place + 1 :]


def _on_lines(change: Callable[[list[bytes], Random], None]) -> Callable[[bytes, Random], bytes]:
    def changed(content: bytes, random: Random) -> bytes:
        lines = content.splitlines(keepends=True)
        if lines:
            change(lines, random)
        return b"".join(lines)

    return changed


def _drop_line(lines: list[bytes], random: Random) -> None:
    lines.pop(random.randrange(len(lines)))


def _repeat_line(lines: list[bytes], random: Random) -> None:
    lines.insert(random.randrange(len(lines) + 1), random.choice(lines))


def _shuffle_line(lines: list[bytes], random: Random) -> None:
    place = random.randrange(len(lines))
    symbols = list(lines[place])
    random.shuffle(symbols)
    lines[place] = bytes(symbols)


def _swap_lines(lines: list[bytes], random: Random) -> None:
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _blank_line(lines: list[bytes], random: Random) -> None:
    lines.insert(random.randrange(len(lines) + 1), random.choice((b"\n", b" \t\r\n", b"\r\n")))


_MISHAPS = (
    *(_lose, _cut, _repeat, _insert, _insert, _replace_token, _replace_token, _flip),
    *map(_on_lines, (_drop_line, _repeat_line, _shuffle_line, _swap_lines, _blank_line)),
)
