"""What Spark is about to filter, as bounds that skip segments and batches before they are read.

Only what can be said of whole segments or batches is taken; Spark applies every filter once more to
the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lag.source.options import Options

_TIMES: Final[Mapping[str, str]] = {"batches": "leader_append_ms"}
"""Tables whose rows have the times of batches; a record may be older than its batch."""
_FIRST: Final = {"batches": "base_offset", "records": "offset"}
_LAST: Final = {"batches": "last_offset", "records": "offset"}

_Change = Callable[[Options, Any], Options]


def narrowed(options: Options, filters: Sequence[Any]) -> Options:
    """With the bounds that these filters (`pyspark.sql.datasource.Filter`) are."""
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        value = getattr(each, "value", None)
        if len(attribute) != 1 or value is None:
            continue
        options = _narrowed(options, type(each).__name__, attribute[0], value)
    return options


def _narrowed(options: Options, kind: str, column: str, value: Any) -> Options:
    table = options.table.name
    if column == "source" and kind == "EqualTo":
        return replace(options, sources=tuple(s for s in options.sources if s == value))
    if column == "replica" and kind == "EqualTo":
        kept = value if options.replica in (None, value) else ""
        return replace(options, replica=kept)
    if type(value) is not int:
        return options
    if column == _TIMES.get(table):
        return _times(options, kind, value)
    # A snapshot has offsets of its own: bounds leave its rows alone.
    if column == _LAST.get(table) and kind in ("GreaterThan", "GreaterThanOrEqual", "EqualTo"):
        first = value + (kind == "GreaterThan")
        options = replace(options, from_offset=max(first, options.from_offset or 0))
    if column == _FIRST.get(table) and kind in ("LessThan", "LessThanOrEqual", "EqualTo"):
        behind = value + (kind != "LessThan")
        known = options.to_offset
        options = replace(options, to_offset=behind if known is None else min(behind, known))
    return options


def _times(options: Options, kind: str, value: int) -> Options:
    since, until = options.since_ms, options.until_ms
    if kind in ("GreaterThan", "GreaterThanOrEqual", "EqualTo"):
        since = value if since is None else max(value, since)
    if kind in ("LessThan", "LessThanOrEqual", "EqualTo"):
        until = value + 1 if until is None else min(value + 1, until)
    return replace(options, since_ms=since, until_ms=until)
