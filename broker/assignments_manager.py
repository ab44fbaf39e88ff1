"""AssignReplicasToDirs (KIP-858): report the directory of each local replica to the controller.

A replica neither leads nor joins an ISR while the metadata names a directory that its broker has
not registered. This broker has one directory. It reports every open replica for which the metadata
names another one: many in one request, one request at a time. A starting broker reports before it
is unfenced, so that the assignment precedes in the log whatever lets the replica join an ISR.

It does not report where that could hide a loss of data. A replica that the metadata knows in
another real directory has lost what it had there. Usually it may return and copy everything again.
But if the partition has no leader and waits for this replica, it would be elected with an empty
log: it is held back until another replica leads, or until unclean elections are allowed.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import Any, Final
from uuid import UUID

from broker.limits import ASSIGNED_PARTITIONS_MAX
from broker.partition.assignment import PartitionKey, by_topic
from broker.partition.partition import Partition, PartitionListener
from broker.replica_manager import ReplicaManager
from quorum.core.vocabulary import uuid_to_text
from quorum.log_events import LogEvent
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.transport.controller_channel import (
    Backoff,
    NoActiveController,
    NodeToControllerChannelManager,
)
from statemachine.configs.effective import unclean_election_allowed
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.partitions.registration import directory_of
from statemachine.vocabulary import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    LEVEL_DIRECTORIES,
    NO_LEADER,
    BrokerId,
)

logger = logging.getLogger("broker")

_OVERTAKEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""The metadata has moved on: the replica is checked again when this broker knows the change."""


class DirectoryReport(Enum):
    """The report that a replica's directory needs."""

    KNOWN = "the controller knows it, or this broker has no such replica"
    REPORT = "report the directory of the replica"
    WITHHELD = "a report could let a replica lead that has lost its data"


def directory_report(image: Image, key: PartitionKey, me: BrokerId, own: UUID) -> DirectoryReport:
    """Decide whether to report that this replica is in directory `own`.

    Call it only with an image that includes the current registration: by then the controller has
    removed the broker from every ISR, except where it was the last member and no broker leads, and
    a leader adds only an incarnation that has copied everything (KIP-903).
    """
    topic = image.topics.get(key.topic_id)
    partition = None if topic is None else topic.partition(key.number)
    if topic is None or partition is None or me not in partition.replicas:
        return DirectoryReport.KNOWN
    known = directory_of(partition, me)
    if known == own:
        return DirectoryReport.KNOWN
    if known in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED) or partition.leader != NO_LEADER:
        return DirectoryReport.REPORT
    is_waited_for = me in (*partition.isr, *partition.elr, *partition.last_known_elr)
    if is_waited_for and not unclean_election_allowed(image, topic.name):
        return DirectoryReport.WITHHELD
    return DirectoryReport.REPORT


