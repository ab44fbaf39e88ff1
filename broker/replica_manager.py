"""The partitions on this broker: open their logs, apply metadata changes, delete their logs.

The metadata log is the only source of what belongs here. A change of role takes effect at once.
Work that needs the disk runs one item after the other in `run`, each by the metadata of that
moment, so that intermediate changes do not matter. A log is deleted only when the metadata shows
that this broker is no longer a replica.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from broker.limits import MESSAGE_BYTES_MAX, OPENING_THREADS, SETTLED_AT_ONCE, SWEEP_MS
from broker.partition.assignment import (
    Assignment,
    LiveEpochs,
    PartitionKey,
    TopicSettings,
    assignment_of,
    live_epochs,
    settings_of,
)
from broker.partition.partition import Partition, PartitionListener
from broker.replication.copy_reports import AddedReplica, CopyReports, led_and_copied
from broker.replication.replication_quota import ReplicationQuotas
from broker.storage.disk_thread import DiskThread
from broker.storage.log_dir import claim, discard, folder_name, partition_folders, remove_leftovers
from broker.storage.partition_log import OpenedLog, close_logs, open_log
from quorum.log.errors import StorageError
from quorum.log_events import LogEvent
from quorum.ports import Clock
from quorum.protocol.errors import ErrorCode
from quorum.transport.sweeper import Sweeper
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.reassignment.copies import CopyReport
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, BrokerId

logger = logging.getLogger("broker")


class Traffic:
    """The counters of a broker since its start: bytes of records, and changes of ISRs."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "isr_expands",
        "isr_shrinks",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        """Appended for producers."""
        self.bytes_out = 0
        """Sent to consumers."""
        self.replication_bytes_in = 0
        """Copied from leaders."""
        self.replication_bytes_out = 0
        """Sent to followers."""
        self.isr_shrinks = 0
        self.isr_expands = 0


