"""P18 to P21 and P26 can fail: the checkers are shown disks of brokers with faults."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.partition.assignment import PartitionKey
from broker.partition.leader import IsrProposal
from chaos.cluster.broker.partition_disk import PARTITIONS, folder_of, held_on
from chaos.cluster.invariants.model import Broker, Part
from chaos.cluster.invariants.partition_data import end_on, log_on, values_of
from chaos.cluster.invariants.record_parser import ParsedRecord
from chaos.cluster.profile import KEPT, ClusterProfile
from chaos.cluster.world import ClusterWorld
from chaos.invariants.disk_format import batches
from chaos.violation import Violation
from quorum.core.vocabulary import Epoch, Offset, ReplicaId
from quorum.records.encode import ClientRecord, encode_client, stamp

KEY = PartitionKey(UUID(int=7), 0)
NAME = "00000000000000000000.log"
ONE, OTHER = ReplicaId(100), ReplicaId(101)


def a_batch(base: int, *values: bytes, epoch: int = 0) -> bytes:
    batch = encode_client([ClientRecord(1, None, value) for value in values])
    stamp(batch, Offset(base), Epoch(epoch))
    return bytes(batch)


@pytest.fixture
def world() -> ClusterWorld:
    """Two replicas of one partition, on disks that have nothing of it yet."""
    world = ClusterWorld(ClusterProfile.drawn(0))
    world.history.model.topics[KEY.topic_id.hex] = KEPT
    world.history.model.parts[KEY.topic_id.hex, 0] = Part(
        replicas=(ONE, OTHER), isr=(ONE, OTHER), leader=ONE, leader_epoch=0, partition_epoch=0
    )
    return world


def put(world: ClusterWorld, replica: ReplicaId, data: bytes) -> None:
    disk = world.machines[replica].disk
    for folder in (PARTITIONS, folder_of(KEY)):
        if not disk.is_folder(folder):
            disk.make_folder(folder)
    disk.put(folder_of(KEY) / NAME, data)


def test_a_log_is_read_from_the_files_of_its_folder(world: ClusterWorld) -> None:
    data = a_batch(0, b"a", b"b") + a_batch(2, b"c")
    put(world, ONE, data)
    disk = world.machines[ONE].disk
    assert values_of(log_on(disk, KEY)) == {0: b"a", 1: b"b", 2: b"c"}
    assert (end_on(disk, KEY), end_on(world.machines[OTHER].disk, KEY)) == (3, 0)
    assert held_on(disk) == [KEY]


def test_replicas_that_differ_are_not_alike(world: ClusterWorld) -> None:
    put(world, ONE, a_batch(0, b"a"))
    assert not world.records.are_equal()
    put(world, OTHER, a_batch(0, b"a"))
    assert world.records.are_equal()


def test_a_record_that_was_acknowledged_and_is_gone_breaks_p18(world: ClusterWorld) -> None:
    put(world, ONE, a_batch(0, b"a"))
    world.records.acknowledged(0, 0, [b"a"])
    world.records.check_end()
    world.records.acknowledged(0, 1, [b"b"])
    with pytest.raises(Violation, match="P18: record 1 of kept-0 was b'b', now it is None"):
        world.records.check_end()


def test_two_records_that_are_acknowledged_at_one_place_break_p18(world: ClusterWorld) -> None:
    world.records.acknowledged(0, 0, [b"a", b"b"])
    with pytest.raises(Violation, match=r"P18: record 1 .* as b'c' and as b'b'"):
        world.records.acknowledged(0, 1, [b"c"])


def test_a_follower_that_is_to_join_without_what_was_there_before_the_epoch_breaks_p26(
    world: ClusterWorld,
) -> None:
    """The log of the leader has two records, and a third one since epoch 1 began."""
    model, part = world.history.model, (KEY.topic_id.hex, 0)
    model.brokers = {int(each): Broker(7, "", False, False) for each in (ONE, OTHER)}
    model.parts[part] = model.parts[part]._replace(isr=(ONE,), leader_epoch=1)
    put(world, ONE, a_batch(0, b"a", b"b") + a_batch(2, b"c", epoch=1))
    led: Any = SimpleNamespace(key=KEY)

    def propose(member_epoch: int = 7, *, partition_epoch: int = 0) -> None:
        proposal = IsrProposal((ONE, OTHER), (7, member_epoch), 1, partition_epoch)
        world.records.proposed(ONE, led, proposal)

    with pytest.raises(Violation, match=r"P26: broker 101 .* ends at 0, but leader epoch 1 begins"):
        propose()
    # Another incarnation, and a proposal that is over: the controller refuses them.
    propose(6)
    propose(partition_epoch=-1)
    put(world, OTHER, a_batch(0, b"a"))
    with pytest.raises(Violation, match=r"P26: broker 101 .* ends at 1"):
        propose()
    put(world, OTHER, a_batch(0, b"a", b"b"))
    propose()
    put(world, ONE, a_batch(0, b"a", b"b", b"c"))
    with pytest.raises(Violation, match="epoch 1 begins at 3"):
        propose()
    world.records.loses(OTHER)
    propose()


def test_a_record_that_is_there_twice_breaks_p18(world: ClusterWorld) -> None:
    put(world, ONE, a_batch(0, b"a") + a_batch(1, b"a"))
    with pytest.raises(Violation, match=r"P18: a record of .* is in the log twice"):
        world.records.check_end()


def test_a_record_that_differs_from_the_one_read_breaks_p20(world: ClusterWorld) -> None:
    world.records.read(0, tuple(batches(a_batch(0, b"a"))))
    with pytest.raises(Violation, match=r"P20: record 0 .* as b'b', before it was b'a'"):
        world.records.read(0, tuple(batches(a_batch(0, b"b"))))
    put(world, ONE, a_batch(0, b"c"))
    with pytest.raises(Violation, match="P20: record 0 of kept-0 was b'a', now it is b'c'"):
        world.records.check_end()


def test_data_of_what_is_not_on_a_broker_breaks_p21(world: ClusterWorld) -> None:
    put(world, ONE, a_batch(0, b"a"))
    with pytest.raises(Violation, match="P21: 100 has data of"):
        world.folders.check_end()


def test_a_replica_that_joins_the_isr_without_committed_records_breaks_p19(
    world: ClusterWorld,
) -> None:
    put(world, ONE, a_batch(0, b"a"))
    said: dict[str | int, Any] = {
        "topic_id": KEY.topic_id.hex,
        "partition_id": 0,
        "isr": (ONE, OTHER),
    }
    change = ParsedRecord(9, "PartitionChange", said)
    world.records.changed([change])
    world.records.is_committed(KEY, 1)
    with pytest.raises(Violation, match=r"P19: 101 joins the ISR of .* at 0, committed is 1"):
        world.records.changed([change])


def test_a_loss_is_known_only_with_another_incarnation(world: ClusterWorld) -> None:
    world.history.model.brokers[OTHER] = Broker(5, "first", fenced=False, stops=False)
    world.records.is_committed(KEY, 1)
    world.records.loses(OTHER)
    said: dict[str | int, Any] = {"topic_id": KEY.topic_id.hex, "partition_id": 0, "isr": (OTHER,)}
    world.records.changed([registered("first"), ParsedRecord(9, "PartitionChange", said)])
    with pytest.raises(Violation, match="P19: 101 joins the ISR"):
        world.records.changed([registered("second"), ParsedRecord(9, "PartitionChange", said)])


def registered(incarnation: str) -> ParsedRecord:
    return ParsedRecord(8, "RegisterBroker", {"broker_id": OTHER, "incarnation_id": incarnation})
