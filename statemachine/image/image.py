"""The image: the state of the cluster after a prefix of the metadata log.

Only `replay` calls the methods that change it (`put`, `set_...`, `add_...`, `change_isrs`,
`remove_topic` and those of transactions). It is changed in place and not copied, because it holds
up to 2,000,000 partitions and a record changes one. The values in it are frozen.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, Final, Protocol
from uuid import UUID

from statemachine.image.committed_table import CommittedTable
from statemachine.image.delta import MetadataDelta
from statemachine.image.partition_index import PartitionIndex
from statemachine.image.partition_table import NO_KEY, ONCE, RowIsr, SharedState, Topic
from statemachine.image.read_view import TABLES, ReadView
from statemachine.image.undo_log import Transaction, UndoLog
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.move import Move, Owned, OwnedKey
from statemachine.records import kafka_records, own_records
from statemachine.records.isr_changes import IsrsOfTopic
from statemachine.records.row_codec import Rows
from statemachine.security.authorizer import AclIndex
from statemachine.vocabulary import METADATA_VERSION, BrokerId, MoveId, Resource

QuotaHolder = tuple[kafka_records.QuotaEntity, ...]
"""The entity of a quota: one part of each type, in the order of the types."""


def quota_holder(entity: Iterable[kafka_records.QuotaEntity]) -> QuotaHolder:
    """Return the entity as a key; a record may list its parts in another order."""
    by_type = {part.type: part for part in entity}
    return tuple(by_type[kind] for kind in sorted(by_type))


_LOADED: Final = (
    *TABLES,
    "_followers",
    "_undo_log",
    "_is_rewinding",
    "_keeps_undo",
    "_read_view",
    "acl_index",
    "committed_scram_credentials",
    "committed_delegation_tokens",
    "common",
    "end_offset",
    "index",
    "owners",
    "tables_state",
    "topic_ids",
    "transaction",
)


class _Follower(Protocol):
    """Keeps what is committed of a table, from what the image tells of each change."""

    def change(self, before: Any, after: Any) -> None: ...
    def propose(self, offset: int, before: Any, after: Any) -> None: ...
    def commit(self, offset: int | None = None) -> None: ...
    def rewind(self, offset: int) -> None: ...


def _scram_key(credential: kafka_records.UserScramCredential) -> tuple[str, int]:
    return credential.name, credential.mechanism


def _token_id(token: kafka_records.DelegationToken) -> str:
    return token.token_id


class Image:
    """The state of the cluster after `end_offset` records of its log."""

    __slots__ = ("_delta", *_LOADED)

    def __init__(self) -> None:
        self.end_offset = 0
        """The offset after the last replayed record."""
        self.brokers: dict[BrokerId, kafka_records.RegisterBroker] = {}
        """The registrations, each as later records have changed it."""
        self.controllers: dict[int, kafka_records.RegisterController] = {}
        self.topics: dict[UUID, Topic] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.configs: dict[Resource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.quotas: dict[QuotaHolder, dict[str, float]] = {}
        """Client quotas by entity, without entities that have none (KIP-546)."""
        self.acls: dict[UUID, kafka_records.AccessControlEntry] = {}
        self.acl_index = AclIndex()
        """The same, arranged for decisions; these rest on committed ACLs only."""
        self.scram_credentials: dict[tuple[str, int], kafka_records.UserScramCredential] = {}
        """By user and mechanism."""
        self.delegation_tokens: dict[str, kafka_records.DelegationToken] = {}
        """By token id."""
        self.moves: dict[MoveId, Move] = {}
        """The running moves, and the ended ones until they are forgotten."""
        self.keys: dict[str, own_records.Remembered] = {}
        """The stored answers to requests with an idempotency key."""
        self.owned: dict[OwnedKey, Owned] = {}
        """Configurations that moves have set, with their values before."""
        self.owners: dict[MoveId, int] = {}
        """The number of entries of `owned` that name each move."""
        self.singles: dict[str, Any] = {}
        """Single values, by the name of their property."""
        self.transaction: Transaction | None = None
        self.index = PartitionIndex()
        self.common = SharedState()
        self.tables_state = object()
        """Another object after each change of a table, for what is derived from the tables."""
        self._undo_log: UndoLog | None = None
        self._keeps_undo = False
        self._is_rewinding = False
        self._delta: MetadataDelta | None = None
        self._read_view: ReadView | None = None
        self._follow_commits()

    def _follow_commits(self) -> None:
        """Begin what holds only what is committed of a table, for the listeners."""
        self.committed_scram_credentials = CommittedTable(_scram_key)
        self.committed_delegation_tokens = CommittedTable(_token_id)
        # By the identity of the table.
        self._followers: dict[int, _Follower] = {
            id(self.acls): self.acl_index,
            id(self.scram_credentials): self.committed_scram_credentials,
            id(self.delegation_tokens): self.committed_delegation_tokens,
        }

    @property
    def level(self) -> int:
        """The level of metadata.version in force; 0 before the cluster is founded."""
        return self.features.get(METADATA_VERSION, 0)

    def live(self, broker_id: BrokerId) -> bool:
        """Return True if the broker is registered, and may lead and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.live

    @property
    def next_producer_id(self) -> int:
        """The first id of the next block of producer ids."""
        return self.singles.get("next_producer_id", 0)  # type: ignore[no-any-return]

    @property
    def next_move_id(self) -> MoveId:
        """The id of the next move."""
        return self.singles.get("next_move_id", 1)  # type: ignore[no-any-return]

    @property
    def zk_migration_state(self) -> int:
        """The state of a migration from ZooKeeper (KIP-866); 0 if there was none."""
        record = self.singles.get("zk_migration")
        return 0 if record is None else record.state

    @property
    def all_paused(self) -> own_records.MovesPaused | None:
        """The pause of all moves, or None."""
        return self.singles.get("all_paused")

    def topic_named(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics.get(topic_id)

    # Methods for the owner of an image.

    def begin_undo_log(self, offset: int) -> None:
        """Begin to keep undo entries; everything below `offset` is committed.

        The active controller calls it before it replays uncommitted records.
        """
        assert offset >= self.end_offset, "records replayed without an undo log cannot be undone"
        self._keeps_undo = True
        if self._undo_log is None:
            self._undo_log = UndoLog(offset)

    def committed(self, offset: int) -> None:
        """Drop the undo entries below `offset`, which is committed."""
        log = self._undo_log
        assert log is not None, "an image without an undo log only replays committed records"
        # A transaction can still be aborted after its records are committed.
        below = offset if self.transaction is None else min(offset, self.transaction.begun_at)
        log.forget_below(below)
        for each in self._followers.values():
            each.commit(below)

    def rewind(self, offset: int) -> None:
        """Restore the image that ended at `offset`: undo everything from there on."""
        if offset >= self.end_offset:
            return
        log = self._undo_log
        assert log is not None, "an image without an undo log only replays committed records"
        assert offset >= log.start, f"records below {log.start} are committed"
        entries = list(log.take_since(offset))
        for each in self._followers.values():
            each.rewind(offset)
        self._undo_log, self._is_rewinding = None, True
        for _, undo, *arguments in entries:
            undo(self, *arguments)
        self._undo_log, self._is_rewinding = log, False
        self.end_offset = offset
        self.index.lose_delta()

    def end_undo_log(self) -> None:
        """Drop the undo log: only committed records are replayed from here on."""
        self._keeps_undo = False
        self.index.lose_delta()
        if self.transaction is None:
            self._drop_undo_log()

    def advance(self, end_offset: int) -> None:
        """Move the end to `end_offset`, past control records, which are not metadata."""
        assert end_offset >= self.end_offset, "only `rewind` moves the end back"
        self.end_offset = end_offset

    def begin_read_view(self, end: int) -> ReadView:
        """Begin a view of the image as it was at `end`; `end_read_view` ends it.

        Records below `end` are committed. The view leaves out later, uncommitted ones.
        """
        assert self._read_view is None, "an image has one read view at a time"
        view = ReadView({name: getattr(self, name) for name in TABLES}, self.transaction, end)
        if self._undo_log is None:
            assert end == self.end_offset, "without an undo log, a view begins at the end"
        else:
            assert self._undo_log.start <= end <= self.end_offset
            # The newest first: the value that was overwritten first is kept.
            for _, undo, *arguments in self._undo_log.since(end):
                self._restore(view, undo, arguments)
            view.restored()
        self._read_view = view
        return view

    def end_read_view(self, view: ReadView) -> None:
        """End the view; a second call changes nothing."""
        if self._read_view is view:
            self._read_view = None

    def become(self, other: "Image") -> None:
        """Take the content of `other`, which has just been loaded and has no other owner.

        The delta gets everything in both images. A read view continues with the old content.
        """
        if self._delta is not None:
            self._add_all(self._delta, other)
        delta = self.index.delta
        for name in _LOADED:
            setattr(self, name, getattr(other, name))
        self.index.delta = delta
        self.index.lose_delta()

    def _add_all(self, delta: MetadataDelta, other: "Image") -> None:
        """Add everything in this image and in `other`, which replaces it."""
        for image in (self, other):
            for topic in image.topics.values():
                delta.add_topic(topic)
            delta.brokers.update(dict.fromkeys(image.brokers))
            delta.configs.update(dict.fromkeys(image.configs))
        for topic_id, topic in self.topics.items():
            if topic_id not in other.topics:
                delta.deleted[topic_id] = topic

    def watch(self) -> None:
        """Begin to collect changes for `drain`."""
        self._delta = MetadataDelta()

    def drain(self) -> MetadataDelta:
        """Return the changes since the last call."""
        assert self._delta is not None, "`watch` was not called"
        delta, self._delta = self._delta, MetadataDelta()
        return delta

    # Methods for replay; each notes in the undo log how to undo its change.

    def at(self, offset: int) -> None:
        """Note that the record at `offset` is being replayed."""
        if self._undo_log is not None:
            self._undo_log.offset = offset

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of one of the image's tables; None removes it."""
        before = table.get(key)
        self.tables_state = object()
        if self._read_view is not None and (view := self._read_view.table(table)) is not None:
            view.keep(key, before)
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
        follower = self._followers.get(id(table))
        if follower is not None and not self._is_rewinding:
            if self._undo_log is None:
                follower.change(before, value)
            else:
                follower.propose(self._undo_log.offset, before, value)
        if self._undo_log is not None:
            self._undo_log.note(Image.put, table, key, before)

    def set_owned(self, key: OwnedKey, owned: Owned | None) -> None:
        """Set the owners of a configuration; None removes them."""
        for sign, moves in ((-1, self.owned.get(key)), (1, owned)):
            for move_id in () if moves is None else moves.moves:
                count = self.owners.get(move_id, 0) + sign
                self.put(self.owners, move_id, count or None)
        self.put(self.owned, key, owned)

    def set_partition(
        self,
        topic: Topic,
        number: int,
        after: PartitionRegistration | None,
        known: PartitionRegistration | None = None,
    ) -> None:
        """Set a partition; None removes it. `known` is the value before, if the caller has it."""
        before = topic.partition(number) if known is None else known
        if before is None:
            if after is None:
                return
            topic.make_room(number)
            topic.keys[number] = self.index.give_key(topic, number)
        if self._read_view is not None:
            self._read_view.partitions.keep(topic, number, before)
        key = topic.keys[number]
        topic.partitions.put(number, after)
        self.index.update(key, before, after)
        if after is None:
            self.index.take_key(key)
            topic.keys[number] = NO_KEY
            topic.trim()
        self._overwrote(topic, number, before)

    def add_rows(self, topic: Topic, rows: Rows, places: slice, offset: int) -> None:
        """Append these partitions to the topic; the index must be settled before it is read."""
        first = len(topic.partitions)
        self.index.add_rows(topic, rows, places)
        if self._read_view is not None:
            self._read_view.partitions.keep_absent(topic, first)
        if self._undo_log is None and self._delta is None:
            return
        for number in range(first, len(topic.partitions)):
            self.at(offset + number - first)
            self._overwrote(topic, number, None)

    def change_isr(self, topic: Topic, number: int, epoch: int, isr: RowIsr) -> None:
        """Set the partition epoch and the ISR of a row, which has room for both."""
        before, after, places = isr
        if self._read_view is not None:
            self._read_view.partitions.keep_rows(topic, (number,))
        if self._undo_log is not None:
            row = topic.partitions.row(number)
            self._undo_log.note(Image._set_row, topic, number, row)
        topic.partitions.change_isr(number, epoch, places)
        self.index.change_isr(topic.keys[number], before, after)
        if self._delta is not None:
            self._delta.partitions[(topic.topic_id, number)] = None

    def change_isrs(
        self, topic: Topic, changes: IsrsOfTopic, offset: int, counts: Iterable[int] = ONCE
    ) -> bool:
        """Set the ISRs of partitions, each named once, by records from `offset` on.

        `counts` are the numbers of their changes, which raise the partition epochs. Return False,
        and change nothing, if one of the partitions is not a row.
        """
        table, numbers = topic.partitions, changes.numbers
        if self._read_view is not None:
            self._read_view.partitions.keep_rows(topic, numbers)
        rows = [] if self._undo_log is None else list(map(table.row, numbers))
        updated = table.change_isrs(numbers, changes.isrs, counts)
        if updated is None:
            return False
        for before, after, _, some in updated:
            self.index.change_isrs([topic.keys[number] for number in some], before, after)
        if self._undo_log is not None:
            offsets = range(offset, offset + len(numbers))
            self._undo_log.note_each(offsets, Image._set_row, repeat(topic), numbers, rows)
        if self._delta is not None:
            self._delta.partitions |= dict.fromkeys(zip(repeat(topic.topic_id), numbers))
        return True

    def add_topic(self, topic: Topic) -> None:
        """Add the topic with its partitions."""
        self.put(self.topics, topic.topic_id, topic)
        self.put(self.topic_ids, topic.name, topic.topic_id)

    def remove_topic(self, topic: Topic) -> None:
        """Remove the topic and its partitions."""
        self.index.remove(topic)
        if self._undo_log is not None:
            self._undo_log.note(Image._revive, topic)
        self.put(self.topics, topic.topic_id, None)
        if self.topic_ids.get(topic.name) == topic.topic_id:
            self.put(self.topic_ids, topic.name, None)
        if self._delta is not None:
            self._delta.deleted[topic.topic_id] = topic
            self._delta.add_topic(topic)

    def set_broker(self, broker_id: BrokerId, broker: kafka_records.RegisterBroker | None) -> None:
        """Set the registration of a broker; None removes it."""
        self.put(self.brokers, broker_id, broker)
        if self.index.delta is not None:
            self.index.delta.add(self.index.delta.brokers, broker_id)
        if self._delta is not None:
            self._delta.brokers[broker_id] = None

    def set_configs(self, resource: Resource, configs: dict[str, str]) -> None:
        """Set all configurations of a resource."""
        if self.index.delta is not None:
            self.index.delta.add_configs(self.configs.get(resource, {}), configs)
        self.put(self.configs, resource, configs or None)
        if self._delta is not None:
            self._delta.configs[resource] = None

    def set_move(self, move_id: MoveId, move: Move | None) -> None:
        """Set a move; None removes it."""
        before, delta = self.moves.get(move_id), self.index.delta
        priorities = {each.options.priority for each in (before, move) if each is not None}
        if delta is not None and len(priorities) > 1:
            delta.add(delta.moves, move_id)
        self.put(self.moves, move_id, move)

    def begin_transaction(self, offset: int) -> None:
        """Begin a transaction: the changes that follow can be aborted."""
        if self._undo_log is None:
            self._undo_log = UndoLog(offset)
        self._set_transaction(Transaction(offset, self.level))

    def end_transaction(self) -> None:
        """End the transaction and keep its changes."""
        self._set_transaction(None)
        if not self._keeps_undo:
            self._drop_undo_log()

    def abort_transaction(self) -> None:
        """Undo the changes since the transaction began; this can be undone, like any change."""
        assert self._undo_log is not None
        assert self.transaction is not None
        self.index.lose_delta()
        for _, undo, *arguments in self._undo_log.since(self.transaction.begun_at):
            undo(self, *arguments)
        if not self._keeps_undo:
            self._drop_undo_log()

    def _drop_undo_log(self) -> None:
        """Keep no undo entries: everything in the image is committed."""
        self._undo_log = None
        for each in self._followers.values():
            each.commit()

    def _overwrote(self, topic: Topic, number: int, before: PartitionRegistration | None) -> None:
        if self._undo_log is not None:
            self._undo_log.note(Image.set_partition, topic, number, before)
        if self._delta is not None:
            self._delta.partitions[(topic.topic_id, number)] = None

    def _restore(self, view: ReadView, undo: Callable[..., None], arguments: list[Any]) -> None:
        """Note in the view the value before the change that this call undoes."""
        if undo in (Image.set_partition, Image._set_row):
            view.partitions.restore(*arguments)
        elif undo is Image.put:
            live, key, before = arguments
            if (table := view.table(live)) is not None:
                table.restore(key, before)
        elif undo is Image._set_transaction:
            (view.transaction,) = arguments
        else:
            # A deleted topic still has its partitions.
            assert undo is Image._revive, undo

    def _set_row(self, topic: Topic, number: int, row: bytes) -> None:
        self.set_partition(topic, number, topic.partitions.decode_row(row))

    def _revive(self, topic: Topic) -> None:
        self.index.revive(topic)
        if self._delta is not None:
            self._delta.add_topic(topic)

    def _set_transaction(self, transaction: Transaction | None) -> None:
        if self._undo_log is not None:
            self._undo_log.note(Image._set_transaction, self.transaction)
        self.transaction = transaction
