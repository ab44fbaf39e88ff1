"""Replication between real brokers: ISR, truncation, stale incarnations, moves, real logs."""

from pathlib import Path

import pytest

from broker.partition.partition import Partition
from broker.storage.log_dir import METADATA_NAME, STATE_NAME
from quorum.core.vocabulary import Offset, uuid_from_text
from quorum.protocol.errors import ErrorCode
from quorum.records.batch import CorruptBatch
from quorum.records.decode import decode
from tests.broker.client_requests import batch, fetch, produce
from tests.broker.embedded_cluster import Brokers, cluster, until


def content(partition: Partition) -> bytes:
    return partition.log.read(partition.log.start, Offset(partition.log_end), 1 << 22)


def values(partition: Partition) -> list[bytes | None]:
    return [record.value for record in decode(content(partition))]


def stop_copying(brokers: Brokers, broker_id: int) -> None:
    """A broker without a broker epoch does not fetch."""
    brokers[broker_id].manager.broker_epoch = None


def copy_again(brokers: Brokers, broker_id: int) -> None:
    registered = brokers.controller.image.brokers[broker_id]
    brokers[broker_id].manager.broker_epoch = registered.broker_epoch


async def test_a_follower_that_comes_back_joins_the_isr(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        await brokers.stop(2)
        brokers.controller.fence(2)
        assert (await produce(brokers[1], "t", batch(b"a"))).error_code == 0
        await brokers.start(2)
        await until(lambda: brokers.controller.of("t").isr == (1, 2))
        assert values(brokers[2].partition("t")) == [b"a"]


async def test_the_isr_carries_the_epoch_of_the_incarnation_that_fetched(tmp_path: Path) -> None:
    """KIP-903."""
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        brokers.controller.fence(2)
        await brokers.stop(2)
        await brokers.start(2)
        await until(lambda: brokers.controller.of("t").isr == (1, 2))
        (proposal,) = brokers.controller.altered[-1].proposals
        epochs = {member.broker_id: member.broker_epoch for member in proposal.isr}
        assert epochs == {
            each: brokers.controller.image.brokers[each].broker_epoch for each in (1, 2)
        }


async def test_a_fetch_of_an_incarnation_that_is_over_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        refusal = (
            brokers[1]
            .partition("t")
            .fetched_by(2, broker_epoch=0, current_leader_epoch=0, offset=0, last_fetched_epoch=-1)
        )
        assert refusal is ErrorCode.STALE_BROKER_EPOCH


async def test_a_deposed_leader_cuts_what_nobody_else_has(tmp_path: Path) -> None:
    """KIP-101, KIP-279: the logs part at the epoch, and the follower's gives way."""
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        await produce(brokers[1], "t", batch(b"both"))
        stop_copying(brokers, 2)
        await until(lambda: not brokers[1].fetch_api.delayed)
        await produce(brokers[1], "t", batch(b"lost", b"lost"), acks=1)
        await brokers.stop(1)
        brokers.controller.fence(1)
        assert (await produce(brokers[2], "t", batch(b"kept"), acks=1)).base_offset == 1
        copy_again(brokers, 2)
        await brokers.start(1)
        await until(lambda: brokers.controller.of("t").isr == (2, 1))
        assert values(brokers[1].partition("t")) == [b"both", b"kept"]
        assert content(brokers[1].partition("t")) == content(brokers[2].partition("t"))


async def test_a_replica_that_is_added_copies_all_and_the_removed_one_is_deleted(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, 3) as brokers:
        await brokers.create("t", (1, 2))
        for value in (b"a", b"b", b"c"):
            await produce(brokers[1], "t", batch(value))
        folder = tmp_path / "broker-2" / "t-0"
        assert folder.is_dir()
        brokers.controller.reassign("t", 1, 3)
        await until(lambda: brokers.controller.of("t").replicas == (1, 3))
        assert values(brokers[3].partition("t")) == [b"a", b"b", b"c"]
        await brokers[2].manager.settled.wait()
        assert not brokers[2].manager.partitions
        assert not list((tmp_path / "broker-2").iterdir())
        assert (await produce(brokers[1], "t", batch(b"d"))).error_code == 0
        assert brokers[3].partition("t").log_end == 4


async def test_a_move_away_from_the_leader_moves_the_lead(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1,))
        await produce(brokers[1], "t", batch(b"a"))
        brokers.controller.reassign("t", 2)
        await until(lambda: brokers.controller.of("t").replicas == (2,))
        assert brokers.controller.of("t").leader == 2
        assert (await produce(brokers[2], "t", batch(b"b"))).base_offset == 1
        await until(lambda: not (tmp_path / "broker-1" / "t-0").exists())


