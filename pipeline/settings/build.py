"""From a composed configuration to `Settings`."""

import dataclasses
import difflib
import functools
import math
import typing
from collections.abc import Mapping
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline.settings.root import Settings
from simulator.checks import check


def build_settings(values: Mapping[str, Any]) -> Settings:
    """The settings that the nested values say, typed and checked.

    Raises ValueError with the full key for an unknown key, a wrong type, a number that is not
    finite, or a broken rule.
    """
    return _build(Settings, values, "")


def _build(schema: Any, values: Any, key: str) -> Any:
    """An object of the dataclass `schema`; sections inside it are built first."""
    check(isinstance(values, Mapping), key, values, "must be a section with keys")
    fields = {field.name: field for field in dataclasses.fields(schema)}
    for name in values:
        if name not in fields:
            raise ValueError(_unknown(_join(key, name), values[name], name, list(fields)))
    hints = typing.get_type_hints(schema)
    sections = [name for name in fields if _holds_sections(hints[name], fields[name])]
    plain = [name for name in fields if name not in sections]
    arguments = _plain_values(schema, plain, {n: values[n] for n in plain if n in values}, key)
    for name in sections:
        if name in values:
            section_key = _join(key, name)
            arguments[name] = _section(hints[name], fields[name], values[name], section_key)
        elif _required(fields[name]):
            raise ValueError(f"{_join(key, name)}: must be given")
    try:
        return schema(**arguments)
    except ValueError as error:
        raise ValueError(_join(key, str(error))) from None


def _section(hint: Any, field: dataclasses.Field, values: Any, key: str) -> Any:
    if typing.get_origin(hint) is dict:
        check(isinstance(values, Mapping), key, values, "must be a section with keys")
        element = typing.get_args(hint)[1]
        return {
            name: _build(_chosen(element, field, item, _join(key, name)), item, _join(key, name))
            for name, item in values.items()
        }
    return _build(_chosen(hint, field, values, key), values, key)


def _chosen(hint: Any, field: dataclasses.Field, values: Any, key: str) -> Any:
    """The dataclass of a section: the hint, or the one that a key of the section names."""
    if "choose" not in field.metadata:
        return hint
    chooser, schemas = field.metadata["choose"]
    check(isinstance(values, Mapping), key, values, "must be a section with keys")
    choice = values.get(chooser)
    check(choice in schemas, _join(key, chooser), choice, f"must be one of {', '.join(schemas)}")
    return schemas[choice]


def _plain_values(schema: Any, names: list[str], given: dict[str, Any], key: str) -> dict[str, Any]:
    """The values of the fields that are no sections, converted by OmegaConf to their types."""
    try:
        merged = OmegaConf.merge(_twin(schema, tuple(names)), given)
    except OmegaConfBaseException as error:
        first_line = str(error).splitlines()[0]
        raise ValueError(f"{_join(key, error.full_key or '')}: {first_line}") from None
    values = typing.cast(dict[str, Any], OmegaConf.to_container(merged))
    for field in dataclasses.fields(schema):
        if field.name in names and values[field.name] == MISSING:
            if _required(field):
                raise ValueError(f"{_join(key, field.name)}: must be given")
            del values[field.name]
    return {name: _frozen(value, _join(key, name)) for name, value in values.items()}


@functools.cache
def _twin(schema: Any, names: tuple[str, ...]) -> DictConfig:
    """The types of these fields of a dataclass, as OmegaConf checks them."""
    # OmegaConf makes nested frozen dataclasses read-only and then refuses to merge into them, and
    # it knows no choice among dataclasses: so it checks each level alone, in an unfrozen twin.
    hints = typing.get_type_hints(schema)
    fields = [(name, hints[name], dataclasses.field(default=MISSING)) for name in names]
    return OmegaConf.structured(dataclasses.make_dataclass(schema.__name__, fields))


def _frozen(value: Any, key: str) -> Any:
    """The value with tuples for lists; ValueError where a number in it is not finite."""
    if isinstance(value, dict):
        return {name: _frozen(item, _join(key, str(name))) for name, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item, key) for item in value)
    if isinstance(value, float):
        check(math.isfinite(value), key, value, "must be finite")
    return value


def _holds_sections(hint: Any, field: dataclasses.Field) -> bool:
    element = typing.get_args(hint)[1] if typing.get_origin(hint) is dict else hint
    return "choose" in field.metadata or dataclasses.is_dataclass(element)


def _required(field: dataclasses.Field) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _join(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)


def _unknown(key: str, value: object, name: object, known: list[str]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it may be {', '.join(known)}"
    return f"{key} = {value!r}: no such setting; {hint}"
