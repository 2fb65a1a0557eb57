"""What the configuration says of the requests of a source, as columns of SQL."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class RequestRules(NamedTuple):
    """What holds for all requests of a source, whatever its format."""

    max_response_us: int  # a longer response is a broken record
    request_class: str | None = None  # of every request; None: as the log says
    classes: tuple[tuple[str, str], ...] = ()  # (a name in the log, the class that it is)
    dequantize_us: int = 0  # arrivals are spread uniformly over so much; 0: left as they are
    seed: int = 0  # of that spread


def request_columns(
    rules: RequestRules,
    set_variables: Callable[[Mapping[str, Any]], None],
    instants: Mapping[str, str],
) -> dict[str, str]:
    """The columns that the rules give, as expressions over the checked requests.

    `instants` are the expressions of times without the rules.
    """
    columns = {
        "request_class": _class(rules, set_variables),
        "queue_origin": _origin("dispatch_us IS NOT NULL"),
        "service_origin": _origin("dispatch_us IS NOT NULL AND departure_us IS NOT NULL"),
    }
    if rules.dequantize_us:
        set_variables({"dequantize_us": rules.dequantize_us, "spread_seed": rules.seed})
        spread = (
            "(hash(line, getvariable('file'), getvariable('spread_seed')) "
            "% getvariable('dequantize_us')::UBIGINT)::BIGINT"
        )
        for name, expression in instants.items():
            if name.endswith("_us"):
                columns[name] = f"({expression} + {spread})"
    return columns


def _class(rules: RequestRules, set_variables: Callable[[Mapping[str, Any]], None]) -> str:
    if rules.request_class is not None:
        set_variables({"one_class": rules.request_class})
        return "getvariable('one_class')"
    if not rules.classes:
        return "request_class"
    logged, named = zip(*rules.classes, strict=True)
    set_variables({"logged_classes": list(logged), "named_classes": list(named)})
    place = "list_position(getvariable('logged_classes'), request_class)"
    return f"coalesce(getvariable('named_classes')[{place}], request_class)"


def _origin(present: str) -> str:
    return f"CASE WHEN {present} THEN 'measured' ELSE 'absent' END"


def derived_origins(derived: list[str]) -> dict[str, str]:
    """The origins of what the reader says it computes, as expressions over the kept requests."""
    return {
        f"{fact}_origin": f"CASE WHEN {fact}_origin = 'measured' THEN 'derived' "
        f"ELSE {fact}_origin END"
        for fact in ("queue", "service")
        if fact in derived
    }
