"""How the lines of an access log are taken apart where its user chose the layout.

A layout is either a format string, of which a pattern for the lines is made, or a choice of keys of
JSON lines. Both give the same named cells, so that one staging query serves both.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pipeline.sources.intake import Intake
from simulator.checks import check

Names = Mapping[str, tuple[str, ...]]  # of each field: what the format may call it


class Pattern(NamedTuple):
    """How a text line is taken apart."""

    pattern: str  # RE2, anchored; its groups are `names`
    names: list[str]  # `whole`, which is empty where the line does not fit, and every field
    present: frozenset[str]  # the fields that the format has


class Layout(NamedTuple):
    """How a line is taken apart: the parameters of the staging query."""

    pattern: str
    names: list[str]
    json_lines: bool  # lines that begin with a brace are JSON objects
    pointers: list[str]  # the JSON pointer of every field, in the order of the reader's list

    @classmethod
    def of(cls, text: Pattern, fields: Names, chosen: Mapping[str, str], json: bool) -> "Layout":
        """A layout; a JSON key is the chosen one, or is called as the field."""
        pointers = [pointer(chosen.get(field, field)) for field in fields]
        return cls(text.pattern, text.names, json, pointers)


def pattern_of(
    tokens: Iterable[tuple[str, str | None]],
    fields: Names,
    shape: Callable[[str, bool], str],
) -> Pattern:
    """The pattern of a line.

    A token is the text before a variable and the variable, None at the end of the line.
    `shape` is the pattern of a variable's values, given whether it stands in quotes. A field that
    the format lacks has an empty group.
    """
    pattern, names = "", ["whole"]
    for literal, variable in tokens:
        pattern += re.escape(literal)
        if variable is None:
            continue
        body = shape(variable, literal.endswith('"'))
        field = next((f for f, called in fields.items() if variable in called), None)
        if field is None or field in names:
            pattern += f"(?:{body})"
        else:
            names.append(field)
            pattern += f"({body})"
    missing = [field for field in fields if field not in names]
    present = frozenset(names[1:])
    return Pattern(f"^({pattern}){'()' * len(missing)}$", names + missing, present)


def split_format(key: str, layout: str, variable: re.Pattern[str]) -> list[tuple[str, str | None]]:
    """The tokens of a format string; ValueError where two variables have nothing between them.

    The first group of `variable` that took part is the variable's name.
    """
    tokens: list[tuple[str, str | None]] = []
    end = 0
    for match in variable.finditer(layout):
        literal = layout[end : match.start()]
        rule = f"nothing stands between two variables before {match.group()!r}"
        check(bool(literal) or not tokens, key, layout, rule)
        tokens.append((literal, next(group for group in match.groups() if group)))
        end = match.end()
    check(bool(tokens), key, layout, "names no variable")
    return [*tokens, (layout[end:], None)]


def chosen_fields(intake: Intake, fields: Names) -> dict[str, str]:
    """The option `fields`: what the log calls some of the fields; ValueError for an unknown one."""
    chosen: Any = intake.option("fields") or {}
    key = intake.key("options.fields")
    check(isinstance(chosen, Mapping), key, chosen, "must be a section of field: name in the log")
    for field, name in chosen.items():
        rule = f"must be one of {', '.join(fields)}"
        check(field in fields, f"{key}.{field}", name, rule)
        check(isinstance(name, str) and name != "", f"{key}.{field}", name, "must be a text")
    return dict(chosen)


def path_pattern(intake: Intake) -> str:
    """The option `paths` as a pattern: the beginnings of the paths of requests; all if null."""
    paths: Any = intake.option("paths")
    if paths is None:
        return "^"
    texts = isinstance(paths, list | tuple) and all(isinstance(path, str) for path in paths)
    check(texts and len(paths) > 0, intake.key("options.paths"), paths, "must be a list of texts")
    return f"^(?:{'|'.join(re.escape(path) for path in paths)})"


def text_option(intake: Intake, name: str) -> str | None:
    """An option that is a text or null."""
    value: Any = intake.option(name)
    holds = value is None or (isinstance(value, str) and value != "")
    check(holds, intake.key(f"options.{name}"), value, "must be a text or null")
    return value


def pointer(key: str) -> str:
    """The JSON pointer of a key of the object; a key that begins with / is a pointer already."""
    return key if key.startswith("/") else "/" + key.replace("~", "~0").replace("/", "~1")