async def test_an_error_of_one_partition_keeps_no_other_waiting(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2), (1, 2))
        # The leader no longer has one of them: it answers NOT_LEADER_OR_FOLLOWER for it.
        lost = brokers[1].partition("t", 0)
        del brokers[1].manager.partitions[lost.key]
        answer = await produce(brokers[1], "t", batch(b"a"), number=1)
        assert answer.error_code == 0
        assert values(brokers[2].partition("t", 1)) == [b"a"]
        brokers[1].manager.partitions[lost.key] = lost


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(batch(b"a")[:-1] + b"\xff", id="wrong checksum"),
        pytest.param(batch(b"a")[:-1], id="cut short"),
        pytest.param((9).to_bytes(8) + batch(b"a")[8:], id="not the next offset"),
        pytest.param(batch(b"a")[:12] + (7).to_bytes(4) + batch(b"a")[16:], id="a later epoch"),
    ],
)
async def test_a_broken_batch_of_the_leader_is_refused(tmp_path: Path, sent: bytes) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        partition = brokers[2].partition("t")
        with pytest.raises(CorruptBatch):
            partition.copy(sent)
        assert partition.log_end == 0


# --- restarts ------------------------------------------------------------------------------------


async def test_a_clean_restart_keeps_everything(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        sent = batch(b"a", producer=(7, 0, 0))
        await produce(brokers[1], "t", sent)
        await brokers.stop(1)
        assert (tmp_path / "broker-1" / "t-0" / STATE_NAME).exists()
        brokers.controller.fence(1)
        await brokers.start(1)
        assert not (tmp_path / "broker-1" / "t-0" / STATE_NAME).exists()
        assert brokers[1].partition("t").high_watermark == 1
        assert (await produce(brokers[1], "t", sent)).base_offset == 0
        assert values(brokers[1].partition("t")) == [b"a"]


async def test_a_crash_keeps_what_was_written_and_cuts_the_torn_tail(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        sent = batch(b"a", producer=(7, 0, 0))
        await produce(brokers[1], "t", sent)
        await brokers.stop(1, clean=False)
        log = tmp_path / "broker-1" / "t-0" / f"{0:020}.log"
        log.write_bytes(log.read_bytes() + batch(b"torn")[:70])
        brokers.controller.fence(1)
        await brokers.start(1)
        assert values(brokers[1].partition("t")) == [b"a"]
        # What is known of producers comes from the batches then.
        assert (await produce(brokers[1], "t", sent)).base_offset == 0
        assert (await fetch(brokers[1], "t", 0)).high_watermark == 1


async def test_the_folder_of_a_topic_of_the_same_name_is_set_aside(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await produce(brokers[1], "t", batch(b"old"))
        old_id = brokers.controller.image.topic_ids["t"]
        await brokers.stop(1)
        brokers.controller.delete("t")
        brokers.controller.create("t", (1,))
        brokers.controller.fence(1)
        await brokers.start(1)
        folder = tmp_path / "broker-1"
        assert values(brokers[1].partition("t")) == []
        (aside,) = folder.glob("*-stray")
        text = (aside / METADATA_NAME).read_text()
        assert uuid_from_text(text.split("topic_id: ")[1].strip()) == old_id


async def test_folders_of_no_assigned_partition_are_removed_at_the_start(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await brokers.create("kept", (1,))
        await brokers.stop(1)
        brokers.controller.delete("t")
        brokers.controller.fence(1)
        node = await brokers.start(1)
        await node.manager.remove_strays()
        assert [each.name for each in (tmp_path / "broker-1").iterdir()] == ["kept-0"]
