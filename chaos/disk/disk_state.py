"""The contents of a disk: files and folders, as read and as a power loss would leave them.

Each node has two states. `shown` is the result of every read; `durable` is what has been synced;
between the two lie the unsynced changes, in order. A power loss keeps any part of those: each
sector of a file holds its contents at some moment, or zeros if it was never written; a file may be
shorter; a truncation, a creation, a removal or a renaming happened or did not, each on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

SECTOR_BYTES: Final = 512
"""The largest unit that a disk writes atomically."""


class Chance(Protocol):
    """The source of choices about an uncertain outcome: a seed, or an exhaustive search."""

    def randrange(self, stop: int, /) -> int:
        """Return a number from 0 to `stop` - 1; `random.Random` is one implementation."""
        ...


class Written(NamedTuple):
    """A write of some bytes."""

    position: int
    data: bytes


class Cut(NamedTuple):
    """A change of a file's length."""

    size_bytes: int


@dataclass(slots=True, eq=False)
class File:
    """The bytes of a file, independent of its name."""

    shown: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Written | Cut] = field(default_factory=list)
    rewritten_from: int | None = None
    """The first durable byte that a sync has replaced or removed, for readers that follow the
    file."""

    def write(self, written: Written, *, landing: Written | None = None) -> None:
        """Show the data to reads; the disk gets `landing` instead if given."""
        _write(self.shown, written)
        self.unsynced.append(landing or written)

    def cut(self, size_bytes: int) -> None:
        """Set the length."""
        _cut(self.shown, size_bytes)
        self.unsynced.append(Cut(size_bytes))

    def sync(self) -> None:
        """Make everything durable."""
        for change in self.unsynced:
            match change:
                case Written(position=position):
                    self._rewrite_from(position)
                    _write(self.durable, change)
                case Cut(size_bytes):
                    self._rewrite_from(size_bytes)
                    _cut(self.durable, size_bytes)
        self.unsynced.clear()

    def _rewrite_from(self, position: int) -> None:
        known = self.rewritten_from
        if position < len(self.durable) and (known is None or position < known):
            self.rewritten_from = position

    def fail_to_sync(self) -> None:
        """Lose what is not durable, and still show it: the pages count as clean."""
        self.unsynced.clear()

    def rot(self, position: int, bits: int) -> None:
        """Flip these bits of one byte."""
        for each in (self.shown, self.durable):
            if position < len(each):
                each[position] ^= bits

    def overwrite(self, position: int, data: bytes) -> bytes:
        """Overwrite a range directly; return its old bytes."""
        before = bytes(self.durable[position : position + len(data)])
        for each in (self.shown, self.durable):
            each[position : position + len(data)] = data
        return before

    def copy(self) -> File:
        """Copy the file."""
        return File(self.shown[:], self.durable[:], self.unsynced[:])

    def after_power_loss(self, chance: Chance) -> File:
        """The state after a power loss: everything durable, and any part of the rest."""
        data = self.durable[:]
        if self.unsynced:
            # Try the extremes often: everything or nothing is left.
            manner = chance.randrange(4)
            lost: set[int] = set()
            for change in self.unsynced if manner else ():
                match change:
                    case Written():
                        _write_in_part(data, change, lost, chance if manner > 1 else None)
                    case Cut(size_bytes) if manner == 1 or chance.randrange(2):
                        _cut(data, size_bytes)
                    case _:
                        continue  # This truncation is lost.
            low = min(len(data), self._length_for_certain())
            if manner > 1 and chance.randrange(2):
                _cut(data, low + chance.randrange(len(data) - low + 1))
        return File(data, data[:])

    def _length_for_certain(self) -> int:
        cuts = [change.size_bytes for change in self.unsynced if isinstance(change, Cut)]
        return min([len(self.durable), *cuts])


@dataclass(slots=True, eq=False)
class Folder:
    """A folder: names and their nodes."""

    shown: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    unsynced: list[Naming] = field(default_factory=list)

    def name(self, *names: tuple[str, Node | None]) -> None:
        """Change these names atomically."""
        _name(self.shown, names)
        self.unsynced.append(names)

    def sync(self) -> None:
        """Make everything durable."""
        if self.durable != self.shown:
            self.durable = dict(self.shown)
        self.unsynced.clear()

    def fail_to_sync(self) -> None:
        """Lose what is not durable, and still show it: the pages count as clean."""
        self.unsynced.clear()

    def copy(self, known: dict[int, Node] | None = None) -> Folder:
        """Copy it, with all below; a file with two names stays one file."""
        known = {} if known is None else known

        def twin(node: Node) -> Node:
            if id(node) not in known:
                known[id(node)] = node.copy(known) if isinstance(node, Folder) else node.copy()
            return known[id(node)]

        return Folder(
            {name: twin(node) for name, node in self.shown.items()},
            {name: twin(node) for name, node in self.durable.items()},
            [
                tuple((name, None if node is None else twin(node)) for name, node in naming)
                for naming in self.unsynced
            ],
        )

    def after_power_loss(self, chance: Chance) -> Folder:
        """The state after a power loss: everything durable, and any part of the rest."""
        names = dict(self.durable)
        for naming in self.unsynced:
            if chance.randrange(2):
                _name(names, naming)
        left = {name: names[name].after_power_loss(chance) for name in sorted(names)}
        return Folder(left, dict(left))

    def files(self) -> Iterator[File]:
        """All files in it and below, as shown."""
        for node in self.shown.values():
            if isinstance(node, Folder):
                yield from node.files()
            else:
                yield node


Node: TypeAlias = File | Folder
Naming: TypeAlias = tuple[tuple[str, Node | None], ...]
"""Names that change together: each with its new node, or None if removed."""


def _write(data: bytearray, written: Written) -> None:
    if written.position > len(data):
        data.extend(bytes(written.position - len(data)))
    data[written.position : written.position + len(written.data)] = written.data


def _cut(data: bytearray, size_bytes: int) -> None:
    if size_bytes < len(data):
        del data[size_bytes:]
    else:
        data.extend(bytes(size_bytes - len(data)))


def _write_in_part(
    data: bytearray, written: Written, lost: set[int], chance: Chance | None
) -> None:
    """Apply a write to the sectors that chance selects, or all; never to one that was `lost`
    before.

    A sector holds what the file showed at some moment: never a later write without an earlier one.
    """
    position, end = written.position, written.position + len(written.data)
    if end > len(data):
        data.extend(bytes(end - len(data)))
    for start in range(position // SECTOR_BYTES * SECTOR_BYTES, end, SECTOR_BYTES):
        low, high = max(start, position), min(start + SECTOR_BYTES, end)
        if start in lost:
            continue
        if chance is not None and not chance.randrange(2):
            lost.add(start)
        else:
            data[low:high] = written.data[low - position : high - position]


def _name(names: dict[str, Node], naming: Naming) -> None:
    for name, node in naming:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
