"""The pending decision: an image with the records that a command has decided so far.

The parts of a command are decided one after the other, and a later one sees what the earlier ones
did. The image stays as it is.
"""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from uuid import UUID

from statemachine.features.features import elr_in_force
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration, directory_of, left
from statemachine.reassignment.move import NO_OWNER, Move, Owned, OwnedKey, changed, owned_after
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.records import kafka_records, own_records
from statemachine.records.isr_changes import IsrChanges
from statemachine.vocabulary import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    LEVEL_DIRECTORIES,
    NO_MOVE,
    BrokerId,
    Directories,
    MoveId,
    MoveOutcome,
    Replicas,
    Resource,
)

# As numbers: this is asked for every change of an ISR, and UUIDs compare themselves in Python.
_ANYWHERE: Final = (DIRECTORY_MIGRATING.int, DIRECTORY_UNASSIGNED.int)
_LOST: Final = DIRECTORY_LOST.int


class PendingDecision:
    """An image, and the records of the command being decided on top of it."""

    def __init__(self, image: Image, now_ms: int = 0, scheduler: Scheduler | None = None) -> None:
        self.image = image
        self.scheduler = scheduler or Scheduler()
        self.now_ms = now_ms
        """The wall clock, recorded for display only; 0 if unknown."""
        self.level = image.level
        self.has_elr = elr_in_force(image.features)
        self.configs: Mapping[Resource, Mapping[str, str]] = image.configs
        """The configurations after the records so far."""
        self.records: list[kafka_records.Record] = []
        self.isr_changes: IsrChanges | None = None
        """All that the command changes, where that is ISRs alone, and many; nothing follows."""
        self.registered: kafka_records.RegisterBroker | None = None
        """The new incarnation of a broker that the records so far register, if they do."""
        self.is_complete = True
        """Whether nothing is left for the same command, decided once more, to do."""
        self.deleted: set[UUID] = set()
        """The topics that the records so far delete."""
        self.moves: Mapping[MoveId, Move] = image.moves
        """The moves after the records so far."""
        self.joined: dict[MoveId, int] = {}
        """How many partitions belong to each move that did not before."""
        self.left: dict[MoveId, list[MoveOutcome]] = {}
        """How partitions have left each move that they belonged to, or that has begun."""
        self.key, self.fingerprint = "", b""
        """The idempotency key of the request, if it has one."""
        self._configs: dict[Resource, dict[str, str]] = {}
        self._partitions: dict[int, PartitionRegistration] = {}
        self._again: set[int] = set()
        self._live: dict[BrokerId, bool] = {}
        self._log_dirs: dict[BrokerId, Directories] = {}
        self._moves: dict[MoveId, Move] = {}
        self._owned: dict[OwnedKey, Owned] = {}
        self.has_freed_configs = False
        """Whether a move has ended or lost its throttle with the records so far."""
        self.all_paused = image.all_paused
        """The pause of all moves after the records so far, or None."""
        self.has_waiting = False

    def take_records(self) -> list[kafka_records.Record]:
        """Return the records so far and begin anew, for what the caller records before them."""
        records, self.records = self.records, []
        return records

    def partition(self, topic: Topic, number: int) -> PartitionRegistration | None:
        """Return the partition after the records so far, or None."""
        known = self._partitions
        if known and 0 <= number < len(topic.keys):
            partition = known.get(topic.keys[number])
            if partition is not None:
                return partition
        return topic.partition(number)

    def put_partition(
        self,
        topic: Topic,
        number: int,
        before: PartitionRegistration,
        after: PartitionRegistration,
        asked_by: MoveId,
    ) -> None:
        """The records so far leave the partition like this; it was `before`.

        `asked_by` is the move that has asked for it, or any that it was in before.
        """
        key = topic.keys[number]
        if key in self._partitions:
            self._again.add(key)
        self._partitions[key] = after
        if before.stage is not after.stage:
            self._note_move(before, after, asked_by)
        if after.target and not after.steps:
            self.has_waiting = True

    @property
    def decided(self) -> Mapping[int, PartitionRegistration]:
        """The partitions that the records so far change once, as they leave them, by their keys."""
        if not self._again:
            return self._partitions
        return {key: each for key, each in self._partitions.items() if key not in self._again}

    def changed_partitions(self) -> Iterator[tuple[Topic, int, PartitionRegistration]]:
        """All that the records so far change, in the order in which they were changed first."""
        at = self.image.index.at
        for key, partition in self._partitions.items():
            found = at(key)
            assert found is not None, f"{partition} is changed before it exists"
            yield (*found, partition)

    def has_changed(self, topic: Topic, number: int) -> bool:
        """Return True if the records so far change the partition, which exists."""
        return topic.keys[number] in self._partitions

    def delete_topic(self, topic: Topic) -> None:
        """The records so far delete the topic."""
        self.deleted.add(topic.topic_id)
        for _, partition in topic.partitions.others():
            if partition.stage.move != NO_MOVE:
                self._note_move(partition, None, NO_MOVE)

    def put_move(self, move: Move) -> None:
        """The records so far leave the move like this."""
        self._moves[move.id] = move
        seen: ChainMap[MoveId, Move] = ChainMap(self._moves, self.image.moves)
        self.moves = seen

    def change_move(self, record: own_records.MoveChanged) -> None:
        """Record a change of a move."""
        self.put_move(changed(self.moves[record.id], record))
        self.records.append(record)

    def owned(self, key: OwnedKey) -> Owned:
        """Return the moves that have set the configuration, after the records so far."""
        return self._owned.get(key) or self.image.owned.get(key, NO_OWNER)

    def owned_keys(self) -> list[OwnedKey]:
        """The configurations that moves have set, or have just given up, in order."""
        return sorted(self._owned.keys() | self.image.owned.keys())

    def own(self, record: own_records.ConfigOwned) -> None:
        """Record that a move has set a configuration, or that this is over."""
        key = ((record.resource_type, record.resource_name), record.name)
        self._owned[key] = owned_after(self.owned(key), record)
        self.records.append(record)

    def _note_move(
        self, before: PartitionRegistration, after: PartitionRegistration | None, asked_by: MoveId
    ) -> None:
        outcome = left(before, after, asked_by)
        if outcome is not None:
            self.left.setdefault(before.stage.move, []).append(outcome)
        if after is not None and after.stage.move not in (before.stage.move, NO_MOVE):
            self.joined[after.stage.move] = self.joined.get(after.stage.move, 0) + 1

    def register(self, record: kafka_records.RegisterBroker) -> None:
        """Record a registration; the record's offset is the epoch of a new incarnation."""
        known = self.image.brokers.get(record.broker_id)
        if known is None or known.incarnation_id != record.incarnation_id:
            self.registered = record
        self.records.append(record)

    def check_epoch(self) -> None:
        """Assert that a broker epoch is the offset of its record (KIP-631): so it is unique.

        To be asked last: whatever is put before the record shifts it.
        """
        record = self.registered
        if record is None:
            return
        offset = self.image.end_offset + self.records.index(record)
        assert record.broker_epoch == offset, (
            f"broker {record.broker_id} has epoch {record.broker_epoch} by the record at {offset}"
        )

    def live(self, broker_id: BrokerId) -> bool:
        """Return True if the broker may lead and be in sync, after the records so far."""
        known = self._live.get(broker_id)
        if known is not None:
            return known
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.live

    def returned_brokers(self) -> list[BrokerId]:
        """The brokers that are live by this command and were not."""
        return [
            broker_id
            for broker_id, live in self._live.items()
            if live and not self.image.brokers[broker_id].live
        ]

    def set_live(self, broker_id: BrokerId, live: bool) -> None:
        """This command makes the broker live, or ends that."""
        self._live[broker_id] = live

    def log_dirs(self, broker_id: BrokerId) -> Directories:
        """The log directories of the broker that are online; none where they are not known."""
        known = self._log_dirs.get(broker_id)
        if known is not None:
            return known
        broker = self.image.brokers.get(broker_id)
        return () if broker is None else broker.log_dirs

    def set_log_dirs(self, broker_id: BrokerId, online: Directories) -> None:
        """This command leaves the broker these log directories."""
        self._log_dirs[broker_id] = online

    def is_online(self, broker_id: BrokerId, directory_id: UUID) -> bool:
        """Return True unless the broker has reported the replica's directory as failed or unknown.

        A broker whose directories are not known has not spoken of them since their level is in
        force: it would have stopped if it had none.
        """
        if directory_id.int in _ANYWHERE:
            return True
        known = self.log_dirs(broker_id)
        return directory_id.int != _LOST and (not known or directory_id in known)

    def may_lead(self, partition: PartitionRegistration) -> Callable[[BrokerId], bool]:
        """Return the test for eligible leaders: live brokers with the replica in an online
        directory.
        """

        def may_lead(replica: BrokerId) -> bool:
            directory_id = directory_of(partition, replica)
            return self.live(replica) and self.is_online(replica, directory_id)

        return may_lead

    def set_configs(self, resource: Resource, changes: Mapping[str, str | None]) -> None:
        """Record these configurations of the resource; no value means that one is removed."""
        kind, name = resource
        after = dict(self.configs.get(resource, {}))
        for key, value in changes.items():
            if value is None:
                after.pop(key, None)
            else:
                after[key] = value
            self.records.append(
                kafka_records.Config(resource_type=kind, resource_name=name, name=key, value=value)
            )
        self._configs[resource] = after
        seen: ChainMap[Resource, dict[str, str]] = ChainMap(self._configs, self.image.configs)
        self.configs = seen

    def directories(self, before: PartitionRegistration | None, replicas: Replicas) -> Directories:
        """The directories to record for `replicas`: those known stay, the others are as registered.

        Empty below the level that knows directories (KIP-858).
        """
        if self.level < LEVEL_DIRECTORIES:
            return ()
        known: dict[BrokerId, UUID] = {}
        if before is not None:
            known = dict(
                zip(
                    before.replicas,
                    before.directories or (DIRECTORY_MIGRATING,) * len(before.replicas),
                    strict=True,
                )
            )
        return tuple(
            known[replica] if replica in known else self._directory(replica) for replica in replicas
        )

    def _directory(self, broker_id: BrokerId) -> UUID:
        log_dirs = self.log_dirs(broker_id)
        if not log_dirs:
            return DIRECTORY_MIGRATING
        return log_dirs[0] if len(log_dirs) == 1 else DIRECTORY_UNASSIGNED
