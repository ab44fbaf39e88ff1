"""The disk of a broker's partitions: `broker.storage.disk_thread` in virtual time.

Jobs run one after the other, each in one moment, some time after it was begun. What has grown is
written in groups, and not synced. All of it is gone with its process.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from broker.partition.partition import Partition
    from chaos.cluster.broker import BrokerProcess

Job: TypeAlias = Callable[[], Any]
Done: TypeAlias = Callable[[Any], None]


class PartitionDisk:
    """What one process of a broker has asked of its disk."""

    def __init__(self, process: "BrokerProcess") -> None:
        self._process = process
        self._jobs: deque[tuple[Job, Done]] = deque()
        self._is_busy = False
        self._grown: dict[Partition, None] = {}
        self._writes = False

    def call(self, job: Job, done: Done) -> None:
        """Run `job`, after all that was asked for before; then `done` with what it returns."""
        self._jobs.append((job, done))
        if not self._is_busy:
            self._begin()

    def write_soon(self, partition: "Partition") -> None:
        """Write what was appended, together with whatever else is appended until then."""
        self._grown[partition] = None
        if not self._writes:
            self._writes = True
            self.call(self._write, self._wrote)

    def _begin(self) -> None:
        self._is_busy = bool(self._jobs)
        if self._is_busy:
            process = self._process
            process.later(process.world.writing_ms(process), self._do)

    def _do(self) -> None:
        job, done = self._jobs.popleft()
        done(job())
        self._begin()

    def _write(self) -> "list[tuple[Partition, int]]":
        grown, self._grown = [each for each in self._grown if each.is_open], {}
        self._writes = False
        return [(each, each.log.commit(sync=False).offset) for each in grown]

    def _wrote(self, written: "list[tuple[Partition, int]]") -> None:
        for partition, end in written:
            if partition.is_open:
                partition.wrote(end)
