"""Where this broker's replicas are, on its way to the controller (AssignReplicasToDirs, KIP-858).

A replica neither leads nor is in sync while the metadata names a directory for it that its broker
has not registered. This broker has one directory; of every open replica for which the metadata
names another, it says so: many in one request, one request at a time. A broker that starts says
it before it is unfenced: whatever lets it be in sync comes later in the log. Else the partition
that it alone has, by then, would wait for a disk that nobody needs any more.

It never says so where a loss would follow unseen. A replica that the metadata knows in another
real directory has lost what it had there. Mostly it may come back as the copy that it is; but where
nobody leads and it is the one that is waited for, it would be elected with an empty log. There it
is kept back until another replica leads, or until the setting that allows unclean elections says
that a loss is accepted.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import Any, Final
from uuid import UUID

from broker.controller_channel import Backoff, NoActiveController, NodeToControllerChannelManager
from broker.limits import ASSIGNED_PARTITIONS_MAX
from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition as HeldPartition
from broker.replica_manager import ReplicaManager
from quorum.log.uuids import uuid_to_text
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
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

logger = logging.getLogger("broker.assignments_manager")

UNSUPPORTED_VERSION: Final = 35
_OVERTAKEN: Final = frozenset({3, 100, 6})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER: the metadata moved on, and
what it says now will be looked at when it is known here."""


class DirectoryReport(Enum):
    """What the metadata says of where a replica is, and what follows from it."""

    KNOWN = "it is there, or this broker has no such replica"
    TO_SAY = "it is to be told where the replica is"
    KEPT_BACK = "telling it could make a leader of a replica that has lost what it had"


def directory_report(image: Image, key: PartitionKey, me: BrokerId, own: UUID) -> DirectoryReport:
    """What is to be said of this replica in directory `own`.

    To be asked only of an image that knows the registration in force: the controller has taken
    the broker out of every ISR before, but where it was the last member and nobody leads, and the
    leader puts only an incarnation that has copied everything back (KIP-903).
    """
    topic = image.topics.get(key.topic_id)
    partition = None if topic is None else topic.partition(key.number)
    if topic is None or partition is None or me not in partition.replicas:
        return DirectoryReport.KNOWN
    said = directory_of(partition, me)
    if said == own:
        return DirectoryReport.KNOWN
    if said in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED) or partition.leader != NO_LEADER:
        return DirectoryReport.TO_SAY
    is_waited_for = me in (*partition.isr, *partition.elr, *partition.last_known_elr)
    if is_waited_for and not unclean_election_allowed(image, topic.name):
        return DirectoryReport.KEPT_BACK
    return DirectoryReport.TO_SAY


