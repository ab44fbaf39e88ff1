"""The tables of a report: every column with its type, unit and meaning.

Moments are milliseconds since 1970, named `*_ms` or `*_at_ms`; durations are milliseconds. Null is
"unknown", never zero: most often the replica has no index of append times, as in Kafka's logs.
`docs/lag.md` has the same tables; a test compares them.

Definition of lag: at time t, a replica's lag in records is the number of records that the leader
had and the replica did not; its lag in ms is the time since the leader appended the first of them.
Both are 0 if no record is missing.
"""

from typing import Final, NamedTuple


class Column(NamedTuple):
    """One column of a result."""

    name: str
    type: str
    """As Spark's DDL has it."""
    unit: str
    """What one is one of: `ms` is a duration, `time` a moment in ms since 1970; else empty."""
    meaning: str


class ResultTable(NamedTuple):
    """What one report says."""

    name: str
    meaning: str
    """What a row is, and of what there are rows."""
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The columns as Spark reads them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
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
    """The id of a node, broker, partition or epoch."""
    return Column(name, "INT", "id", meaning)


def ids(name: str, meaning: str) -> Column:
    """Several ids, in order."""
    return Column(name, "ARRAY<INT>", "id", meaning)


def flag(name: str, meaning: str) -> Column:
    """Yes or no."""
    return Column(name, "BOOLEAN", "", meaning)


_REPLICA: Final = text("replica", "the copy of the log, by its node id")
_FROM: Final = at("window_start_ms", "where the window begins, exclusive")
_TO: Final = at("window_end_ms", "where it ends, inclusive; the last one ends with the report")
_P50: Final = "not exceeded during half of the time; time is sampled, see `samples`"

_LAG_OVER_TIME: Final = (
    ms("p50_ms", f"lag that was {_P50}"),
    ms("p95_ms", "lag that was not exceeded during 95 % of the time"),
    ms("p99_ms", "lag that was not exceeded during 99 % of the time"),
    ms("max_ms", "the greatest lag there was, exactly and not by samples"),
    at("worst_at_ms", "when it was that great, by the clock of the leader"),
    ms(
        "clock_ms",
        "how far its clock is certainly ahead of the leader's (behind: below zero), as the logs "
        "prove; this much has been taken out of its times, and no more",
    ),
)

REPLICATION_LAG: Final = ResultTable(
    "replication_lag",
    "One row for each replica and window of time: how far it was behind. A replica that is dead has"
    " rows up to the end of the report, as if it lived and appended nothing.",
    (
        _REPLICA,
        _FROM,
        _TO,
        count("log_end", "offset", "end of its log, exclusive, when the window ended"),
        count("records_behind", "records", "how many records it lacked when the window ended"),
        count("records_behind_max", "records", "the most that it lacked at a sample"),
        ms("lag_ms", "its lag when the window ended"),
        *_LAG_OVER_TIME,
        number(
            "trend_ms_per_s",
            "ms/s",
            "how fast its lag grew in the window, by least squares over the samples; 1000 is a"
            " replica that stands still, below zero it catches up",
        ),
        count("samples", "samples", "at how many moments, evenly spread, the lag was looked at"),
    ),
)

REPLICA_LAG: Final = ResultTable(
    "replica_lag",
    "One row for each replica: its lag over the whole time, and where its log ends.",
    (
        _REPLICA,
        id_("node_id", "the node, where its folder names it"),
        count("log_start", "offset", "the first offset that it holds"),
        count("log_end", "offset", "the end of its log, exclusive"),
        id_("last_epoch", "the epoch of its last record"),
        count("records_behind", "records", "how many records of the longest log it lacks"),
        count("records_diverging", "records", "how many of its own are not in the longest log"),
        at("waits_since_ms", "when the leader had the first record that it lacks, if any"),
        at("last_append_ms", "when it appended last, as it was last seen"),
        ms(
            "lag_ms",
            "its lag at the end of the report; where its log ends is known without append times",
        ),
        *_LAG_OVER_TIME,
        flag("has_append_times", "whether it has an index of append times"),
    ),
)