class ReplicaManager:
    """The partitions of this broker and their host; belongs to the event loop."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        log_dir: Path,
        segment_bytes_max: int,
        replica_lag_time_max_ms: int,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        image: Image,
        disk: DiskThread,
        clock: Clock,
        sweeper: Sweeper,
    ) -> None:
        self.broker_id = broker_id
        self.replica_lag_time_max_ms = replica_lag_time_max_ms
        self.broker_epoch: int | None = None
        self.live: LiveEpochs = {}
        self.image = image
        self.partitions: dict[PartitionKey, Partition] = {}
        self.failed: dict[PartitionKey, str] = {}
        """The partitions whose log cannot be opened, with the error."""
        self.throttles = ReplicationQuotas()
        self.traffic = Traffic()
        self.copies = CopyReports()
        self.listeners: list[PartitionListener] = []
        """Add them before `run`."""
        self._log_dir = log_dir
        self._segment_bytes_max = segment_bytes_max
        self._message_bytes_max = message_bytes_max
        self._disk = disk
        self._clock = clock
        self._sweeper = sweeper
        self._unsettled: dict[PartitionKey, None] = {}
        """The partitions whose log has to be opened or deleted."""
        self._work = asyncio.Event()
        self.settled = asyncio.Event()
        """Set while every change so far has been applied on disk."""
        self.settled.set()
        self._waiting: dict[Partition, None] = {}
        self._next_review_ms = 0

    # --- changes of the metadata --------------------------------------------------------------

    def apply(self, delta: MetadataDelta) -> None:
        """Apply a change of the image."""
        if delta.brokers:
            self.live = live_epochs(self.image)
        for topic_id, number in delta.partitions:
            self._apply(PartitionKey(topic_id, number))
        if delta.configs:
            self._reconfigure(delta)
        if delta.brokers:
            for partition in self.partitions.values():
                partition.review()

    def partition(self, topic: str, number: int) -> Partition | ErrorCode:
        """The local partition of this topic name, or the error."""
        topic_id = self.image.topic_ids.get(topic)
        if topic_id is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.partition_by_id(topic_id, number)

    def partition_by_id(self, topic_id: UUID | None, number: int) -> Partition | ErrorCode:
        """The local partition of this topic id (KIP-516), or the error."""
        topic = None if topic_id is None else self.image.topics.get(topic_id)
        if topic_id is None or topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        key = PartitionKey(topic_id, number)
        partition = self.partitions.get(key)
        if partition is not None:
            return partition
        if key in self.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if topic.partition(number) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def assignment_of(self, key: PartitionKey) -> Assignment | None:
        """The assignment of a partition, or None if this broker is not a replica."""
        return assignment_of(self.image, self.broker_id, key)

    def settings_of(self, topic: str) -> TopicSettings:
        """The topic settings that apply to its partitions on this broker."""
        return settings_of(self.image, self.broker_id, topic, self._message_bytes_max)

    async def run(self) -> None:
        """Open and delete logs until cancelled."""
        while True:
            await self._work.wait()
            while self._unsettled:
                keys = list(islice(self._unsettled, SETTLED_AT_ONCE))
                for key in keys:
                    del self._unsettled[key]
                await self._settle(keys)
            self._work.clear()
            self.settled.set()

    async def remove_strays(self) -> None:
        """Delete the logs of partitions that do not belong to this broker.

        Call it only once the metadata is known up to the broker's own registration: before that, a
        missing partition may only be late.
        """
        await self._disk.call(remove_leftovers, self._log_dir)
        for folder in await self._disk.call(partition_folders, self._log_dir):
            if folder.topic_id is None:
                continue
            key = PartitionKey(folder.topic_id, folder.number)
            if self.assignment_of(key) is None and key not in self.partitions:
                logger.info(
                    "Deleting %s: not a partition of this broker",
                    folder.path,
                    extra=LogEvent.PARTITION_REMOVED.extra,
                )
                await self._disk.call(discard, folder.path, folder.topic_id)

    # --- `PartitionHost` ----------------------------------------------------------------------

    def now_ms(self) -> int:
        return self._clock()

    def on_append(self, partition: Partition) -> None:
        self._disk.write_soon(partition)
        for listener in self.listeners:
            listener.on_append(partition)

    def on_high_watermark(self, partition: Partition) -> None:
        for listener in self.listeners:
            listener.on_high_watermark(partition)

    def on_role_change(self, partition: Partition) -> None:
        for listener in self.listeners:
            listener.on_role_change(partition)

    def on_isr_proposal(self, partition: Partition) -> None:
        for listener in self.listeners:
            listener.on_isr_proposal(partition)

    def copy_reports(self) -> tuple[CopyReport, ...]:
        """The progress reports that are due, of replicas being added here or copied from here."""
        return self.copies.due(self._clock(), self._added_replica, self._led_and_copied)

    # --- deadlines ----------------------------------------------------------------------------

    def watch_acks(self, partition: Partition) -> None:
        """Check this partition's acknowledgements for timeouts."""
        if partition not in self._waiting:
            self._waiting[partition] = None
            self._sweeper.watch(self, self._clock() + SWEEP_MS)

    def sweep(self, now_ms: int) -> int | None:
        """Time out overdue acknowledgements; from time to time review the ISRs."""
        for partition in list(self._waiting):
            partition.sweep(now_ms)
            if not partition.waiting:
                del self._waiting[partition]
        if now_ms >= self._next_review_ms:
            self._next_review_ms = now_ms + max(1, self.replica_lag_time_max_ms // 2)
            for partition in self.partitions.values():
                partition.review()
        return now_ms + SWEEP_MS if self._waiting else self._next_review_ms

    def start(self) -> None:
        """Start the periodic review of ISRs."""
        self._sweeper.watch(self, self._clock())

    # --- the end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close all logs cleanly, with everything on disk."""
        self._sweeper.forget(self)
        closing = []
        for partition in list(self.partitions.values()):
            partition.close()
            closing.append(OpenedLog(partition.log, partition.producers, partition.high_watermark))
        self.partitions.clear()
        await self._disk.call(close_logs, closing)

    # --- inside -------------------------------------------------------------------------------

    def _added_replica(self, key: PartitionKey) -> AddedReplica | None:
        partition, topic = self.partitions.get(key), self.image.topics.get(key.topic_id)
        found = None if topic is None else topic.partition(key.number)
        if partition is None or found is None or self.broker_id not in found.adding:
            return None
        following = partition.following
        return None if following is None else AddedReplica(following.lag, partition.log.size_bytes)

    def _led_and_copied(self) -> Iterator[tuple[PartitionKey, int]]:
        for key in led_and_copied(self.image, self.broker_id):
            partition = self.partitions.get(key)
            if partition is not None:
                yield key, partition.log.size_bytes

    def _apply(self, key: PartitionKey) -> None:
        partition, assignment = self.partitions.get(key), self.assignment_of(key)
        if partition is not None and assignment is not None:
            partition.assign(assignment)
        elif partition is not None or assignment is not None:
            self._unsettled[key] = None
            self.settled.clear()
            self._work.set()
        else:
            self.failed.pop(key, None)

    async def _settle(self, keys: Sequence[PartitionKey]) -> None:
        """Open missing logs and delete the logs of removed replicas."""
        to_open: list[tuple[PartitionKey, str]] = []
        for key in keys:
            partition, assignment = self.partitions.get(key), self.assignment_of(key)
            if partition is not None and assignment is None:
                await self._remove(key, partition)
            elif partition is None and assignment is not None:
                to_open.append((key, self.image.topics[key.topic_id].name))
        results = await self._disk.call(_open_all, self._log_dir, to_open, self._segment_bytes_max)
        for (key, topic), result in zip(to_open, results, strict=True):
            if isinstance(result, StorageError):
                logger.error(
                    "Cannot open %s: %s",
                    folder_name(topic, key.number),
                    result,
                    extra=LogEvent.PARTITION_FAILED.extra,
                )
                self.failed[key] = str(result)
            else:
                await self._start(key, topic, *result)

    async def _start(
        self, key: PartitionKey, topic: str, opened: OpenedLog, aside: Path | None
    ) -> None:
        """Start a partition whose log is now open, unless it was reassigned."""
        if aside is not None:
            logger.warning(
                "Set aside as %s: the log of another topic with the same name",
                aside,
                extra=LogEvent.PARTITION_SET_ASIDE.extra,
            )
        if opened.log.cut is not None:
            logger.warning("%s; %s", opened.log, opened.log.cut, extra=LogEvent.LOG_CUT.extra)
        assignment = self.assignment_of(key)
        if assignment is None:
            await self._disk.call(opened.log.close)
            await self._disk.call(discard, opened.log.folder, key.topic_id)
            return
        self.failed.pop(key, None)
        partition = Partition(key, topic, opened, assignment, self.settings_of(topic), self)
        self.partitions[key] = partition
        self.on_role_change(partition)
        logger.info(
            "%s: %s, log end %d",
            partition,
            assignment,
            partition.log_end,
            extra=LogEvent.PARTITION_OPENED.extra,
        )

    async def _remove(self, key: PartitionKey, partition: Partition) -> None:
        del self.partitions[key]
        self._waiting.pop(partition, None)
        partition.close()
        logger.info(
            "%s: deleting the log, this broker is no longer a replica",
            partition,
            extra=LogEvent.PARTITION_REMOVED.extra,
        )
        await self._disk.call(partition.log.close)
        await self._disk.call(discard, partition.log.folder, key.topic_id)

    def _reconfigure(self, delta: MetadataDelta) -> None:
        names = {name for kind, name in delta.configs if kind == TOPIC_RESOURCE}
        is_for_all = any(kind == BROKER_RESOURCE for kind, _ in delta.configs)
        if is_for_all:
            configs = self.image.configs
            own = configs.get((BROKER_RESOURCE, str(self.broker_id)), {})
            self.throttles.configure(
                own, configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {}), self._clock()
            )
        for key, partition in self.partitions.items():
            if is_for_all or partition.topic in names:
                was_throttled = partition.is_throttled
                partition.settings = self.settings_of(partition.topic)
                assignment = self.assignment_of(key)
                if assignment is not None:
                    partition.assign(assignment)
                if was_throttled:
                    # A changed rate ends the wait of held-back fetches at once.
                    self.on_role_change(partition)


_Opening: TypeAlias = tuple[OpenedLog, Path | None] | StorageError
"""An open log and the folder that had to be set aside for it, or the error."""


def _open_all(
    log_dir: Path, wanted: Sequence[tuple[PartitionKey, str]], segment_bytes_max: int
) -> list[_Opening]:
    """Open several logs in parallel: each waits for the disk more than once."""

    def opened(one: tuple[PartitionKey, str]) -> _Opening:
        key, topic = one
        try:
            folder, aside = claim(log_dir, topic, key.number, key.topic_id)
            return open_log(folder, segment_bytes_max=segment_bytes_max), aside
        except StorageError as error:
            return error

    if len(wanted) <= 1:
        return [opened(one) for one in wanted]
    with ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="opening") as threads:
        return list(threads.map(opened, wanted))
