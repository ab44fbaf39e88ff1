"""The implementations of a log under test: memory, files, and a disk that loses power."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from chaos.disk.virtual_disk import VirtualDisk
from quorum.core.vocabulary import Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.ports import Log
from tests.support.memory_storage import MemoryLog

NO_LIMIT = 1 << 30


class AnyLog(Log, Protocol):
    """The port, and what a broker asks of a partition's log besides."""

    @property
    def size_bytes(self) -> int: ...

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None: ...


class World:
    """A place where a log lives: it can be opened, lose its power and be opened again."""

    def __init__(self, open_at: Callable[[Offset], AnyLog], crash: Callable[[AnyLog], AnyLog]):
        self.open_at = open_at
        self._crash = crash
        self.log = open_at(Offset(0))

    def crash(self) -> AnyLog:
        self.log = self._crash(self.log)
        return self.log


def memory_world(_: Path) -> World:
    def crash(log: AnyLog) -> AnyLog:
        assert isinstance(log, MemoryLog)
        log.crash()
        return log

    return World(MemoryLog, crash)


def begun_at(start: Offset, log: SegmentedLog) -> SegmentedLog:
    """Return the log, which begins at `start` if nothing was ever appended to it."""
    if log.end.offset < start:
        log.begin_anew(start)
    return log


def segmented_world(segment_bytes_max: int, tail_bytes_max: int) -> Callable[[Path], World]:
    """On disk, with segments and a memory of these sizes."""

    def world(folder: Path) -> World:
        def opened(where: Path, start: Offset = Offset(0)) -> SegmentedLog:
            log = SegmentedLog(
                where,
                segment_bytes_max=segment_bytes_max,
                tail_bytes_max=tail_bytes_max,
                lock=False,
            )
            return begun_at(start, log)

        def crash(log: AnyLog) -> AnyLog:
            # What was not committed is only in the object, and is lost with it.
            assert isinstance(log, SegmentedLog)
            return opened(log.folder)

        return World(lambda start: opened(folder / f"log-{start}", start), crash)

    return world


def virtual_world(segment_bytes_max: int) -> Callable[[Path], World]:
    """On a disk that loses, with its power, what it was not asked to keep."""

    def world(_: Path) -> World:
        disk = VirtualDisk()
        chance = random.Random(1)

        def opened(where: Path, start: Offset = Offset(0)) -> SegmentedLog:
            return begun_at(
                start, SegmentedLog(where, segment_bytes_max=segment_bytes_max, fs=disk)
            )

        def crash(log: AnyLog) -> AnyLog:
            assert isinstance(log, SegmentedLog)
            disk.lose_power(chance)
            return opened(log.folder)

        return World(lambda start: opened(Path(f"/log-{start}"), start), crash)

    return world


WORLDS = {
    "memory": memory_world,
    "one segment, all in memory": segmented_world(NO_LIMIT, NO_LIMIT),
    "one segment, nothing in memory": segmented_world(NO_LIMIT, 0),
    "many segments, all in memory": segmented_world(300, NO_LIMIT),
    "many segments, little in memory": segmented_world(300, 200),
    "a segment for every batch, nothing in memory": segmented_world(1, 0),
    "one segment, no power": virtual_world(NO_LIMIT),
    "many segments, no power": virtual_world(300),
}