STATUS: Final = ResultTable(
    "status",
    "One row for each replica: how it is at the end of the report, by rules over the last windows.",
    (
        _REPLICA,
        text("status", "OK, WARN, ERR, STALLED or STOPPED"),
        text("rule", "the rule that fired, by its name; the first that does counts"),
        text("facts", "a sentence with the figures that the rule looked at"),
        at("since_ms", "since when it waits for the record that it lacks, if it lacks any"),
        count("records_behind", "records", "how many records it lacks"),
        ms("lag_ms", "its lag at the end of the report"),
    ),
)

LEADERSHIP: Final = ResultTable(
    "leadership",
    "One row for each epoch of which the log tells, in order.",
    (
        id_("epoch", "the epoch"),
        id_("leader", "who led it"),
        count("start_offset", "offset", "of its first record"),
        count("end_offset", "offset", "end of its records, exclusive"),
        at("elected_at_ms", "when the leader appended its first record"),
        at("last_append_ms", "when it appended its last record"),
        ms("tenure_ms", "from its first record to its last: it led at least that long"),
        count(
            "elections_lost",
            "epochs",
            "epochs since the one before that left no record: nobody won; null for the first epoch",
        ),
        ms(
            "gap_ms",
            "from the last record of the leader before to the first of this one: no longer than"
            " that was there no leader; null for the first epoch, 0 where clocks overlap",
        ),
        ids("voters", "who could vote, as the leader wrote it"),
        text(
            "ended",
            "why it ended, where the log tells: leading (it has not), removed (its leader is no"
            " voter any more), restarted (its leader registered anew soon after), gone (its"
            " own log holds nothing later), away (it goes on, but not soon), followed (the leader"
            " lived and followed the next one: handed over, or cut off), unknown",
        ),
        text("facts", "a sentence with what that rests upon"),
    ),
)

COMMITS: Final = ResultTable(
    "commits",
    "One row for each window of time, by when the leader appended.",
    (
        _FROM,
        _TO,
        count("batches", "batches", "how many were appended"),
        count("records", "records", "how many records were in them, control records included"),
        count("bytes", "bytes", "their size"),
        number("records_per_s", "records/s", "rate over the window"),
        number("batches_per_s", "batches/s", "rate over the window"),
        number("records_p50", "records", "records of a batch: half of them have no more"),
        number("records_max", "records", "records of the largest batch"),
        number("bytes_p50", "bytes", "bytes of a batch: half of them have no more"),
        number("bytes_max", "bytes", "bytes of the largest batch"),
        count(
            "majority_known",
            "batches",
            "of how many batches it is known when a majority of the voters had them",
        ),
        ms("majority_p50_ms", "from the append of the leader until a majority had it: the median"),
        ms("majority_p95_ms", "the same: 95 % were no slower"),
        ms("majority_p99_ms", "the same: 99 % were no slower"),
        ms("majority_max_ms", "the same: the slowest"),
        at("majority_worst_at_ms", "when the leader appended the slowest, the first of several"),
    ),
)

VOTERS: Final = ResultTable(
    "voters",
    "One row for each voter assignment, in order, with how many failures it could have survived.",
    (
        count("offset", "offset", "of the record"),
        id_("epoch", "of the record"),
        at("at_ms", "since when it was in force: when the leader appended it"),
        at("until_ms", "when the next one was appended, or the end of the report"),
        ms("duration_ms", "how long it was in force"),
        Column("current", "ARRAY<STRING>", "", "the voters, as id or id@directory"),
        Column("target", "ARRAY<STRING>", "", "who is to vote in the end; null if nothing changes"),
        text("kind", "what record it is"),
        count("tolerates", "failures", "so many voters may fail, if all of them keep up"),
        ms("survived_2_ms", "for how long two or more failures could have been survived"),
        ms("survived_1_ms", "for how long one failure could have been, but not two"),
        ms("survived_0_ms", "for how long none could have been: a majority kept up, no more"),
        ms("no_majority_ms", "for how long not even a majority kept up"),
        ms("unknown_ms", "for how long nobody knows: append times of voters are missing"),
    ),
)

