"""Rows of text as people and programs read them: aligned columns, Kafka's own, JSON, YAML.

Pure functions; nothing here prints.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

Json: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | bool | None

_GAP: Final = "  "


def columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """`rows` under `titles`, each column as wide as its widest cell, no space at a line's end."""
    lines = [list(titles), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def kafka_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The same as Kafka's tools print it: every cell filled up with spaces and closed by a tab."""
    lines = [list(titles), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join(
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def as_json(value: Json) -> str:
    """`value` as JSON over several lines, keys in the order given."""
    return json.dumps(value, indent=2)


def as_yaml(value: Json) -> str:
    """`value` as block-style YAML; texts are in double quotes, where YAML and JSON agree."""
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
