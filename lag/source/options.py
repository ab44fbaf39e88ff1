"""The options of the data source: names, units, defaults, and filters that Spark pushes down.

Options are strings, as Spark passes them; an invalid one raises `ValueError` with its name and the
values that are allowed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from lag.source.schemas import TABLES, Table

PARTITION_BYTES: Final = 32 * 1024 * 1024
"""Of a segment that one task reads."""
PARTITION_BYTES_MIN: Final = 1024
CLOCK_SLACK_MS: Final = 60 * 60 * 1_000
"""By how much the clocks of leaders may differ, where a segment is skipped by its times."""
SETTLE_MS: Final = 200
"""For how long a batch at the end of a log that is not whole is waited for."""
CHUNK_OFFSETS: Final = 1 << 16

_STREAMED: Final = ("batches", "records", "epochs", "assignments")
_T = TypeVar("_T")


class Known(NamedTuple):
    """One option, as docs/lag.md has it."""

    name: str
    default: str
    meaning: str


KNOWN: Final = (
    Known("path", "", "the folder of `load(path)`: a log, a node, or a folder of several nodes"),
    Known("paths", "", "more of them, as a JSON list"),
    Known("table", "batches", f"which table: {', '.join(TABLES)}"),
    Known("columns", "all", "the columns wanted, separated by commas; others are not made"),
    Known("source", "all", "log, snapshot, or all"),
    Known("since", "", "rows appended by the leader at or after this time: ms since 1970, or ISO"),
    Known("until", "", "rows appended before this time, likewise"),
    Known("from_offset", "", "rows of the log from this offset on; a batch that holds it is whole"),
    Known("to_offset", "", "rows before this offset, likewise"),
    Known("partition_bytes", str(PARTITION_BYTES), "bytes of a segment that one task reads"),
    Known("clock_slack_ms", str(CLOCK_SLACK_MS), "by how much clocks of leaders may differ, ms"),
    Known("settle_ms", str(SETTLE_MS), "how long an end that is not whole is waited for, ms"),
    Known("json", "false", "the column json of records: true, few or false"),
    Known("deep", "false", "whether `problems` looks into every record, and not at batches alone"),
    Known("shares", "1", "into how many shares the table packs divides the partitions"),
    Known("chunk_offsets", "65536", "how many offsets are of one chunk of the table walk"),
    Known("push_filters", "false", "whether Spark pushes filters down; see below"),
    Known("max_bytes_per_trigger", "no limit", "bytes of each log that a stream reads at once"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    paths: tuple[str, ...]
    table: Table
    columns: tuple[str, ...]
    sources: tuple[str, ...]
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    partition_bytes: int = PARTITION_BYTES
    clock_slack_ms: int = CLOCK_SLACK_MS
    settle_ms: int = SETTLE_MS
    json: str = "false"
    deep: bool = False
    shares: int = 1
    chunk_offsets: int = CHUNK_OFFSETS
    push_filters: bool = False
    replica: str | None = None
    """The only replica that is wanted, where a filter says so."""
    max_bytes_per_trigger: int | None = None
    """Of each log, in a stream; None is "no limit"."""

    @property
    def shown(self) -> Table:
        """The table with the columns that are wanted."""
        return self.table.only(self.columns)

    def with_columns(self, columns: tuple[str, ...]) -> "Options":
        """The same with these columns, in this order; raises `ValueError`."""
        self.table.only(columns)
        return replace(self, columns=columns)


def options_of(given: Mapping[str, str]) -> Options:
    """What these options say; raises `ValueError`."""
    found = {name.lower(): value for name, value in given.items()}
    known = {each.name for each in KNOWN}
    for name in found:
        if name not in known:
            raise ValueError(f"there is no option {name!r}; there are {', '.join(sorted(known))}")
    table = TABLES[_one_of(found, "table", "batches", tuple(TABLES))]
    columns = _names(found.get("columns", "")) or table.column_names
    table.only(columns)
    source = _one_of(found, "source", "all", ("log", "snapshot", "all"))
    return Options(
        paths=_paths(found),
        table=table,
        columns=columns,
        sources=("log", "snapshot") if source == "all" else (source,),
        since_ms=_read(found, "since", _time_ms),
        until_ms=_read(found, "until", _time_ms),
        from_offset=_read(found, "from_offset", _natural),
        to_offset=_read(found, "to_offset", _natural),
        partition_bytes=_partition_bytes(found),
        clock_slack_ms=_number(found, "clock_slack_ms", CLOCK_SLACK_MS),
        settle_ms=_number(found, "settle_ms", SETTLE_MS),
        json=_one_of(found, "json", "false", ("true", "few", "false")),
        deep=_one_of(found, "deep", "false", ("true", "false")) == "true",
        chunk_offsets=max(1, _number(found, "chunk_offsets", CHUNK_OFFSETS)),
        shares=max(1, _number(found, "shares", 1)),
        push_filters=_one_of(found, "push_filters", "false", ("true", "false")) == "true",
        max_bytes_per_trigger=_read(found, "max_bytes_per_trigger", _natural),
    )


def check_streamed(options: Options) -> None:
    """Raise `ValueError` for a table that is no stream: it says what is there as a whole."""
    if options.table.name not in _STREAMED:
        tables = ", ".join(_STREAMED)
        raise ValueError(f"the table {options.table.name} is not streamed; {tables} are")


def _paths(found: Mapping[str, str]) -> tuple[str, ...]:
    paths = [found["path"]] if found.get("path") else []
    if found.get("paths"):
        try:
            more = json.loads(found["paths"])
        except ValueError as error:
            raise ValueError(f"the option paths is no JSON: {error}") from error
        if not isinstance(more, list) or not all(isinstance(each, str) for each in more):
            raise ValueError('the option paths is a JSON list of strings, as ["/a", "/b"]')
        paths += more
    if not paths:
        raise ValueError("no folder is named: load(path), or the option paths")
    return tuple(dict.fromkeys(path.removeprefix("file:") for path in paths))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _one_of(found: Mapping[str, str], name: str, default: str, allowed: Sequence[str]) -> str:
    value = found.get(name, default).lower()
    if value not in allowed:
        raise ValueError(f"the option {name} is {value!r}; it can be {', '.join(allowed)}")
    return value


def _read(found: Mapping[str, str], name: str, parse: Callable[[str], _T]) -> _T | None:
    text = found.get(name, "").strip()
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"the option {name} is {text!r}: {error}") from error


def _number(found: Mapping[str, str], name: str, default: int) -> int:
    number = _read(found, name, _natural)
    return default if number is None else number


def _partition_bytes(found: Mapping[str, str]) -> int:
    number = _number(found, "partition_bytes", PARTITION_BYTES)
    if number < PARTITION_BYTES_MIN:
        raise ValueError(f"the option partition_bytes is {number}, at least {PARTITION_BYTES_MIN}")
    return number


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("expected a number from 0 up")
    return int(text)


def _time_ms(text: str) -> int:
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("expected ms since 1970, or a time as 2026-11-22T14:30:00Z") from error
    # A time without a zone is UTC, as every time that is shown here.
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)


def options_as_markdown() -> str:
    """The options as they appear in docs/lag.md; a test keeps the two identical."""
    rows = [f"| `{name}` | {default or '-'} | {meaning} |" for name, default, meaning in KNOWN]
    return "\n".join(["| option | without it | meaning |", "| --- | --- | --- |", *rows]) + "\n"


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
