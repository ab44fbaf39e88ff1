"""Output formats: aligned columns, the columns of Kafka's tools, JSON, YAML.

The functions are pure, but for the width of the terminal.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from admin.capabilities.moves import PartitionError
    from admin.capabilities.schema import Result
    from admin.client.channels import Response

T = TypeVar("T")

Json: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | bool | None
Columns: TypeAlias = Mapping[str, Callable[[T], object]]
"""The columns of a table: each title with the function that returns the cell of a row."""


def columns(rows: Iterable[T], cells: Columns[T], width: int | None = None) -> str:
    """A table of `rows` with a line of titles; no trailing spaces.

    The long cells of one that is wider than `width`, by default that of the terminal, go on in
    further lines, behind a comma or a space. The lines stay longer where no cell has one.
    """
    lines = _texts(rows, cells)
    widths = _fitted(lines, _terminal_columns() if width is None else width)
    return "\n".join(
        "  ".join(_padded(part, widths)).rstrip()
        for line in lines
        for part in zip_longest(
            *(_wrapped(cell, each) for cell, each in zip(line, widths, strict=True)), fillvalue=""
        )
    )


def kafka_columns(rows: Iterable[T], cells: Columns[T]) -> str:
    """The same as Kafka's tools print it: each cell is padded and followed by a tab."""
    lines = _texts(rows, cells)
    widths = _widths(lines)
    return "\n".join("".join(f"{cell}\t" for cell in _padded(line, widths)) for line in lines)


def _texts(rows: Iterable[T], cells: Columns[T]) -> list[list[str]]:
    return [list(cells), *([str(cell(row)) for cell in cells.values()] for row in rows)]


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _padded(line: Iterable[str], widths: Iterable[int]) -> Iterator[str]:
    return (cell.ljust(width) for cell, width in zip(line, widths, strict=True))


def _terminal_columns() -> int:
    """The columns of the terminal, or COLUMNS; 0 without a bound, as in a pipe."""
    return get_terminal_size((0, 0)).columns


def _fitted(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """The widths of the columns: the widest are made narrower, as far as their cells can be."""
    widths = _widths(lines)
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    if width == 0 or excess <= 0:
        return widths
    narrowest = [
        max(len(part) for cell in column for part in _parts(cell))
        for column in zip(*lines, strict=True)
    ]
    for _ in range(excess):
        slack = [at for at, each in enumerate(widths) if each > narrowest[at]]
        if not slack:
            break
        widths[max(slack, key=widths.__getitem__)] -= 1
    return widths


def _parts(cell: str) -> list[str]:
    """The parts of a cell that stay whole, each with the comma or space behind it."""
    return re.findall(r"[^ ,]*[ ,]|[^ ,]+", cell) or [""]


def _wrapped(cell: str, width: int) -> list[str]:
    """The lines of a cell of this width, which none of its parts exceeds."""
    if len(cell) <= width:
        return [cell]
    lines = [""]
    for part in _parts(cell):
        if len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


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


def as_of_offset(response: "Response[Any]") -> dict[str, int]:
    """The field of the offset that an answer is as of, unless it is unknown: brokers tell none."""
    return {} if response.as_of is None else {"as_of_offset": response.as_of}


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
