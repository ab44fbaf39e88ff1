"""The tables of the data source `quorumlog`: the schemas for Spark, Arrow and the reference page.

Times are in columns `*_ms`, milliseconds since 1970 by the writer's clock, and as TIMESTAMP in the
columns `*_time` beside them. Null is "unknown", never zero. A column that is never null says so; in
a stream, the rows of marks have only few columns.
"""

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from lag.source.invalid_input import InvalidInput


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    """The type in Spark SQL."""
    meaning: str
    is_nullable: bool = True

    @property
    def sql_type(self) -> str:
        """The type, and that it is never null if so."""
        return self.type if self.is_nullable else f"{self.type} NOT NULL"

    @property
    def of_ms(self) -> str:
        """The column with the same moment in ms, of one that is a TIMESTAMP."""
        return self.name.removesuffix("_time") + "_ms"


class Table(NamedTuple):
    """One table, its columns in order."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def spark(self) -> dict[str, Any]:
        """The schema as Spark's JSON, with the meanings as comments."""
        return spark_schema(self.columns)

    def arrow(self) -> Any:
        """The schema of Arrow batches (`pyarrow.Schema`)."""
        return pa.schema(
            [
                pa.field(each.name, ARROW_TYPES[each.type], nullable=each.is_nullable)
                for each in self.columns
            ]
        )

    @property
    def in_ms(self) -> "Table":
        """The table without its TIMESTAMP columns, which repeat others."""
        return self._replace(columns=tuple(each for each in self.columns if each.type != TIMESTAMP))

    def nullable(self, names: Container[str] | None = None) -> "Table":
        """The table where these columns, or all, may be null."""
        return self._replace(
            columns=tuple(
                each._replace(is_nullable=each.is_nullable or names is None or each.name in names)
                for each in self.columns
            )
        )

    def only(self, names: tuple[str, ...]) -> "Table":
        """The table with these columns only; raises `InvalidInput` for an unknown one."""
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                there = ", ".join(known)
                raise InvalidInput(f"the table {self.name} has no column {name!r}; it has {there}")
        return self._replace(columns=tuple(known[name] for name in names))


INT: Final = "INT"
BIGINT: Final = "BIGINT"
TIMESTAMP: Final = "TIMESTAMP"
STRING: Final = "STRING"
BOOLEAN: Final = "BOOLEAN"
BINARY: Final = "BINARY"
INTS: Final = "ARRAY<INT>"
STRINGS: Final = "ARRAY<STRING>"


def _list_of(item: Any) -> Any:
    # Named as Spark names it: it compares the schema of what it is given with its own.
    return pa.list_(pa.field("element", item))


ARROW_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        INT: pa.int32(),
        BIGINT: pa.int64(),
        TIMESTAMP: pa.timestamp("us", tz="UTC"),
        STRING: pa.string(),
        BOOLEAN: pa.bool_(),
        BINARY: pa.binary(),
        INTS: _list_of(pa.int32()),
        STRINGS: _list_of(pa.string()),
    }
)

_SPARK_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        INT: "integer",
        BIGINT: "long",
        TIMESTAMP: "timestamp",
        "DOUBLE": "double",
        STRING: "string",
        BOOLEAN: "boolean",
        BINARY: "binary",
        INTS: {"type": "array", "elementType": "integer", "containsNull": True},
        STRINGS: {"type": "array", "elementType": "string", "containsNull": True},
    }
)


def spark_schema(columns: Iterable[Column]) -> dict[str, Any]:
    """The schema of these columns as Spark's JSON."""
    fields = [
        {
            "name": each.name,
            "type": _SPARK_TYPES[each.type],
            "nullable": each.is_nullable,
            "metadata": {"comment": each.meaning},
        }
        for each in columns
    ]
    return {"type": "struct", "fields": fields}


MARK_TRUNCATED: Final = "truncated"
MARK_MISSING: Final = "missing"

_REPLICA: Final = Column(
    "replica",
    STRING,
    (
        "the node id from meta.properties, with #2, #3 if several folders have the same "
        "id; without meta.properties the name of the folder"
    ),
    is_nullable=False,
)
_PATH: Final = Column("path", STRING, "the file", is_nullable=False)
_SOURCE: Final = Column(
    "source", STRING, "log or snapshot; offsets in a snapshot start at 0", is_nullable=False
)
_MARK: Final = Column(
    "mark",
    STRING,
    (
        "only in a stream: truncated (earlier rows of this replica from this offset on "
        "are void) or missing (the log lost these offsets before they were read)"
    ),
)
_GENERATION: Final = Column(
    "generation",
    INT,
    (
        "only in a stream: the number of truncations before this row was read. A row is "
        "void if the same replica has a mark truncated with a higher generation at or "
        "before its offset"
    ),
    is_nullable=False,
)
_POSITION: Final = Column("position", BIGINT, "byte position of the batch in the file")
_OFFSET: Final = Column("offset", BIGINT, "offset of the record", is_nullable=False)
_EPOCH: Final = Column("epoch", INT, "quorum epoch", is_nullable=False)


