"""A table of the image as far as it is committed, for decisions that a fail-over must not undo.

The active controller replays before the commit. Who logs in by a credential that is lost with the
lead would have proved nothing, so credentials and tokens are looked up here, as ACLs are in
`AclIndex`.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class CommittedTable(Generic[K, V]):
    """The committed entries of one table; the image tells of every change."""

    __slots__ = ("_entries", "_key_of", "_proposed")

    def __init__(self, key_of: Callable[[V], K]) -> None:
        self._key_of = key_of
        self._entries: dict[K, V] = {}
        self._proposed: deque[tuple[int, V | None, V | None]] = deque()
        """The changes that are not committed: the offset, the value before and after."""

    def get(self, key: K) -> V | None:
        """Return the committed value of a key, or None."""
        return self._entries.get(key)

    def change(self, before: V | None, after: V | None) -> None:
        """Replace a value, by a committed record; None stands for none."""
        if after is not None:
            self._entries[self._key_of(after)] = after
        elif before is not None:
            self._entries.pop(self._key_of(before), None)

    def propose(self, offset: int, before: V | None, after: V | None) -> None:
        """Note a change by the record at `offset`, which is not committed."""
        self._proposed.append((offset, before, after))

    def commit(self, offset: int | None = None) -> None:
        """Make the proposed changes below `offset`, or all of them: they are committed."""
        proposed = self._proposed
        while proposed and (offset is None or proposed[0][0] < offset):
            _, before, after = proposed.popleft()
            self.change(before, after)

    def rewind(self, offset: int) -> None:
        """Drop the proposed changes from `offset` on."""
        while self._proposed and self._proposed[-1][0] >= offset:
            self._proposed.pop()
