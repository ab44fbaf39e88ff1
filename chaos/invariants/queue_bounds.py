"""R24: every queue of a process is bounded, counted from outside.

Requests without an answer, proposals that are not committed, operations of the disk: checked after
every turn, when all input was taken. Input to a process that waits for its disk is bounded by its
connections, which are not simulated. A leader also remembers a bounded number of observers.
"""

from collections import deque
from enum import StrEnum
from typing import Final

from chaos.violation import Violation
from quorum.core.limits import Bounds
from quorum.core.messages import FetchRequest, Request

RECORDED_MAX: Final = 1
"""Voter requests that were granted and wait for the commit."""
WORK_MAX: Final = 16
"""The limit of a disk queue; waiting commits count as one."""


class Waiting(StrEnum):
    """The kinds of requests that wait at a process."""

    FETCH = "fetches"
    READ = "reads"
    VOTERS = "voter requests"
    TRANSFER = "transfer requests"


class Queues:
    """The queues of one process."""

    def __init__(self, who: object, bounds: Bounds) -> None:
        self._who = who
        self._bounds = bounds
        self._most = {
            Waiting.FETCH: bounds.parked_fetches,
            Waiting.READ: bounds.reads,
            Waiting.VOTERS: bounds.voter_requests + RECORDED_MAX,
            Waiting.TRANSFER: bounds.transfer_askers,
        }
        self._waiting = dict.fromkeys(Waiting, 0)
        self._batches: deque[tuple[int, int]] = deque()
        """The end and size of each uncommitted batch since it leads."""
        self._grew: set[Waiting] = set()
        """The queues that have grown since the last check; only these can be too long."""

    def comes(self, what: Waiting) -> None:
        """One more request waits."""
        self._waiting[what] += 1
        self._grew.add(what)

    def goes(self, what: Waiting) -> None:
        """One request is answered."""
        self._waiting[what] -= 1

    def request_received(self, request: Request) -> None:
        """Another replica sends a request."""
        if isinstance(request, FetchRequest):
            self.comes(Waiting.FETCH)

    def request_answered(self, request: Request) -> None:
        """The request of another replica is answered."""
        if isinstance(request, FetchRequest):
            self.goes(Waiting.FETCH)

    def check(self) -> None:
        """Check the queues that have grown, once all input was taken."""
        if not self._grew:
            return
        for what in Waiting if len(self._grew) > 1 else self._grew:
            self._check(what)
        self._grew.clear()

    def check_reads(self) -> None:
        """Check the reads; a read beyond the limit is refused at once."""
        self._check(Waiting.READ)

    def _check(self, what: Waiting) -> None:
        count, most = self._waiting[what], self._most[what]
        if count > most:
            raise Violation("R24", f"{count} {what} wait at {self._who}, the limit is {most}")

    def leads(self) -> None:
        """The process begins to lead."""
        self._batches.clear()

    def appended(self, end: int, committed: int, durable: int, size_bytes: int) -> None:
        """The process accepted records up to `end`; it knows of `committed` and `durable` ends."""
        reached, most = min(committed, durable), self._bounds.uncommitted_records
        if end - reached > most:
            text = f"{self._who} holds {end - reached} uncommitted records, the limit is {most}"
            raise Violation("R24", text)
        while self._batches and self._batches[0][0] <= reached:
            self._batches.popleft()
        held, most = sum(size for _, size in self._batches), self._bounds.uncommitted_bytes
        if held >= most:
            text = (
                f"{self._who} appends while it holds {held} uncommitted bytes, the limit is {most}"
            )
            raise Violation("R24", text)
        self._batches.append((end, size_bytes))

    def remembers(self, observers: int) -> None:
        """Check the number of observers that the leader reports."""
        if observers > self._bounds.observers:
            raise Violation(
                "R24",
                f"{self._who} reports {observers} observers, the limit is {self._bounds.observers}",
            )


def check_disk_queue(who: object, count: int) -> None:
    """Check the length of a disk queue."""
    if count > WORK_MAX:
        raise Violation("R24", f"{count} operations wait for the disk of {who}")
