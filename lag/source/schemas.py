"""The tables that the source `quorumlog` reads out of log folders: one place for their columns.

Times are milliseconds since 1970 in columns `*_ms`, by the clock of whoever wrote them; null is
"nobody knows", never zero. Spark and Arrow get their schemas from here, and so does docs/lag.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    """As Spark SQL writes it."""
    meaning: str


class Table(NamedTuple):
    """One table, its columns in order."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names alone, in order."""
        return tuple(column.name for column in self.columns)

    def ddl(self) -> str:
        """The schema as Spark takes it in a string."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    def arrow(self) -> Any:
        """The schema of the Arrow batches (`pyarrow.Schema`)."""
        return pa.schema([pa.field(name, ARROW_TYPES[type_]) for name, type_, _ in self.columns])

    def only(self, names: tuple[str, ...]) -> "Table":
        """The same with these columns alone; raises `ValueError` for one that is not there."""
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                there = ", ".join(known)
                raise ValueError(f"the table {self.name} has no column {name!r}; it has {there}")
        return self._replace(columns=tuple(known[name] for name in names))


INT: Final = "INT"
BIGINT: Final = "BIGINT"
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
        STRING: pa.string(),
        BOOLEAN: pa.bool_(),
        BINARY: pa.binary(),
        INTS: _list_of(pa.int32()),
        STRINGS: _list_of(pa.string()),
    }
)

MARK_TRUNCATED: Final = "truncated"
MARK_MISSING: Final = "missing"

_REPLICA: Final = Column(
    "replica",
    STRING,
    "whose log: the node id where meta.properties names it, with #2, #3 where several folders claim"
    " one id; else the name of the folder",
)
_PATH: Final = Column("path", STRING, "the file")
_SOURCE: Final = Column("source", STRING, "log, or snapshot: offsets in one are its own, from 0")
_MARK: Final = Column(
    "mark",
    STRING,
    "null but in a stream: truncated says that what was told of this replica from this offset on is"
    " void, missing that the log has lost what stood here before it was read",
)
_GENERATION: Final = Column(
    "generation",
    INT,
    "0 but in a stream: how often the log had been truncated. A row is void where the same replica"
    " has a mark truncated of a higher generation, at the offset of the row or before it",
)
_POSITION: Final = Column("position", BIGINT, "where in the file the batch begins, bytes")
_OFFSET: Final = Column("offset", BIGINT, "of the record")
_EPOCH: Final = Column("epoch", INT, "of the quorum")
_APPEND_MS: Final = Column("append_ms", BIGINT, "when the leader wrote the record")

BATCHES: Final = Table(
    "batches",
    "One row a record batch.",
    (
        _REPLICA,
        _PATH,
        _POSITION,
        Column("base_offset", BIGINT, "of its first record"),
        Column("last_offset", BIGINT, "of its last record, inclusive"),
        _EPOCH,
        Column("leader_append_ms", BIGINT, "when the leader appended it: its largest timestamp"),
        Column(
            "local_append_ms",
            BIGINT,
            "when this replica appended its last record, by its own clock; null without an index"
            " of append times",
        ),
        Column("bytes", INT, "of the whole batch, its header included"),
        Column("records", INT, "in it"),
        Column("control", BOOLEAN, "whether it is the quorum's own and says nothing of metadata"),
        Column("codec", STRING, "none, gzip, snappy, lz4 or zstd"),
        _SOURCE,
        _MARK,
        _GENERATION,
    ),
)

RECORDS: Final = Table(
    "records",
    "One row a record, typed; a field that a record does not have, or leaves unchanged, is null.",
    (
        _REPLICA,
        _PATH,
        _POSITION,
        _OFFSET,
        _EPOCH,
        _APPEND_MS,
        _SOURCE,
        _MARK,
        _GENERATION,
        Column("control", BOOLEAN, "whether it is the quorum's own"),
        Column(
            "type",
            STRING,
            "Kafka's name, such as PartitionChangeRecord; ours, such as MoveBegun; Unknown(n)"
            " for a type that nobody knows here",
        ),
        Column("version", INT, "of the record"),
        Column("topic", STRING, "its name, where the record has it"),
        Column("topic_id", STRING, "as Kafka writes it, 22 characters"),
        Column("partition", INT, "its number in the topic"),
        Column("replicas", INTS, "brokers; of a change null where they stay"),
        Column("isr", INTS, "brokers in sync; likewise"),
        Column("adding", INTS, "likewise"),
        Column("removing", INTS, "likewise"),
        Column("elr", INTS, "likewise"),
        Column("leader", INT, "a broker, -1 for none; of a change null where it stays"),
        Column("leader_epoch", INT, "of a PartitionRecord alone"),
        Column("partition_epoch", INT, "likewise"),
        Column("target", INTS, "where our move leads to, empty where it is over"),
        Column("original", INTS, "what the partition had before it"),
        Column("move_id", BIGINT, "the move it belongs to, ours alone; 0 where it is over"),
        Column("step", INT, "which step of the move"),
        Column("since_ms", BIGINT, "since when the step, or the state of a move"),
        Column("state", INT, "of a MoveChanged, and the outcome of a MoveEnded"),
        Column("broker_id", INT, "of records about a broker"),
        Column("broker_epoch", BIGINT, "likewise"),
        Column("fenced", BOOLEAN, "of broker records: null where it stays"),
        Column("in_controlled_shutdown", BOOLEAN, "likewise"),
        Column("name", STRING, "of a config, a feature, a move"),
        Column(
            "json",
            STRING,
            "all fields under Kafka's names: with option json=true of every record, with json=few"
            " of all but PartitionRecord and PartitionChangeRecord",
        ),
    ),
)

PACKS: Final = Table(
    "packs",
    "Many records in one row, as the reports take them: a stretch of a log, of one share of the"
    " partitions. Not streamed.",
    (
        _REPLICA,
        _PATH,
        _SOURCE,
        Column(
            "share",
            INT,
            "which share of the partitions, from 0, by topic and number; null where records are"
            " about none",
        ),
        Column("low", BIGINT, "the offset of the first record in it"),
        Column(
            "rows",
            BINARY,
            "an Arrow stream: topic_id, partition, offset and append_ms of each record, and in code"
            " which row of said it is; without a share, rows of the table records",
        ),
        Column("said", BINARY, "an Arrow stream: what they say, each thing once"),
    ),
)

EPOCHS: Final = Table(
    "epochs",
    "One row a LeaderChange record: who won which epoch.",
    (
        _REPLICA,
        _PATH,
        _EPOCH,
        Column("start_offset", BIGINT, "of the LeaderChange, with which the epoch begins"),
        Column("leader", INT, "who won it"),
        _APPEND_MS,
        Column("voters", INTS, "who could vote"),
        Column("granting", INTS, "who voted for the leader, where it says so"),
        _MARK,
        _GENERATION,
    ),
)

ASSIGNMENTS: Final = Table(
    "assignments",
    "One row a KRaftVoters record: who votes from there on.",
    (
        _REPLICA,
        _PATH,
        Column("offset", BIGINT, "of the record; of one in a snapshot, where the snapshot ends"),
        _EPOCH,
        _APPEND_MS,
        Column("current", STRINGS, "voters, each as id, or id@directory where that is known"),
        Column("target", STRINGS, "who is to vote, of a change that is under way; ours alone"),
        Column(
            "kind",
            STRING,
            "formatted: of the checkpoint at offset 0; target: a change is under way; else voters",
        ),
        _SOURCE,
        _MARK,
        _GENERATION,
    ),
)

REPLICAS: Final = Table(
    "replicas",
    "One row a log folder.",
    (
        _REPLICA,
        Column("path", STRING, "the log folder"),
        Column("node_id", INT, "from meta.properties"),
        Column("directory_id", STRING, "likewise"),
        Column("cluster_id", STRING, "likewise"),
        Column("log_start", BIGINT, "the first offset that is there"),
        Column("log_end", BIGINT, "behind the last record that is there"),
        Column("last_epoch", INT, "of the last record"),
        Column("voted_epoch", INT, "the epoch that quorum-state remembers"),
        Column("leader", INT, "the leader that quorum-state remembers; null for none"),
        Column("has_append_times", BOOLEAN, "whether there is an index beside any segment"),
        Column("snapshots", STRINGS, "names of the checkpoint files, the oldest first"),
        Column("bytes", BIGINT, "of all segments"),
        Column("segments", INT, "how many"),
    ),
)

PROBLEMS: Final = Table(
    "problems",
    "One row for everything that could not be read, or is not as it ought to be.",
    (
        _REPLICA,
        Column("path", STRING, "the file or folder"),
        Column("position", BIGINT, "where in the file, bytes; null of a file as a whole"),
        Column("offset", BIGINT, "the log offset that was due there, where it is known"),
        Column("kind", STRING, "what it is, as a word that programs compare"),
        Column("reason", STRING, "a sentence for people"),
    ),
)

WALK: Final = Table(
    "walk",
    "Whatever one walk through the files comes by, as the reports take it. Not streamed.",
    (
        Column(
            "kind",
            STRING,
            "of what it is a row: replicas, problems, epochs, assignments; spans, which is what a"
            " task saw of an epoch in a log; or batches, of which it is many",
        ),
        _REPLICA,
        Column("said", STRING, "that row as JSON; null of batches"),
        Column("chunk", BIGINT, "which stretch of offsets batches are of, from 0; else null"),
        Column("rows", BINARY, "an Arrow stream of rows of batches; else null"),
    ),
)

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {
        each.name: each
        for each in (BATCHES, RECORDS, PACKS, EPOCHS, ASSIGNMENTS, REPLICAS, PROBLEMS, WALK)
    }
)


def as_markdown() -> str:
    """The tables as they appear in docs/lag.md; a test keeps the two identical."""
    parts = []
    for table in TABLES.values():
        rows = [f"| `{name}` | {type_} | {meaning} |" for name, type_, meaning in table.columns]
        head = [f"### {table.name}", "", table.meaning, "", "| column | type | meaning |"]
        parts.append("\n".join([*head, "| --- | --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"
