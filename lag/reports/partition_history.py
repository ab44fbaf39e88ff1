"""The history of every partition: its state after each record, and its reassignments.

A record says only what changes; the history carries the rest forward. A partition is *moving* while
it has adding or removing replicas or a target (ours, between two steps). A reassignment begins when
a partition starts moving or its planned replicas change; one that needs no catch-up begins and ends
with the same record. `number` counts them from 1.

The history keeps only what the reports need: the records of reassignments, first to last, and the
ISR changes per broker and window. One row each:

    topic_id, partition, offset, append_ms
    replicas, isr, adding, removing       after the record; some also as `*_before`
    planned                               the replicas at the end of the reassignment
    moving, begins                        moving after the record; a reassignment begins here
    number                                of the reassignment in progress
    move_id                               the move of metaquorum, null for none
    segment, settled                      the holes before the record; its state before is known
    broker_id, window, what, times        counts of ISR changes; all other columns are null then
    topic_id, offset, to_offset, append_ms, what, times
                                          the partitions of a topic that were created at one time

Spark brings the packs of one share of the partitions together, in order; `Histories` processes them
as numpy columns. A list of brokers is represented by a number, equal lists by the same number. The
state of each partition at the end of a pack is put before its first record in the next pack.

A hole of the log may hide records of any partition. Behind it, everything is unknown that no record
has said again: whether the partition moves, its replicas, its ISR. A change whose state before is
unknown counts for `NOBODY`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports.brokers import NOBODY
from lag.reports.dataframes import mapped
from lag.reports.holes import NONE, Holes
from lag.reports.scope import Scope
from lag.source.record_packs import LISTS, from_bytes, joined, packed_rows, unpacked
from lag.source.schemas import ARROW_TYPES, PACKS, RECORDS, Table

UNKNOWN: Final = -1
"""An unknown list."""
EMPTY: Final = 0
"""The empty list."""
NO_MOVE: Final = -(1 << 63)
"""No record about a move so far."""
_CARRIED: Final = (*LISTS, "move_id", "whole")
"""What carries over from one record to the next; `whole` is 1 behind a record of the whole state.
"""

HISTORY: Final = (
    ("topic_id", "STRING"), ("partition", "INT"), ("offset", "BIGINT"), ("append_ms", "BIGINT"),
    ("number", "BIGINT"), ("move_id", "BIGINT"), ("begins", "BOOLEAN"), ("moving", "BOOLEAN"),
    ("replicas", "ARRAY<INT>"), ("isr", "ARRAY<INT>"), ("adding", "ARRAY<INT>"),
    ("removing", "ARRAY<INT>"), ("planned", "ARRAY<INT>"), ("replicas_before", "ARRAY<INT>"),
    ("adding_before", "ARRAY<INT>"), ("removing_before", "ARRAY<INT>"),
    ("segment", "INT"), ("settled", "BOOLEAN"),
    ("broker_id", "INT"), ("window", "BIGINT"), ("what", "STRING"), ("times", "BIGINT"),
    ("to_offset", "BIGINT"),
)  # fmt: skip
"""Columns of three kinds of rows: one for each record of a reassignment; with `broker_id`, how
often the broker joined or left ISRs (`what`) in a window; with `what` `ADDED`, how many partitions
were created.
"""
ADDED: Final = "added"
SCHEMA: Final = pa.schema([pa.field(name, ARROW_TYPES[type_]) for name, type_ in HISTORY])
_OF_LISTS: Final = tuple(name for name, type_ in HISTORY if type_.startswith("ARRAY"))


ROWS_AT_ONCE: Final = 65_536
"""The number of records that are processed together, or half the number of partitions if larger."""


class Range(NamedTuple):
    """The records of a log or a snapshot that count, and their offsets."""

    replica: str
    snapshot: str | None
    """File name; None for the log."""
    first: int = 0
    behind: int | None = None
    """Records of a log in [`first`, `behind`) count; None is no bound."""
    stands_at: int | None = None
    """All records of a snapshot count, in order, at this offset."""

    def is_of(self, replica: str, path: str, source: str) -> bool:
        """True if the pack belongs to this file."""
        if replica != self.replica:
            return False
        if self.snapshot is None:
            return source == "log"
        return source == "snapshot" and path.rpartition("/")[2] == self.snapshot


class BrokerLists:
    """Numbers for lists of brokers; equal lists have the same number."""

    def __init__(self) -> None:
        self._lists: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): EMPTY}
        self._known: dict[tuple[str, int, int], int] = {}

    def number(self, brokers: Iterable[int] | None) -> int:
        """The number of this list."""
        if brokers is None:
            return UNKNOWN
        found = tuple(brokers)
        known = self._numbers.get(found)
        if known is None:
            known = self._numbers[found] = len(self._lists)
            self._lists.append(found)
        return known

    def brokers(self, number: int) -> tuple[int, ...]:
        """The list with this number."""
        return self._lists[number]

    def is_any(self, numbers: Any) -> Any:
        """A mask of the lists that are not empty."""
        return numbers > EMPTY

    def without(self, kept: Any, dropped: Any) -> Any:
        """Each list without the brokers of another; unknown if it is unknown."""
        return self._of_pairs("without", kept, dropped, _without)

    def _of_pairs(
        self, name: str, ones: Any, others: Any, made: Callable[[Any, Any], Iterable[int]]
    ) -> Any:
        pairs, places = np.unique(ones << 32 | (others & 0xFFFFFFFF), return_inverse=True)
        found = np.empty(len(pairs), np.int64)
        for at, pair in enumerate(pairs.tolist()):
            one, other = pair >> 32, pair & 0xFFFFFFFF
            key = (name, one, other)
            if one == UNKNOWN:
                found[at] = UNKNOWN
                continue
            if key not in self._known:
                self._known[key] = self.number(made(self._lists[one], self._lists[other]))
            found[at] = self._known[key]
        return found[places]

    def column(self, numbers: Any) -> Any:
        """These lists as an Arrow column."""
        used, places = np.unique(numbers, return_inverse=True)
        lists = [None if each == UNKNOWN else self._lists[each] for each in used.tolist()]
        return pa.array(lists, ARROW_TYPES["ARRAY<INT>"]).take(pa.array(places))


def _without(kept: Sequence[int], dropped: Sequence[int]) -> list[int]:
    return [each for each in kept if each not in dropped]


class _Rows(NamedTuple):
    """Records by partition, in order."""

    of: Any
    """The partition as a rising number."""
    is_first: Any
    """True for the first row of a partition."""
    is_old: Any
    """True for the state of a partition at the end of the previous pack."""
    offset: Any
    append_ms: Any
    is_timed: Any
    created: Any
    said: dict[str, Any]
    """The content by column of `_CARRIED`."""
    begun: Any
    """The number of reassignments before, in the first row of a partition; else 0."""


class Histories:
    """The histories of one share of the partitions."""

    def __init__(self, scope: Scope, ranges: Sequence[Range], holes: Holes = NONE) -> None:
        """`ranges` select the records that count."""
        self._scope = scope
        self._ranges = ranges
        self._hole_ends = np.array([hole.end for hole in holes.holes], np.int64)
        self.lists = BrokerLists()
        self._topics: dict[str | None, int] = {}
        self._names: list[str | None] = []
        self._old: _Rows | None = None

    def process(self, packs: Iterable[Any]) -> Any:
        """The history rows of further packs, as a `pyarrow.RecordBatch` of `SCHEMA`."""
        return joined(self._process(packs), SCHEMA)

    def _process(self, packs: Iterable[Any]) -> Iterator[Any]:
        gathered: list[_Rows] = []
        count = 0
        for pack in packs:
            gathered.append(self._rows(pack))
            count += len(gathered[-1].of)
            known = 0 if self._old is None else len(self._old.of)
            if count >= max(ROWS_AT_ONCE, known // 2):
                yield from self._history(self._in_order(gathered))
                gathered, count = [], 0
        if count:
            yield from self._history(self._in_order(gathered))

    def _rows(self, pack: dict[str, Any]) -> _Rows:
        """The records of a pack that count."""
        rows, said = from_bytes(pack["rows"]), from_bytes(pack["said"])
        offset, wanted = self._offsets(pack, rows["offset"].to_numpy())
        rows, offset = rows.filter(pa.array(wanted)), offset[wanted]
        codes = rows["code"].to_numpy()
        times = rows["append_ms"]
        created = said["created"].to_numpy(zero_copy_only=False)[codes]
        return _Rows(
            self._partitions(rows),
            np.zeros(len(rows), np.bool_),
            np.zeros(len(rows), np.bool_),
            offset,
            times.fill_null(0).to_numpy(),
            times.is_valid().to_numpy(zero_copy_only=False),
            created,
            {name: column[codes] for name, column in self._contents(said).items()},
            np.zeros(len(rows), np.int64),
        )

    def _in_order(self, gathered: list[_Rows]) -> _Rows:
        """These records by partition, after the earlier state of each."""
        both = _joined(gathered if self._old is None else [self._old, *gathered])
        # The earlier state comes first, and records with equal offsets keep their order.
        order = np.lexsort((both.offset, ~both.is_old, both.of))
        both = _taken(both, order)
        is_first = np.ones(len(both.of), np.bool_)
        is_first[1:] = both.of[1:] != both.of[:-1]
        return both._replace(is_first=is_first)

    def _offsets(self, pack: dict[str, Any], offset: Any) -> tuple[Any, Any]:
        """The offset of each record in the quorum's log, and a mask of those that count."""
        counts = np.zeros(len(offset), np.bool_)
        for each in self._ranges:
            if each.is_of(pack["replica"], pack["path"], pack["source"]):
                if each.stands_at is not None:
                    return np.full(len(offset), each.stands_at, np.int64), offset >= 0
                wanted = offset >= each.first
                counts |= wanted if each.behind is None else wanted & (offset < each.behind)
        return offset, counts

    def _partitions(self, rows: Any) -> Any:
        topics = rows["topic_id"].dictionary_encode()
        known = []
        for name in topics.dictionary.to_pylist():
            if name not in self._topics:
                self._topics[name] = len(self._names)
                self._names.append(name)
            known.append(self._topics[name])
        of_topic = np.array(known, np.int64)[topics.indices.to_numpy()]
        return of_topic << 32 | rows["partition"].to_numpy().astype(np.int64)

    def _contents(self, said: Any) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: np.array([self.lists.number(each) for each in said[name].to_pylist()], np.int64)
            for name in LISTS
        }
        # A record with adding or removing replicas but no target (as Kafka writes it) clears it.
        is_mute = (found["target"] == UNKNOWN) & (
            (found["adding"] != UNKNOWN) | (found["removing"] != UNKNOWN)
        )
        found["target"] = np.where(is_mute, EMPTY, found["target"])
        # A partition without a target is in no move, regardless of its earlier state.
        move_id = said["move_id"].fill_null(NO_MOVE).to_numpy()
        found["move_id"] = np.where(found["target"] == EMPTY, 0, move_id)
        created = said["created"].to_numpy(zero_copy_only=False)
        found["whole"] = np.where(created, 1, UNKNOWN)
        return found

    def _history(self, rows: _Rows) -> Iterator[Any]:
        is_first = rows.is_first
        segment = np.searchsorted(self._hole_ends, rows.offset, side="right")
        # Nothing carries over a hole.
        starts = is_first.copy()
        starts[1:] |= segment[1:] != segment[:-1]
        carried = {name: _carried(column, starts) for name, column in rows.said.items()}
        now = {
            **carried,
            **{
                name: np.where(carried[name] == UNKNOWN, EMPTY, carried[name])
                for name in ("adding", "removing", "target")
            },
        }
        lists = self.lists
        moving = np.logical_or.reduce(
            [lists.is_any(now[name]) for name in ("adding", "removing", "target")]
        )
        is_whole = (carried["whole"] != UNKNOWN) | (segment == 0)
        # Behind a hole a list is unknown until it is said, and not empty.
        shown = {
            name: np.where(is_whole, now[name], carried[name]) for name in ("adding", "removing")
        }
        aimed = lists.without(now["replicas"], now["removing"])
        aimed = np.where(shown["removing"] == UNKNOWN, UNKNOWN, aimed)
        now["planned"] = np.where(lists.is_any(now["target"]), now["target"], aimed)
        before = {
            name: _before({**now, **shown}[name], starts, UNKNOWN)
            for name in ("replicas", "isr", "adding", "removing", "planned")
        }
        was_moving = _before(moving, starts, False)
        begins = _begins(now, before, moving, was_moving) & (~rows.created | moving)
        begins &= ~rows.is_old
        number = _summed(rows.begun + begins, is_first)
        is_sure = (shown["adding"] != UNKNOWN) & (shown["removing"] != UNKNOWN)
        settled = (segment == 0) | rows.created | _before(is_sure, starts, False)
        self._old = _last(rows, carried, number)
        yield from self._isr_changes(rows, now["isr"], before["isr"])
        is_new = ~rows.created & ~rows.is_old & (segment > 0)
        unsure = is_new & (now["isr"] != UNKNOWN) & (before["isr"] == UNKNOWN)
        yield from self._uncertain("isr_changes", rows, unsure)
        unsure = is_new & (now["replicas"] != UNKNOWN) & (before["replicas"] == UNKNOWN)
        yield from self._uncertain("moves", rows, unsure | (begins & ~settled))
        yield from self._added(rows)
        is_shown = (begins | was_moving) & (number > 0) & ~rows.is_old
        if self._scope.end_offset is not None:
            is_shown &= rows.offset < self._scope.end_offset
        if is_shown.any():
            columns = {
                **{name: now[name] for name in ("replicas", "isr")},
                **shown,
                "planned": now["planned"],
                **{f"{name}_before": before[name] for name in ("replicas", "adding", "removing")},
            }
            made = {name: lists.column(column[is_shown]) for name, column in columns.items()}
            move_id = carried["move_id"][is_shown]
            names = np.array(self._names, object)[rows.of[is_shown] >> 32]
            yield _batch(
                {
                    "topic_id": pa.array(names, pa.string()),
                    "partition": pa.array((rows.of[is_shown] & 0xFFFFFFFF).astype(np.int32)),
                    "offset": pa.array(rows.offset[is_shown]),
                    "append_ms": pa.array(rows.append_ms[is_shown], mask=~rows.is_timed[is_shown]),
                    "number": pa.array(number[is_shown]),
                    "move_id": pa.array(move_id, mask=move_id <= 0),
                    "begins": pa.array(begins[is_shown]),
                    "moving": pa.array(moving[is_shown]),
                    "segment": pa.array(segment[is_shown].astype(np.int32)),
                    "settled": pa.array(settled[is_shown]),
                    **made,
                }
            )

    def _uncertain(self, what: str, rows: _Rows, which: Any) -> Iterator[Any]:
        """The windows of changes whose state before is unknown."""
        which = which & rows.is_timed & (rows.append_ms <= self._scope.end_ms)
        if which.any():
            at_ms = rows.append_ms[which]
            windows, times = np.unique(
                (at_ms - self._scope.grid_ms - 1) // self._scope.window_ms, return_counts=True
            )
            yield _batch(
                {
                    "broker_id": pa.array([NOBODY] * len(windows), pa.int32()),
                    "window": pa.array(windows),
                    "what": pa.array([what] * len(windows), pa.string()),
                    "times": pa.array(times.astype(np.int64)),
                }
            )

    def _isr_changes(self, rows: _Rows, isr: Any, isr_before: Any) -> Iterator[Any]:
        """The number of times that each broker joined or left an ISR, per window."""
        known = (isr != UNKNOWN) & (isr_before != UNKNOWN)
        # The last window ends with the report.
        known &= rows.append_ms <= self._scope.end_ms
        changed = known & (isr != isr_before) & ~rows.created & ~rows.is_old
        if not changed.any():
            return
        window = (rows.append_ms[changed] - self._scope.grid_ms - 1) // self._scope.window_ms
        pairs, places = np.unique(isr[changed] << 32 | isr_before[changed], return_inverse=True)
        kinds, times = np.unique(np.stack([places.reshape(-1), window]), axis=1, return_counts=True)
        counted: dict[tuple[int, int, str], int] = {}
        for place, at, count in zip(*kinds.tolist(), times.tolist(), strict=True):
            now, old = (
                set(self.lists.brokers(int(each)))
                for each in (pairs[place] >> 32, pairs[place] & 0xFFFFFFFF)
            )
            for what, brokers in (("isr_expands", now - old), ("isr_shrinks", old - now)):
                for broker in brokers:
                    key = (broker, at, what)
                    counted[key] = counted.get(key, 0) + count
        keys = list(counted)
        yield _batch(
            {
                "broker_id": pa.array([broker for broker, _, _ in keys], pa.int32()),
                "window": pa.array([at for _, at, _ in keys], pa.int64()),
                "what": pa.array([what for _, _, what in keys], pa.string()),
                "times": pa.array([counted[key] for key in keys], pa.int64()),
            }
        )

    def _added(self, rows: _Rows) -> Iterator[Any]:
        """The number of partitions of each topic that were created at one time."""
        is_new = rows.created & ~rows.is_old
        if self._scope.end_offset is not None:
            is_new &= rows.offset < self._scope.end_offset
        if not is_new.any():
            return
        topic, offset = rows.of[is_new] >> 32, rows.offset[is_new]
        at_ms = np.where(rows.is_timed[is_new], rows.append_ms[is_new], UNKNOWN)
        order = np.lexsort((offset, at_ms, topic))
        topic, offset, at_ms = topic[order], offset[order], at_ms[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (topic[1:] != topic[:-1]) | (at_ms[1:] != at_ms[:-1])
        begins = np.nonzero(is_first)[0]
        ends = np.append(begins[1:], len(order))
        names = np.array(self._names, object)[topic[begins]]
        times = at_ms[begins]
        yield _batch(
            {
                "topic_id": pa.array(names, pa.string()),
                "offset": pa.array(offset[begins]),
                "to_offset": pa.array(offset[ends - 1]),
                "append_ms": pa.array(times, mask=times == UNKNOWN),
                "what": pa.repeat(pa.scalar(ADDED), len(begins)),
                "times": pa.array(ends - begins),
            }
        )


def _begins(now: dict[str, Any], before: dict[str, Any], moving: Any, was_moving: Any) -> Any:
    """A mask of the records that begin a reassignment."""

    def differs(name: str) -> Any:
        # If the log begins later than the partition, the earlier state is unknown.
        known = (now[name] != UNKNOWN) & (before[name] != UNKNOWN)
        return known & (now[name] != before[name])

    return np.where(moving, ~was_moving | differs("planned"), ~was_moving & differs("replicas"))


def _carried(column: Any, is_first: Any) -> Any:
    """Carry values forward: for each row the last known value of its partition."""
    nothing = NO_MOVE if column.min(initial=0) == NO_MOVE else UNKNOWN
    at = np.where((column != nothing) | is_first, np.arange(len(column)), 0)
    return column[np.maximum.accumulate(at)]


def _before(column: Any, is_first: Any, none: Any) -> Any:
    """For each row the value of the previous row of its partition."""
    found = np.roll(column, 1)
    found[is_first] = none
    return found


def _summed(column: Any, is_first: Any) -> Any:
    """The running sum within each partition."""
    whole = np.cumsum(column)
    begins = np.nonzero(is_first)[0]
    before = whole[begins] - column[begins]
    return whole - np.repeat(before, np.diff(np.append(begins, len(column))))


def _last(rows: _Rows, carried: dict[str, Any], number: Any) -> _Rows:
    """The final state of each partition, as rows to put before the next pack."""
    ends = np.append(np.nonzero(rows.is_first)[0][1:], len(rows.of)) - 1
    last = _taken(rows._replace(said=carried, begun=number), ends)
    return last._replace(is_old=np.ones(len(ends), np.bool_))


def _taken(rows: _Rows, places: Any) -> _Rows:
    said = {name: column[places] for name, column in rows.said.items()}
    return _Rows(*(said if part is rows.said else part[places] for part in rows))


def _joined(parts: Sequence[_Rows]) -> _Rows:
    said = {name: np.concatenate([part.said[name] for part in parts]) for name in _CARRIED}
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in _Rows._fields
        if name != "said"
    }
    return _Rows(said=said, **columns)


