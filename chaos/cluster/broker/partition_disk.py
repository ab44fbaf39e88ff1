"""The folders of partitions on a broker's disk, and the queue of operations on them.

Operations run one after the other, each in one moment of virtual time, as on the disk thread of
the product's broker. Appended data is written in groups and not synced. The queue ends with its
process.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import UUID

from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition
from chaos.simulation.process import Process
from quorum.log.filesystem import FileSystem

Job: TypeAlias = Callable[[], Any]
Done: TypeAlias = Callable[[Any], None]

PARTITIONS: Final = Path("/partitions")
SEGMENT_BYTES: Final = 4_000


def folder_of(key: PartitionKey) -> Path:
    """The folder of a partition's log, named by topic id so that no two topics share one."""
    return PARTITIONS / f"{key.topic_id.hex}-{key.number}"


def key_of(folder: str) -> PartitionKey:
    """The partition whose folder has this name."""
    topic_id, _, number = folder.partition("-")
    return PartitionKey(UUID(hex=topic_id), int(number))


def held_on(disk: FileSystem) -> list[PartitionKey]:
    """The partitions that have a folder on this disk."""
    if not disk.is_folder(PARTITIONS):
        return []
    return [
        key_of(each) for each in sorted(disk.names(PARTITIONS)) if disk.names(PARTITIONS / each)
    ]


class PartitionDisk:
    """The queue of disk operations of one broker process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._jobs: deque[tuple[Job, Done]] = deque()
        self._is_busy = False
        self._grown: dict[Partition, None] = {}
        self._writes = False

    def call(self, job: Job, done: Done) -> None:
        """Run `job` after all earlier ones, then `done` with its result."""
        self._jobs.append((job, done))
        if not self._is_busy:
            self._begin()

    def write_soon(self, partition: Partition) -> None:
        """Queue a write of the appended data and of all that is appended before it runs."""
        self._grown[partition] = None
        if not self._writes:
            self._writes = True
            self.call(self._write, self._wrote)

    def _begin(self) -> None:
        self._is_busy = bool(self._jobs)
        if self._is_busy:
            process = self._process
            process.later(process.world.writing_ms(process.machine), self._do)

    def _do(self) -> None:
        job, done = self._jobs.popleft()
        done(job())
        self._begin()

    def _write(self) -> list[tuple[Partition, int]]:
        grown, self._grown = [each for each in self._grown if each.is_open], {}
        self._writes = False
        return [(each, each.log.commit(sync=False).offset) for each in grown]

    def _wrote(self, written: list[tuple[Partition, int]]) -> None:
        process = self._process
        for partition, end in written:
            process.world.invariants.observer.partition_written(process.id, str(partition), end)
            if partition.is_open:
                partition.wrote(end)
