"""Replay: it is total, can be undone exactly, and reports its changes."""

from typing import Any, get_args
from uuid import UUID

import pytest
from msgspec.structs import replace

from statemachine import commands
from statemachine.image.image import Image
from statemachine.limits import PARTITION_NUMBER_MAX
from statemachine.partitions.invariants import check_invariants
from statemachine.partitions.registration import PartitionRegistration
from statemachine.records import kafka_records
from statemachine.replay import REPLAY, replay
from statemachine.vocabulary import TOPIC_RESOURCE
from tests.statemachine.support.reference_checks import contents, indexed, scanned
from tests.statemachine.support.world import TOPIC_ID, World, directory

NOWHERE = UUID(int=404)


def check_image_index(image: Image) -> None:
    """The bitmaps say what a scan says."""
    assert indexed(image) == scanned(image)


def partition(number: int, topic_id: UUID = TOPIC_ID, **fields: object) -> kafka_records.Partition:
    """A Partition record of two replicas."""
    known: dict[str, object] = {
        "partition_id": number,
        "topic_id": topic_id,
        "replicas": (1, 2),
        "isr": (1, 2),
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return kafka_records.Partition(**{**known, **fields})  # type: ignore[arg-type]


def change(
    number: int, topic_id: UUID = TOPIC_ID, **fields: object
) -> kafka_records.PartitionChange:
    """A PartitionChange record."""
    return kafka_records.PartitionChange(partition_id=number, topic_id=topic_id, **fields)  # type: ignore[arg-type]


def test_every_record_has_its_meaning() -> None:
    assert set(REPLAY) == set(get_args(kafka_records.Record))


@pytest.mark.parametrize(
    "record",
    [
        partition(0, NOWHERE),
        partition(-1),
        partition(PARTITION_NUMBER_MAX + 1),
        change(0, NOWHERE, isr=(1,)),
        change(7, isr=(1,)),
        change(-1, isr=(1,)),
        kafka_records.Topic(name="t", topic_id=TOPIC_ID),
        kafka_records.RemoveTopic(topic_id=NOWHERE),
        kafka_records.ClearElr(topic_name="nope"),
        kafka_records.ClearElr(topic_name="t"),
        kafka_records.UnregisterBroker(broker_id=9, broker_epoch=1),
        kafka_records.UnregisterBroker(broker_id=1, broker_epoch=99),
        kafka_records.FenceBroker(broker_id=1, broker_epoch=99),
        kafka_records.UnfenceBroker(broker_id=9, broker_epoch=0),
        kafka_records.BrokerRegistrationChange(broker_id=1, broker_epoch=99, fenced=1),
        kafka_records.Config(resource_type=2, resource_name="t", name="retention.ms", value=None),
        kafka_records.FeatureLevel(name="new.version", level=0),
        kafka_records.RemoveAccessControlEntry(id=NOWHERE),
        kafka_records.RemoveUserScramCredential(name="u", mechanism=1),
        kafka_records.RemoveDelegationToken(token_id="d"),
        kafka_records.EndTransaction(),
        kafka_records.AbortTransaction(reason=None),
        kafka_records.NoOp(),
    ],
)
def test_a_record_about_nothing_changes_nothing_but_the_offset(
    record: kafka_records.Record,
) -> None:
    world = World(broker_count=1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    before = contents(world.image)
    replay(world.image, record, world.image.end_offset)
    assert contents(world.image) == {**before, "end_offset": before["end_offset"] + 1}


def test_offsets_only_rise_and_may_leave_gaps() -> None:
    """Control records have offsets too. The records of a snapshot share the last one of it."""
    image = Image()
    for offset in (9, 9, 20):
        replay(image, kafka_records.NoOp(), offset)
        assert image.end_offset == offset + 1
    with pytest.raises(AssertionError, match="offset 19 was replayed"):
        replay(image, kafka_records.NoOp(), 19)
    image.advance(30)
    assert image.end_offset == 30
    with pytest.raises(AssertionError, match="only `rewind`"):
        image.advance(29)


def test_partitions_may_come_in_any_order() -> None:
    world = World()
    world.replay(kafka_records.Topic(name="t", topic_id=TOPIC_ID))
    for number in (2, 0):
        world.replay(partition(number))
    topic = world.image.topics[TOPIC_ID]
    assert [number for number, _ in topic.existing()] == [0, 2]
    assert topic.partition(1) is None
    check_image_index(world.image)
    world.replay(kafka_records.RemoveTopic(topic_id=TOPIC_ID))
    check_image_index(world.image)


def test_a_broker_is_fenced_and_unfenced_by_old_and_new_records() -> None:
    world = World(broker_count=1)
    epoch = world.epoch(1)
    old_fence = kafka_records.FenceBroker(broker_id=1, broker_epoch=epoch)
    old_unfence = kafka_records.UnfenceBroker(broker_id=1, broker_epoch=epoch)
    for record, fenced in ((old_fence, True), (old_unfence, False)):
        world.replay(record)
        assert world.image.brokers[1].fenced is fenced
    world.replay(
        kafka_records.BrokerRegistrationChange(
            broker_id=1,
            broker_epoch=epoch,
            fenced=1,
            in_controlled_shutdown=1,
            log_dirs=(directory(7),),
        )
    )
    broker = world.image.brokers[1]
    assert (broker.fenced, broker.log_dirs) == (True, (directory(7),))
    assert broker.stopping_at == world.image.end_offset - 1


def test_what_security_rests_on_is_kept_until_it_is_removed() -> None:
    image = Image()
    access = kafka_records.AccessControlEntry(
        id=UUID(int=1),
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=2,
        permission_type=3,
    )
    scram = kafka_records.UserScramCredential(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    token = kafka_records.DelegationToken(
        owner="a",
        requester="a",
        renewers=("b",),
        issue_timestamp_ms=1,
        max_timestamp_ms=3,
        expiration_timestamp_ms=2,
        token_id="x",
    )
    migration = kafka_records.ZkMigrationState(state=3)
    kept: list[kafka_records.Record] = [access, scram, token, migration]
    for record in kept:
        replay(image, record, image.end_offset)
    assert image.acls == {access.id: access}
    assert image.scram_credentials == {("a", 1): scram}
    assert image.delegation_tokens == {"x": token}
    assert image.zk_migration_state == 3
    removals: list[kafka_records.Record] = [
        kafka_records.RemoveAccessControlEntry(id=access.id),
        kafka_records.RemoveUserScramCredential(name="a", mechanism=1),
        kafka_records.RemoveDelegationToken(token_id="x"),
    ]
    for record in removals:
        replay(image, record, image.end_offset)
    assert not image.acls
    assert not image.scram_credentials
    assert not image.delegation_tokens
    assert image.zk_migration_state == 3


def test_clear_elr_empties_the_elr_of_one_topic_or_of_all() -> None:
    world = World()
    for name, topic_id in (("t", TOPIC_ID), ("u", NOWHERE)):
        world.replay(kafka_records.Topic(name=name, topic_id=topic_id))
        world.replay(partition(0, topic_id, isr=(), leader=-1, elr=(1,), last_known_elr=(1,)))
        world.replay(partition(1, topic_id))

    def elrs() -> list[tuple[int, ...]]:
        return [p.elr for topic in world.image.topics.values() for _, p in topic.existing()]

    world.replay(kafka_records.ClearElr(topic_name="u"))
    assert elrs() == [(1,), (), (), ()]
    world.replay(kafka_records.ClearElr(topic_name=""))
    assert elrs() == [(), (), (), ()]


def test_a_controller_that_knows_no_target_lets_it_fall_away() -> None:
    """A Kafka controller takes over a move of ours: what it says of adding and removing counts."""
    world = World(broker_count=4)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.reassign(4, 3)
    assert world.partition().target == (4, 3)
    # Kafka's record of the completion: all its fields, and none of ours.
    replay(
        world.image,
        change(0, replicas=(3, 4), isr=(3, 4), leader=3, adding=(), removing=()),
        world.image.end_offset,
    )
    after = world.partition()
    assert (after.moving, after.target, after.original) == (False, (), ())
    assert check_invariants(after) is None


def test_directories_that_do_not_match_the_replicas_are_dropped() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1, directories=(directory(1), directory(2)))
    replay(world.image, change(0, replicas=(1,), isr=(1,)), world.image.end_offset)
    assert world.partition().directories == ()


VALID = PartitionRegistration(
    replicas=(1, 2, 3),
    isr=(1, 2),
    leader=1,
    leader_epoch=0,
    partition_epoch=0,
    adding=(3,),
    removing=(1,),
    target=(3, 2),
    original=(1, 2),
)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"replicas": ()}, "replicas"),
        ({"replicas": (1, 2, 3, 3)}, "repeated"),
        ({"isr": (1, 4)}, "ISR"),
        ({"isr": (1, 1)}, "ISR"),
        ({"leader": 3}, "leader 3"),
        ({"elr": (2,)}, "ELR"),
        ({"elr": (4,)}, "ELR"),
        ({"directories": (directory(1),)}, "1 directories"),
        ({"adding": (4,)}, "adding"),
        ({"removing": (4,)}, "removing"),
        ({"removing": (3,)}, "overlap"),
        ({"target": (2,)}, "target"),
        ({"target": (1, 2, 3)}, "target"),
        ({"adding": (), "removing": (), "target": ()}, "of no move"),
    ],
)
def test_a_partition_that_breaks_an_invariant_is_named(fields: dict[str, Any], named: str) -> None:
    assert check_invariants(VALID) is None
    found = check_invariants(replace(VALID, **fields))
    assert found is not None
    assert named in found


