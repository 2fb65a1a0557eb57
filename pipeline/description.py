"""Scenarios and workloads from nested plain values, such as a YAML file holds.

A section has the fields of its dataclass in `simulator`, under their own names; unknown ones are
refused. Three things are shorter: what there is for each request class may be given by name; equal
replicas are written once, with `count`; fields that a decision kind or a service model makes
meaningless may be left out.
"""

import dataclasses
import difflib
import math
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Any, NamedTuple, cast

from pipeline.traces import AzureFunctionsTrace, AzureLlmTrace, Trace
from simulator.checks import check
from simulator.replica import Replica, TokenModel
from simulator.scenario import DecisionKind, RequestClass, Scenario
from simulator.sizes import Constant, Distribution, Empirical, Lognormal, Quantiles
from simulator.traffic import (
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
    SquareBurstWorkload,
)
from simulator.workload import Workload

# What stands for a protocol: the key `kind` of the section names one.
KINDS: dict[Any, dict[str, type]] = {
    Workload: {
        "poisson": PoissonWorkload,
        "square_burst": SquareBurstWorkload,
        "markov_modulated": MarkovModulatedWorkload,
        "renewal": RenewalWorkload,
        "diurnal": DiurnalWorkload,
        "azure_llm": AzureLlmTrace,  # traces are workloads once they are read
        "azure_functions": AzureFunctionsTrace,
    },
    Distribution: {
        "constant": Constant,
        "lognormal": Lognormal,
        "empirical": Empirical,
        "quantiles": Quantiles,
    },
}


_ENUM_REPR = re.compile(r"<\w+\.\w+: ('\w+')>")  # as <QueuePlace.CENTRAL: 'central'>


