"""The one check of a value where it enters."""


def check(holds: bool, field: str, value: object, rule: str) -> None:
    """Raises ValueError that names the field, the value and the rule, unless the rule holds."""
    if not holds:
        raise ValueError(f"{field} = {value!r}: {rule}")
