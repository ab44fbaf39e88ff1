"""What a disk may hold after a loss of power: a recorder of file operations, and its images.

The recorder watches the real operations of one folder, and lets them happen, but for the syncs:
whether those were asked for is what matters. From its journal it makes folders as a machine may
find them that lost power after any operation: all that was synced, and of the rest any part.
Sectors of a write arrive one by one, in any order, or not at all, and then read as zeros; a file
may be shorter than what was written to it; a new name, a removal and a renaming count only once
the folder is synced.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

SECTOR_BYTES: Final = 512


@dataclass
class File:
    """One file, whatever it is called: what was done to it, and how much of that was synced."""

    operations: list[tuple[int, bytes] | int] = field(default_factory=list)
    synced: int = 0


@dataclass(frozen=True)
class Change:
    """One operation. Writes and truncations have a file; names have a link, or None for none."""

    kind: str
    file: File | None = None
    data: tuple[int, bytes] | int = 0
    names: tuple[tuple[str, File | None], ...] = ()


class Recorder:
    """The journal of one folder without folders in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal: list[Change] = []
        self._names: dict[str, File] = {}
        self._open: dict[int, File | None] = {}

    @contextmanager
    def recording(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Watch this process for as long as the block lasts."""
        with patch.context() as context:
            for name in ("open", "close", "pwrite", "ftruncate", "unlink", "rename"):
                context.setattr(os, name, self._watched(name, getattr(os, name)))
            context.setattr(os, "fsync", self._on_sync)
            context.setattr(os, "fdatasync", self._on_sync)
            yield

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        note: Callable[..., None] = getattr(self, f"_on_{name}")

        def watched(*args: Any, **kwargs: Any) -> Any:
            existed = name == "open" and os.path.exists(args[0])
            result = real(*args, **kwargs)
            note(result, existed, *args)
            return result

        return watched

    def _on_open(self, fd: int, existed: bool, path: Path, flags: int, *_: object) -> None:
        if Path(path) == self.folder:
            self._open[fd] = None
        elif Path(path).parent == self.folder:
            name = Path(path).name
            if not existed:
                self._names[name] = File()
                self.journal.append(Change("name", names=((name, self._names[name]),)))
            self._open[fd] = self._names[name]
            if existed and flags & os.O_TRUNC:
                self.journal.append(Change("data", self._names[name], 0))

    def _on_close(self, _: None, __: bool, fd: int) -> None:
        self._open.pop(fd, None)

    def _on_pwrite(self, written: int, _: bool, fd: int, data: bytes, position: int) -> None:
        if fd in self._open:
            self.journal.append(Change("data", self._open[fd], (position, bytes(data[:written]))))

    def _on_ftruncate(self, _: None, __: bool, fd: int, size: int) -> None:
        if fd in self._open:
            self.journal.append(Change("data", self._open[fd], size))

    def _on_sync(self, fd: int) -> None:
        if fd in self._open:
            self.journal.append(Change("sync", self._open[fd]))

    def _on_unlink(self, _: None, __: bool, path: Path, **___: object) -> None:
        if Path(path).parent == self.folder:
            name = Path(path).name
            del self._names[name]
            self.journal.append(Change("name", names=((name, None),)))

    def _on_rename(self, _: None, __: bool, source: Path, target: Path, **___: object) -> None:
        if Path(source).parent == self.folder:
            old, new = Path(source).name, Path(target).name
            file = self._names[new] = self._names.pop(old)
            self.journal.append(Change("name", names=((old, None), (new, file))))

    def image(self, upto: int, rng: random.Random, folder: Path) -> None:
        """Fill `folder` with what may be left after the first `upto` operations."""
        unsynced_names: list[Change] = []
        names: dict[str, File] = {}
        operations: dict[int, list[tuple[int, bytes] | int]] = {}
        synced: dict[int, int] = {}
        for change in self.journal[:upto]:
            if change.kind == "name":
                unsynced_names.append(change)
            elif change.kind == "data":
                operations.setdefault(id(change.file), []).append(change.data)
            elif change.file is not None:
                synced[id(change.file)] = len(operations.get(id(change.file), []))
            else:
                _rename_all(names, unsynced_names)
                unsynced_names = []
        _rename_all(names, [each for each in unsynced_names if rng.random() < 0.5])
        for name, file in names.items():
            done = operations.get(id(file), [])
            data = _content(done, synced.get(id(file), 0), rng)
            (folder / name).write_bytes(data)


def _rename_all(names: dict[str, File], changes: list[Change]) -> None:
    for change in changes:
        for name, file in change.names:
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file


def _content(operations: list[tuple[int, bytes] | int], synced: int, rng: random.Random) -> bytes:
    data = bytearray()
    for operation in operations[:synced]:
        _apply(data, operation, lambda: True)
    length = len(data)
    everything = rng.random() < 0.2
    for operation in operations[synced:]:
        if isinstance(operation, int) and rng.random() < 0.5:
            continue  # This truncation is lost.
        _apply(data, operation, lambda: everything or rng.random() < 0.6)
        length = min(length, len(data))
    return bytes(data[: len(data) if rng.random() < 0.5 else rng.randint(length, len(data))])


def _apply(
    data: bytearray, operation: tuple[int, bytes] | int, arrives: Callable[[], bool]
) -> None:
    if isinstance(operation, int):
        del data[operation:]
        return
    position, written = operation
    data.extend(bytes(max(0, position + len(written) - len(data))))
    end = position + len(written)
    for start in range(position // SECTOR_BYTES * SECTOR_BYTES, end, SECTOR_BYTES):
        low, high = max(start, position), min(start + SECTOR_BYTES, end)
        if arrives():
            data[low:high] = written[low - position : high - position]
