"""The accounts of the other twins for a log with holes, by the words in docs/lag.md.

What a hole may have changed is unknown from there on, until a record says it. Partitions are not
replayed by the state machine, which knows no unknowns: each field is what the last record behind
the hole says of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from quorum.core.vocabulary import uuid_to_text
from statemachine.records import kafka_records, own_records
from statemachine.vocabulary import BROKER_RESOURCE, Replicas
from tests.lag.twins import slow_brokers, slow_operations
from tests.lag.twins.slow_moves import IN_ALL, PER_STEP, STUCK_MS, steps_planned
from tests.lag.twins.slow_quorum import SlowTime
from tests.lag.twins.slow_reading import SlowHole, SlowRecord

Row = dict[str, Any]
Key = tuple[str, int]
CLOCKS_MS: Final = 5_000
FOREVER_MS: Final = 1 << 50


@dataclass(frozen=True)
class SlowHoles:
    """The holes of a log, and the greatest difference between the clocks of its leaders."""

    holes: Sequence[SlowHole]
    clocks_ms: int = CLOCKS_MS

    def segment(self, offset: int) -> int:
        """The number of holes before a record."""
        return sum(hole.end <= offset for hole in self.holes)

    def between(self, first: int, end: float) -> list[SlowHole]:
        return [hole for hole in self.holes if first < hole.end and hole.first < end]

    def touches(self, low_ms: int, high_ms: int) -> bool:
        """True if a lost record may have been appended in this window, begin excluded."""
        for hole in self.holes:
            slack_ms = self.clocks_ms if hole.may_hide_election else 0
            known = [at for at in (hole.before_ms, hole.after_ms) if at is not None]
            least = -FOREVER_MS if hole.before_ms is None else min(known) - slack_ms
            most = FOREVER_MS if hole.after_ms is None else max(known) + slack_ms
            if least <= high_ms and most > low_ms:
                return True
        return False


# Partitions.


@dataclass(frozen=True)
class Said:
    """The known state of a partition; None is unknown."""

    replicas: Replicas | None = None
    isr: Replicas | None = None
    adding: Replicas | None = None
    removing: Replicas | None = None
    target: Replicas | None = None
    move: int | None = None
    is_whole: bool = False

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing or self.target)

    @property
    def is_sure(self) -> bool:
        """True if it is known whether it moves."""
        return self.is_whole or None not in (self.adding, self.removing)

    @property
    def aim(self) -> Replicas | None:
        if self.target:
            return self.target
        if self.replicas is None or (self.removing is None and not self.is_whole):
            return None
        return tuple(each for each in self.replicas if each not in (self.removing or ()))

    def then(self, record: kafka_records.Partition | kafka_records.PartitionChange) -> "Said":
        """The known state after the record."""
        names = ("replicas", "isr", "adding", "removing", "target", "move")
        told = {name: getattr(record, name) for name in names}
        if isinstance(record, kafka_records.Partition):
            return Said(**told, is_whole=True)
        if told["target"] is None and (told["adding"], told["removing"]) != (None, None):
            told["target"] = ()
        if told["target"] == ():
            told["move"] = 0
        known = {name: value for name, value in told.items() if value is not None}
        return replace(self, **known)


class Change(NamedTuple):
    """A record about a partition."""

    offset: int
    at_ms: int
    segment: int
    before: Said | None
    """None if it is the first, or the first behind a hole."""
    after: Said
    is_created: bool


@dataclass
class Move:
    """A reassignment, as far as it is known."""

    number: int
    begun: Change
    is_settled: bool
    """True if it is known that it begins here."""
    changes: list[Change] = field(default_factory=list)
    ended_ms: int | None = None
    how: str | None = None

    @property
    def segment(self) -> int:
        return self.begun.segment

    @property
    def planned(self) -> Replicas | None:
        return self.begun.after.aim


@dataclass
class Partition:
    """All that is known of one partition."""

    changes: list[Change] = field(default_factory=list)
    gone: tuple[int, int] | None = None
    """Time and segment."""


def partitions(
    log: Sequence[SlowRecord], holes: SlowHoles
) -> tuple[dict[Key, Partition], dict[str, str]]:
    """The partitions, and the names of topics."""
    found: dict[Key, Partition] = {}
    names: dict[str, str] = {}
    for each in log:
        said, segment = each.said, holes.segment(each.offset)
        if isinstance(said, kafka_records.Topic):
            names[uuid_to_text(said.topic_id)] = said.name
        if isinstance(said, kafka_records.RemoveTopic):
            for (topic, _), partition in found.items():
                if topic == uuid_to_text(said.topic_id):
                    partition.gone = (each.at_ms, segment)
        if isinstance(said, kafka_records.Partition | kafka_records.PartitionChange):
            key = (uuid_to_text(said.topic_id), said.partition_id)
            own = found.setdefault(key, Partition()).changes
            before = own[-1].after if own and own[-1].segment == segment else None
            after = (before or Said()).then(said)
            is_created = isinstance(said, kafka_records.Partition)
            own.append(Change(each.offset, each.at_ms, segment, before, after, is_created))
    return found, names


def moves_of(partition: Partition) -> list[Move]:
    """The reassignments of a partition."""
    found: list[Move] = []
    running: Move | None = None
    for change in partition.changes:
        if running is not None and running.segment != change.segment:
            running = None
        before, after = change.before, change.after
        was = before is not None and before.moving
        aims = (None if before is None else before.aim, after.aim)
        if after.moving:
            begins = not was or (None not in aims and aims[0] != aims[1])
        else:
            sets = (None if before is None else before.replicas, after.replicas)
            begins = not was and not change.is_created and None not in sets and sets[0] != sets[1]
        if begins:
            if running is not None:
                running.ended_ms, running.how = change.at_ms, "superseded"
            is_settled = change.segment == 0 or change.is_created
            is_settled |= before is not None and before.is_sure
            running = Move(len(found) + 1, change, is_settled)
            found.append(running)
        if running is not None:
            running.changes.append(change)
            if not after.moving:
                is_done = after.replicas == running.planned
                running.ended_ms = change.at_ms
                running.how = "completed" if is_done else "cancelled"
                running = None
    gone = partition.gone
    if running is not None and gone is not None and gone[1] == running.segment:
        running.ended_ms, running.how = gone[0], "gone"
    return found


class Step(NamedTuple):
    """A step of a reassignment."""

    begun: Change
    adding: Replicas | None
    removing: Replicas | None
    ended_ms: int | None
    is_settled: bool


def steps_of(move: Move) -> list[Step]:
    """The steps that are known."""
    found: list[Step] = []
    was: tuple[Replicas | None, Replicas | None] | None = None
    for change in move.changes:
        now = (change.after.adding, change.after.removing)
        is_first = change is move.begun
        if found and found[-1].ended_ms is None and now != was:
            found[-1] = found[-1]._replace(ended_ms=change.at_ms)
        at_once = is_first and not change.after.moving
        begins = any(now) and (is_first or now != was)
        if begins or at_once:
            over_ms = change.at_ms if at_once else None
            found.append(Step(change, *now, over_ms, move.is_settled or not is_first))
        was = now
    if found and found[-1].ended_ms is None and move.ended_ms is not None:
        found[-1] = found[-1]._replace(ended_ms=move.ended_ms)
    return found


def joined_ms(move: Move, step: Step, broker: int) -> int | None:
    """The time at which a replica that the step adds joined the ISR."""
    if not step.is_settled:
        return None
    for change in move.changes:
        if change.offset >= step.begun.offset and broker in (change.after.isr or ()):
            return change.at_ms
    return None


def limits(log: Iterable[SlowRecord], holes: SlowHoles, offset: int) -> dict[str, int] | None:
    """The limits in force at an offset; None if they are unknown."""
    known: dict[str, int | None] = {PER_STEP: 0, IN_ALL: 0}
    segment = 0
    for each in (each for each in log if each.offset <= offset):
        if holes.segment(each.offset) != segment:
            segment, known = holes.segment(each.offset), dict.fromkeys(known)
        said = each.said
        if not isinstance(said, kafka_records.Config) or said.name not in known:
            continue
        if (said.resource_type, said.resource_name) == (BROKER_RESOURCE, ""):
            value = (said.value or "").strip()
            known[said.name] = int(value) if value.isdecimal() else 0
    if holes.segment(offset) != segment:
        return None
    values = {name: value for name, value in known.items() if value}
    return None if None in known.values() else {n: v for n, v in values.items() if v is not None}


def moves(log: Sequence[SlowRecord], holes: SlowHoles, end_ms: int) -> dict[str, list[Row]]:
    """The tables `moves`, `move_steps` and `move_replicas`."""
    told: dict[str, list[Row]] = {"moves": [], "move_steps": [], "move_replicas": []}
    by_key, names = partitions(log, holes)
    for key, partition in by_key.items():
        for move in moves_of(partition):
            common = {"topic_id": key[0], "topic": names.get(key[0]), "partition": key[1]}
            common["number"] = move.number
            row = {**common, **_move(log, holes, move, end_ms)}
            told["moves"].append(row)
            is_open = move.segment < len(holes.holes)
            for number, step in enumerate(steps_of(move), 1):
                this = {**common, "step": number}
                told["move_steps"].append({**this, **_step(move, step, end_ms, is_open=is_open)})
                for broker in step.adding or ():
                    told["move_replicas"].append({**this, **_replica(move, step, broker, row)})
    return told


def _move(log: Sequence[SlowRecord], holes: SlowHoles, move: Move, end_ms: int) -> Row:
    first, last, planned = move.begun, move.changes[-1], move.planned
    is_open = move.ended_ms is None and move.segment < len(holes.holes)
    until_ms = end_ms if move.ended_ms is None else move.ended_ms
    outcome = move.how or ("stuck" if end_ms - last.at_ms >= STUCK_MS else "running")
    if is_open or planned is None:
        outcome = "unknown"
    steps = steps_of(move)
    waits = []
    for step in steps:
        for each in step.adding or ():
            at_ms = joined_ms(move, step, each)
            over_ms = end_ms if step.ended_ms is None else step.ended_ms
            waits.append(((over_ms if at_ms is None else at_ms) - step.begun.at_ms, each))
    actual = last.after.replicas
    row = {
        "move_id": first.after.move or None,
        "started_ms": first.at_ms,
        "ended_ms": move.ended_ms,
        "duration_ms": until_ms - first.at_ms,
        "outcome": outcome,
        "planned": _listed(planned),
        "actual": _listed(actual),
        "as_planned": None if None in (actual, planned) else actual == planned,
        "steps": len(steps),
        "slowest": max(waits)[1] if waits else None,
        "slowest_ms": max(waits)[0] if waits else None,
        "last_progress_ms": last.at_ms,
        **_start(log, holes, move),
    }
    if not move.is_settled:
        row |= dict.fromkeys(("started_ms", "duration_ms", "steps", "slowest", "slowest_ms"))
    if is_open:
        ends = ("duration_ms", "actual", "as_planned", "steps", "slowest", "slowest_ms")
        row |= dict.fromkeys((*ends, "last_progress_ms"))
    return row


def _start(log: Sequence[SlowRecord], holes: SlowHoles, move: Move) -> Row:
    """The columns of a reassignment that need the state before it."""
    before = move.begun.before
    old = None if before is None else before.replicas
    if move.begun.is_created and move.is_settled and old is None:
        old = None
    planned = move.planned
    names = ("from_replicas", "steps_planned", "added", "removed")
    if not move.is_settled or old is None or planned is None:
        return dict.fromkeys(names)
    allowed = limits(log, holes, move.begun.offset)
    return {
        "from_replicas": list(old),
        "steps_planned": None if allowed is None else steps_planned(old, planned, allowed),
        "added": [each for each in planned if each not in old],
        "removed": [each for each in old if each not in planned],
    }


def _listed(value: Replicas | None) -> list[int] | None:
    return None if value is None else list(value)


def _step(move: Move, step: Step, end_ms: int, *, is_open: bool) -> Row:
    came = [joined_ms(move, step, each) for each in step.adding or ()]
    known = [each for each in came if each is not None]
    caught_up_ms = max(known) if known and len(known) == len(came) else None
    started_ms = step.begun.at_ms if step.is_settled else None
    until_ms = step.ended_ms
    if until_ms is None and not is_open:
        until_ms = end_ms
    return {
        "offset": step.begun.offset if step.is_settled else None,
        "started_ms": started_ms,
        "ended_ms": step.ended_ms if step.is_settled or step.begun.after.moving else None,
        "duration_ms": None if None in (started_ms, until_ms) else until_ms - started_ms,  # type: ignore[operator]
        "adding": _listed(step.adding),
        "removing": _listed(step.removing),
        "caught_up_ms": caught_up_ms,
        "catch_up_ms": None if None in (caught_up_ms, started_ms) else caught_up_ms - started_ms,  # type: ignore[operator]
    }


def _replica(move: Move, step: Step, broker: int, row: Mapping[str, Any]) -> Row:
    came_ms, added_ms = joined_ms(move, step, broker), step.begun.at_ms
    stuck: bool | None = row["outcome"] == "stuck" and came_ms is None
    return {
        "broker_id": broker,
        "added_ms": added_ms if step.is_settled else None,
        "in_sync_ms": came_ms,
        "catch_up_ms": None if came_ms is None else came_ms - added_ms,
        "stuck": None if row["outcome"] == "unknown" and came_ms is None else stuck,
    }


# Brokers.


def broker_events(true: Iterable[Row], holes: SlowHoles, end_ms: int) -> list[Row]:
    """The table, from that of the sound log: the events that are not lost, and until when."""
    found = [dict(row) for row in true if not holes.between(row["offset"], row["offset"] + 1)]
    for number, row in enumerate(found):
        later = [other for other in found[number + 1 :] if other["broker_id"] == row["broker_id"]]
        following = later[0]["offset"] if later else FOREVER_MS
        row["until_ms"] = later[0]["at_ms"] if later else end_ms
        if holes.between(row["offset"], following):
            row["until_ms"] = None
    return found


def happened(
    events: Iterable[Row], log: Sequence[SlowRecord], moved: Iterable[Row], holes: SlowHoles
) -> tuple[list[slow_brokers.Happened], list[tuple[str, int]]]:
    """The certain events of brokers, and the times of events of some broker."""
    found = [
        (row["broker_id"], slow_brokers.COUNTED[row["event"]], row["at_ms"])
        for row in events
        if row["event"] in slow_brokers.COUNTED
    ]
    unsure: list[tuple[str, int]] = []
    for partition in partitions(log, holes)[0].values():
        for change in partition.changes:
            if change.is_created:
                continue
            was, is_ = None if change.before is None else change.before.isr, change.after.isr
            if was is not None and is_ is not None:
                found += [(each, "isr_expands", change.at_ms) for each in set(is_) - set(was)]
                found += [(each, "isr_shrinks", change.at_ms) for each in set(was) - set(is_)]
            elif is_ is not None and change.segment:
                unsure.append(("isr_", change.at_ms))
            had = None if change.before is None else change.before.replicas
            if had is None and change.after.replicas is not None and change.segment:
                unsure.append(("moves_", change.at_ms))
        for move in moves_of(partition):
            if not move.is_settled:
                unsure.append(("moves_", move.begun.at_ms))
    for row in moved:
        found += [(each, "moves_in", row["started_ms"]) for each in row["added"] or ()]
        found += [(each, "moves_out", row["started_ms"]) for each in row["removed"] or ()]
    return found, unsure


def activity(
    found: Sequence[slow_brokers.Happened],
    unsure: Sequence[tuple[str, int]],
    time: SlowTime,
    holes: SlowHoles,
) -> list[Row]:
    """The table `broker_activity`."""
    rows = slow_brokers.activity([each for each in found if each[2] <= time.end_ms], time)
    for row in rows:
        low, high = row["window_start_ms"], row["window_end_ms"]
        for name in slow_brokers.COUNTS:
            is_unsure = any(name.startswith(what) and low < at <= high for what, at in unsure)
            if name in row and (is_unsure or holes.touches(low, high)):
                row[name] = None
    return rows


def brokers(
    events: Sequence[Row], found: Sequence[slow_brokers.Happened], holes: SlowHoles, end_ms: int
) -> list[Row]:
    """The table `brokers`."""
    rows = []
    for row in slow_brokers.brokers(events, [each for each in found if each[2] <= end_ms], end_ms):
        row |= dict.fromkeys((*slow_brokers.COUNTS, "fenced_ms", "longest_fenced_ms"))
        own = [each for each in events if each["broker_id"] == row["broker_id"]]
        registered = [each["offset"] for each in own if each["event"] == "registered"]
        if not own or holes.between(own[-1]["offset"], FOREVER_MS):
            row |= dict.fromkeys(("state", "state_since_ms"))
        if not registered or holes.between(0, registered[0]):
            row["first_registered_ms"] = None
        if not registered or holes.between(registered[-1], FOREVER_MS):
            row["last_registered_ms"] = None
        rows.append(row)
    return rows


# Moves of ours.


def operations(
    log: Sequence[SlowRecord], moved: Iterable[Row], holes: SlowHoles, end_ms: int
) -> list[Row]:
    """The table `operations`."""
    moved = list(moved)
    rows = slow_operations.told(log, [_timed(row) for row in moved], end_ms)
    for row in rows:
        begun = _offset(log, own_records.MoveBegun, row["move_id"])
        ended = _offset(log, own_records.MoveEnded, row["move_id"])
        within = holes.between(begun, FOREVER_MS if ended is None else ended)
        paused = [each.offset for each in log if isinstance(each.said, own_records.MovesPaused)]
        last = max((offset for offset in paused if offset < begun), default=-1)
        before = holes.between(last + 1, begun)
        own = [each for each in moved if each["move_id"] == row["move_id"]]
        if within or any(each["duration_ms"] is None for each in own):
            row["slowest_partition_ms"] = None
        if within or before:
            row["paused_ms"] = None
            if ended is None:
                row["outcome"] = "unknown"
        if within and ended is None:
            row["duration_ms"] = None
    return rows


def _timed(row: Row) -> Row:
    return {**row, "duration_ms": row["duration_ms"] or 0}


def _offset(log: Iterable[SlowRecord], kind: type[Any], move_id: int) -> Any:
    for each in log:
        if isinstance(each.said, kind) and each.said.id == move_id:
            return each.offset
    return None


def rows_without(rows: Iterable[Row], *names: str) -> Iterator[Row]:
    """The rows without these columns."""
    for row in rows:
        yield {name: value for name, value in row.items() if name not in names}
