"""The partitions on this broker: open their logs, apply metadata changes, delete their logs.

The metadata log is the only source of what belongs here. A change of role takes effect at once.
Work that needs the disk runs one item after the other in `run`, each by the metadata of that
moment, so that intermediate changes do not matter. A log is deleted only when the metadata shows
that this broker is no longer a replica.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeAlias

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
from broker.partition.follower import FollowerState
from broker.partition.leader import IsrProposal
from broker.partition.partition import Partition
from broker.replication.copy_reports import CopyReports
from broker.replication.replication_quota import ReplicationQuotas
from broker.storage.disk_thread import DiskThread
from broker.storage.log_dir import claim, discard, folder_name, partition_folders, remove_leftovers
from broker.storage.partition_log import ClosingLog, OpenedLog, close_logs, open_log
from quorum.log.errors import StorageError
from quorum.ports import Clock
from quorum.transport.sweeper import Sweeper
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.reassignment.copies import CopyReport
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, BrokerId

logger = logging.getLogger("broker.partitions")


class PartitionListener(Protocol):
    """Someone who wants to know what happens to the partitions, at once and in the loop."""

    def grew(self, partition: Partition) -> None:
        """There are more records for its followers."""
        ...

    def committed(self, partition: Partition) -> None:
        """There are more records for its consumers."""
        ...

    def moved(self, partition: Partition) -> None:
        """It plays another part, or is about to go."""
        ...


class Proposer(Protocol):
    """Takes ISR proposals to the controller."""

    def submit(self, partition: Partition, proposal: IsrProposal) -> None: ...


class ReplicaManager:
    """Host of the partitions; belongs to the event loop."""

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
        """Partitions whose log cannot be opened, and why."""
        self.throttles = ReplicationQuotas()
        self.copies = CopyReports()
        self.watchers: list[PartitionListener] = []
        self.proposer: Proposer | None = None
        self._log_dir = log_dir
        self._segment_bytes_max = segment_bytes_max
        self._message_bytes_max = message_bytes_max
        self._disk = disk
        self._clock = clock
        self._sweeper = sweeper
        self._unsettled = PendingLogActions()
        self._work = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._waiting: dict[Partition, None] = {}
        self._next_review_ms = 0

    # --- what the metadata says -----------------------------------------------------------------

    def apply(self, touched: MetadataDelta) -> None:
        """Take in what has changed in the image."""
        if touched.brokers:
            self.live = live_epochs(self.image)
        for topic_id, number in touched.partitions:
            self._apply(PartitionKey(topic_id, number))
        if touched.configs:
            self._reconfigure(touched)
        if touched.brokers:
            for partition in self.partitions.values():
                partition.review()

    def assignment_of(self, key: PartitionKey) -> Assignment | None:
        """What the metadata says of a partition of which this broker is a replica, else None."""
        return assignment_of(self.image, self.broker_id, key)

    def settings_of(self, topic: str) -> TopicSettings:
        """The settings of a topic that matter to its partitions."""
        return settings_of(self.image, self.broker_id, topic, self._message_bytes_max)

    async def run(self) -> None:
        """Open and remove logs until cancelled."""
        while True:
            await self._work.wait()
            while self._unsettled:
                await self._settle(self._unsettled.take())
            self._work.clear()
            self._settled.set()

    async def settled(self) -> None:
        """Return when everything that the metadata asks for so far is open or gone."""
        await self._settled.wait()

    async def remove_strays(self) -> None:
        """Remove the logs of partitions that are not this broker's any more.

        To be called once the metadata is known up to the broker's own registration: before that,
        what is missing in it may only be late.
        """
        await self._disk.call(remove_leftovers, self._log_dir)
        for folder in await self._disk.call(partition_folders, self._log_dir):
            if folder.topic_id is None:
                continue
            key = PartitionKey(folder.topic_id, folder.number)
            if self.assignment_of(key) is None and key not in self.partitions:
                logger.info("%s is of no partition of this broker, removing it", folder.path)
                await self._disk.call(discard, folder.path, folder.topic_id)

    # --- what the partitions say ----------------------------------------------------------------

    def now_ms(self) -> int:
        return self._clock()

    def grew(self, partition: Partition) -> None:
        self._disk.write_soon(partition)
        for watcher in self.watchers:
            watcher.grew(partition)

    def committed(self, partition: Partition) -> None:
        for watcher in self.watchers:
            watcher.committed(partition)

    def moved(self, partition: Partition) -> None:
        for watcher in self.watchers:
            watcher.moved(partition)

    def proposed(self, partition: Partition, proposal: IsrProposal) -> None:
        assert self.proposer is not None, "proposals before there is anyone to take them"
        self.proposer.submit(partition, proposal)

    def copy_reports(self) -> tuple[CopyReport, ...]:
        """What the controller is to be told now of the replicas that are being added here."""
        return self.copies.due(self._clock(), self._being_added)

    # --- deadlines ------------------------------------------------------------------------------

    def watch_acks(self, partition: Partition) -> None:
        """Somebody waits for this partition, not for ever."""
        if partition not in self._waiting:
            self._waiting[partition] = None
            self._sweeper.watch(self, self._clock() + SWEEP_MS)

    def sweep(self, now_ms: int) -> int | None:
        """Look for acknowledgements that are overdue, and now and then through the ISRs."""
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
        """Begin to look through the ISRs."""
        self._sweeper.watch(self, self._clock())

    # --- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close every log in good order, on disk."""
        self._sweeper.forget(self)
        closing = []
        for partition in list(self.partitions.values()):
            partition.close()
            closing.append(ClosingLog(partition.log, partition.producers, partition.high_watermark))
        self.partitions.clear()
        await self._disk.call(close_logs, closing)

    # --- inside ---------------------------------------------------------------------------------

    def _being_added(self, key: PartitionKey) -> FollowerState | None:
        partition, topic = self.partitions.get(key), self.image.topics.get(key.topic_id)
        found = None if topic is None else topic.partition(key.number)
        if partition is None or found is None or self.broker_id not in found.adding:
            return None
        return partition.following

    def _apply(self, key: PartitionKey) -> None:
        partition, assignment = self.partitions.get(key), self.assignment_of(key)
        if partition is not None and assignment is not None:
            partition.assign(assignment)
        elif partition is not None or assignment is not None:
            self._unsettled.note(key)
            self._settled.clear()
            self._work.set()
        else:
            self.failed.pop(key, None)

    async def _settle(self, keys: Sequence[PartitionKey]) -> None:
        """Open what should be here and is not, remove what is and should not."""
        to_open: list[tuple[PartitionKey, str]] = []
        for key in keys:
            partition = self.partitions.get(key)
            match log_action(partition, self.assignment_of(key)):
                case LogAction.REMOVE if partition is not None:
                    await self._remove(key, partition)
                case LogAction.OPEN:
                    to_open.append((key, self.image.topics[key.topic_id].name))
                case _:
                    pass
        results = await self._disk.call(_open_all, self._log_dir, to_open, self._segment_bytes_max)
        for (key, topic), result in zip(to_open, results, strict=True):
            if isinstance(result, StorageError):
                logger.error("%s cannot be opened: %s", folder_name(topic, key.number), result)
                self.failed[key] = str(result)
            else:
                await self._take_in(key, topic, *result)

    async def _take_in(
        self, key: PartitionKey, topic: str, opened: OpenedLog, aside: Path | None
    ) -> None:
        """A log is open: let it play its part, if it still has one."""
        if aside is not None:
            logger.warning("the log of another topic of this name was set aside as %s", aside)
        if opened.log.recovery.cut is not None:
            logger.warning("%s", opened.log.recovery)
        assignment = self.assignment_of(key)
        if assignment is None:
            await self._disk.call(opened.log.close)
            await self._disk.call(discard, opened.log.folder, key.topic_id)
            return
        self.failed.pop(key, None)
        partition = Partition(key, topic, opened, assignment, self.settings_of(topic), self)
        self.partitions[key] = partition
        self.moved(partition)
        logger.info("%s: %s, log end %d", partition, assignment, partition.log_end)

    async def _remove(self, key: PartitionKey, partition: Partition) -> None:
        del self.partitions[key]
        self._waiting.pop(partition, None)
        partition.close()
        logger.info("%s: this broker is no longer a replica, removing its log", partition)
        await self._disk.call(partition.log.close)
        await self._disk.call(discard, partition.log.folder, key.topic_id)

    def _reconfigure(self, touched: MetadataDelta) -> None:
        names = {name for kind, name in touched.configs if kind == TOPIC_RESOURCE}
        is_for_all = any(kind == BROKER_RESOURCE for kind, _ in touched.configs)
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
                    # Whoever was held back by what is no longer so does not wait for its time.
                    self.moved(partition)