_PARTITION: Final = (
    text("topic_id", "of the partition"),
    text("topic", "its name, where the log has it"),
    id_("partition", "of that topic"),
    count("number", "", "which reassignment of this partition, from 1"),
)

MOVES: Final = ResultTable(
    "moves",
    "One row for each reassignment of one partition, ours and Kafka's.",
    (
        *_PARTITION,
        count(
            "move_id",
            "",
            "the move of metaquorum to which it belongs; null for Kafka's, and if one record did "
            "all of it",
        ),
        at("started_ms", "when the first of its records was appended"),
        at("ended_ms", "when the last was; null while it goes on"),
        ms("duration_ms", "from start to end, or to the end of the report"),
        text(
            "outcome",
            "completed, cancelled (over, without what was asked for), superseded, "
            "gone (topic deleted), running, stuck",
        ),
        ids("from_replicas", "the replicas before"),
        ids("planned", "the replicas that were asked for"),
        ids("actual", "the replicas when it ended, or now"),
        flag("as_planned", "whether they are what was asked for, order included"),
        count(
            "steps_planned",
            "steps",
            "in how many it could be done with the limits in force when it began; 1 without limits",
        ),
        count("steps", "steps", "how many steps it took"),
        ids("added", "replicas that it brought into the set"),
        ids("removed", "replicas that it took out"),
        id_("slowest", "the added replica that took longest to come into the ISR"),
        ms(
            "slowest_ms",
            "how long that took; if it has not come, as long as its step lasted, or so far",
        ),
        at("last_progress_ms", "the last record about this partition while it was moved"),
    ),
)

MOVE_STEPS: Final = ResultTable(
    "move_steps",
    "One row for each step of a reassignment: it grows, catches up and drops.",
    (
        *_PARTITION,
        count("step", "", "which step of that reassignment, from 1"),
        count("offset", "offset", "of the record that began it"),
        at("started_ms", "when that was appended"),
        at(
            "ended_ms",
            "when the record after which nothing was adding or removing, or something else, was "
            "appended",
        ),
        ms("duration_ms", "from start to end, or to the end of the report"),
        ids("adding", "replicas that it adds"),
        ids("removing", "replicas that it removes"),
        at(
            "caught_up_ms",
            "when the last of those that it adds came into the ISR; null if one has not, or it "
            "adds none",
        ),
        ms("catch_up_ms", "how long that took since the step began"),
    ),
)

MOVE_REPLICAS: Final = ResultTable(
    "move_replicas",
    "One row for each replica that a step adds: how long it took to catch up.",
    (
        *_PARTITION,
        count("step", "", "of that reassignment, from 1"),
        id_("broker_id", "the replica"),
        at("added_ms", "when it was told to fetch"),
        at("in_sync_ms", "when it came into the ISR; null if it has not"),
        ms("catch_up_ms", "how long that took; null if it has not"),
        flag("stuck", "whether it has not, and its move stands still"),
    ),
)

OPERATIONS: Final = ResultTable(
    "operations",
    "One row for each move of metaquorum: what an operator asked for, of any number of partitions.",
    (
        count("move_id", "", "by which it is asked about"),
        text("kind", "reassign, drain or rollback"),
        text("name", "as its asker named it; empty if not"),
        text("who", "who asked"),
        at("asked_ms", "when it was asked for, by the clock of the controller"),
        at("ended_ms", "when the last of its partitions had left it; null while it runs"),
        ms("duration_ms", "from asking to its end, or to the end of the report"),
        text("outcome", "completed, cancelled, superseded, gone, running, paused or stuck"),
        count("partitions_planned", "partitions", "how many were accepted"),
        count("partitions_refused", "partitions", "how many were not"),
        count("partitions_completed", "partitions", "how many arrived as asked for"),
        count("partitions_cancelled", "partitions", "how many were cancelled"),
        count("partitions_superseded", "partitions", "how many another move took over"),
        count("partitions_gone", "partitions", "how many were deleted meanwhile"),
        ms("paused_ms", "how long it was paused, by whoever"),
        ms("slowest_partition_ms", "the longest that one of its partitions took"),
    ),
)

