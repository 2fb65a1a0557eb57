"""The checks of a value where it enters."""

import math
from collections.abc import Mapping
from numbers import Integral


def check(holds: bool, field: str, value: object, rule: str) -> None:
    """Raises ValueError that names the field, the value and the rule, unless the rule holds."""
    if not holds:
        raise ValueError(f"{field} = {value!r}: {rule}")


def check_whole(field: str, value: int, low: int) -> None:
    """Raises ValueError unless the value is a whole number of at least `low`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    check(whole and value >= low, field, value, f"must be a whole number, at least {low}")


def checked_number(
    field: str, value: object, low: float = 0.0, high: float = math.inf, above: bool = False
) -> float:
    """`value` as a float; ValueError unless it is finite, at most `high` and at least `low`.

    With `above` it must be above `low`.
    """
    holds = isinstance(value, int | float) and not isinstance(value, bool)
    holds = holds and (low < value if above else low <= value)  # type: ignore[operator]
    holds = holds and value <= high and value < math.inf  # type: ignore[operator]
    most = "" if high == math.inf else f", at most {high:g}"
    least = f"{'above' if above else 'at least'} {low:g}"
    check(holds, field, value, f"must be finite and {least}{most}")
    return float(value)  # type: ignore[arg-type]


def check_section(field: str, value: object) -> None:
    """Raises ValueError unless there is a value for each of some names."""
    check(isinstance(value, Mapping), field, value, "must be a section with a value for each name")
