"""Copy progress: the bytes left and the rate that brokers report for replicas being copied.

It is soft state: only the active controller has it, and loses it with the lead. An old report, and
a copy on one of Kafka's brokers, which send no reports, counts as unknown, never as zero. No
decision depends on it. It holds no clock: every method takes the time.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.limits import (
    COPIES_LOOKED_AT_MAX,
    COPY_FALLS_BEHIND_MS,
    COPY_REPORT_KEPT_MS,
    COPY_REPORTS_MAX,
    COPY_REPORTS_PER_BROKER_MAX,
)
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.running_copies import stands_still
from statemachine.slices import LOOKED_AT_US, Slices
from statemachine.vocabulary import BrokerId, MoveId, Replicas

_MS_PER_S: Final = 1_000


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class CopyReport(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A broker's report on one replica that it copies."""

    topic_id: UUID
    partition: _Count
    bytes_left: _Count
    """An estimate of the committed records that it lacks."""
    bytes_per_s: _Count
    """The rate over the last ten seconds."""
    log_bytes: _Count | None = None
    """The bytes of the log of the broker that reports; the leader reports its own as well."""
    grown_bytes: int = 0
    """The growth of `log_bytes` within the last `grown_ms`: both are computed here, no broker
    reports them."""
    grown_ms: int = 0


CopyReports: TypeAlias = Annotated[tuple[CopyReport, ...], Meta(max_length=COPY_REPORTS_MAX)]
"""The details that a heartbeat of our brokers carries."""


class _LogSize(NamedTuple):
    at_ms: int
    bytes: int | None


class _Received(NamedTuple):
    report: CopyReport
    at_ms: int
    earlier: _LogSize
    """Where the growth of the log is measured from."""
    later: _LogSize
    """Where it will be measured from next."""


CopyLookup: TypeAlias = Callable[[UUID, int, BrokerId], CopyReport | None]
"""Look up a broker's report on a partition of a topic; None if it is unknown."""


def no_report(topic_id: UUID, number: int, broker_id: BrokerId) -> CopyReport | None:
    """Look up no report: only the active controller has any."""
    return None