BROKERS: Final = ResultTable(
    "brokers",
    "One row for each broker of which the log tells, from its beginning to the end of the report.",
    (
        id_("broker_id", "the broker"),
        text("state", "unfenced, fenced, stopping or unregistered, at the end of the report"),
        at("state_since_ms", "since when"),
        count("registrations", "times", "how often it registered: once for each start"),
        at("first_registered_ms", "when it first did"),
        at("last_registered_ms", "when it last did"),
        count("fencings", "times", "how often it was fenced; a registration is none"),
        count("unfencings", "times", "how often it was let in again"),
        count("shutdowns", "times", "how often it began a controlled shutdown"),
        ms("fenced_ms", "how long it was fenced, from registration to unfencing included"),
        ms("longest_fenced_ms", "the longest of these times"),
        count("isr_shrinks", "times", "how often it left the ISR of a partition"),
        count("isr_expands", "times", "how often it came into one"),
        count("moves_in", "partitions", "reassignments that added it"),
        count("moves_out", "partitions", "reassignments that removed it"),
    ),
)

BROKER_ACTIVITY: Final = ResultTable(
    "broker_activity",
    "One row for each broker and window in which something happened to it: a heat map of brokers.",
    (
        id_("broker_id", "the broker"),
        _FROM,
        _TO,
        count("registrations", "times", "how often it registered"),
        count("fencings", "times", "how often it was fenced"),
        count("unfencings", "times", "how often it was let in again"),
        count("isr_shrinks", "times", "how often it left the ISR of a partition"),
        count("isr_expands", "times", "how often it came into one"),
        count("moves_in", "partitions", "reassignments begun that add it"),
        count("moves_out", "partitions", "reassignments begun that remove it"),
    ),
)

BROKER_EVENTS: Final = ResultTable(
    "broker_events",
    "One row for each thing that happened to a broker up to the end of the report, in order.",
    (
        id_("broker_id", "the broker"),
        count("offset", "offset", "of the record"),
        at("at_ms", "when the leader appended it"),
        text("event", "registered, fenced, unfenced, stopping or unregistered"),
        count("broker_epoch", "", "of that incarnation of the broker"),
        at("until_ms", "when the next thing happened to it, or the end of the report"),
    ),
)

CLOCKS: Final = ResultTable(
    "clocks",
    "One row for each two replicas: how far the clock of one is ahead of the other's, in bounds.",
    (
        _REPLICA,
        text("relative_to", "the replica whose clock it is compared with"),
        ms("at_least_ms", "its clock is ahead by no less; null if nobody knows"),
        ms("at_most_ms", "its clock is ahead by no more; null if nobody knows"),
        ms(
            "estimate_ms",
            "the middle of the bounds; the one that is known, where only one is: then the fastest"
            " batch is taken to have needed no time",
        ),
        ms("error_ms", "how far the estimate may be from the truth; null with a single bound"),
        count("batches", "batches", "how many batches were compared"),
        text(
            "verdict",
            "agree (0 is within the bounds), ahead, behind, one-sided (the log cannot tell a clock"
            " from a replica that is never faster), stepped (the bounds contradict each other)",
        ),
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
    BROKERS,
    BROKER_ACTIVITY,
    BROKER_EVENTS,
    CLOCKS,
)
"""All of them, in the order in which they are shown."""


def as_markdown() -> str:
    """The tables as they appear in docs/lag.md; a test keeps the two identical."""
    parts = []
    for table in RESULTS:
        rows = [
            f"| `{each.name}` | {each.type} | {each.unit} | {each.meaning} |"
            for each in table.columns
        ]
        head = [f"#### {table.name}", "", table.meaning, "", "| column | type | unit | meaning |"]
        parts.append("\n".join([*head, "| --- | --- | --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"
