"""The tables of a report: every column with its type, unit and meaning.

Moments are milliseconds since 1970, named `*_ms` or `*_at_ms`; durations are milliseconds. Null is
"unknown", never zero: most often the replica has no index of append times, as in Kafka's logs.
`docs/lag_tables.md` has the same tables; a test compares them.

Definition of lag: at time t, a replica's lag in records is the number of records that the leader
had and the replica did not; its lag in ms is the time since the leader appended the first of them.
Both are 0 if no record is missing.
"""

from typing import Final, NamedTuple


class Column(NamedTuple):
    """One column of a result."""

    name: str
    type: str
    """The type in Spark's DDL."""
    unit: str
    """`ms` is a duration, `time` a moment in ms since 1970; may be empty."""
    meaning: str


class ResultTable(NamedTuple):
    """One table of a report."""

    name: str
    meaning: str
    """The meaning of a row."""
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The schema as Spark's DDL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
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
    """The id of a node, broker or partition, or an epoch."""
    return Column(name, "INT", "id", meaning)


def ids(name: str, meaning: str) -> Column:
    """Several ids, in order."""
    return Column(name, "ARRAY<INT>", "id", meaning)


def flag(name: str, meaning: str) -> Column:
    """Yes or no."""
    return Column(name, "BOOLEAN", "", meaning)


_REPLICA: Final = text("replica", "the replica, by its node id")
_HOLE: Final = text(
    "hole",
    (
        "the holes that the row rests on, each by its first and last offset: values that one may "
        "have changed are null; null for none"
    ),
)
_FROM: Final = at("window_start_ms", "start of the window, exclusive")
_TO: Final = at(
    "window_end_ms", "end of the window, inclusive; the last window ends with the report"
)
_P50: Final = "not exceeded during half of the time, by samples"

_LAG_OVER_TIME: Final = (
    ms("p50_ms", f"lag that was {_P50}"),
    ms("p95_ms", "lag that was not exceeded during 95 % of the time"),
    ms("p99_ms", "lag that was not exceeded during 99 % of the time"),
    ms("max_ms", "greatest lag, exact and not by samples"),
    at("worst_at_ms", "time of the greatest lag, by the leader's clock"),
    ms(
        "clock_ms",
        (
            "the proven part of its clock's lead over the leader's clock (negative if "
            "behind); its times are corrected by it"
        ),
    ),
)

REPLICATION_LAG: Final = ResultTable(
    "replication_lag",
    (
        "One row per replica and window: its lag. A dead replica has rows up to the end "
        "of the report, as if it ran and appended nothing."
    ),
    (
        _REPLICA,
        _FROM,
        _TO,
        count("log_end", "offset", "end of its log, exclusive, at the end of the window"),
        count("records_behind", "records", "records missing at the end of the window"),
        count("records_behind_max", "records", "most records missing at a sample"),
        ms("lag_ms", "lag at the end of the window"),
        *_LAG_OVER_TIME,
        number(
            "trend_ms_per_s",
            "ms/s",
            (
                "growth of its lag in the window, by least squares over the samples: 1000 if it "
                "stands still, negative if it catches up"
            ),
        ),
        count("samples", "samples", "number of samples with a known lag, evenly spaced"),
        _HOLE,
    ),
)

REPLICA_LAG: Final = ResultTable(
    "replica_lag",
    ("One row per replica: its lag over the whole time, and the end of its log."),
    (
        _REPLICA,
        id_("node_id", "node id, if meta.properties has it"),
        count("log_start", "offset", "first offset in its log"),
        count("log_end", "offset", "end of its log, exclusive"),
        id_("last_epoch", "epoch of its last record"),
        count(
            "records_behind",
            "records",
            "records of the quorum's log that its files lack, at the end of its log or before",
        ),
        count(
            "records_lost",
            "records",
            "those before the end of its log: damaged, or in a file that is gone",
        ),
        count("records_diverging", "records", "its records that are not in the quorum's log"),
        at("waits_since_ms", "append time, at the leader, of the first record that it lacks"),
        at("last_append_ms", "time of its last append"),
        ms(
            "lag_ms",
            (
                "lag at the end of the report; known without append times too, from the end of "
                "its log"
            ),
        ),
        *_LAG_OVER_TIME,
        flag("has_append_times", "it has an index of append times"),
        _HOLE,
    ),
)

STATUS: Final = ResultTable(
    "status",
    ("One row per replica: its status at the end of the report, by rules over the last windows."),
    (
        _REPLICA,
        text(
            "role",
            (
                "voter or observer at the end of the report, by the last voters in the log; null "
                "if the log has none, a hole may hide them, or the folder has no node id"
            ),
        ),
        text("status", "OK, WARN, ERR, STALLED, STOPPED or UNKNOWN"),
        text("rule", "the rule that decided, the first that matches"),
        text("facts", "a sentence with the figures behind it"),
        at("since_ms", "time since which it waits for the first record that it lacks"),
        count("records_behind", "records", "records that it lacks"),
        ms("lag_ms", "lag at the end of the report"),
        _HOLE,
    ),
)