_Opening: TypeAlias = tuple[OpenedLog, Path | None] | StorageError
"""An open log, with what was set aside for it, or why there is none."""


def _open_all(
    log_dir: Path, wanted: Sequence[tuple[PartitionKey, str]], segment_bytes_max: int
) -> list[_Opening]:
    """Open logs, several at a time: each waits for the disk more than once."""

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


class LogAction(Enum):
    """What is to be done with one partition on the disk."""

    OPEN = auto()
    REMOVE = auto()
    NOTHING = auto()


class PendingLogActions:
    """The partitions that are here and should not be, or the other way round."""

    def __init__(self) -> None:
        self._keys: dict[PartitionKey, None] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._keys)

    def note(self, key: PartitionKey) -> None:
        """The metadata asks for something else than what is here."""
        self._keys[key] = None

    def take(self) -> list[PartitionKey]:
        """The next few, to be settled now."""
        taken = list(islice(self._keys, SETTLED_AT_ONCE))
        for key in taken:
            del self._keys[key]
        return taken


def log_action(partition: Partition | None, assignment: Assignment | None) -> LogAction:
    """What becomes of a partition that is here, or is not, by what the metadata says now."""
    if partition is not None and assignment is None:
        return LogAction.REMOVE
    if partition is None and assignment is not None:
        return LogAction.OPEN
    return LogAction.NOTHING