class AssignmentsManager:
    """A `Watcher` that notes which replicas to speak of; `run` speaks."""

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
        """Called whenever `is_settled` has become true."""
        self._waiting: dict[PartitionKey, None] = {}
        self._is_saying = False
        self.kept_back: dict[PartitionKey, None] = {}
        """Of which nothing is said, because they may have lost what they had."""
        self._is_in_force = False
        self._work = asyncio.Event()
        self._backoff = Backoff()

    @property
    def is_settled(self) -> bool:
        """Whether the controller has been told of every replica that is to be spoken of."""
        return not self._waiting and not self._is_saying

    # --- what happens -----------------------------------------------------------------------------

    def grew(self, partition: HeldPartition) -> None:
        """Nothing to do with where it is."""

    def committed(self, partition: HeldPartition) -> None:
        """Nothing to do with where it is."""

    def moved(self, partition: HeldPartition) -> None:
        """It may just have been opened, or be about to go."""
        self._note((partition.key,))

    def learn(self, touched: MetadataDelta) -> None:
        """The metadata has changed; to be told after the `ReplicaManager` is."""
        was_in_force = self._is_in_force
        self._is_in_force = self._manager.image.level >= LEVEL_DIRECTORIES
        if self._manager.broker_id in touched.brokers or was_in_force != self._is_in_force:
            self._note(list(self._manager.partitions))
            return
        self._note(PartitionKey(*each) for each in touched.partitions)
        if touched.configs:
            self._note(list(self.kept_back))

    def registered(self) -> None:
        """The broker has an epoch, or another one; to be told after the `ReplicaManager` is."""
        if self._waiting:
            self._work.set()

    async def run(self) -> None:
        """Say what is to be said until cancelled."""
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
                self._is_saying = True
                await self._say(batch, epoch)
                self._is_saying = False
            if self.is_settled:
                self.on_settled()

    # --- inside -----------------------------------------------------------------------------------

    def _note(self, keys: Iterable[PartitionKey]) -> None:
        """Whatever is open and not known to be where it is waits to be looked at."""
        manager = self._manager
        for key in keys:
            is_held = key in manager.partitions and self._is_in_force
            if is_held and self._standing(key) is not DirectoryReport.KNOWN:
                self._waiting[key] = None
            else:
                self._waiting.pop(key, None)
                self.kept_back.pop(key, None)
        if self._waiting:
            self._work.set()

    def _standing(self, key: PartitionKey) -> DirectoryReport:
        manager = self._manager
        return directory_report(manager.image, key, manager.broker_id, self._directory_id)

    def _registered_epoch(self) -> int | None:
        """The broker epoch in force, once the metadata is known up to its registration.

        What the metadata said before that may be long over: who leads must not be judged by it.
        """
        manager = self._manager
        registered = manager.image.brokers.get(manager.broker_id)
        is_known = registered is not None and registered.epoch == manager.broker_epoch
        return manager.broker_epoch if is_known else None

    def _take(self) -> Collection[PartitionKey]:
        """The next replicas to speak of; those that must not be spoken of are kept back."""
        batch: list[PartitionKey] = []
        while self._waiting and len(batch) < ASSIGNED_PARTITIONS_MAX:
            key = next(iter(self._waiting))
            del self._waiting[key]
            judged = self._standing(key)
            if judged is DirectoryReport.KEPT_BACK:
                self._keep_back(key)
                continue
            self.kept_back.pop(key, None)
            if judged is DirectoryReport.TO_SAY:
                batch.append(key)
        return batch

    def _keep_back(self, key: PartitionKey) -> None:
        if key in self.kept_back:
            return
        self.kept_back[key] = None
        logger.warning(
            "%s-%d has no leader and waits for this broker, whose replica was in another directory"
            " than %s: it is not offered as a leader, for it has lost what it had. Bring that"
            " directory back, elect another replica uncleanly, or set"
            " unclean.leader.election.enable=true for the topic to go on with what is left",
            self._manager.image.topics[key.topic_id].name,
            key.number,
            uuid_to_text(self._directory_id),
        )

    async def _say(self, batch: Collection[PartitionKey], epoch: int) -> None:
        manager = self._manager
        try:
            answer = await self._controllers.ask(
                ApiKey.ASSIGN_REPLICAS_TO_DIRS,
                lambda version: _request(
                    version, manager.broker_id, epoch, self._directory_id, batch
                ),
            )
        except NoActiveController as reason:
            logger.debug("directories will be assigned again: %s", reason)
            self._put_back(batch)
            await self._backoff.wait()
            return
        left = self._settle(batch, answer)
        if left:
            self._put_back(left)
            await self._backoff.wait()
        else:
            self._backoff.reset()

    def _settle(self, batch: Collection[PartitionKey], answer: Any) -> Collection[PartitionKey]:
        """Which of the replicas are to be spoken of again."""
        code = answer.error_code.value
        if code != 0:
            logger.warning("assigning directories was answered with %s", answer.error_code.name)
            # Of a level that is below what is known here the metadata will tell, and of a broker
            # epoch that is over the heartbeats, which get a new one.
            return () if code == UNSUPPORTED_VERSION else batch
        missing = dict.fromkeys(batch)
        again: list[PartitionKey] = []
        told = 0
        for key, error in _answered(answer):
            if key not in missing:
                continue
            del missing[key]
            if error.value == 0:
                told += 1
            elif error.value not in _OVERTAKEN:
                logger.warning("the directory of %s was refused with %s", key, error.name)
                again.append(key)
        logger.info("the controller knows of %d more replicas which directory they are in", told)
        # What is not answered at all was not decided by anyone.
        return [*again, *missing]

    def _put_back(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            self._waiting.setdefault(key, None)
        self._work.set()


def _answered(answer: Any) -> Iterable[tuple[PartitionKey, Any]]:
    for directory in answer.directories:
        for topic in directory.topics:
            for each in topic.partitions:
                yield PartitionKey(topic.topic_id, each.partition_index), each.error_code


def _request(
    version: int,
    broker_id: BrokerId,
    broker_epoch: int,
    directory_id: UUID,
    keys: Iterable[PartitionKey],
) -> bytes:
    schema = codec.request_schema(ApiKey.ASSIGN_REPLICAS_TO_DIRS, version)
    of_directory, of_topic, of_partition = (
        codec.nested(schema, name) for name in ("DirectoryData", "TopicData", "PartitionData")
    )
    by_topic: dict[UUID, list[Any]] = {}
    for key in keys:
        numbered = codec.make(of_partition, partition_index=key.number)
        by_topic.setdefault(key.topic_id, []).append(numbered)
    topics = tuple(
        codec.make(of_topic, topic_id=topic_id, partitions=tuple(partitions))
        for topic_id, partitions in by_topic.items()
    )
    payload = codec.make(
        schema,
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=(codec.make(of_directory, id_=directory_id, topics=topics),),
    )
    return codec.encode_request_body(ApiKey.ASSIGN_REPLICAS_TO_DIRS, version, payload)
