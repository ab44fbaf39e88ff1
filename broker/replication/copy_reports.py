"""How far this broker is with the replicas that it is to have: bytes left, and bytes a second.

Pure: no clock, no task; times come in as milliseconds of one monotonic clock. What came is counted
as it comes; what is left is known in offsets, from the leader's high watermark, and told in bytes
by what the records weighed that have come so far. Nothing here reads an image or a log.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.limits import COPY_REPORT_INTERVAL_MS
from broker.partition.assignment import PartitionKey
from broker.partition.follower import FollowerState
from quorum.protocol.copy_reports import COPY_REPORTS_MAX
from statemachine.reassignment.copies import CopyReport

WINDOW_SLOTS: Final = 10
SLOT_MS: Final = 1_000
"""The rate is that of the last ten seconds, the one under way included: nine to ten in all."""

BYTES_LEFT_MAX: Final = 2**63 - 1
"""What the field of a report holds."""

_MS_PER_S: Final = 1_000


class CopyRate:
    """What has come for one replica: bytes and offsets in all, and bytes of late by the second."""

    __slots__ = ("_began_ms", "_bytes", "_first_bytes", "_offsets", "_slots")

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._bytes = 0
        self._first_bytes = 0
        self._offsets = 0
        self._slots: deque[tuple[int, int]] = deque()
        """Which second, and what came in it; never more than `WINDOW_SLOTS`."""

    def took(self, size_bytes: int, offsets: int, now_ms: int) -> None:
        """So many bytes have come, which brought the log so many offsets further."""
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
        """Of the window, or, while that is shorter, of what came since the first bytes did; of a
        second at least, for one batch is no rate.

        The first answer came at once, however slow those after it are to be: under a throttle it is
        let through whole, and waited for by what follows.
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
        """What so many offsets more would weigh; a leader may claim any number of them."""
        weight = -(-self._bytes * offsets // self._offsets) if self._offsets else 0
        return min(weight, BYTES_LEFT_MAX)

    def _forget(self, slot: int) -> None:
        while self._slots and self._slots[0][0] <= slot - WINDOW_SLOTS:
            self._slots.popleft()


class CopyReports:
    """What one broker has to say of its copies to the controller."""

    def __init__(self) -> None:
        self._rates: dict[PartitionKey, CopyRate] = {}
        self._next_ms = 0

    def took(self, key: PartitionKey, size_bytes: int, offsets: int, now_ms: int) -> None:
        """Bytes have come for a replica that is not in sync."""
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = CopyRate(now_ms)
        rate.took(size_bytes, offsets, now_ms)

    def due(
        self, now_ms: int, adding: Callable[[PartitionKey], FollowerState | None]
    ) -> tuple[CopyReport, ...]:
        """What is to be said now: nothing if nothing is being copied, or it was just said.

        `adding` has the follower's side of a partition if this replica is still to be added. Of
        more replicas than a heartbeat may tell of, those go first of which was told longest ago.
        """
        if now_ms < self._next_ms:
            return ()
        reports: list[CopyReport] = []
        for key, rate in list(self._rates.items()):
            following = adding(key)
            if following is None:
                del self._rates[key]
            elif following.lag is not None and len(reports) < COPY_REPORTS_MAX:
                reports.append(
                    CopyReport(
                        topic_id=key.topic_id,
                        partition=key.number,
                        bytes_left=rate.bytes_of(following.lag),
                        bytes_per_s=rate.bytes_per_s(now_ms),
                    )
                )
                # To the end of the row.
                self._rates[key] = self._rates.pop(key)
        if reports:
            self._next_ms = now_ms + COPY_REPORT_INTERVAL_MS
        return tuple(reports)