LEADERSHIP: Final = ResultTable(
    "leadership",
    "One row per epoch in the log, in order.",
    (
        id_("epoch", "the epoch"),
        id_("leader", "its leader"),
        count("start_offset", "offset", "offset of its first record"),
        count("end_offset", "offset", "end of its records, exclusive"),
        at("elected_at_ms", "append time of its first record"),
        at("last_append_ms", "append time of its last record"),
        ms("tenure_ms", "from its first record to its last; the leader led at least this long"),
        count(
            "elections_lost",
            "epochs",
            ("epochs without a leader since the one before; null for the first epoch"),
        ),
        ms(
            "gap_ms",
            (
                "upper bound of the time without a leader: from the last record of the previous "
                "leader to the first of this one; null for the first epoch, 0 if the clocks "
                "overlap"
            ),
        ),
        ids("voters", "voters, as the leader wrote them"),
        text(
            "ended",
            (
                "why it ended: leading (it has not ended), removed, restarted, gone, away, "
                "followed or unknown; see the table in lag.md"
            ),
        ),
        text("facts", "a sentence with the evidence"),
        _HOLE,
    ),
)

COMMITS: Final = ResultTable(
    "commits",
    (
        "One row per window, by append time at the leader. Where nothing was appended, counts and "
        "rates are 0, and the other columns are null."
    ),
    (
        _FROM,
        _TO,
        count("batches", "batches", "batches appended"),
        count("records", "records", "records in them, control records included"),
        count("bytes", "bytes", "size of the batches"),
        number(
            "records_per_s",
            "records/s",
            (
                "records by the length of the window, without what --since or --until cuts off; if "
                "the logs end within the window, the rest of it counts as without records"
            ),
        ),
        number("batches_per_s", "batches/s", "the same for batches"),
        number("records_p50", "records", "records per batch, median"),
        number("records_max", "records", "records per batch, maximum"),
        number("bytes_p50", "bytes", "bytes per batch, median"),
        number("bytes_max", "bytes", "bytes per batch, maximum"),
        count(
            "majority_known",
            "batches",
            "batches for which the time at a majority of the voters is known",
        ),
        ms("majority_p50_ms", "time from the append at the leader to a majority, median"),
        ms("majority_p95_ms", "the same, 95th percentile"),
        ms("majority_p99_ms", "the same, 99th percentile"),
        ms("majority_max_ms", "the same, maximum"),
        at("majority_worst_at_ms", "append time, at the leader, of the slowest batch"),
        _HOLE,
    ),
)

VOTERS: Final = ResultTable(
    "voters",
    ("One row per voter assignment, in order: the failures that it could have survived."),
    (
        count("offset", "offset", "of the record"),
        id_("epoch", "of the record"),
        at("at_ms", "start: append time at the leader"),
        at("until_ms", "end: append time of the next one, or the end of the report"),
        ms("duration_ms", "time in force"),
        Column("current", "ARRAY<STRING>", "", "voters, as id or id@directory"),
        Column("target", "ARRAY<STRING>", "", "target voters; null if no change is in progress"),
        text("kind", "kind of record"),
        count("tolerates", "failures", "voters that may fail if all keep up"),
        ms("survived_2_ms", "time in which two or more failures were survivable"),
        ms("survived_1_ms", "time in which one failure was survivable, but not two"),
        ms("survived_0_ms", "time in which no failure was survivable: only a majority kept up"),
        ms("no_majority_ms", "time without a majority that kept up"),
        ms("unknown_ms", "time for which append times of voters are missing"),
        _HOLE,
    ),
)

_PARTITION: Final = (
    text("topic_id", "topic id"),
    text("topic", "topic name, if the log has it"),
    id_("partition", "partition number"),
    count("number", "", "number of the reassignment of this partition in the log, from 1"),
)

MOVES: Final = ResultTable(
    "moves",
    "One row per reassignment of a partition, ours and Kafka's.",
    (
        *_PARTITION,
        count(
            "move_id",
            "",
            ("the move of metaquorum; null for Kafka's, and if a single record did it"),
        ),
        at("started_ms", "append time of its first record"),
        at("ended_ms", "append time of its last record; null while it is in progress"),
        ms("duration_ms", "from start to end, or to the end of the report"),
        text(
            "outcome",
            (
                "completed, cancelled, superseded, gone (topic deleted), running, stuck, or "
                "unknown (a hole may hold its end)"
            ),
        ),
        ids("from_replicas", "replicas before"),
        ids("planned", "requested replicas"),
        ids("actual", "replicas at its end, or now"),
        flag("as_planned", "the actual replicas are the requested ones, in order"),
        count(
            "steps_planned",
            "steps",
            "steps needed under the limits in force at its start; 1 without limits",
        ),
        count("steps", "steps", "steps taken"),
        ids("added", "replicas added"),
        ids("removed", "replicas removed"),
        id_("slowest", "the added replica that took longest to join the ISR"),
        ms(
            "slowest_ms",
            ("time that it took; if it has not joined, the duration of its step so far"),
        ),
        at("last_progress_ms", "append time of the last record of this reassignment"),
        _HOLE,
    ),
)

