"""R34: a leader that sends nothing but what must be refused is soon left, and asked seldom.

Checked from the wire alone, with the clock of each follower: it gives its leader up within the
fetch time-out and its random part, counted from the first refused answer in a row, unless it lets
another voter stand; and repeats its fetches no faster than after the pauses of a failed one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chaos.invariants.durable_state import Incarnation
from chaos.violation import Violation
from quorum.core.limits import Timeouts
from quorum.core.messages import FetchRequest, FetchSnapshotRequest, Request, VoteRequest
from quorum.core.vocabulary import ReplicaId

LEFT: Final = "a follower leaves a faulty leader"


@dataclass(slots=True)
class _Following:
    """One follower of one leader, by its own clock."""

    leader: ReplicaId
    epoch: int
    call: int
    """Its last fetch."""
    refused_ms: int | None = None
    """The time of the first of the answers since the last good one; None if there is none."""
    fetches: int = 0
    """Its fetches since then."""


class FaultyLeaderInvariant:
    """The followers of all leaders, and what was forged for them; one for each run."""

    def __init__(self, timeouts: Timeouts, note: Callable[[str], None]) -> None:
        self._note = note
        self._patience_ms = timeouts.fetch_timeout_ms + timeouts.fetch_jitter_ms_max
        # The pauses double until they are as long as the shortest that a failed fetch has.
        pause_ms, doublings = timeouts.search_pause_ms_max, 0
        while timeouts.retry_backoff_ms << doublings < pause_ms:
            doublings += 1
        self._fetches_max = doublings + 1 + self._patience_ms // pause_ms
        self._following: dict[int, _Following] = {}

    def request_sent(
        self, who: Incarnation, to: ReplicaId, request: Request, call: int, now_ms: int
    ) -> None:
        """The process sends a request."""
        match request:
            case FetchRequest(max_wait_ms=0) | VoteRequest():
                left = self._following.pop(who.boot, None)
                if left is not None and left.refused_ms is not None:
                    self._note(LEFT)
            case FetchRequest(epoch=epoch) | FetchSnapshotRequest(epoch=epoch):
                self._fetches(who, _Following(to, epoch, call), now_ms)
            case _:
                pass

    def answered(self, who: Incarnation, call: int) -> None:
        """An answer that nobody has forged arrives."""
        following = self._following.get(who.boot)
        if following is not None and following.call == call:
            following.refused_ms = None

    def refuses(self, who: Incarnation, call: int, now_ms: int) -> None:
        """An answer arrives that it must refuse."""
        following = self._following.get(who.boot)
        if following is not None and (following.call, following.refused_ms) == (call, None):
            following.refused_ms, following.fetches = now_ms, 0

    def forgets(self, who: Incarnation) -> None:
        """It gives way to another voter that stands, or its disk is full and it may not stand."""
        self._following.pop(who.boot, None)

    def _fetches(self, who: Incarnation, now: _Following, now_ms: int) -> None:
        known = self._following.setdefault(who.boot, now)
        if (known.leader, known.epoch) != (now.leader, now.epoch):
            self._following[who.boot] = now
            return
        known.call = now.call
        if known.refused_ms is None:
            return
        known.fetches += 1
        for_ms = now_ms - known.refused_ms
        if for_ms > self._patience_ms or known.fetches > self._fetches_max:
            raise Violation(
                "R34",
                f"{who} follows {known.leader} after {for_ms} ms and {known.fetches} fetches with "
                f"answers that it refuses, at most {self._patience_ms} ms and {self._fetches_max}",
            )
