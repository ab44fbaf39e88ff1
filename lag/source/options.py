"""The options of the data source: names, units, defaults, and filters that Spark pushes down.

Options are strings, as Spark passes them; an invalid one raises `InvalidInput` with its name and
the values that are allowed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

from lag.source.folders import absolute, check_paths
from lag.source.invalid_input import InvalidInput
from lag.source.moments import parse_time_ms
from lag.source.schemas import PUBLIC, TABLES, Column, Table
from lag.source.tasks import Pick

PARTITION_BYTES: Final = 32 * 1024 * 1024
"""The bytes of a segment per range, of which a task reads one, or several of a large read."""
PARTITION_BYTES_MIN: Final = 1024
CLOCK_SLACK_MS: Final = 60 * 60 * 1_000
"""The difference between leaders' clocks that is allowed for when segments are skipped by time."""
SETTLE_MS: Final = 200
"""The time to wait for the rest of an incomplete batch at the end of a log."""
CHUNK_OFFSETS: Final = 1 << 16

_STREAMED: Final = ("batches", "records", "epochs", "assignments", "log_data")
_T = TypeVar("_T")


class Option(NamedTuple):
    """One option, as docs/lag_tables.md has it."""

    name: str
    default: str
    meaning: str


OPTIONS: Final = (
    Option(
        "path",
        "",
        (
            "the path of `load(path)`: a log, a node, or a folder with several nodes; in a folder "
            "that every worker sees, at `s3://bucket/folder` or `hdfs://host:port/folder`"
        ),
    ),
    Option("paths", "", "more paths, as a JSON list"),
    Option(
        "missing",
        "error",
        "a path without a log is an error, or only a row of `problems`: error or report",
    ),
    Option("cluster", "", "read the logs of this cluster only, by the id in meta.properties"),
    Option("table", "batches", f"the table: {', '.join(each.name for each in PUBLIC)}"),
    Option("columns", "all", "columns to read, separated by commas; others are not computed"),
    Option("source", "all", "log, snapshot, or all"),
    Option(
        "since",
        "",
        ("rows that the leader appended at or after this time: ISO 8601, or ms since 1970"),
    ),
    Option("until", "", "rows that the leader appended before this time"),
    Option(
        "from_offset",
        "",
        ("rows of the log from this offset on, with the whole batch that contains it"),
    ),
    Option(
        "to_offset",
        "",
        ("rows of the log before this offset, with the whole batch that contains it"),
    ),
    Option("partition_bytes", str(PARTITION_BYTES), "bytes of a segment per range"),
    Option(
        "clock_slack_ms",
        str(CLOCK_SLACK_MS),
        "maximum difference between the clocks of leaders, ms",
    ),
    Option(
        "settle_ms",
        str(SETTLE_MS),
        "time to wait for the rest of an incomplete batch at the end, ms",
    ),
    Option("json", "false", "content of the column json of `records`: true, few or false"),
    Option(
        "deep",
        "false",
        ("`problems` decodes every record, not only control and compressed batches"),
    ),
    Option("shares", "1", "number of shares of the partitions in the internal table `packs`"),
    Option("chunk_offsets", "65536", "offsets per chunk in the internal table `walk`"),
    Option(
        "picks", "", "parts of files to read, as JSON, in the internal tables `packs` and `walk`"
    ),
    Option("push_filters", "false", "let Spark push filters down, see below"),
    Option("max_bytes_per_trigger", "no limit", "bytes of each log per micro-batch of a stream"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one read."""

    paths: tuple[str, ...]
    table: Table
    columns: tuple[str, ...]
    nullable: frozenset[str] = frozenset()
    """Columns that may be null by the schema of the query, also if they never are."""
    sources: tuple[str, ...]
    missing: str = "error"
    cluster: str | None = None
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
    picks: tuple[Pick, ...] | None = None
    push_filters: bool = False
    replica: str | None = None
    """The only replica to read, if a filter names it."""
    max_bytes_per_trigger: int | None = None
    """The bytes of each log per micro-batch; None for no limit."""

    @property
    def shown(self) -> Table:
        """The table with the requested columns."""
        return self.table.only(self.columns).nullable(self.nullable)

    def with_columns(self, requested: Sequence[Column]) -> "Options":
        """The options with the columns of a schema, in this order; raises `InvalidInput`."""
        names = tuple(column.name for column in requested)
        for column, known in zip(requested, self.table.only(names).columns, strict=True):
            if column.type != known.type:
                raise InvalidInput(
                    f"the column {column.name} of the table {self.table.name} is "
                    f"{known.type}, not {column.type}"
                )
            if known.is_nullable and not column.is_nullable:
                raise InvalidInput(
                    f"the column {column.name} of the table {self.table.name} may be null"
                )
        nullable = frozenset(column.name for column in requested if column.is_nullable)
        return replace(self, columns=names, nullable=nullable)


def options_of(given: Mapping[str, str]) -> Options:
    """Parse options; raises `InvalidInput`."""
    found = {name.lower(): value for name, value in given.items()}
    known = {each.name for each in OPTIONS}
    for name in found:
        if name not in known:
            raise InvalidInput(f"there is no option {name!r}; there are {', '.join(sorted(known))}")
    table = TABLES[_one_of(found, "table", "batches", tuple(TABLES))]
    columns = _names(found.get("columns", "")) or table.column_names
    table.only(columns)
    source = _one_of(found, "source", "all", ("log", "snapshot", "all"))
    return Options(
        paths=_paths(found),
        table=table,
        columns=columns,
        sources=("log", "snapshot") if source == "all" else (source,),
        missing=_one_of(found, "missing", "error", ("error", "report")),
        cluster=found.get("cluster") or None,
        since_ms=_read(found, "since", parse_time_ms),
        until_ms=_read(found, "until", parse_time_ms),
        from_offset=_read(found, "from_offset", _natural),
        to_offset=_read(found, "to_offset", _natural),
        partition_bytes=_partition_bytes(found),
        clock_slack_ms=_number(found, "clock_slack_ms", CLOCK_SLACK_MS),
        settle_ms=_number(found, "settle_ms", SETTLE_MS),
        json=_one_of(found, "json", "false", ("true", "few", "false")),
        deep=_one_of(found, "deep", "false", ("true", "false")) == "true",
        chunk_offsets=max(1, _number(found, "chunk_offsets", CHUNK_OFFSETS)),
        shares=max(1, _number(found, "shares", 1)),
        picks=_read(found, "picks", _picks),
        push_filters=_one_of(found, "push_filters", "false", ("true", "false")) == "true",
        max_bytes_per_trigger=_read(found, "max_bytes_per_trigger", _natural),
    )


_OF_TABLE: Final = "option."
"""The prefix of the options of CREATE TABLE among the properties of the table."""


def is_of_create_table(given: Mapping[str, str]) -> bool:
    """True if Spark gives all properties of a table that is being created."""
    return "provider" in {name.lower() for name in given}


def of_create_table(given: Mapping[str, str]) -> dict[str, str]:
    """The options among the properties of a table: those with the prefix, and the location."""
    found = {name.lower(): value for name, value in given.items()}
    paths = {"path": found["path"]} if found.get("path") else {}
    own = {
        name.removeprefix(_OF_TABLE): value
        for name, value in found.items()
        if name.startswith(_OF_TABLE)
    }
    return {**paths, **own}


def names_paths(given: Mapping[str, str]) -> bool:
    """True if these options have a path."""
    return any(name.lower() in ("path", "paths") and value for name, value in given.items())


def check_missing(options: Options) -> None:
    """Raise `InvalidInput` for paths without a log, unless they are to be reported as problems."""
    if options.missing == "error":
        check_paths(options.paths)


def check_streamed(options: Options) -> None:
    """Raise `InvalidInput` for what cannot be streamed."""
    if options.table.name not in _STREAMED:
        tables = ", ".join(table.name for table in PUBLIC if table.name in _STREAMED)
        raise InvalidInput(f"the table {options.table.name} is not streamed; {tables} are")
    if options.sources == ("snapshot",):
        raise InvalidInput("a stream reads the log: leave the option source out, or set it to log")


def _paths(found: Mapping[str, str]) -> tuple[str, ...]:
    paths = [found["path"]] if found.get("path") else []
    if found.get("paths"):
        try:
            more = json.loads(found["paths"])
        except ValueError as error:
            raise InvalidInput(f"the option paths is not JSON: {error}") from None
        if not isinstance(more, list) or not all(isinstance(each, str) for each in more):
            raise InvalidInput('the option paths is a JSON list of strings, as ["/a", "/b"]')
        paths += more
    if not paths:
        raise InvalidInput(
            "no folder is named: load(path), or the options path and paths (in SQL, a table is "
            "created without a list of columns; choose them by the option columns)"
        )
    return absolute(paths)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _one_of(found: Mapping[str, str], name: str, default: str, allowed: Sequence[str]) -> str:
    value = found.get(name, default).lower()
    if value not in allowed:
        raise InvalidInput(f"the option {name} is {value!r}; it can be {', '.join(allowed)}")
    return value


def _read(found: Mapping[str, str], name: str, parse: Callable[[str], _T]) -> _T | None:
    text = found.get(name, "").strip()
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(f"the option {name} is {text!r}: {error}") from None


def _number(found: Mapping[str, str], name: str, default: int) -> int:
    number = _read(found, name, _natural)
    return default if number is None else number


def _partition_bytes(found: Mapping[str, str]) -> int:
    number = _number(found, "partition_bytes", PARTITION_BYTES)
    if number < PARTITION_BYTES_MIN:
        raise InvalidInput(
            f"the option partition_bytes is {number}, at least {PARTITION_BYTES_MIN}"
        )
    return number


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("expected a number from 0 up")
    return int(text)


def _picks(text: str) -> tuple[Pick, ...]:
    try:
        return tuple(Pick(*each) for each in json.loads(text))
    except TypeError as error:
        raise ValueError("expected lists of path, low, high, first, end and borrower") from error


def options_as_markdown() -> str:
    """The options as docs/lag_tables.md has them; a test compares the two."""
    rows = [f"| `{name}` | {default or '-'} | {meaning} |" for name, default, meaning in OPTIONS]
    return "\n".join(["| option | without it | meaning |", "| --- | --- | --- |", *rows]) + "\n"


_TIMES: Final[Mapping[str, str]] = {"batches": "leader_append_ms"}
"""The column with the time of a batch; a record may be older than its batch."""
_FIRST: Final = {"batches": "base_offset", "records": "offset"}
_LAST: Final = {"batches": "last_offset", "records": "offset"}

_Change = Callable[[Options, Any], Options]


def narrowed(options: Options, filters: Sequence[Any]) -> Options:
    """Add the bounds in these filters (`pyspark.sql.datasource.Filter`) that skip segments or
    batches. Spark applies every filter again to the rows."""
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
    # Bounds do not apply to the rows of a snapshot, which have their own offsets.
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
