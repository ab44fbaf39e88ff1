"""Progress reports of replicas being added: bytes left and bytes per second.

Pure: times come in as milliseconds of one monotonic clock. Received bytes are counted; the
remaining offsets come from the leader's high watermark and are converted to bytes by the average
weight of the records received so far. The controller knows better where the leader reports the
bytes of its log, as embedded brokers do.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from broker.limits import COPY_REPORT_INTERVAL_MS
from broker.partition.assignment import PartitionKey
from statemachine.image.image import Image
from statemachine.limits import COPY_REPORTS_MAX
from statemachine.reassignment.copies import CopyReport
from statemachine.vocabulary import BrokerId

WINDOW_SLOTS: Final = 10
SLOT_MS: Final = 1_000
"""The rate covers the last ten seconds, the current one included: nine to ten in all."""

BYTES_LEFT_MAX: Final = 2**63 - 1
"""The largest value that fits the field of a report."""

_MS_PER_S: Final = 1_000


class CopyRate:
    """The progress of one replica: total bytes and offsets, and bytes per second of the window."""

    __slots__ = ("_began_ms", "_bytes", "_first_bytes", "_offsets", "_slots")

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._bytes = 0
        self._first_bytes = 0
        self._offsets = 0
        self._slots: deque[tuple[int, int]] = deque()
        """(second, bytes) pairs; never more than `WINDOW_SLOTS`."""

    def count(self, size_bytes: int, offsets: int, now_ms: int) -> None:
        """Count received bytes and the offsets that they advanced the log."""
        if not self._bytes:
            self._first_bytes = size_bytes
        self._bytes += size_bytes
        self._offsets += offsets
        slot = now_ms // SLOT_MS
        self._forget(slot)
        if self._slots and self._slots[-1][0] == slot:
            size_bytes += self._slots.pop()[1]
        self._slots.append((slot, size_bytes))

    def bytes_per_s(self, now_ms: int) -> int:
        """The rate over the window, or since the first bytes if that is shorter; over at least one
        second.

        The first response does not count: a throttle lets it through whole and delays the following
        ones.
        """
        slot = now_ms // SLOT_MS
        self._forget(slot)
        window_ms = (slot - WINDOW_SLOTS + 1) * SLOT_MS
        since_ms = max(self._began_ms, window_ms)
        size_bytes = sum(size for _, size in self._slots)
        if self._began_ms >= window_ms:
            size_bytes -= self._first_bytes
        return size_bytes * _MS_PER_S // max(SLOT_MS, now_ms - since_ms)

    def bytes_of(self, offsets: int) -> int:
        """Estimate the bytes of further offsets, bounded: a leader may claim any number."""
        weight = -(-self._bytes * offsets // self._offsets) if self._offsets else 0
        return min(weight, BYTES_LEFT_MAX)

    def _forget(self, slot: int) -> None:
        while self._slots and self._slots[0][0] <= slot - WINDOW_SLOTS:
            self._slots.popleft()


class AddedReplica(NamedTuple):
    """A replica that is being added here."""

    lag: int | None
    """The offsets that it lacks; None: not known yet."""
    log_bytes: int


def led_and_copied(image: Image, me: BrokerId) -> Iterator[PartitionKey]:
    """Yield the partitions that this broker leads and replicas are being added to, bounded."""
    index = image.index
    keys = index.of_any(index.leader_of, (me,)) & index.stepping
    for topic, number in index.partitions(keys[:COPY_REPORTS_MAX]):
        partition = topic.partition(number)
        if partition is not None and partition.adding:
            yield PartitionKey(topic.topic_id, number)


class CopyReports:
    """The progress reports of one broker for the controller."""

    def __init__(self) -> None:
        self._rates: dict[PartitionKey, CopyRate] = {}
        self._next_ms = 0

    def count(self, key: PartitionKey, size_bytes: int, offsets: int, now_ms: int) -> None:
        """Count bytes for a replica that is not in sync."""
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = CopyRate(now_ms)
        rate.count(size_bytes, offsets, now_ms)

    def due(
        self,
        now_ms: int,
        adding: Callable[[PartitionKey], AddedReplica | None],
        led: Callable[[], Iterable[tuple[PartitionKey, int]]] = lambda: (),
    ) -> tuple[CopyReport, ...]:
        """The reports due now; none if nothing is being copied or the last ones are recent.

        `adding` looks up a replica that is still being added. If there are more of them than fit a
        heartbeat, those reported longest ago go first. `led` returns partitions that are led here
        and copied elsewhere, with the bytes of their logs: they fill what room is left.
        """
        if now_ms < self._next_ms:
            return ()
        reports: list[CopyReport] = []
        for key, rate in list(self._rates.items()):
            replica = adding(key)
            if replica is None:
                del self._rates[key]
            elif replica.lag is not None and len(reports) < COPY_REPORTS_MAX:
                reports.append(
                    CopyReport(
                        topic_id=key.topic_id,
                        partition=key.number,
                        bytes_left=rate.bytes_of(replica.lag),
                        bytes_per_s=rate.bytes_per_s(now_ms),
                        log_bytes=replica.log_bytes,
                    )
                )
                # Moved to the end: it is reported last next time.
                self._rates[key] = self._rates.pop(key)
        reports += [
            CopyReport(
                topic_id=key.topic_id,
                partition=key.number,
                bytes_left=0,
                bytes_per_s=0,
                log_bytes=log_bytes,
            )
            for key, log_bytes in islice(led(), COPY_REPORTS_MAX - len(reports))
        ]
        if reports:
            self._next_ms = now_ms + COPY_REPORT_INTERVAL_MS
        return tuple(reports)
