"""The checks of a value where it enters."""

from numbers import Integral


def check(holds: bool, field: str, value: object, rule: str) -> None:
    """Raises ValueError that names the field, the value and the rule, unless the rule holds."""
    if not holds:
        raise ValueError(f"{field} = {value!r}: {rule}")


def check_whole(field: str, value: int, low: int) -> None:
    """Raises ValueError unless the value is a whole number of at least `low`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    check(whole and value >= low, field, value, f"must be a whole number, at least {low}")
