"""Reassignments once more: the state machine replays the log, and each record is looked at.

What a partition is before and after a record is what the product makes of it, and not what a report
does; what that means is taken from the words in docs/lag.md alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quorum.core.vocabulary import uuid_to_text
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.records import kafka_records
from statemachine.replay import replay
from statemachine.vocabulary import BROKER_RESOURCE, Replicas
from tests.lag.twins.slow_reading import SlowRecord

STUCK_MS: Final = 60_000
PER_STEP: Final = "reassignment.parallel.replica.count"
IN_ALL: Final = "reassignment.max.concurrent.replica.movements"
LIMITED_BY: Final = (
    PER_STEP,
    IN_ALL,
    "reassignment.parallel.partition.count",
    "reassignment.parallel.leader.movements",
)

Key = tuple[str, int]


@dataclass(frozen=True)
class SlowChange:
    """A record about a partition, and what it made of it."""

    offset: int
    at_ms: int
    before: PartitionRegistration | None
    after: PartitionRegistration
    limits: Mapping[str, int]


@dataclass
class SlowStep:
    """A step of a reassignment."""

    begun: SlowChange
    adding: Replicas
    removing: Replicas
    ended_ms: int | None = None


@dataclass
class SlowMove:
    """A reassignment of one partition."""

    number: int
    begun: SlowChange
    planned: Replicas
    changes: list[SlowChange] = field(default_factory=list)
    steps: list[SlowStep] = field(default_factory=list)
    ended_ms: int | None = None
    how: str | None = None

    def end(self, at_ms: int, how: str) -> None:
        """It is over, and so is the step that was under way."""
        self.ended_ms, self.how = at_ms, how
        if self.steps and self.steps[-1].ended_ms is None:
            self.steps[-1].ended_ms = at_ms

    def takes(self, change: SlowChange) -> None:
        """A record of it: it may begin a step, or end one."""
        self.changes.append(change)
        before, after = change.before, change.after
        now = (after.adding, after.removing)
        was = (
            ((), ()) if before is None or change is self.begun else (before.adding, before.removing)
        )
        at_once = change is self.begun and not after.moving
        if self.steps and self.steps[-1].ended_ms is None and now != was:
            self.steps[-1].ended_ms = change.at_ms
        if (now != was and now != ((), ())) or at_once:
            self.steps.append(SlowStep(change, *now, change.at_ms if at_once else None))

    def joined_ms(self, step: SlowStep, broker_id: int) -> int | None:
        """The time at which an added replica of the step joined the ISR."""
        for each in self.changes:
            if each.offset >= step.begun.offset and broker_id in each.after.isr:
                return each.at_ms
        return None


@dataclass
class SlowPartition:
    """All that happened to one partition."""

    changes: list[SlowChange] = field(default_factory=list)
    gone_ms: int | None = None


def partitions(log: Sequence[SlowRecord]) -> tuple[dict[Key, SlowPartition], dict[str, str]]:
    """Every partition that there has been, and how topics are called."""
    image = Image()
    found: dict[Key, SlowPartition] = {}
    names: dict[str, str] = {}
    for each in log:
        record = each.said
        at: tuple[Any, int] | None = None
        if isinstance(record, kafka_records.Partition | kafka_records.PartitionChange):
            at = (record.topic_id, record.partition_id)
        before = None if at is None else _now(image, *at)
        replay(image, record, each.offset)
        if isinstance(record, kafka_records.Topic):
            names[uuid_to_text(record.topic_id)] = record.name
        if isinstance(record, kafka_records.RemoveTopic):
            for key, partition in found.items():
                if key[0] == uuid_to_text(record.topic_id):
                    partition.gone_ms = each.at_ms
        after = None if at is None else _now(image, *at)
        if at is not None and after is not None:
            change = SlowChange(each.offset, each.at_ms, before, after, _limits(image))
            found.setdefault((uuid_to_text(at[0]), at[1]), SlowPartition()).changes.append(change)
    return found, names


def _now(image: Image, topic_id: Any, number: int) -> PartitionRegistration | None:
    topic = image.topics.get(topic_id)
    return None if topic is None else topic.partition(number)


def _limits(image: Image) -> dict[str, int]:
    """The limits that are set for the whole cluster, as far as they are numbers from 1 on."""
    said = image.configs.get((BROKER_RESOURCE, ""), {})
    return {
        name: int(said[name])
        for name in LIMITED_BY
        if name in said and said[name].strip().isdecimal() and int(said[name]) >= 1
    }


def moves_of(partition: SlowPartition) -> list[SlowMove]:
    """The reassignments of a partition, in order."""
    found: list[SlowMove] = []
    running: SlowMove | None = None
    for change in partition.changes:
        before, after = change.before, change.after
        was = before is not None and before.moving
        if after.moving and (not was or before is None or aim(after) != aim(before)):
            if running is not None:
                running.end(change.at_ms, "superseded")
            running = SlowMove(len(found) + 1, change, aim(after))
            found.append(running)
        at_once = before is not None and before.replicas != after.replicas
        if running is None and at_once:
            running = SlowMove(len(found) + 1, change, after.replicas)
            found.append(running)
        if running is not None:
            running.takes(change)
            if not after.moving:
                is_done = after.replicas == running.planned
                running.end(change.at_ms, "completed" if is_done else "cancelled")
                running = None
    if running is not None and partition.gone_ms is not None:
        running.end(partition.gone_ms, "gone")
    return found


def aim(partition: PartitionRegistration) -> Replicas:
    """The replicas that it is to have in the end."""
    if partition.target:
        return partition.target
    return tuple(each for each in partition.replicas if each not in partition.removing)


def steps_planned(current: Replicas, target: Replicas, limits: Mapping[str, int]) -> int:
    """By KIP-435, if all that are added catch up; every replica is in sync, and min ISR is 1."""
    if not limits:
        return int(current != target)
    per_step, in_all = limits.get(PER_STEP), limits.get(IN_ALL, 10**9)
    steps = 0
    while current != target:
        steps += 1
        new = [each for each in target if each not in current]
        old = [each for each in current if each not in target]
        if per_step is not None and target[0] in new:
            # The preferred leader comes first, and by itself.
            dropped, added = [], new[:1]
        else:
            dropped = old[:per_step]
            wanted = len(target) - len(current) + len(dropped)
            added = new[: min(per_step or 10**9, max(0, wanted), in_all)]
            # There are never fewer replicas than there were, or will be.
            while len(current) - len(dropped) + len(added) < min(len(current), len(target)):
                dropped.pop()
        kept = [each for each in (*current, *added) if each not in dropped]
        in_place = [each for each in target if each in kept]
        current = (*in_place, *(each for each in kept if each not in target))
    return steps


def told(log: Sequence[SlowRecord], end_ms: int) -> dict[str, list[dict[str, Any]]]:
    """The tables `moves`, `move_steps` and `move_replicas`."""
    found: dict[str, list[dict[str, Any]]] = {"moves": [], "move_steps": [], "move_replicas": []}
    by_key, names = partitions(log)
    for key, partition in by_key.items():
        for move in moves_of(partition):
            common = {"topic_id": key[0], "topic": names.get(key[0]), "partition": key[1]}
            common["number"] = move.number
            row = {**common, **_move(move, end_ms)}
            found["moves"].append(row)
            is_stuck = row["outcome"] == "stuck"
            for number, step in enumerate(move.steps, 1):
                found["move_steps"].append({**common, "step": number, **_step(move, step, end_ms)})
                found["move_replicas"] += [
                    {**common, "step": number, **each, "stuck": is_stuck and each["late"]}
                    for each in _replicas(move, step)
                ]
    for each in found["move_replicas"]:
        del each["late"]
    return found


def _move(move: SlowMove, end_ms: int) -> dict[str, Any]:
    before, last = move.begun.before, move.changes[-1]
    first = () if before is None else before.replicas
    outcome = move.how or ("stuck" if end_ms - last.at_ms >= STUCK_MS else "running")
    waits = [
        (_or(move.joined_ms(step, each), _or(step.ended_ms, end_ms)) - step.begun.at_ms, each)
        for step in move.steps
        for each in step.adding
    ]
    until_ms = _or(move.ended_ms, end_ms)
    return {
        "move_id": move.begun.after.stage.move or None,
        "started_ms": move.begun.at_ms,
        "ended_ms": move.ended_ms,
        "duration_ms": until_ms - move.begun.at_ms,
        "outcome": outcome,
        "from_replicas": list(first),
        "planned": list(move.planned),
        "actual": list(last.after.replicas),
        "as_planned": last.after.replicas == move.planned,
        "steps_planned": steps_planned(first, move.planned, move.begun.limits),
        "steps": len(move.steps),
        "added": [each for each in move.planned if each not in first],
        "removed": [each for each in first if each not in move.planned],
        "slowest": max(waits)[1] if waits else None,
        "slowest_ms": max(waits)[0] if waits else None,
        "last_progress_ms": last.at_ms,
    }


def _step(move: SlowMove, step: SlowStep, end_ms: int) -> dict[str, Any]:
    came = [move.joined_ms(step, each) for each in step.adding]
    known = [each for each in came if each is not None]
    caught_up_ms = max(known) if known and len(known) == len(came) else None
    return {
        "offset": step.begun.offset,
        "started_ms": step.begun.at_ms,
        "ended_ms": step.ended_ms,
        "duration_ms": _or(step.ended_ms, end_ms) - step.begun.at_ms,
        "adding": list(step.adding),
        "removing": list(step.removing),
        "caught_up_ms": caught_up_ms,
        "catch_up_ms": None if caught_up_ms is None else caught_up_ms - step.begun.at_ms,
    }


def _replicas(move: SlowMove, step: SlowStep) -> Iterator[dict[str, Any]]:
    for each in step.adding:
        came_ms = move.joined_ms(step, each)
        yield {
            "broker_id": each,
            "added_ms": step.begun.at_ms,
            "in_sync_ms": came_ms,
            "catch_up_ms": None if came_ms is None else came_ms - step.begun.at_ms,
            "late": came_ms is None,
        }


def _or(value: int | None, other: int) -> int:
    return other if value is None else value
