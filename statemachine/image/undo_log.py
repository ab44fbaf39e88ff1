"""The undo log: how to undo the changes of an image that are not committed yet.

The active controller replays at append. When it loses the lead, it undoes everything that was not
committed. An entry holds the offset of the record and the call that undoes its change.

An entry is one tuple, because there may be a hundred thousand of them and the garbage collector
visits every object. Committed entries are dropped in portions, for short pauses.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias


class Transaction(NamedTuple):
    """A transaction of metadata records that has not ended (KIP-868)."""

    begun_at: int
    """The offset of its BeginTransaction."""
    level: int
    """The level of metadata.version before it."""


Undo: TypeAlias = tuple[Any, ...]
"""The offset of a record, the function that undoes a change of it, and its arguments."""

FORGOTTEN_AT_ONCE: Final = 10_000
"""Entries dropped by one call, in addition to as many as were added: about two milliseconds."""


class UndoLog:
    """Undo entries in the order of the changes, each with the offset of the record that made it."""

    __slots__ = ("_entries", "_kept", "offset", "start")

    def __init__(self, start: int) -> None:
        self._entries: deque[Undo] = deque()
        self._kept = 0
        """The number of entries after the last call of `forget_below`."""
        self.start = start
        """Everything at or after this offset can be undone."""
        self.offset = start
        """The offset of the record that is being replayed."""

    def note(self, undo: Callable[..., None], *arguments: Any) -> None:
        """Add the call that undoes a change of the record being replayed.

        It is called with the image and the arguments.
        """
        self._entries.append((self.offset, undo, *arguments))

    def note_each(
        self, offsets: Iterable[int], undo: Callable[..., None], *arguments: Iterable[Any]
    ) -> None:
        """Add calls like `note`, one for each offset and its arguments."""
        self._entries.extend(zip(offsets, repeat(undo), *arguments, strict=False))

    def forget_below(self, offset: int) -> None:
        """Drop the entries below `offset`: they are committed."""
        self.start = start = max(self.start, offset)
        entries = self._entries
        for _ in range(max(0, len(entries) - self._kept) + FORGOTTEN_AT_ONCE):
            if not entries or entries[0][0] >= start:
                break
            entries.popleft()
        self._kept = len(entries)

    def since(self, offset: int) -> list[Undo]:
        """Return the entries from `offset` on in the order of undoing, the newest first."""
        found = []
        for entry in reversed(self._entries):
            if entry[0] < offset:
                break
            found.append(entry)
        return found

    def take_since(self, offset: int) -> Iterator[Undo]:
        """Yield and remove the entries from `offset` on, the newest first."""
        while self._entries and self._entries[-1][0] >= offset:
            yield self._entries.pop()
