"""Output formats: aligned columns, the columns of Kafka's tools, JSON, YAML. Pure functions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

Json: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | bool | None

_GAP: Final = "  "


def columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Align `rows` under `titles`; no trailing spaces."""
    lines = [list(titles), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def kafka_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Align as Kafka's tools do: every cell is padded with spaces and followed by a tab."""
    lines = [list(titles), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join(
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


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