MOVE_STEPS: Final = ResultTable(
    "move_steps",
    ("One row per step of a reassignment: add replicas, catch up, remove replicas."),
    (
        *_PARTITION,
        count("step", "", "number of the step, from 1"),
        count("offset", "offset", "offset of the record that began it"),
        at("started_ms", "append time of that record"),
        at(
            "ended_ms",
            "append time of the record that ended the step or began the next one",
        ),
        ms("duration_ms", "from start to end, or to the end of the report"),
        ids("adding", "replicas that it adds"),
        ids("removing", "replicas that it removes"),
        at(
            "caught_up_ms",
            (
                "time at which the last added replica joined the ISR; null if one has not, or "
                "none is added"
            ),
        ),
        ms("catch_up_ms", "time from the start of the step until then"),
        _HOLE,
    ),
)

MOVE_REPLICAS: Final = ResultTable(
    "move_replicas",
    "One row per replica that a step adds: the time to catch up.",
    (
        *_PARTITION,
        count("step", "", "number of the step, from 1"),
        id_("broker_id", "broker of the replica"),
        at("added_ms", "time at which it was added"),
        at("in_sync_ms", "time at which it joined the ISR; null if it has not"),
        ms("catch_up_ms", "time from one to the other"),
        flag("stuck", "it has not joined and the reassignment makes no progress"),
        _HOLE,
    ),
)

OPERATIONS: Final = ResultTable(
    "operations",
    ("One row per move of metaquorum: one request of an operator, for any number of partitions."),
    (
        count("move_id", "", "id of the move"),
        text("kind", "reassign, drain or rollback"),
        text("name", "name from the request; may be empty"),
        text("who", "principal of the request"),
        at("asked_ms", "time of the request, by the controller's clock"),
        at("ended_ms", "time at which its last partition ended; null while it runs"),
        ms("duration_ms", "from the request to its end, or to the end of the report"),
        text(
            "outcome",
            "completed, cancelled, superseded, gone, running, paused, stuck or unknown",
        ),
        count("partitions_planned", "partitions", "partitions accepted"),
        count("partitions_refused", "partitions", "partitions refused"),
        count("partitions_completed", "partitions", "partitions completed as requested"),
        count("partitions_cancelled", "partitions", "partitions cancelled"),
        count("partitions_superseded", "partitions", "partitions taken over by another move"),
        count("partitions_gone", "partitions", "partitions deleted meanwhile"),
        ms("paused_ms", "time paused"),
        ms("slowest_partition_ms", "time of its slowest partition"),
        _HOLE,
    ),
)

TOPICS: Final = ResultTable(
    "topics",
    (
        "One row per topic in the log: those that existed at its start, if a snapshot tells them, "
        "and those created since, deleted ones included."
    ),
    (
        text("topic_id", "topic id"),
        text("topic", "topic name, if the log has it"),
        at("created_ms", "append time of its creation; null if it was before the log"),
        at("deleted_ms", "append time of its deletion; null if it exists"),
        count("partitions", "partitions", "partitions at the end of the report, or when deleted"),
        count(
            "partitions_at_first",
            "partitions",
            "partitions with which it was created; null if that was before the log",
        ),
        count("grown", "times", "times that partitions were added later"),
        count("config_changes", "times", "configurations set or removed"),
        at("last_change_ms", "append time of the last event; null without one"),
        _HOLE,
    ),
)

TOPIC_EVENTS: Final = ResultTable(
    "topic_events",
    "One row per event of a topic up to the end of the report, in order.",
    (
        text("topic_id", "topic id; null if the topic of a configuration is not known"),
        text("topic", "topic name, if the log has it"),
        count("offset", "offset", "of the record, the first one if there are several"),
        at("at_ms", "append time at the leader"),
        text(
            "event",
            (
                "created, grown, deleted, config_set or config_removed; null if a hole may hide "
                "whether partitions were created with their topic, or with others"
            ),
        ),
        count(
            "partitions",
            "partitions",
            "partitions afterwards, or when deleted; null for configurations",
        ),
        text("config", "name of the configuration"),
        text(
            "value",
            "its new value; null if removed, and for lists of throttled replicas",
        ),
        count("move_id", "", "the move that changed the configuration; null for others"),
        text(
            "who",
            (
                "principal who began that move; null otherwise, because Kafka's records of topics "
                "do not have it"
            ),
        ),
        _HOLE,
    ),
)