# Undo.


def test_uncommitted_changes_are_undone_exactly() -> None:
    world = World(broker_count=4)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    start = world.image.end_offset
    world.image.begin_undo_log(start)
    states = {start: contents(world.image)}

    def note() -> None:
        states[world.image.end_offset] = contents(world.image)

    world.reassign(3, 4)
    note()
    world.sync(1, 2, 3, 4)
    note()
    world.configure("min.insync.replicas", "2")
    note()
    world.fence(3)
    note()
    world.ask(commands.AllocateProducerIds(broker_id=1, broker_epoch=world.epoch(1)))
    note()
    world.ask(commands.DeleteTopics(topics=("t",)))
    note()
    world.replay(kafka_records.FeatureLevel(name="group.version", level=1))
    for offset in sorted(states, reverse=True):
        world.image.rewind(offset)
        assert contents(world.image) == states[offset]


def test_committed_changes_cannot_be_undone() -> None:
    world = World(broker_count=2)
    with pytest.raises(AssertionError, match="without an undo log"):
        world.image.rewind(0)
    world.image.begin_undo_log(world.image.end_offset)
    world.join(3)
    committed = world.image.end_offset
    world.join(4)
    world.image.committed(committed)
    with pytest.raises(AssertionError, match="are committed"):
        world.image.rewind(committed - 1)
    world.image.rewind(committed)
    assert sorted(world.image.brokers) == [1, 2, 3]
    world.image.rewind(committed + 100)
    world.image.end_undo_log()
    with pytest.raises(AssertionError, match="only replays committed records"):
        world.image.committed(committed)


