"""Checks that raise ValueError with the key, the value and the rule."""

import re

from simulator.checks import check

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")  # of a source, policy or agent: also a file name
CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")  # of a request class


def check_name(key: str, name: object, pattern: re.Pattern[str] = NAME) -> None:
    """Raises ValueError unless the name may become an identifier or a file name."""
    holds = isinstance(name, str) and pattern.fullmatch(name) is not None
    check(holds, key, name, f"a name must match {pattern.pattern}")


def check_positive(section: object, *keys: str) -> None:
    """Raises ValueError unless each attribute is None or above 0."""
    for key in keys:
        value = getattr(section, key)
        check(value is None or value > 0, key, value, "must be above 0")


def check_not_negative(section: object, *keys: str) -> None:
    """Raises ValueError unless each attribute is at least 0."""
    for key in keys:
        check(getattr(section, key) >= 0, key, getattr(section, key), "must be at least 0")


def check_share(section: object, *keys: str) -> None:
    """Raises ValueError unless each attribute is in [0, 1)."""
    for key in keys:
        value = getattr(section, key)
        check(0 <= value < 1, key, value, "must be in [0, 1)")


def check_choice(section: object, key: str, choices: tuple[str | None, ...]) -> None:
    """Raises ValueError unless the attribute is one of the choices."""
    value = getattr(section, key)
    known = ", ".join("null" if choice is None else choice for choice in choices)
    check(value in choices, key, value, f"must be one of {known}")


def check_by_class(section: object, *keys: str) -> None:
    """Raises ValueError unless each attribute maps class names to numbers of at least 0."""
    for key in keys:
        numbers = getattr(section, key)
        check(len(numbers) > 0, key, numbers, "needs at least one request class")
        for name, number in numbers.items():
            check_name(key, name, CLASS_NAME)
            check(number >= 0, f"{key}.{name}", number, "must be at least 0")
