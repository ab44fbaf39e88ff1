"""Linearizable reads over a whole replica with its log, disk thread and connections."""

import pytest

from quorum.core.effects import ReadRefusal
from quorum.core.limits import Bounds
from quorum.core.roles import Leader
from quorum.core.vocabulary import Offset
from tests.quorum.driver.replicas import Trio


async def test_a_read_sees_everything_committed_before_it_arrived() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        end = await trio.commit(leader, b"one", b"two")
        assert await leader.quorum.read_index() == end
        assert leader.diary.high_watermark == end


async def test_many_reads_share_a_round() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        found: list[Offset | ReadRefusal] = []
        for _ in range(50):
            leader.quorum.replica.read_index(found.append)
        await trio.until(lambda: len(found) == 50)
        assert found == [1] * 50
        assert isinstance(leader.node.role, Leader)
        assert leader.node.role.tracker.round <= 2


async def test_a_replica_that_does_not_lead_refuses() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        other = next(each for each in trio.all if each is not leader)
        assert await other.quorum.read_index() is ReadRefusal.NOT_LEADER


async def test_reads_that_wait_are_refused_when_the_lead_is_given_up() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        for each in trio.all:
            if each is not leader:
                await each.crash()
        found: list[Offset | ReadRefusal] = []
        leader.quorum.replica.read_index(found.append)
        await trio.dealt_with(leader)
        assert found == []
        await leader.quorum.stop()
        assert found == [ReadRefusal.NOT_LEADER]


@pytest.mark.thorough
async def test_a_read_too_many_is_refused_at_once() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        found: list[Offset | ReadRefusal] = []
        for _ in range(Bounds().reads):
            leader.quorum.replica.read_index(found.append)
        assert found == []
        leader.quorum.replica.read_index(found.append)
        assert found == [ReadRefusal.TOO_MANY]
        await trio.until(lambda: len(found) == Bounds().reads + 1)