def meant(name: object, known: Iterable[str]) -> str | None:
    """The known name that comes closest to one that is not, whatever its case; None: none does."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """`did you mean X? ` for a message that goes on; nothing where no known name is near."""
    near = meant(name, known)
    return f"did you mean {near}? " if near else ""


class _Place(NamedTuple):
    """Where in the description a value stands."""

    key: str
    class_names: tuple[str, ...]  # whose values may be given by name

    def of(self, name: object) -> "_Place":
        return self._replace(key=f"{self.key}.{name}" if self.key else str(name))


def scenario_from(description: Mapping[str, Any], key: str = "scenario") -> Scenario:
    """The scenario of a description; ValueError naming the field that is at fault.

    `request_classes` maps names to the fields of `RequestClass`; `replicas` lists sections.
    """
    place = _Place(key, ())
    given = _section(description, place, [field.name for field in dataclasses.fields(Scenario)])
    if "decision" in given:  # first, as it says which of the others are needed
        given["decision"] = _value(DecisionKind, given["decision"], place.of("decision"))
    for name in ("request_classes", "replicas"):
        _check_given(name, given, place)
    classes = _request_classes(given.pop("request_classes"), place.of("request_classes"))
    place = place._replace(class_names=tuple(of_class.name for of_class in classes))
    replicas = _replicas(given.pop("replicas"), place.of("replicas"))
    if given.get("decision") in (DecisionKind.ROUTE, DecisionKind.TUNE):
        given.setdefault("batch_sizes", [1])  # the menu of `dispatch`, which there is none of
    return _built(Scenario, given, place, request_classes=classes, replicas=replicas)


def workload_from(
    description: Mapping[str, Any], class_names: tuple[str, ...], key: str = "workload"
) -> Workload:
    """The workload of a description for these classes; ValueError naming the field at fault.

    `kind` says which of `simulator.traffic` it is, or which trace of `pipeline.traces`.
    """
    workload = _value(Workload, description, _Place(key, class_names))
    if isinstance(workload, Trace):
        told = f"has one request class, and the scenario {', '.join(class_names)}"
        check(len(class_names) == 1, f"{key}.file", workload.file, told)
        return _read(workload, key)
    rates: Any = getattr(workload, "low_rps", None) or workload.rate_rps
    if isinstance(rates, float):  # of one stream with a mix
        rates = workload.mix.probability
    by_phase = isinstance(rates[0], tuple)
    count = len(rates[0] if by_phase else rates)
    check(count == len(class_names), key, rates, f"needs the classes {', '.join(class_names)}")
    return cast(Workload, workload)


def _read(trace: Trace, key: str) -> Workload:
    try:
        return trace.read()
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _request_classes(given: Any, place: _Place) -> tuple[RequestClass, ...]:
    check(isinstance(given, Mapping), place.key, given, "must be a section with a key per class")
    classes = []
    for name, fields in given.items():
        known = [field.name for field in dataclasses.fields(RequestClass)][1:]
        section = _section(fields, place.of(name), known)
        classes.append(_built(RequestClass, section, place.of(name), name=str(name)))
    return tuple(classes)


def _replicas(given: Any, place: _Place) -> tuple[Replica, ...]:
    known = ["count", *(field.name for field in dataclasses.fields(Replica))]
    replicas: list[Replica] = []
    for number, item in enumerate(_items(given, place)):
        section = _section(item, place.of(number), known)
        count = _value(int, section.pop("count", 1), place.of(number).of("count"))
        check(count >= 1, place.of(number).of("count").key, count, "must be at least 1")
        nothing = [0.0] * len(place.class_names)
        section.setdefault("noise_cv", nothing)
        tokens = section.get("tokens")
        if tokens is not None:
            tokens = _value(TokenModel, tokens, place.of(number).of("tokens"))
            section.pop("tokens")
            unused = {"alpha_s": nothing, "beta_s": nothing, "max_batch_size": tokens.max_num_seqs}
            section = {**unused, **section}
        replica = _built(Replica, section, place.of(number), tokens=tokens)
        replicas += [replica] * count
    return tuple(replicas)


def _value(hint: Any, value: Any, place: _Place) -> Any:
    """`value` as the type that the hint names; ValueError where it is another."""
    if hint in KINDS:
        return _chosen(hint, value, place)
    if typing.get_origin(hint) in (typing.Union, UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return None if value is None else _value(kinds[0], value, place)
    if typing.get_origin(hint) is tuple:
        return _tuple(typing.get_args(hint), value, place)
    if dataclasses.is_dataclass(hint):
        known = [field.name for field in dataclasses.fields(hint)]
        return _built(cast(type, hint), _section(value, place, known), place)
    if issubclass(hint, Enum):
        choices = [choice.value for choice in hint]
        told = f"{did_you_mean(value, choices)}must be one of {', '.join(choices)}"
        check(value in choices, place.key, value, told)
        return hint(value)
    return _plain(hint, value, place)


def _plain(hint: type, value: Any, place: _Place) -> Any:
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        check(number and not math.isnan(value), place.key, value, "must be a number")
        return float(value)
    kind = {bool: "true or false", int: "a whole number", str: "a text"}[hint]
    check(type(value) is hint, place.key, value, f"must be {kind}")
    return value


def _tuple(hints: tuple[Any, ...], value: Any, place: _Place) -> tuple[Any, ...]:
    if len(hints) == 2 and hints[1] is Ellipsis:
        if isinstance(value, Mapping):
            value = _by_class(value, place)
        items = _items(value, place)
        return tuple(_value(hints[0], item, place.of(n)) for n, item in enumerate(items))
    items = _items(value, place)
    check(len(items) == len(hints), place.key, list(items), f"needs {len(hints)} values")
    return tuple(
        _value(hint, item, place.of(n))
        for n, (hint, item) in enumerate(zip(hints, items, strict=True))
    )


def _by_class(value: Mapping[str, Any], place: _Place) -> list[Any]:
    """The values of a mapping in the order of the request classes."""
    names = place.class_names
    rule = f"needs a list, or the classes {', '.join(names)}" if names else "must be a list"
    check(bool(names) and set(value) == set(names), place.key, dict(value), rule)
    return [value[name] for name in names]


def _items(value: Any, place: _Place) -> Sequence[Any]:
    holds = isinstance(value, Sequence) and not isinstance(value, str)
    names = ", ".join(place.class_names)
    rule = f"must be a list, or a section with the classes {names}" if names else "must be a list"
    check(holds, place.key, value, rule)
    return cast(Sequence[Any], value)


def _chosen(protocol: Any, value: Any, place: _Place) -> Any:
    kinds = KINDS[protocol]
    check(isinstance(value, Mapping), place.key, value, "must be a section with keys")
    kind = value.get("kind")
    told = f"{did_you_mean(kind, kinds)}must be one of {', '.join(kinds)}"
    check(kind in kinds, place.of("kind").key, kind, told)
    rest = {name: item for name, item in value.items() if name != "kind"}
    return _value(kinds[kind], rest, place)


def _section(value: Any, place: _Place, known: list[str]) -> dict[str, Any]:
    """The section as a dict of its own; ValueError for a key that is not known."""
    check(isinstance(value, Mapping), place.key, value, "must be a section with keys")
    for name in value:
        if name not in known:
            near = meant(name, known)
            hint = f"did you mean {near}?" if near else f"it may be {', '.join(known)}"
            check(False, place.of(name).key, value[name], f"no such field; {hint}")
    return dict(value)


def _built(schema: type, given: dict[str, Any], place: _Place, **ready: Any) -> Any:
    """An object of the dataclass, from raw values and others that are `ready`."""
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        missing = dataclasses.MISSING
        if field.default is missing and field.default_factory is missing:
            _check_given(field.name, {**given, **ready}, place)
    values = {name: _value(hints[name], item, place.of(name)) for name, item in given.items()}
    try:
        return schema(**values, **ready)
    except ValueError as error:
        # Some dataclasses begin their messages with their own name, as `view.refresh_s`.
        message = _ENUM_REPR.sub(r"\1", str(error))
        section, _, rest = message.partition(".")
        told = rest if section in place.key.split(".") else message
        raise ValueError(place.of(told).key) from None


def _check_given(name: str, given: Mapping[str, Any], place: _Place) -> None:
    if name not in given:
        raise ValueError(f"{place.of(name).key}: must be given")
