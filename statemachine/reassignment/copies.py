"""Copy progress: the bytes left and the rate that brokers report for replicas being copied.

It is soft: the active controller alone hears it, and it dies with the lead. What was said too long
ago, and what Kafka's brokers copy, who say nothing, is unknown, and never taken for zero. Nothing
is decided by it. It holds no clock: every method takes the time.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from statemachine.image.image import Image
from statemachine.limits import (
    COPIES_LOOKED_AT_MAX,
    COPY_FALLS_BEHIND_MS,
    COPY_REPORT_KEPT_MS,
    COPY_REPORTS_MAX,
    COPY_REPORTS_PER_BROKER_MAX,
)
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import BrokerId, MoveId, Replicas

_MS_PER_S: Final = 1_000


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class CopyReport(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A broker's report on one replica that it is to have."""

    topic_id: UUID
    partition: _Count
    bytes_left: _Count
    """An estimate of what it lacks of the records that the leader had committed."""
    bytes_per_s: _Count
    """Of what came in the last ten seconds."""
    behind_ms: int = 0
    """Since when there has been less left than now, at every time: no broker says it, it is noted
    by whoever hears them."""

    @property
    def falls_behind(self) -> bool:
        """True if the replica never gets in sync at this rate: more is written than is copied."""
        return self.behind_ms >= COPY_FALLS_BEHIND_MS


CopyReports: TypeAlias = Annotated[tuple[CopyReport, ...], Meta(max_length=COPY_REPORTS_MAX)]
"""The details that a heartbeat of our brokers carries."""


class _Said(NamedTuple):
    report: CopyReport
    at_ms: int
    least_bytes: int
    """The least that was left at any time."""
    least_at_ms: int
    """When that was so last."""


Told: TypeAlias = Callable[[UUID, int, BrokerId], CopyReport | None]
"""What a broker has said of a partition of a topic, or None where that is not known."""


def untold(topic_id: UUID, number: int, broker_id: BrokerId) -> CopyReport | None:
    """Nobody has said anything: so it is wherever there is no active controller."""
    return None


class Copies:
    """The last report on each replica, for one term as the active controller."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[BrokerId, dict[tuple[UUID, int], _Said]] = {}
        """By broker, in the order in which it was said, with when."""

    def reported(self, broker_id: BrokerId, reports: Sequence[CopyReport], now_ms: int) -> None:
        """A broker says how far it is."""
        known = self._of.setdefault(broker_id, {})
        for report in reports:
            key = report.topic_id, report.partition
            known[key] = _after(known.pop(key, None), report, now_ms)
        surplus = len(known) - COPY_REPORTS_PER_BROKER_MAX
        for place, (key, said) in enumerate([*known.items()]):
            if place >= surplus and now_ms - said.at_ms < COPY_REPORT_KEPT_MS:
                break
            del known[key]

    def at(self, now_ms: int) -> Told:
        """Return the progress at this time."""

        def told(topic_id: UUID, number: int, broker_id: BrokerId) -> CopyReport | None:
            found = self._of.get(broker_id, {}).get((topic_id, number))
            if found is None or now_ms - found.at_ms >= COPY_REPORT_KEPT_MS:
                return None
            if found.report.bytes_left == found.least_bytes:
                return found.report
            return replace(found.report, behind_ms=now_ms - found.least_at_ms)

        return told


def _after(before: _Said | None, report: CopyReport, now_ms: int) -> _Said:
    if before is None or report.bytes_left <= before.least_bytes:
        return _Said(report, now_ms, report.bytes_left, now_ms)
    return _Said(report, now_ms, before.least_bytes, before.least_at_ms)


class PartitionCopies(Struct, frozen=True, kw_only=True, gc=False):
    """The bytes left to copy until the step under way can be complete."""

    bytes_left: int
    bytes_per_s: int
    time_left_ms: int | None
    """At this rate, of the replica that takes longest; None where one stands still, or falls
    behind."""
    behind: Replicas = ()
    """The replicas that fall behind."""


def partition_copies(
    topic_id: UUID, number: int, partition: PartitionRegistration, told: Told
) -> PartitionCopies | None:
    """Return the bytes left of the step under way; None if they are unknown, or no step is under
    way.
    """
    if partition.waits:
        return None
    bytes_left, rate, times = 0, 0, [0]
    behind: list[BrokerId] = []
    for broker_id in partition.adding:
        if broker_id in partition.isr:
            continue
        report = told(topic_id, number, broker_id)
        if report is None:
            return None
        bytes_left += report.bytes_left
        rate += report.bytes_per_s
        times.append(_time_ms(report))
        behind += [broker_id] if report.falls_behind else []
    return PartitionCopies(
        bytes_left=bytes_left,
        bytes_per_s=rate,
        time_left_ms=None if _NEVER in times else max(times),
        behind=tuple(behind),
    )


_NEVER: Final = -1


def _time_ms(report: CopyReport) -> int:
    if not report.bytes_left:
        return 0
    if not report.bytes_per_s or report.falls_behind:
        return _NEVER
    return -(-report.bytes_left * _MS_PER_S // report.bytes_per_s)


class MoveCopies(Struct, frozen=True, kw_only=True, gc=False):
    """The bytes left to copy of a whole move, as far as they are known."""

    bytes_left: int
    """Of the partitions of which it is known."""
    bytes_per_s: int
    known: int
    """Partitions with a step under way of which it is known."""
    unknown: int
    """All the others, those that wait for a step included."""
    time_left_ms: int | None
    """Until the last partition has what it is to have, if nothing is unknown, no partition has a
    further step to do, and none stands still or falls behind; else None."""
    behind: int = 0
    """Partitions of which a replica falls behind."""


def move_copies(image: Image, move_id: MoveId, told: Told) -> MoveCopies:
    """Return the bytes left to copy of a move; partitions beyond the limit count as unknown.

    A broker copies several partitions at a time, so the one that takes longest says how long all
    of them take.
    """
    index = image.index
    keys = index.keys_of_move(move_id)
    looked_at = (keys & index.stepping)[:COPIES_LOOKED_AT_MAX]
    bytes_left, rate, known, behind = 0, 0, 0, 0
    time_ms: int | None = 0
    for topic, number in index.partitions(looked_at):
        partition = topic.partition(number)
        assert partition is not None
        found = partition_copies(topic.topic_id, number, partition, told)
        if found is None:
            continue
        known += 1
        bytes_left += found.bytes_left
        rate += found.bytes_per_s
        behind += bool(found.behind)
        is_last = not partition.target or partition.aimed == partition.target
        if time_ms is not None:
            own_ms = found.time_left_ms if is_last else None
            time_ms = None if own_ms is None else max(time_ms, own_ms)
    unknown = len(keys) - known
    return MoveCopies(
        bytes_left=bytes_left,
        bytes_per_s=rate,
        known=known,
        unknown=unknown,
        time_left_ms=None if unknown else time_ms,
        behind=behind,
    )
