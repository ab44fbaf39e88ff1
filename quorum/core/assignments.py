"""The voter assignments that one log holds, each with the end of the batch that says so.

The last one is in force, committed or not: two majorities then always overlap, because there is
at most one that is not committed (Raft §4.1). A truncation takes back those it cuts.
"""

from collections.abc import Iterable

from quorum.core.vocabulary import Offset
from quorum.core.voters import VoterAssignment


class Assignments:
    """Invariant: the offsets rise strictly."""

    __slots__ = ("_base", "_entries")

    def __init__(
        self,
        entries: Iterable[tuple[Offset, VoterAssignment]] = (),
        *,
        base: VoterAssignment | None = None,
    ) -> None:
        """`entries` are those of the log, `base` that of the snapshot before it, if it has one."""
        self._base = base
        self._entries: list[tuple[Offset, VoterAssignment]] = []
        for end, assignment in entries:
            self.append(end, assignment)

    @property
    def last(self) -> VoterAssignment | None:
        """The assignment in force; None where the log does not say who votes."""
        return self._entries[-1][1] if self._entries else self._base

    @property
    def before_last(self) -> VoterAssignment | None:
        """The assignment that the last one replaced, as far as the log says."""
        return self._entries[-2][1] if len(self._entries) > 1 else self._base

    @property
    def last_end(self) -> Offset:
        """The end of the batch with the last assignment: it is committed from there on."""
        return self._entries[-1][0] if self._entries else Offset(0)

    def append(self, end: Offset, assignment: VoterAssignment) -> None:
        """Note the assignment of a batch that ends at `end`."""
        assert not self._entries or end > self._entries[-1][0]
        self._entries.append((end, assignment))

    def truncate(self, end: Offset) -> None:
        """Take back what batches beyond `end` had assigned."""
        while self._entries and self._entries[-1][0] > end:
            self._entries.pop()

    def forget_below(self, start: Offset) -> None:
        """The log now begins at `start`: what was assigned before is what it goes on from."""
        while self._entries and self._entries[0][0] <= start:
            self._base = self._entries.pop(0)[1]

    def at(self, end: Offset) -> VoterAssignment | None:
        """The assignment in force in a log that ends at `end`, for a snapshot of it."""
        known = [assignment for offset, assignment in self._entries if offset <= end]
        return known[-1] if known else self._base
