"""Replay: apply one record to an image.

A committed record is never refused or checked, except one of an unknown type: `MalformedRecord`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from statemachine.image.image import Image, quota_holder
from statemachine.image.partition_table import IsrChange, Topic
from statemachine.limits import ACL_TEXTS_REMEMBERED_MAX, PARTITION_NUMBER_MAX
from statemachine.partitions.registration import PartitionRegistration, created, departure, merged
from statemachine.reassignment.move import NO_OWNER, begun, changed, owned_after
from statemachine.reassignment.throttle import LISTS
from statemachine.records import kafka_records, own_records
from statemachine.records.primitives import MalformedRecord
from statemachine.vocabulary import NO_MOVE, TOPIC_RESOURCE, BrokerId, MoveId, MoveOutcome, Resource


def _begun(image: Image, record: own_records.MoveBegun, _offset: int) -> None:
    image.set_move(record.id, begun(record))
    if record.id >= image.next_move_id:
        image.put(image.singles, "next_move_id", record.id + 1)


def _part(image: Image, record: own_records.MovePart, _offset: int) -> None:
    move = image.moves.get(record.id)
    if move is not None:
        image.set_move(record.id, replace(move, parts=(*move.parts, record.plan)))


def _changed(image: Image, record: own_records.MoveChanged, _offset: int) -> None:
    move = image.moves.get(record.id)
    if move is not None:
        image.set_move(record.id, changed(move, record))


def _ended(image: Image, record: own_records.MoveEnded, _offset: int) -> None:
    move = image.moves.get(record.id)
    if move is not None:
        image.set_move(record.id, replace(move, ended=record))


def _forgotten(image: Image, record: own_records.MovesForgotten, _offset: int) -> None:
    for move_id, move in list(image.moves.items()):
        if move_id <= record.through and move.ended is not None:
            image.set_move(move_id, None)
    if record.through >= image.next_move_id:
        image.put(image.singles, "next_move_id", record.through + 1)


def _keys_forgotten(image: Image, record: own_records.KeysForgotten, _offset: int) -> None:
    for key, remembered in list(image.keys.items()):
        if remembered.at_ms <= record.through_ms:
            image.put(image.keys, key, None)


def _owned(image: Image, record: own_records.ConfigOwned, _offset: int) -> None:
    key = ((record.resource_type, record.resource_name), record.name)
    owned = owned_after(image.owned.get(key, NO_OWNER), record)
    image.set_owned(key, owned if owned.moves else None)


def forget_owned(image: Image, resource: Resource) -> None:
    """Remove the ownership of the configurations of a deleted topic."""
    for name in LISTS:
        if (resource, name) in image.owned:
            image.set_owned((resource, name), None)


_Replay: TypeAlias = Callable[[Image, Any, int], None]


def replay(image: Image, record: kafka_records.Record, offset: int) -> None:
    """Change `image` by the record at `offset` of the log.

    Offsets only rise. The records of a snapshot have no offsets of their own: all are replayed at
    the last offset that it contains, as in Kafka.
    """
    assert offset + 1 >= image.end_offset, (
        f"offset {offset} was replayed, {image.end_offset} is next"
    )
    image.at(offset)
    REPLAY[type(record)](image, record, offset)
    image.end_offset = offset + 1


def replay_decided(
    image: Image,
    decision: Sequence[kafka_records.Record],
    offset: int,
    decided: Mapping[int, PartitionRegistration],
) -> None:
    """Replay the records of a decision on this image, the first one at `offset`.

    The partitions in `decided` are taken over instead of computed again from the records.
    """
    topic_id, topic = None, None
    for record in decision:
        image.at(offset)
        is_taken_over = False
        if isinstance(record, kafka_records.PartitionChange):
            if record.topic_id is not topic_id:
                topic_id = record.topic_id
                topic = image.topics.get(topic_id)
            is_taken_over = topic is not None and _take_over(image, topic, record, decided)
        else:
            topic_id = None
        if not is_taken_over:
            REPLAY[type(record)](image, record, offset)
        image.end_offset = offset = offset + 1


def replay_isr(image: Image, change: IsrChange, offset: int) -> None:
    """Replay the record at `offset` of an ISR change that was decided on this image."""
    image.at(offset)
    image.change_isr(change.topic, change.number, change.epoch, change.isr)
    image.end_offset = offset + 1


def _take_over(
    image: Image,
    topic: Topic,
    record: kafka_records.PartitionChange,
    decided: Mapping[int, PartitionRegistration],
) -> bool:
    """Take over the decided partition; return False if this record is not its only change.

    A decision may change a partition twice, and ClearElr changes partitions too. Every change
    raises the partition epoch by one, which shows that.
    """
    number = record.partition_id
    before = topic.partition(number)
    if before is None:
        return False
    after = decided.get(topic.keys[number])
    if after is None or after.partition_epoch != before.partition_epoch + 1:
        return False
    image.set_partition(topic, number, after, before)
    if after.stage is not before.stage:
        note_departure(image, before, after, record.move or NO_MOVE)
    return True


def _partition_change(image: Image, record: kafka_records.PartitionChange, _offset: int) -> None:
    topic = image.topics.get(record.topic_id)
    if topic is not None:
        change_partition(image, topic, record.partition_id, record)


def change_partition(
    image: Image, topic: Topic, number: int, change: kafka_records.PartitionChange
) -> None:
    """Apply a change to this partition; the partition that the record names does not matter."""
    before = topic.partition(number)
    if before is None:
        return
    after = merged(before, change)
    image.set_partition(topic, number, after, before)
    note_departure(image, before, after, change.move or NO_MOVE)


def note_departure(
    image: Image,
    before: PartitionRegistration,
    after: PartitionRegistration | None,
    asked_by: MoveId = NO_MOVE,
) -> None:
    """Count the partition in its move if it has left the move incomplete with this change."""
    outcome = departure(before, after, asked_by)
    if outcome is None or outcome is MoveOutcome.COMPLETED:
        return
    move = image.moves.get(before.stage.move)
    if move is not None:
        image.set_move(move.id, replace(move, left=move.left.plus(outcome)))


def _partition(image: Image, record: kafka_records.Partition, _offset: int) -> None:
    topic = image.topics.get(record.topic_id)
    if topic is None or not 0 <= record.partition_id <= PARTITION_NUMBER_MAX:
        return
    before = topic.partition(record.partition_id)
    after = created(record)
    image.set_partition(topic, record.partition_id, after)
    if before is not None:
        note_departure(image, before, after)


def _topic(image: Image, record: kafka_records.Topic, _offset: int) -> None:
    if record.topic_id not in image.topics:
        image.add_topic(Topic(record.name, record.topic_id, image.common))


def _remove_topic(image: Image, record: kafka_records.RemoveTopic, _offset: int) -> None:
    topic = image.topics.get(record.topic_id)
    if topic is None:
        return
    others = topic.partitions.unpacked()
    image.remove_topic(topic)
    for _, partition in others:
        note_departure(image, partition, None)
    resource = (TOPIC_RESOURCE, topic.name)
    if resource in image.configs:
        image.set_configs(resource, {})
    forget_owned(image, resource)


def _clear_elr(image: Image, record: kafka_records.ClearElr, _offset: int) -> None:
    for topic in list(image.topics.values()):
        if record.topic_name not in ("", topic.name):
            continue
        for number, partition in topic.partitions.unpacked():
            if partition.elr or partition.last_known_elr:
                cleared = kafka_records.PartitionChange(
                    partition_id=number, topic_id=topic.topic_id, elr=(), last_known_elr=()
                )
                image.set_partition(topic, number, merged(partition, cleared))


def _register_broker(image: Image, record: kafka_records.RegisterBroker, offset: int) -> None:
    stopping_at = offset if record.stopping_at is None else record.stopping_at
    before = image.brokers.get(record.broker_id)
    fenced_at_ms = record.fenced_at_ms
    if fenced_at_ms is None and before is not None:
        fenced_at_ms = before.fenced_at_ms
    broker = replace(
        record,
        is_migrating_zk_broker=False,
        registered_at=offset if record.registered_at is None else record.registered_at,
        stopping_at=stopping_at if record.in_controlled_shutdown else None,
        cordoned=record.cordoned or (before is not None and before.cordoned),
        leaving=record.leaving or (before is not None and before.leaving),
        fenced_at_ms=fenced_at_ms if record.fenced else None,
    )
    image.set_broker(record.broker_id, broker)


def _unregister_broker(image: Image, record: kafka_records.UnregisterBroker, _offset: int) -> None:
    if _incarnation(image, record.broker_id, record.broker_epoch) is not None:
        image.set_broker(record.broker_id, None)


def _fence_broker(
    image: Image, record: kafka_records.FenceBroker | kafka_records.UnfenceBroker, _offset: int
) -> None:
    broker = _incarnation(image, record.broker_id, record.broker_epoch)
    if broker is not None:
        fenced = isinstance(record, kafka_records.FenceBroker)
        fenced_at_ms = broker.fenced_at_ms if fenced else None
        broker = replace(broker, fenced=fenced, fenced_at_ms=fenced_at_ms)
        image.set_broker(record.broker_id, broker)


def _change_broker(
    image: Image, record: kafka_records.BrokerRegistrationChange, offset: int
) -> None:
    broker = _incarnation(image, record.broker_id, record.broker_epoch)
    if broker is None:
        return
    if record.fenced:
        fenced_at_ms = record.at_ms if record.fenced > 0 else None
        broker = replace(broker, fenced=record.fenced > 0, fenced_at_ms=fenced_at_ms)
    if record.in_controlled_shutdown and broker.stopping_at is None:
        broker = replace(broker, in_controlled_shutdown=True, stopping_at=offset)
    if record.cordoned:
        broker = replace(broker, cordoned=record.cordoned > 0)
    if record.leaving:
        broker = replace(broker, leaving=record.leaving > 0)
    if record.log_dirs:
        broker = replace(broker, log_dirs=record.log_dirs)
    if record.cordoned_log_dirs is not None:
        broker = replace(broker, cordoned_log_dirs=record.cordoned_log_dirs)
    image.set_broker(record.broker_id, broker)


def _incarnation(
    image: Image, broker_id: BrokerId, epoch: int
) -> kafka_records.RegisterBroker | None:
    broker = image.brokers.get(broker_id)
    return broker if broker is not None and broker.broker_epoch == epoch else None


def _config(image: Image, record: kafka_records.Config, _offset: int) -> None:
    resource = (record.resource_type, record.resource_name)
    configs = dict(image.configs.get(resource, {}))
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    image.set_configs(resource, configs)


def _begin(image: Image, _record: kafka_records.BeginTransaction, offset: int) -> None:
    # A second begin within a transaction adds nothing: both end together.
    if image.transaction is None:
        image.begin_transaction(offset)


def _end(image: Image, _record: kafka_records.EndTransaction, _offset: int) -> None:
    if image.transaction is not None:
        image.end_transaction()


def _abort(image: Image, _record: kafka_records.AbortTransaction, _offset: int) -> None:
    if image.transaction is not None:
        image.abort_transaction()


def _quota(image: Image, record: kafka_records.ClientQuota, _offset: int) -> None:
    holder = quota_holder(record.entity)
    quotas = dict(image.quotas.get(holder, {}))
    if record.remove:
        quotas.pop(record.key, None)
    else:
        quotas[record.key] = record.value
    image.put(image.quotas, holder, quotas or None)


@lru_cache(maxsize=ACL_TEXTS_REMEMBERED_MAX)
def _once(text: str) -> str:
    """Return the same string for the same text, so that it is in memory once."""
    return text


def _acl(image: Image, record: kafka_records.AccessControlEntry, _offset: int) -> None:
    # Few principals and hosts stand in many ACLs.
    entry = replace(record, principal=_once(record.principal), host=_once(record.host))
    image.put(image.acls, entry.id, entry)


def _remove_acl(image: Image, record: kafka_records.RemoveAccessControlEntry, _offset: int) -> None:
    image.put(image.acls, record.id, None)


def _scram_credential(
    image: Image,
    record: kafka_records.UserScramCredential | kafka_records.RemoveUserScramCredential,
    _offset: int,
) -> None:
    credential = record if isinstance(record, kafka_records.UserScramCredential) else None
    image.put(image.scram_credentials, (record.name, record.mechanism), credential)


def _delegation_token(
    image: Image,
    record: kafka_records.DelegationToken | kafka_records.RemoveDelegationToken,
    _offset: int,
) -> None:
    token = record if isinstance(record, kafka_records.DelegationToken) else None
    image.put(image.delegation_tokens, record.token_id, token)


def _nothing(_image: Image, _record: kafka_records.NoOp, _offset: int) -> None:
    """Change nothing but the offset."""


def _unknown(_image: Image, record: kafka_records.Unknown, _offset: int) -> None:
    """Refuse a record of a newer release: without it this image would differ from those that know
    it, and so would each snapshot of it."""
    raise MalformedRecord(f"record type {record.type_id} is not known")


REPLAY: Final[Mapping[type, _Replay]] = MappingProxyType(
    {
        kafka_records.PartitionChange: _partition_change,
        kafka_records.Partition: _partition,
        kafka_records.Topic: _topic,
        kafka_records.RemoveTopic: _remove_topic,
        kafka_records.ClearElr: _clear_elr,
        kafka_records.RegisterBroker: _register_broker,
        kafka_records.UnregisterBroker: _unregister_broker,
        kafka_records.FenceBroker: _fence_broker,
        kafka_records.UnfenceBroker: _fence_broker,
        kafka_records.BrokerRegistrationChange: _change_broker,
        kafka_records.Config: _config,
        kafka_records.FeatureLevel: lambda image, record, _offset: image.put(
            image.features, record.name, record.level or None
        ),
        kafka_records.ProducerIds: lambda image, record, _offset: image.put(
            image.singles, "next_producer_id", record.next_producer_id or None
        ),
        kafka_records.RegisterController: lambda image, record, _offset: image.put(
            image.controllers, record.controller_id, record
        ),
        kafka_records.BeginTransaction: _begin,
        kafka_records.EndTransaction: _end,
        kafka_records.AbortTransaction: _abort,
        kafka_records.ClientQuota: _quota,
        kafka_records.AccessControlEntry: _acl,
        kafka_records.RemoveAccessControlEntry: _remove_acl,
        kafka_records.UserScramCredential: _scram_credential,
        kafka_records.RemoveUserScramCredential: _scram_credential,
        kafka_records.DelegationToken: _delegation_token,
        kafka_records.RemoveDelegationToken: _delegation_token,
        kafka_records.ZkMigrationState: lambda image, record, _offset: image.put(
            image.singles, "zk_migration", record
        ),
        own_records.MoveBegun: _begun,
        own_records.MovePart: _part,
        own_records.MoveChanged: _changed,
        own_records.MoveEnded: _ended,
        own_records.MovesForgotten: _forgotten,
        own_records.MovesPaused: lambda image, record, _offset: image.put(
            image.singles, "all_paused", record if record.paused else None
        ),
        own_records.Remembered: lambda image, record, _offset: image.put(
            image.keys, record.key, record
        ),
        own_records.KeysForgotten: _keys_forgotten,
        own_records.ConfigOwned: _owned,
        kafka_records.NoOp: _nothing,
        kafka_records.Unknown: _unknown,
    }
)
"""The function that replays each record; a test keeps it complete."""
