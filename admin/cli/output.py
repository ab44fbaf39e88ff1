"""Output formats: aligned columns, the columns of Kafka's tools, JSON, YAML. Pure functions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from admin.capabilities.moves import PartitionError
    from admin.capabilities.schema import Result

T = TypeVar("T")

Json: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | bool | None
Columns: TypeAlias = Mapping[str, Callable[[T], object]]
"""The columns of a table: each title with the function that returns the cell of a row."""


def columns(rows: Iterable[T], cells: Columns[T]) -> str:
    """A table of `rows` with a line of titles; no trailing spaces."""
    return "\n".join("  ".join(line).rstrip() for line in _aligned(rows, cells))


def kafka_columns(rows: Iterable[T], cells: Columns[T]) -> str:
    """The same as Kafka's tools print it: each cell is padded and followed by a tab."""
    return "\n".join("".join(f"{cell}\t" for cell in line) for line in _aligned(rows, cells))


def _aligned(rows: Iterable[T], cells: Columns[T]) -> Iterator[list[str]]:
    """The lines of a table, all cells of a column padded to the same width."""
    lines = [list(cells), *([str(cell(row)) for cell in cells.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]


def labelled(rows: Iterable[tuple[str, object]], *, width: int = 24) -> str:
    """A line for each value behind its label; values begin in one column, as in Kafka's tool."""
    return "\n".join(f"{label + ':':<{width}}{value}" for label, value in rows)


def ids(values: Iterable[int]) -> str:
    """The ids in a cell of a table."""
    return ",".join(map(str, values)) or "-"


def named(brokers: Sequence[int]) -> str:
    """The subject of a sentence about brokers."""
    return f"{'Brokers' if len(brokers) > 1 else 'Broker'} {', '.join(map(str, brokers))}"


def and_more(count: int) -> list[str]:
    """The last line of a list that leaves out `count` entries, if any."""
    return [f"and {count} more"] if count > 0 else []


def refused_parts(results: "Iterable[Result]") -> Iterator[str]:
    """The errors of the parts of a request that were refused."""
    for each in results:
        if each.kafka_error_code:
            yield f"Error: {each.message or each.kafka_error}"


def refused_partitions(named: "Sequence[PartitionError]", total: int) -> Iterator[str]:
    """The errors of partitions, of which the answer names some."""
    for each in named:
        partition = "" if each.partition is None else f"{each.id}: "
        yield f"Error: {partition}{each.message or each.kafka_error}"
    yield from and_more(total - len(named))


def as_json(value: Json) -> str:
    """Return `value` as indented JSON, keys in the given order."""
    return json.dumps(value, indent=2)


def as_yaml(value: Json) -> str:
    """Return `value` as block-style YAML; strings are quoted as in JSON."""
    return "\n".join(_yaml_lines(value))


def _yaml_lines(value: Json) -> Iterator[str]:
    match value:
        case Mapping() if value:
            for key, item in value.items():
                yield from _yaml_entry(key, item)
        case list() | tuple() if value:
            for item in value:
                first, *rest = _yaml_lines(item)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
        case _:
            yield json.dumps(value)


def _yaml_entry(key: str, item: Json) -> Iterator[str]:
    if not isinstance(item, Mapping | list | tuple) or not item:
        yield f"{key}: {json.dumps(item)}"
        return
    yield f"{key}:"
    yield from (f"  {line}" for line in _yaml_lines(item))
