"""Values of kio's classes, made by hand from plain ints and strings."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from quorum.protocol import shape

T = TypeVar("T")


def make(schema: type[T], /, **values: Any) -> T:
    """A kio value from plain ints and strings, which its annotations would not let through."""
    return schema(**values)


def make_known(schema: type[Any], /, **values: Any) -> Any:
    """As `make`, without those of `values` that this version of the schema has no field for."""
    names = {field.name for field in fields(schema)}
    return schema(**{name: value for name, value in values.items() if name in names})


def nested(schema: type[Any], name: str) -> type[Any]:
    """The class `name` of a structure inside `schema`."""
    return _structures(schema)[name]  # type: ignore[arg-type]  # classes are hashable


@cache
def _structures(schema: type[Any]) -> Mapping[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for each in fields(schema):
        inner, _, _ = shape.type_of(each)
        if isinstance(inner, type) and is_dataclass(inner):
            found |= {**_structures(inner), inner.__name__: inner}
    return found