def test_an_undo_log_must_begin_before_the_changes_that_it_undoes() -> None:
    world = World(broker_count=1)
    with pytest.raises(AssertionError, match="without an undo log"):
        world.image.begin_undo_log(world.image.end_offset - 1)


@pytest.mark.parametrize(("journal", "committed"), [(False, False), (True, False), (True, True)])
def test_an_aborted_transaction_never_was_and_its_abort_can_be_undone(
    journal: bool, committed: bool
) -> None:
    """KIP-868."""
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    if journal:
        world.image.begin_undo_log(world.image.end_offset)
    world.configure("retention.ms", "1")
    before = contents(world.image)
    world.replay(kafka_records.BeginTransaction(name=None))
    world.replay(kafka_records.BeginTransaction(name="inside another one"))
    world.reassign(2, 1)
    world.fence(1)
    world.configure("min.insync.replicas", "2")
    if committed:
        world.image.committed(world.image.end_offset)
    inside, offset = contents(world.image), world.image.end_offset
    world.replay(kafka_records.AbortTransaction(reason=None))
    assert contents(world.image) == {**before, "end_offset": offset + 1}
    if journal:
        world.image.rewind(offset)
        assert contents(world.image) == inside


def test_an_ended_transaction_counts() -> None:
    world = World()
    world.replay(kafka_records.BeginTransaction(name=None))
    world.replay(kafka_records.FeatureLevel(name="group.version", level=1))
    world.replay(kafka_records.EndTransaction())
    world.replay(kafka_records.AbortTransaction(reason=None))
    assert world.image.features["group.version"] == 1


# What was touched.


def test_a_watched_image_says_what_was_touched() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    with pytest.raises(AssertionError, match="`watch` was not called"):
        world.image.drain()
    world.image.watch()
    world.fence(1)
    world.configure("retention.ms", "5")
    touched = world.image.drain()
    assert list(touched.partitions) == [(TOPIC_ID, 0)]
    assert list(touched.brokers) == [1]
    assert list(touched.configs) == [(TOPIC_RESOURCE, "t")]
    last = world.partition()
    world.ask(commands.DeleteTopics(topics=("t",)))
    touched = world.image.drain()
    assert list(touched.deleted[TOPIC_ID].partitions) == [last]
    assert not world.image.drain().partitions