def _batch(columns: dict[str, Any]) -> Any:
    count = len(next(iter(columns.values())))
    arrays = [columns.get(name, pa.nulls(count, SCHEMA.field(name).type)) for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


_PACK: Final = ("replica", "path", "source", "rows", "said")


def partition_history(
    packs: DataFrame, ranges: Sequence[Range], scope: Scope, holes: Holes = NONE
) -> DataFrame:
    """The history, from packs; `ranges` select the records of the quorum's log."""
    # The state from before the log comes first.
    place = F.when(F.col("source") == "log", F.col("low")).otherwise(-1)
    in_order = (
        packs.where(F.col("share").isNotNull())
        .select(*_PACK, "share", "low", place.alias("place"))
        .repartitionById(shares_of(packs), "share")
        .sortWithinPartitions("place", "low")
    )
    return mapped(in_order.select(*_PACK), partial(_histories, ranges, scope, holes), HISTORY)


def _histories(
    ranges: Sequence[Range], scope: Scope, holes: Holes, batches: Iterator[Any]
) -> Iterator[Any]:
    histories = Histories(scope, ranges, holes)
    for batch in batches:
        yield histories.process(_each(batch))


def _each(packs: Any) -> Iterator[dict[str, Any]]:
    """The packs of a batch, one by one."""
    for at in range(len(packs)):
        yield {name: packs[name][at].as_py() for name in packs.schema.names}


def shares_of(table: DataFrame) -> int:
    """The number of shares of the partitions: the number of tasks after a shuffle."""
    return int(table.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


def packed(records: DataFrame) -> DataFrame:
    """Pack records that are rows, as the source does."""
    in_order = records.repartitionByRange("replica", "path", "offset").sortWithinPartitions(
        "replica", "path", "offset"
    )
    columns = [(column.name, column.type) for column in PACKS.columns]
    return mapped(in_order, partial(_packed, shares_of(records)), columns)


def _packed(shares: int, batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield packed_rows(batch, PACKS, shares)


def others(packs: DataFrame, names: Sequence[str]) -> DataFrame:
    """The records about no partition, with these columns."""
    wanted = RECORDS.only(tuple(names))
    columns = [(column.name, column.type) for column in wanted.columns]
    whole = packs.where(F.col("share").isNull()).select(*_PACK)
    return mapped(whole, partial(_unpacked, wanted), columns)


def _unpacked(wanted: Table, batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield joined((unpacked(pack, wanted) for pack in _each(batch)), wanted.arrow())
