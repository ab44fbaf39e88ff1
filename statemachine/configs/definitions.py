"""Definitions of configurations: name, type and valid values.

This module has the type of a definition and its checks, and no configuration itself.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
SHORT_MAX: Final = 2**15 - 1

# Not `int()` and `float()`, which also take underscores and other scripts' digits.
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_COMMA: Final = re.compile(r"\s*,\s*")
_THROTTLED_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")


class ConfigType(IntEnum):
    """The types in DescribeConfigs, with Kafka's numbers (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Definition(Struct, frozen=True, gc=False):
    """One configuration."""

    name: str
    type: ConfigType
    default: str | None
    """The value in force if none is set; None is "no value"."""
    documentation: str
    expected: str = "any text"
    """The valid values in words."""
    is_valid: Callable[[str], object] | None = None
    """The check of a value without the blanks around it; None if any text is valid."""

    def refusal(self, value: str) -> str | None:
        """Return the reason to refuse the value, or None; surrounding blanks are ignored."""
        if self.is_valid is None or self.is_valid(value.strip()):
            return None
        return f"Invalid value {value} for configuration {self.name}: it must be {self.expected}"


def table(*definitions: Definition) -> Mapping[str, Definition]:
    """Return the definitions by name."""
    by_name = {each.name: each for each in definitions}
    assert len(by_name) == len(definitions), "two configurations have the same name"
    return MappingProxyType(by_name)


def parts(value: str) -> list[str]:
    """Return the elements of a list value, without surrounding blanks and without empty ones."""
    return [part for part in _COMMA.split(value.strip()) if part]


# One function for each type; it takes the name, the default, a description, and bounds.


def integer(
    name: str, default: int | None, doc: str, lowest: int = -INT_MAX - 1, highest: int = INT_MAX
) -> Definition:
    """A whole number of 32 bits."""
    return _whole(ConfigType.INT, name, default, doc, lowest, highest)


def short(name: str, default: int, doc: str) -> Definition:
    """A whole number of 16 bits."""
    return _whole(ConfigType.SHORT, name, default, doc, -SHORT_MAX - 1, SHORT_MAX)


def long(
    name: str, default: int | None, doc: str, lowest: int = -LONG_MAX - 1, highest: int = LONG_MAX
) -> Definition:
    """A whole number of 64 bits."""
    return _whole(ConfigType.LONG, name, default, doc, lowest, highest)


def _whole(
    kind: ConfigType, name: str, default: int | None, doc: str, lowest: int, highest: int
) -> Definition:
    return Definition(
        name,
        kind,
        None if default is None else str(default),
        doc,
        f"a whole number from {lowest} to {highest}",
        lambda value: WHOLE_NUMBER.fullmatch(value) and lowest <= int(value) <= highest,
    )


def boolean(name: str, default: bool, doc: str) -> Definition:
    """True or false, in any case."""
    return Definition(
        name,
        ConfigType.BOOLEAN,
        str(default).lower(),
        doc,
        "true or false",
        lambda value: value.lower() in ("true", "false"),
    )


def number(name: str, default: str, doc: str) -> Definition:
    """Any number."""
    expected = "a number like 0.5 or 1e6"
    return Definition(name, ConfigType.DOUBLE, default, doc, expected, _DECIMAL.fullmatch)


def ratio(name: str, default: str, doc: str) -> Definition:
    """A number from 0 to 1."""
    return Definition(
        name,
        ConfigType.DOUBLE,
        default,
        doc,
        "a number from 0 to 1",
        lambda value: _DECIMAL.fullmatch(value) and 0 <= float(value) <= 1,
    )


def text(name: str, default: str | None, doc: str) -> Definition:
    """Any text."""
    return Definition(name, ConfigType.STRING, default, doc)


def class_name(name: str, default: str | None, doc: str) -> Definition:
    """The name of a Java class; only the broker can tell whether it has it."""
    return Definition(name, ConfigType.CLASS, default, doc)


def password(name: str, doc: str) -> Definition:
    """Define a value that is never shown."""
    return Definition(name, ConfigType.PASSWORD, None, doc)


def one_of(name: str, default: str, doc: str, allowed: Iterable[str]) -> Definition:
    """One of a few words."""
    words = tuple(allowed)
    expected = f"one of {', '.join(words)}"
    return Definition(name, ConfigType.STRING, default, doc, expected, words.__contains__)


def listed(name: str, default: str, doc: str) -> Definition:
    """Any words, with commas between them."""
    expected = "words with commas, none of them empty"
    return Definition(name, ConfigType.LIST, default, doc, expected, _has_no_gap)


def _has_no_gap(value: str) -> bool:
    return not value or all(_COMMA.split(value))


def some_of(name: str, default: str, doc: str, allowed: Iterable[str]) -> Definition:
    """Any of a few words, with commas between them, or nothing at all."""
    words = tuple(allowed)
    return Definition(
        name,
        ConfigType.LIST,
        default,
        doc,
        f"one or more of {', '.join(words)}, with commas, or nothing",
        lambda value: _has_no_gap(value) and all(part in words for part in parts(value)),
    )


def throttled_replicas(name: str, doc: str) -> Definition:
    """Replicas to be throttled: partition:broker pairs, or * for all of them (KIP-73)."""
    return Definition(
        name,
        ConfigType.LIST,
        "",
        doc,
        "* or partition:broker pairs with commas",
        lambda value: parts(value) == ["*"] or all(map(_THROTTLED_REPLICA.fullmatch, parts(value))),
    )