BROKERS: Final = ResultTable(
    "brokers",
    ("One row per broker in the log, from the start of the log to the end of the report."),
    (
        id_("broker_id", "the broker"),
        text("state", "unfenced, fenced, stopping or unregistered, at the end of the report"),
        at("state_since_ms", "start of that state"),
        count("registrations", "times", "registrations, one per start"),
        at("first_registered_ms", "time of the first registration"),
        at("last_registered_ms", "time of the last registration"),
        count("fencings", "times", "times it was fenced; a registration does not count"),
        count("unfencings", "times", "times it was unfenced"),
        count("shutdowns", "times", "controlled shutdowns begun"),
        ms("fenced_ms", "time fenced, from registration to unfencing included"),
        ms("longest_fenced_ms", "longest time fenced"),
        count("isr_shrinks", "times", "times it left the ISR of a partition"),
        count("isr_expands", "times", "times it joined the ISR of a partition"),
        count("moves_in", "partitions", "reassignments that added it"),
        count("moves_out", "partitions", "reassignments that removed it"),
        _HOLE,
    ),
)

BROKER_ACTIVITY: Final = ResultTable(
    "broker_activity",
    "One row per broker and window with events.",
    (
        id_("broker_id", "the broker"),
        _FROM,
        _TO,
        count("registrations", "times", "registrations"),
        count("fencings", "times", "times it was fenced"),
        count("unfencings", "times", "times it was unfenced"),
        count("isr_shrinks", "times", "times it left the ISR of a partition"),
        count("isr_expands", "times", "times it joined the ISR of a partition"),
        count("moves_in", "partitions", "reassignments begun that add it"),
        count("moves_out", "partitions", "reassignments begun that remove it"),
        _HOLE,
    ),
)

BROKER_EVENTS: Final = ResultTable(
    "broker_events",
    "One row per event of a broker up to the end of the report, in order.",
    (
        id_("broker_id", "the broker"),
        count("offset", "offset", "of the record"),
        at("at_ms", "append time at the leader"),
        text("event", "registered, fenced, unfenced, stopping or unregistered"),
        count("broker_epoch", "", "broker epoch"),
        at("until_ms", "time of its next event, or the end of the report"),
        _HOLE,
    ),
)

CLOCKS: Final = ResultTable(
    "clocks",
    ("One row per pair of replicas: bounds of the offset between their clocks."),
    (
        _REPLICA,
        text("relative_to", "the replica that it is compared with"),
        ms("at_least_ms", "lower bound of its clock's lead; null if unknown"),
        ms("at_most_ms", "upper bound of its clock's lead; null if unknown"),
        ms(
            "estimate_ms",
            "the middle of the bounds, or the only known bound",
        ),
        ms("error_ms", "maximum error of the estimate; null with a single bound"),
        count("batches", "batches", "batches compared"),
        text(
            "verdict",
            (
                "agree (0 is within the bounds), ahead, behind, one-sided (only one bound is "
                "known), stepped (the bounds contradict each other: a clock was set)"
            ),
        ),
    ),
)

HOLES: Final = ResultTable(
    "holes",
    (
        "One row per hole: offsets of the quorum's log that no copy supplies. In the other tables "
        "it is named by its first and last offset."
    ),
    (
        count("start_offset", "offset", "first offset that is missing"),
        count("end_offset", "offset", "offset after the last"),
        count("records", "records", "number of records that are missing"),
        at("before_ms", "append time of the batch before; null at the start of the log"),
        at("after_ms", "append time of the batch after; null at the end of the log"),
        id_("epoch_before", "epoch of the batch before"),
        id_("epoch_after", "epoch of the batch after; if it differs, elections may be missing"),
        text("facts", "what each replica has there"),
    ),
)

RESULTS: Final = (
    REPLICATION_LAG,
    REPLICA_LAG,
    STATUS,
    LEADERSHIP,
    COMMITS,
    VOTERS,
    MOVES,
    MOVE_STEPS,
    MOVE_REPLICAS,
    OPERATIONS,
    TOPICS,
    TOPIC_EVENTS,
    BROKERS,
    BROKER_ACTIVITY,
    BROKER_EVENTS,
    CLOCKS,
    HOLES,
)
"""All tables, in the order of the page."""


def as_markdown() -> str:
    """The tables as docs/lag_tables.md has them; a test compares the two."""
    parts = []
    for table in RESULTS:
        rows = [
            f"| `{each.name}` | {each.type} | {each.unit} | {each.meaning} |"
            for each in table.columns
        ]
        head = [f"### {table.name}", "", table.meaning, "", "| column | type | unit | meaning |"]
        parts.append("\n".join([*head, "| --- | --- | --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"
