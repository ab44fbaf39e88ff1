"""The partitions of one broker process: `broker.replica_manager` on a virtual disk and clock.

`broker.partition.assignment` decides which partitions to open and remove; each is a
`broker.partition.partition.Partition` with a log of files. The disk runs one job after the other,
each in one moment; appended data is written in groups and not synced. All of it ends with its
process.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from broker.limits import MESSAGE_BYTES_MAX
from broker.partition.assignment import (
    LiveEpochs,
    PartitionKey,
    assignment_of,
    live_epochs,
    settings_of,
)
from broker.partition.partition import Partition
from broker.replication.copy_reports import AddedReplica, CopyReports, led_and_copied
from broker.replication.replication_quota import ReplicationQuotas
from broker.storage.partition_log import OpenedLog, open_log
from chaos.cluster.broker.node import BrokerNode
from chaos.cluster.broker.partition_disk import PARTITIONS, PartitionDisk, folder_of, held_on
from quorum.log.filesystem import make_folder, sync_folder
from statemachine.image.delta import MetadataDelta
from statemachine.reassignment.copies import CopyReport
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE

SEGMENT_BYTES: Final = 4_000


class ReplicaManager:
    """The partitions of one process."""

    def __init__(self, process: BrokerNode) -> None:
        self._process = process
        self._fs = process.machine.disk
        self.disk = PartitionDisk(process)
        self.partitions: dict[PartitionKey, Partition] = {}
        self.live: LiveEpochs = {}
        self.throttles = ReplicationQuotas()
        self.copies = CopyReports()
        self._unsettled: dict[PartitionKey, None] = {}
        self._settles = False
        self._when_settled: list[Callable[[], None]] = []

    def apply(self, touched: MetadataDelta) -> None:
        """Apply the changes of the image."""
        if touched.brokers:
            self.live = live_epochs(self._process.image)
        for topic_id, number in touched.partitions:
            self._apply(PartitionKey(topic_id, number))
        if touched.configs:
            self._reconfigure(touched)
        if touched.brokers:
            self.review()

    def review(self) -> None:
        """Review all ISRs."""
        for each in self.partitions.values():
            each.review()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Continue once all assigned partitions are open, and others are removed."""
        self._when_settled.append(then)
        self._settle_soon()

    def copy_reports(self) -> tuple[CopyReport, ...]:
        """The progress to report to the controller for replicas that are being added here."""
        return self.copies.due(self._process.now_ms(), self._being_added, self._led_and_copied)

    def close(self) -> None:
        """Write and sync every log, as in a clean shutdown."""
        for each in self.partitions.values():
            each.close()
            each.log.close()
        self.partitions.clear()

    # --- inside ------------------------------------------------------------------------------

    def _apply(self, key: PartitionKey) -> None:
        process, partition = self._process, self.partitions.get(key)
        assignment = assignment_of(process.image, process.broker_id, key)
        if partition is not None and assignment is not None:
            partition.assign(assignment)
        elif partition is not None or assignment is not None:
            self._unsettled[key] = None
            self._settle_soon()

    def _reconfigure(self, touched: MetadataDelta) -> None:
        process = self._process
        names = {name for kind, name in touched.configs if kind == TOPIC_RESOURCE}
        is_for_all = any(kind == BROKER_RESOURCE for kind, _ in touched.configs)
        if is_for_all:
            configs, broker_id = process.image.configs, str(process.broker_id)
            own = configs.get((BROKER_RESOURCE, broker_id), {})
            shared = configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {})
            self.throttles.configure(own, shared, process.now_ms())
        for key, partition in self.partitions.items():
            if is_for_all or partition.topic in names:
                was_throttled = partition.is_throttled
                partition.settings = settings_of(
                    process.image, process.broker_id, partition.topic, MESSAGE_BYTES_MAX
                )
                assignment = assignment_of(process.image, process.broker_id, key)
                if assignment is not None:
                    partition.assign(assignment)
                if was_throttled:
                    process.on_role_change(partition)

    def _being_added(self, key: PartitionKey) -> AddedReplica | None:
        process, partition = self._process, self.partitions.get(key)
        topic = process.image.topics.get(key.topic_id)
        found = None if topic is None else topic.partition(key.number)
        if partition is None or found is None or process.broker_id not in found.adding:
            return None
        following = partition.following
        return None if following is None else AddedReplica(following.lag, partition.log.size_bytes)

    def _led_and_copied(self) -> Iterator[tuple[PartitionKey, int]]:
        process = self._process
        for key in led_and_copied(process.image, process.broker_id):
            partition = self.partitions.get(key)
            if partition is not None:
                yield key, partition.log.size_bytes

    def _settle_soon(self) -> None:
        if not self._settles:
            self._settles = True
            self._process.later(0, self._settle)

    def _settle(self) -> None:
        """Open or remove pending partitions one by one, each by its current assignment."""
        process = self._process
        while self._unsettled:
            key = next(iter(self._unsettled))
            del self._unsettled[key]
            partition = self.partitions.get(key)
            assignment = assignment_of(process.image, process.broker_id, key)
            if partition is not None and assignment is None:
                del self.partitions[key]
                partition.close()
                self.disk.call(partial(self._discard, key, partition), self._go_on)
                return
            if partition is None and assignment is not None:
                topic = process.image.topics[key.topic_id].name
                self.disk.call(partial(self._open, key), partial(self._take_in, key, topic))
                return
        self._settles = False
        waiting, self._when_settled = self._when_settled, []
        if waiting:
            self.disk.call(self._remove_strays, partial(_tell_all, waiting))

    def _go_on(self, _: object) -> None:
        self._settle()

    def _open(self, key: PartitionKey) -> OpenedLog:
        folder = folder_of(key)
        make_folder(PARTITIONS, self._fs)
        make_folder(folder, self._fs)
        self._process.world.folders.opens(self._process.incarnation, key)
        return open_log(folder, segment_bytes_max=SEGMENT_BYTES, fs=self._fs)

    def _take_in(self, key: PartitionKey, topic: str, opened: OpenedLog) -> None:
        process = self._process
        assignment = assignment_of(process.image, process.broker_id, key)
        if assignment is None:
            self.disk.call(partial(self._remove, key, opened), self._go_on)
            return
        settings = settings_of(process.image, process.broker_id, topic, MESSAGE_BYTES_MAX)
        partition = Partition(key, topic, opened, assignment, settings, process)
        self.partitions[key] = partition
        process.on_role_change(partition)
        self._settle()

    def _discard(self, key: PartitionKey, partition: Partition) -> None:
        partition.log.close()
        self._remove_files(key)

    def _remove(self, key: PartitionKey, opened: OpenedLog) -> None:
        opened.log.close()
        self._remove_files(key)

    def _remove_strays(self) -> None:
        process = self._process
        for key in held_on(self._fs):
            is_wanted = assignment_of(process.image, process.broker_id, key) is not None
            if not is_wanted and key not in self.partitions:
                self._remove_files(key)

    def _remove_files(self, key: PartitionKey) -> None:
        folder = folder_of(key)
        self._process.world.folders.removes(self._process.incarnation, key)
        for name in sorted(self._fs.names(folder)):
            self._fs.remove(folder / name)
        sync_folder(folder, self._fs)


def _tell_all(waiting: list[Callable[[], None]], _: object) -> None:
    for each in waiting:
        each()