def _moment(stem: str, meaning: str) -> tuple[Column, Column]:
    """A moment in both forms."""
    ms = Column(f"{stem}_ms", BIGINT, f"{meaning}, in ms since 1970")
    return ms, Column(f"{stem}_time", TIMESTAMP, "the same moment")


_APPENDED: Final = _moment("append", "append time at the leader")

BATCHES: Final = Table(
    "batches",
    "One row per record batch.",
    (
        _REPLICA,
        _PATH,
        _POSITION,
        Column("base_offset", BIGINT, "offset of its first record", is_nullable=False),
        Column("last_offset", BIGINT, "offset of its last record", is_nullable=False),
        _EPOCH,
        *_moment("leader_append", "append time at the leader: the largest timestamp of the batch"),
        *_moment(
            "local_append",
            (
                "append time at this replica, by its own clock (null without an index of append "
                "times)"
            ),
        ),
        Column("bytes", INT, "size of the batch with its header"),
        Column("records", INT, "number of records"),
        Column("control", BOOLEAN, "true for control batches of the quorum"),
        Column("codec", STRING, "none, gzip, snappy, lz4 or zstd"),
        _SOURCE,
        _MARK,
        _GENERATION,
    ),
)

RECORDS: Final = Table(
    "records",
    (
        "One row per record, with typed fields. A field is null if the record does not "
        "have it or does not change it."
    ),
    (
        _REPLICA,
        _PATH,
        _POSITION,
        _OFFSET,
        _EPOCH,
        *_APPENDED,
        _SOURCE,
        _MARK,
        _GENERATION,
        Column("control", BOOLEAN, "true for control records of the quorum"),
        Column(
            "type",
            STRING,
            (
                "Kafka's name, such as PartitionChangeRecord; ours, such as MoveBegun; "
                "Unknown(n) for an unknown type"
            ),
        ),
        Column("version", INT, "version of the record's format"),
        Column("topic", STRING, "topic name, if the record has it; also of a configuration"),
        Column("topic_id", STRING, "topic id in Kafka's 22 characters"),
        Column("partition", INT, "partition number"),
        Column("replicas", INTS, "brokers; null if unchanged"),
        Column("isr", INTS, "brokers in sync; null if unchanged"),
        Column("adding", INTS, "as above"),
        Column("removing", INTS, "as above"),
        Column("elr", INTS, "as above"),
        Column("leader", INT, "broker, -1 for none; null if unchanged"),
        Column("leader_epoch", INT, "only in a PartitionRecord"),
        Column("partition_epoch", INT, "as above"),
        Column("target", INTS, "replicas at the end of our move; empty once it has ended"),
        Column("original", INTS, "replicas before the move"),
        Column("move_id", BIGINT, "the move of metaquorum; 0 once it has ended"),
        Column("step", INT, "step of the move"),
        *_moment("since", "start of the step, or of the state of a move"),
        Column(
            "state",
            INT,
            (
                "state in a MoveChanged, outcome in a MoveEnded; in a ConfigOwned 1 if the move "
                "takes over the configuration, else 0 or 2"
            ),
        ),
        Column("broker_id", INT, "in records about a broker"),
        Column("broker_epoch", BIGINT, "as above"),
        Column("fenced", BOOLEAN, "in broker records; null if unchanged"),
        Column("in_controlled_shutdown", BOOLEAN, "as above"),
        Column("name", STRING, "name of a configuration, feature or move"),
        Column(
            "json",
            STRING,
            (
                "all fields under Kafka's names: of every record with json=true, of all but "
                "PartitionRecord and PartitionChangeRecord with json=few"
            ),
        ),
    ),
)

PACKS: Final = Table(
    "packs",
    (
        "Many records in one row, for the reports: a range of a log, for one share of "
        "the partitions. Not streamed."
    ),
    (
        _REPLICA,
        _PATH,
        _SOURCE,
        Column(
            "share",
            INT,
            (
                "share of the partitions, from 0, by topic and number; null for records about no "
                "partition"
            ),
        ),
        Column("low", BIGINT, "offset of the first record"),
        Column(
            "rows",
            BINARY,
            (
                "Arrow stream of topic_id, partition, offset, append_ms and code, the row in "
                "said; without a share, rows of the table records"
            ),
        ),
        Column("said", BINARY, "Arrow stream of the distinct contents"),
    ),
)

