"""What the columns of a result are made of: name, type, unit and meaning."""

from typing import NamedTuple


class Column(NamedTuple):
    """One column of a result."""

    name: str
    type: str
    """As Spark's DDL has it."""
    unit: str
    """What one is one of: `ms` is a duration, `time` a moment in ms since 1970; else empty."""
    meaning: str


class ResultTable(NamedTuple):
    """What one report says."""

    name: str
    meaning: str
    """What a row is, and of what there are rows."""
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The columns as Spark reads them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)


def ms(name: str, meaning: str) -> Column:
    """A duration."""
    return Column(name, "BIGINT", "ms", meaning)


def at(name: str, meaning: str) -> Column:
    """A moment."""
    return Column(name, "BIGINT", "time", meaning)


def count(name: str, unit: str, meaning: str) -> Column:
    """A whole number of `unit`."""
    return Column(name, "BIGINT", unit, meaning)


def number(name: str, unit: str, meaning: str) -> Column:
    """A number with a fraction."""
    return Column(name, "DOUBLE", unit, meaning)


def text(name: str, meaning: str) -> Column:
    """A text."""
    return Column(name, "STRING", "", meaning)


def id_(name: str, meaning: str) -> Column:
    """The id of a node, broker, partition or epoch."""
    return Column(name, "INT", "id", meaning)


def ids(name: str, meaning: str) -> Column:
    """Several ids, in order."""
    return Column(name, "ARRAY<INT>", "id", meaning)


def flag(name: str, meaning: str) -> Column:
    """Yes or no."""
    return Column(name, "BOOLEAN", "", meaning)
