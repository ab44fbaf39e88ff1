"""R28: voters are changed only to a set of which a majority is there.

A set of voters is in force from its append. One that leans on a voter which died a moment before
could commit nothing, nor be undone. So each majority has fetched since the change could be made:
since somebody has asked this leader for other voters, and since it has appended the ones before.
Judged from the wire, and from what a leader appends.
"""

from typing import Final

from chaos.audience import Speaker
from chaos.electorates import Assigned, Electorates, assigned_by, names
from chaos.stored import batches
from chaos.violation import Violation
from quorum.core.messages import FetchRequest, Request, VoterRequest
from quorum.core.vocabulary import ReplicaKey

SLACK_MS: Final = 500
"""For what a leader had begun when its time was up."""


class Rolls:
    """Knows who has fetched from whom since voters could be changed there; one for each run."""

    def __init__(self, electorates: Electorates, fetch_timeout_ms: int) -> None:
        self._electorates = electorates
        self._silent_ms_max = fetch_timeout_ms + SLACK_MS
        self._fetched_ms: dict[int, dict[ReplicaKey, int]] = {}
        self._wanted: dict[int, list[VoterRequest]] = {}

    def asked(self, who: Speaker, request: Request, now_ms: int) -> None:
        """A request has come."""
        if isinstance(request, FetchRequest):
            self._fetched_ms.setdefault(who.boot, {})[request.replica] = now_ms

    def wanted(self, boot: int, request: VoterRequest) -> None:
        """Somebody asks this process for other voters; it hears of it in its next turn."""
        self._wanted.setdefault(boot, []).append(request)

    def refused(self, boot: int, request: VoterRequest) -> None:
        """That is not done. If it is said at once, nothing that is appended later is for it."""
        if request in self._wanted.get(boot, ()):
            self._wanted[boot].remove(request)

    def turned(self, boot: int) -> None:
        """It has had a turn: who had fetched before it was asked may be dead by now."""
        if self._wanted.pop(boot, None):
            self._fetched_ms.pop(boot, None)

    def appends(self, who: Speaker, records: bytes, now_ms: int) -> None:
        """It has appended records of the quorum's own, by its own clock now."""
        for batch in batches(records):
            new = assigned_by(*batch)
            if new is not None and new.base > 0:
                before = self._electorates.before(who.truth.assigned, who.truth.end, new)
                self.names(who, before, new, now_ms)

    def names(self, who: Speaker, before: Assigned, new: Assigned, now_ms: int) -> None:
        """It names these as voters in the place of those before."""
        fetched_ms = self._fetched_ms.pop(who.boot, {})
        if _are_the_same(before, new):
            return
        there = [who.key, *(key for key, at in fetched_ms.items() if self._is_recent(at, now_ms))]
        found = [each for each in new.voters if any(names(each, key) for key in there)]
        if 2 * len(found) <= len(new.voters):
            told = " ".join(map(str, found))
            raise Violation("R28", f"{who} appends {new}, of which it has heard of {told} only")

    def _is_recent(self, at_ms: int, now_ms: int) -> bool:
        return now_ms - at_ms <= self._silent_ms_max


def _are_the_same(before: Assigned, new: Assigned) -> bool:
    """Whether nobody comes or goes; a directory that was not known may be by now."""
    return len(before.voters) == len(new.voters) and all(
        any(names(each, key) for each in before.voters) for key in new.voters
    )