class Copies:
    """The last report on each replica, for one term as the active controller."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[BrokerId, dict[tuple[UUID, int], _Received]] = {}
        """By broker, in order of receipt."""

    def reported(self, broker_id: BrokerId, reports: Sequence[CopyReport], now_ms: int) -> None:
        """Store the reports of a broker."""
        known = self._of.setdefault(broker_id, {})
        for report in reports:
            key = report.topic_id, report.partition
            known[key] = _after(known.pop(key, None), report, now_ms)
        surplus = len(known) - COPY_REPORTS_PER_BROKER_MAX
        for place, (key, received) in enumerate([*known.items()]):
            if place >= surplus and now_ms - received.at_ms < COPY_REPORT_KEPT_MS:
                break
            del known[key]

    def at(self, now_ms: int) -> CopyLookup:
        """Return the lookup of the reports that are valid at this time."""

        def report_of(topic_id: UUID, number: int, broker_id: BrokerId) -> CopyReport | None:
            found = self._of.get(broker_id, {}).get((topic_id, number))
            if found is None or now_ms - found.at_ms >= COPY_REPORT_KEPT_MS:
                return None
            at_ms, log_bytes = found.earlier
            if log_bytes is None or found.report.log_bytes is None:
                return replace(found.report, grown_bytes=0, grown_ms=0)
            grown = found.report.log_bytes - log_bytes
            return replace(found.report, grown_bytes=grown, grown_ms=found.at_ms - at_ms)

        return report_of


def _after(before: _Received | None, report: CopyReport, now_ms: int) -> _Received:
    size = _LogSize(now_ms, report.log_bytes)
    if (
        before is None
        or before.later.bytes is None
        or report.log_bytes is None
        or now_ms - before.at_ms >= COPY_REPORT_KEPT_MS
    ):
        return _Received(report, now_ms, size, size)
    # Under a low throttle a log may not grow for minutes: it is measured from a growth to another.
    has_grown = report.log_bytes > before.later.bytes
    if has_grown and now_ms - before.later.at_ms >= COPY_FALLS_BEHIND_MS:
        return _Received(report, now_ms, before.later, size)
    return before._replace(report=report, at_ms=now_ms)


class PartitionCopies(Struct, frozen=True, kw_only=True, gc=False):
    """The bytes left to copy until the step under way can be complete."""

    bytes_left: int
    bytes_per_s: int
    time_left_ms: int | None
    """For the slowest replica, at this rate; None if a replica stands still or falls behind."""
    behind: Replicas = ()
    """The replicas that fall behind."""


def partition_copies(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration, report_of: CopyLookup
) -> PartitionCopies | None:
    """Return the bytes left of the step under way; None if there is none or they are unknown.

    While a pause stops the copies, their rate is 0, whatever was reported before.
    """
    if partition.waits:
        return None
    topic_id, is_still = topic.topic_id, stands_still(image, topic, number, partition)
    bytes_left, rate, times = 0, 0, [0]
    behind: list[BrokerId] = []
    leaders = report_of(topic_id, number, partition.leader)
    for broker_id in partition.adding:
        if broker_id in partition.isr:
            continue
        report = report_of(topic_id, number, broker_id)
        if report is None:
            return None
        report = _measured(report, leaders)
        if is_still:
            report = replace(report, bytes_per_s=0)
        bytes_left += report.bytes_left
        rate += report.bytes_per_s
        # What stands still falls behind, but not by its rate.
        falls_behind = not is_still and _falls_behind(report, leaders)
        times.append(_NEVER if falls_behind else _time_ms(report))
        behind += [broker_id] if falls_behind else []
    return PartitionCopies(
        bytes_left=bytes_left,
        bytes_per_s=rate,
        time_left_ms=None if _NEVER in times else max(times),
        behind=tuple(behind),
    )


def _measured(report: CopyReport, leaders: CopyReport | None) -> CopyReport:
    """Return the report with the bytes that its log lacks of the leader's, if both are known.

    The broker itself can only weigh what it lacks by the records that it has received.
    """
    if leaders is None or leaders.log_bytes is None or report.log_bytes is None:
        return report
    return replace(report, bytes_left=max(0, leaders.log_bytes - report.log_bytes))


def _falls_behind(report: CopyReport, leaders: CopyReport | None) -> bool:
    """True if the replica never gets in sync at this rate: more is written than is copied."""
    if leaders is None or min(report.grown_ms, leaders.grown_ms) < COPY_FALLS_BEHIND_MS:
        return False
    written, copied = leaders.grown_bytes, report.grown_bytes
    # A replica that has less left than was just written keeps up.
    lacks_more = report.bytes_left * leaders.grown_ms > written * COPY_FALLS_BEHIND_MS
    return lacks_more and written * report.grown_ms > max(0, copied) * leaders.grown_ms


_NEVER: Final = -1


def _time_ms(report: CopyReport) -> int:
    if not report.bytes_left:
        return 0
    if not report.bytes_per_s:
        return _NEVER
    return -(-report.bytes_left * _MS_PER_S // report.bytes_per_s)


class MoveCopies(Struct, frozen=True, kw_only=True, gc=False):
    """The bytes left to copy of a move, as far as they are known."""

    bytes_left: int
    """The sum over the known partitions."""
    bytes_per_s: int
    known: int
    """Partitions with a step under way and a report of every copy."""
    unknown: int
    """All other partitions of the move, those that wait for a step included."""
    time_left_ms: int | None
    """For the slowest partition; None if any is unknown, has a further step to do, stands still or
    falls behind."""
    behind: int = 0
    """Partitions with a replica that falls behind."""
    is_partial: bool = False
    """True if `bytes_left` lacks something: partitions of unknown size, or further steps."""


def move_copies(image: Image, move_id: MoveId, report_of: CopyLookup) -> Slices[MoveCopies]:
    """Return the bytes left to copy of a move; partitions beyond the limit count as unknown.

    A broker copies several partitions at a time, so the slowest one determines the time left.
    """
    index = image.index
    keys = index.keys_of_move(move_id)
    looked_at = (keys & index.stepping)[:COPIES_LOOKED_AT_MAX]
    bytes_left, rate, known, behind = 0, 0, 0, 0
    time_ms: int | None = 0
    has_further_steps = False
    for key in looked_at:
        place = index.at(key)
        assert place is not None, "a key is in a bitmap, but no partition has it"
        topic, number = place
        partition = topic.partition(number)
        assert partition is not None
        yield LOOKED_AT_US
        found = partition_copies(image, topic, number, partition, report_of)
        if found is None:
            continue
        known += 1
        bytes_left += found.bytes_left
        rate += found.bytes_per_s
        behind += bool(found.behind)
        is_last = not partition.target or partition.aimed == partition.target
        has_further_steps |= not is_last
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
        is_partial=has_further_steps or unknown > 0,
    )
