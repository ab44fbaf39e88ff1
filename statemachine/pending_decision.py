"""The pending decision: an image with the records that a command has decided so far.

The parts of a command are decided one after the other, and a later part sees the effects of the
earlier ones. The image does not change.
"""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from uuid import UUID

from statemachine.commands import MutationClient
from statemachine.features.features import elr_in_force
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration, departure, directory_of
from statemachine.reassignment.move import (
    NO_OWNER,
    Move,
    Owned,
    OwnedKey,
    changed,
    is_stopped,
    owned_after,
)
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.records import kafka_records, own_records
from statemachine.records.isr_changes import IsrChanges
from statemachine.topics.mutation_quota import MutationBudget, MutationView
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

# As numbers for speed: UUIDs are compared in Python, and every change of an ISR does this.
_ANYWHERE: Final = (DIRECTORY_MIGRATING.int, DIRECTORY_UNASSIGNED.int)
_LOST: Final = DIRECTORY_LOST.int


class PendingDecision:
    """An image, and the records of the command being decided on top of it."""

    mutations: MutationView | None = None
    """The use of the quotas of controller mutations; None: no quota applies."""
    mutation_budget: MutationBudget | None = None
    """The budget of the client whose command it is, once the rule has begun to use it."""

    def __init__(self, image: Image, now_ms: int = 0, scheduler: Scheduler | None = None) -> None:
        self.image = image
        self.scheduler = scheduler or Scheduler()
        self.now_ms = now_ms
        """The wall clock, for times that are shown and for the lifetime of delegation tokens; 0 if
        unknown."""
        self.level = image.level
        self.configs: Mapping[Resource, Mapping[str, str]] = image.configs
        """The configurations after the records so far."""
        self.records: list[kafka_records.Record] = []
        self.isr_changes: IsrChanges | None = None
        """All changes of the command, if it changes many ISRs and nothing follows from them."""
        self.registered: kafka_records.RegisterBroker | None = None
        """The new incarnation of a broker that the records so far register, or None."""
        self.is_complete = True
        """False if the same command must be decided again to do the rest."""
        self.deleted: set[UUID] = set()
        """The topics that the records so far delete."""
        self.moves: Mapping[MoveId, Move] = image.moves
        """The moves after the records so far."""
        self.joined: dict[MoveId, int] = {}
        """The number of partitions that have joined each move."""
        self.left: dict[MoveId, list[MoveOutcome]] = {}
        """The outcomes of the partitions that have left each move; a new move has an entry."""
        self.key, self.fingerprint = "", b""
        """The idempotency key of the request, if it has one."""
        self._configs: dict[Resource, dict[str, str]] = {}
        self._partitions: dict[int, PartitionRegistration] = {}
        self._again: set[int] = set()
        self._live: dict[BrokerId, bool] = {}
        self._log_dirs: dict[BrokerId, Directories] = {}
        self._moves: dict[MoveId, Move] = {}
        self._owned: dict[OwnedKey, Owned] = {}
        self.has_freed_configs = self.has_changed_copies = False
        """Whether by the records so far moves need less of the configurations that they own, and
        whether the ISR of a partition changes whose copying is stopped."""
        self.all_paused = image.all_paused
        """The pause of all moves after the records so far, or None."""
        self.has_waiting = False

    @property
    def has_elr(self) -> bool:
        """True if partitions have an ELR (KIP-966)."""
        return elr_in_force(self.image.features)

    def begin_mutations(self, client: MutationClient | None) -> MutationBudget:
        """Return the budget of the client for the partitions that the command adds and removes."""
        budget = MutationBudget()
        if client is not None and self.mutations is not None:
            budget = self.mutations.budget(self.image, client)
        self.mutation_budget = budget
        return budget

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
        """Note that the records so far change the partition from `before` to `after`.

        `asked_by` is the move that requested the change, otherwise the partition's own move.
        """
        key = topic.keys[number]
        if key in self._partitions:
            self._again.add(key)
        self._partitions[key] = after
        if before.stage is not after.stage:
            self._note_move(before, after, asked_by)
        if after.target and not after.steps:
            self.has_waiting = True
        if before.adding and before.isr != after.isr and self.is_stopped(before.stage.move):
            self.has_changed_copies = True

    @property
    def decided(self) -> Mapping[int, PartitionRegistration]:
        """The partitions that the records so far change once, with their last values, by key."""
        if not self._again:
            return self._partitions
        return {key: each for key, each in self._partitions.items() if key not in self._again}

    def changed_partitions(self) -> Iterator[tuple[Topic, int, PartitionRegistration]]:
        """Yield the partitions that the records so far change, in the order of the first change."""
        at = self.image.index.at
        for key, partition in self._partitions.items():
            found = at(key)
            assert found is not None, f"{partition} is changed but does not exist"
            yield (*found, partition)

    def has_changed(self, topic: Topic, number: int) -> bool:
        """Return True if the records so far change the partition, which exists."""
        return topic.keys[number] in self._partitions

    def delete_topic(self, topic: Topic) -> None:
        """Note that the records so far delete the topic."""
        self.deleted.add(topic.topic_id)
        for _, partition in topic.partitions.unpacked():
            if partition.stage.move != NO_MOVE:
                self._note_move(partition, None, NO_MOVE)

    def put_move(self, move: Move) -> None:
        """Note the move after the records so far."""
        self._moves[move.id] = move
        seen: ChainMap[MoveId, Move] = ChainMap(self._moves, self.image.moves)
        self.moves = seen

    def is_stopped(self, move_id: MoveId) -> bool:
        """Return True if a pause stops the copying of the move, after the records so far."""
        return is_stopped(self.moves.get(move_id), self.all_paused)

    def change_move(self, record: own_records.MoveChanged) -> None:
        """Record a change of a move."""
        self.put_move(changed(self.moves[record.id], record))
        self.records.append(record)

    def owned(self, key: OwnedKey) -> Owned:
        """Return the moves that have set the configuration, after the records so far."""
        return self._owned.get(key) or self.image.owned.get(key, NO_OWNER)

    def owned_keys(self) -> list[OwnedKey]:
        """Return the configurations that moves own or have just released, in order."""
        return sorted(self._owned.keys() | self.image.owned.keys())

    def own(self, record: own_records.ConfigOwned) -> None:
        """Record that a move takes or releases a configuration."""
        key = ((record.resource_type, record.resource_name), record.name)
        self._owned[key] = owned_after(self.owned(key), record)
        self.records.append(record)

    def _note_move(
        self, before: PartitionRegistration, after: PartitionRegistration | None, asked_by: MoveId
    ) -> None:
        outcome = departure(before, after, asked_by)
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
        """Assert that the epoch of a new incarnation is the offset of its record (KIP-631).

        This is the last check of a decision: a record inserted before it would shift it.
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
        """Return the brokers that become live with this command."""
        return [
            broker_id
            for broker_id, live in self._live.items()
            if live and not self.image.brokers[broker_id].live
        ]

    def set_live(self, broker_id: BrokerId, live: bool) -> None:
        """Note whether the broker is live after this command."""
        self._live[broker_id] = live

    def log_dirs(self, broker_id: BrokerId) -> Directories:
        """Return the online log directories of the broker; none if they are not known."""
        known = self._log_dirs.get(broker_id)
        if known is not None:
            return known
        broker = self.image.brokers.get(broker_id)
        return () if broker is None else broker.log_dirs

    def set_log_dirs(self, broker_id: BrokerId, online: Directories) -> None:
        """Note the online log directories of the broker after this command."""
        self._log_dirs[broker_id] = online

    def is_online(self, broker_id: BrokerId, directory_id: UUID) -> bool:
        """Return True unless the replica's directory is lost or not among the broker's directories.

        A broker whose directories are not known has not reported any since their level is in
        force. It has at least one, or it would have stopped.
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
        """Record these configurations of the resource; None removes one."""
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
        """Return the directories of `replicas`: known ones stay, new ones are as registered.

        The result is empty below the level of directories (KIP-858).
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