class AssignmentsManager(PartitionListener):
    """A `PartitionListener` that collects replicas to report; `run` reports them."""

    def __init__(
        self,
        manager: ReplicaManager,
        controllers: NodeToControllerChannelManager,
        directory_id: UUID,
        *,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        self._manager = manager
        self._controllers = controllers
        self._directory_id = directory_id
        self.on_settled = on_settled
        """Called whenever `is_settled` becomes true."""
        self._waiting: dict[PartitionKey, None] = {}
        self._is_reporting = False
        self.withheld: dict[PartitionKey, None] = {}
        """The replicas that are not reported because they may have lost their data."""
        self._is_in_force = False
        self._work = asyncio.Event()
        self._backoff = Backoff()

    @property
    def is_settled(self) -> bool:
        """Return whether every replica that needs a report has been reported."""
        return not self._waiting and not self._is_reporting

    # --- events -------------------------------------------------------------------------------

    def on_role_change(self, partition: Partition) -> None:
        """Check a partition that was just opened or is about to be removed."""
        self._note((partition.key,))

    def apply(self, delta: MetadataDelta) -> None:
        """Apply a metadata change, after the `ReplicaManager` has."""
        was_in_force = self._is_in_force
        self._is_in_force = self._manager.image.level >= LEVEL_DIRECTORIES
        if self._manager.broker_id in delta.brokers or was_in_force != self._is_in_force:
            self._note(list(self._manager.partitions))
            return
        self._note(PartitionKey(*each) for each in delta.partitions)
        if delta.configs:
            self._note(list(self.withheld))

    def registered(self) -> None:
        """Note a new broker epoch, after the `ReplicaManager` has."""
        if self._waiting:
            self._work.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._work.wait()
            epoch = self._registered_epoch()
            if epoch is None:
                self._work.clear()
                continue
            batch = self._take()
            if not self._waiting:
                self._work.clear()
            if batch:
                self._is_reporting = True
                await self._report(batch, epoch)
                self._is_reporting = False
            if self.is_settled:
                self.on_settled()

    # --- inside -------------------------------------------------------------------------------

    def _note(self, keys: Iterable[PartitionKey]) -> None:
        """Queue the open replicas whose directory the controller does not know."""
        manager = self._manager
        for key in keys:
            is_held = key in manager.partitions and self._is_in_force
            if is_held and self._directory_report(key) is not DirectoryReport.KNOWN:
                self._waiting[key] = None
            else:
                self._waiting.pop(key, None)
                self.withheld.pop(key, None)
        if self._waiting:
            self._work.set()

    def _directory_report(self, key: PartitionKey) -> DirectoryReport:
        manager = self._manager
        return directory_report(manager.image, key, manager.broker_id, self._directory_id)

    def _registered_epoch(self) -> int | None:
        """The current broker epoch, once the metadata includes its registration.

        Earlier metadata may be outdated and must not decide whether a leader exists.
        """
        manager = self._manager
        registered = manager.image.brokers.get(manager.broker_id)
        is_known = registered is not None and registered.broker_epoch == manager.broker_epoch
        return manager.broker_epoch if is_known else None

    def _take(self) -> Collection[PartitionKey]:
        """Take the replicas to report next; hold back those that must not be reported."""
        batch: list[PartitionKey] = []
        while self._waiting and len(batch) < ASSIGNED_PARTITIONS_MAX:
            key = next(iter(self._waiting))
            del self._waiting[key]
            decision = self._directory_report(key)
            if decision is DirectoryReport.WITHHELD:
                self._withhold(key)
                continue
            self.withheld.pop(key, None)
            if decision is DirectoryReport.REPORT:
                batch.append(key)
        return batch

    def _withhold(self, key: PartitionKey) -> None:
        if key in self.withheld:
            return
        self.withheld[key] = None
        logger.warning(
            "%s-%d has no leader and waits for this broker, but its replica here was in another"
            " directory than %s and has lost its data: it will not lead. Bring that directory"
            " back, elect another replica uncleanly, or accept the loss with"
            " unclean.leader.election.enable=true for the topic",
            self._manager.image.topics[key.topic_id].name,
            key.number,
            uuid_to_text(self._directory_id),
            extra=LogEvent.DIRECTORY_LOST.extra,
        )

    async def _report(self, batch: Collection[PartitionKey], epoch: int) -> None:
        manager = self._manager
        try:
            answer = await self._controllers.ask(
                ApiKey.ASSIGN_REPLICAS_TO_DIRS,
                broker_id=manager.broker_id,
                broker_epoch=epoch,
                directories=[
                    {"id_": self._directory_id, "topics": by_topic((key, {}) for key in batch)}
                ],
            )
        except NoActiveController as reason:
            logger.debug("AssignReplicasToDirs will be retried: %s", reason)
            left = batch
        else:
            left = self._settle(batch, answer)
        if left:
            for key in left:
                self._waiting.setdefault(key, None)
            self._work.set()
            await self._backoff.wait()
        else:
            self._backoff.reset()

    def _settle(self, batch: Collection[PartitionKey], answer: Any) -> Collection[PartitionKey]:
        """Return the replicas to report again."""
        code = answer.error_code.value
        if code != 0:
            logger.warning(
                "AssignReplicasToDirs failed: %s",
                answer.error_code.name,
                extra=LogEvent.DIRECTORY_REFUSED.extra,
            )
            # The metadata log will bring a higher level, and the next heartbeat a new broker epoch.
            return () if code == ErrorCode.UNSUPPORTED_VERSION else batch
        missing = dict.fromkeys(batch)
        again: list[PartitionKey] = []
        reported = 0
        for key, error in _answered(answer):
            if key not in missing:
                continue
            del missing[key]
            if error.value == 0:
                reported += 1
            elif error.value not in _OVERTAKEN:
                logger.warning(
                    "The directory of %s was refused: %s",
                    key,
                    error.name,
                    extra=LogEvent.DIRECTORY_REFUSED.extra,
                )
                again.append(key)
        logger.info(
            "Reported the directory of %d replicas",
            reported,
            extra=LogEvent.DIRECTORY_REPORTED.extra,
        )
        # A replica without an answer was not decided.
        return [*again, *missing]


def _answered(answer: Any) -> Iterable[tuple[PartitionKey, Any]]:
    for directory in answer.directories:
        for topic in directory.topics:
            for each in topic.partitions:
                yield PartitionKey(topic.topic_id, each.partition_index), each.error_code
