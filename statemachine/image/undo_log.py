"""The undo log: how to undo the changes of an image that are not committed yet.

The active controller replays at append. When it loses the lead, it undoes everything that was not
committed. An entry holds the offset of the record and the call that undoes its change.

An entry is one tuple, because there may be a hundred thousand of them and the garbage collector
visits every object. Committed entries are dropped in portions for the same reason.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Final, TypeAlias

from msgspec import Struct


class Transaction(Struct, frozen=True, gc=False):
    """A BeginTransaction that no end or abort has followed yet (KIP-868)."""

    begun_at: int
    """The offset of its record."""
    level: int
    """The level of metadata.version before it."""


Undo: TypeAlias = tuple[Any, ...]
"""The offset of the record, what undoes its change, and the arguments of that."""

FORGOTTEN_AT_ONCE: Final = 10_000
"""Entries that go at one time, beside as many as have come: about two milliseconds."""


class UndoLog:
    """Undo entries in the order of the changes, each with the offset of the record that made it."""

    __slots__ = ("_entries", "_kept", "offset", "start")

    def __init__(self, start: int) -> None:
        self._entries: deque[Undo] = deque()
        self._kept = 0
        """Entries that there were when some were forgotten last."""
        self.start = start
        """Everything at or after this offset can be undone."""
        self.offset = start
        """The offset of the record that is being replayed."""

    def note(self, undo: Callable[..., None], *arguments: Any) -> None:
        """The record being replayed changed something; this call undoes it.

        What undoes it is called with its image, and then with the arguments.
        """
        self._entries.append((self.offset, undo, *arguments))

    def note_each(
        self, offsets: Iterable[int], undo: Callable[..., None], *arguments: Iterable[Any]
    ) -> None:
        """As `note` of many records, with an offset and arguments for each."""
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
        """The entries from `offset` on, the newest first, in the order in which to undo."""
        found = []
        for entry in reversed(self._entries):
            if entry[0] < offset:
                break
            found.append(entry)
        return found

    def take_since(self, offset: int) -> Iterator[Undo]:
        """As `since`, and the entries are removed."""
        while self._entries and self._entries[-1][0] >= offset:
            yield self._entries.pop()