EPOCHS: Final = Table(
    "epochs",
    "One row per LeaderChange record: the leader of an epoch.",
    (
        _REPLICA,
        _PATH,
        _EPOCH,
        Column(
            "start_offset",
            BIGINT,
            "offset of the LeaderChange, the first of the epoch",
            is_nullable=False,
        ),
        Column("leader", INT, "leader of the epoch"),
        *_APPENDED,
        Column("voters", INTS, "voters of the election"),
        Column("granting", INTS, "voters that voted for the leader, if recorded"),
        _MARK,
        _GENERATION,
    ),
)

ASSIGNMENTS: Final = Table(
    "assignments",
    "One row per KRaftVoters record: the voters from there on.",
    (
        _REPLICA,
        _PATH,
        Column(
            "offset",
            BIGINT,
            "offset of the record; in a snapshot, the end offset of the snapshot",
            is_nullable=False,
        ),
        _EPOCH,
        *_APPENDED,
        Column("current", STRINGS, "voters as id, or id@directory if known"),
        Column("target", STRINGS, "target voters of a change in progress; ours only"),
        Column(
            "kind",
            STRING,
            ("formatted (the checkpoint at offset 0), target (a change is in progress) or voters"),
        ),
        _SOURCE,
        _MARK,
        _GENERATION,
    ),
)

REPLICAS: Final = Table(
    "replicas",
    "One row per log folder.",
    (
        _REPLICA,
        Column("path", STRING, "the log folder", is_nullable=False),
        Column("node_id", INT, "from meta.properties"),
        Column("directory_id", STRING, "as above"),
        Column("cluster_id", STRING, "as above"),
        Column("log_start", BIGINT, "first offset in the folder"),
        Column("log_end", BIGINT, "offset after the last record"),
        Column("last_epoch", INT, "epoch of the last record"),
        Column("voted_epoch", INT, "epoch in quorum-state"),
        Column("leader", INT, "leader in quorum-state; null for none"),
        Column(
            "has_append_times",
            BOOLEAN,
            "true if a segment has an index of append times",
            is_nullable=False,
        ),
        Column(
            "snapshots",
            STRINGS,
            "names of the checkpoint files, oldest first",
            is_nullable=False,
        ),
        Column("bytes", BIGINT, "size of all segments", is_nullable=False),
        Column("segments", INT, "number of segments", is_nullable=False),
    ),
)

PROBLEMS: Final = Table(
    "problems",
    "One row for everything that cannot be read or is inconsistent.",
    (
        _REPLICA._replace(is_nullable=True),
        Column("path", STRING, "the file or folder", is_nullable=False),
        Column("position", BIGINT, "byte position in the file; null for the whole file"),
        Column("offset", BIGINT, "log offset expected there, if known"),
        Column("kind", STRING, "kind of problem, for programs", is_nullable=False),
        Column("reason", STRING, "description, for people", is_nullable=False),
    ),
)

WALK: Final = Table(
    "walk",
    ("Everything that one pass over the files finds, for the reports. Not streamed."),
    (
        Column(
            "kind",
            STRING,
            (
                "replicas, problems, epochs, assignments, runs (lag.source.runs), indexed (runs of "
                "a log without segments, by its indexes) or batches (many in one row)"
            ),
        ),
        _REPLICA,
        Column("said", STRING, "the row as JSON; null for batches"),
        Column("chunk", BIGINT, "range of offsets, from 0; only for batches"),
        Column("rows", BINARY, "Arrow stream of rows of the table batches; only for batches"),
    ),
)

LOG_DATA: Final = Table(
    "log_data",
    "The bytes of consecutive batches and of their append times, for the archive. Only streamed.",
    (
        _REPLICA,
        Column("path", STRING, "the segment; of a mark the file or folder", is_nullable=False),
        _POSITION,
        Column("base_offset", BIGINT, "offset of the first record", is_nullable=False),
        Column("last_offset", BIGINT, "offset of the last record", is_nullable=False),
        _EPOCH,
        Column("day", STRING, "UTC date of the leader's append times; null if unknown"),
        Column("bytes", INT, "size of the batches"),
        Column("data", BINARY, "the batches as they are in the segment"),
        Column("index_position", BIGINT, "byte position of the entries in the index"),
        Column("index", BINARY, "the entries of the index of append times as they are in it"),
        _MARK,
        _GENERATION,
    ),
)

PUBLIC: Final = (BATCHES, RECORDS, EPOCHS, ASSIGNMENTS, REPLICAS, PROBLEMS)
"""The tables for users; `packs` and `walk` are of the reports, `log_data` is of the archive."""
TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {each.name: each for each in (*PUBLIC, PACKS, WALK, LOG_DATA)}
)


def as_markdown() -> str:
    """The public tables as docs/lag_tables.md has them; a test compares the two."""
    parts = []
    for table in PUBLIC:
        rows = [f"| `{each.name}` | {each.sql_type} | {each.meaning} |" for each in table.columns]
        head = [f"### {table.name}", "", table.meaning, "", "| column | type | meaning |"]
        parts.append("\n".join([*head, "| --- | --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"
