"""Proposals to a quorum, and their commit."""

from quorum.core.limits import BATCH_RECORDS_MAX, UNCOMMITTED_RECORDS_MAX, Bounds
from quorum.core.messages import Batch, FetchRequest
from quorum.core.vocabulary import Offset
from quorum.records.batch import outlines
from quorum.records.decode import decode
from tests.quorum.driver.replicas import WALL_MS, Replica, Trio


def batches(replica: Replica) -> list[Batch]:
    """The outlines of all that a replica holds."""
    return outlines(replica.log.read(Offset(0), replica.log.end.offset, 1 << 30))


async def test_one_replica_is_elected_and_told_when_it_may_propose() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        assert leader is trio[1]
        # Its first record, which says who leads, is committed before it is told.
        assert leader.diary.told == ["commit 1", "lead epoch 1 from 1"]
        await trio.everywhere(Offset(1))
        assert {each.quorum.leader for each in trio.all} == {1}
        assert [each.leads for each in trio.all] == [True, False, False]


async def test_records_that_the_leader_commits_are_committed_on_every_replica() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        end = await trio.commit(leader, b"one", b"two")
        end = await trio.commit(leader, b"three")
        await trio.everywhere(end)
        assert [each.committed() for each in trio.all] == [[b"one", b"two", b"three"]] * 3
        assert len({each.log.read(Offset(0), end, 1 << 20) for each in trio.all}) == 1


async def test_a_proposal_is_told_the_offset_of_its_first_record() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        first = leader.quorum.replica.propose([b"1", b"2"])
        second = leader.quorum.replica.propose([b"3"])
        assert (first, second, leader.quorum.replica.next_offset) == (1, 3, 4)
        await trio.until(lambda: leader.diary.high_watermark == 4)
        assert leader.quorum.replica.next_offset == 4
        assert leader.committed() == [b"1", b"2", b"3"]


async def test_proposals_of_one_wake_up_share_a_batch_and_a_commit() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.until(lambda: leader.log.durable == 1)
        commits_before = leader.log_gate.passed
        for value in (b"1", b"2", b"3"):
            leader.quorum.replica.propose([value])
        await trio.until(lambda: leader.log.durable == leader.diary.high_watermark == 4)
        assert batches(leader)[1:] == [Batch(Offset(1), Offset(4), leader.node.epoch)]
        assert leader.log_gate.passed == commits_before + 1


async def test_a_batch_never_has_more_records_than_one_may_have() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        leader.quorum.replica.propose([b"x"] * BATCH_RECORDS_MAX)
        leader.quorum.replica.propose([b"y"])
        end = Offset(BATCH_RECORDS_MAX + 2)
        await trio.until(lambda: leader.diary.high_watermark == end)
        assert [each.end - each.base for each in batches(leader)[1:]] == [BATCH_RECORDS_MAX, 1]


async def test_proposals_of_many_bytes_are_not_put_into_one_batch() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        for _ in range(3):
            leader.quorum.replica.propose([bytes(3_000_000)])
        await trio.until(lambda: leader.diary.high_watermark == 4)
        assert [each.end - each.base for each in batches(leader)[1:]] == [1, 1, 1]


async def test_records_bear_the_time_of_day_at_which_they_were_appended() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        before_ms = leader.quorum.now_wall_ms
        assert before_ms >= WALL_MS
        await trio.commit(leader, b"now")
        *_, record = decode(leader.quorum.replica.read_committed(Offset(1), 1 << 20))
        assert before_ms <= record.timestamp_ms <= leader.quorum.now_wall_ms


async def test_a_commit_needs_a_majority_of_disks_and_not_that_of_the_leader() -> None:
    """Raft §10.2.1: the leader writes in parallel with its followers, and counts like them."""
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        for slow in (trio[1], trio[2]):
            slow.log_gate.close()
        end = Offset(leader.quorum.replica.propose([b"x"]) + 1)
        await trio.until(lambda: has_acknowledged(trio[3], end))
        await trio.until(lambda: trio[1].log_gate.is_waiting and trio[2].log_gate.is_waiting)
        await trio.dealt_with(leader)
        assert leader.diary.high_watermark == 1  # On one disk of three.
        trio[2].log_gate.open()
        await trio.until(lambda: leader.diary.high_watermark == end)
        assert leader.log.durable == 1  # Its own disk is still busy.
        assert leader.committed() == [b"x"]


async def test_the_leader_counts_itself_when_its_own_disk_is_done() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        leader.log_gate.close()
        trio[3].log_gate.close()
        end = Offset(leader.quorum.replica.propose([b"x"]) + 1)
        await trio.until(lambda: has_acknowledged(trio[2], end) and leader.log_gate.is_waiting)
        await trio.dealt_with(leader)
        assert leader.diary.high_watermark == 1
        leader.log_gate.open()
        await trio.until(lambda: leader.diary.high_watermark == end)
        assert trio[3].log.durable == 1


async def test_the_disk_of_the_leader_alone_commits_nothing() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        for follower in (trio[2], trio[3]):
            follower.log_gate.close()
        end = Offset(leader.quorum.replica.propose([b"x"]) + 1)
        await trio.until(
            lambda: (
                leader.log.durable == end
                and trio[2].log_gate.is_waiting
                and trio[3].log_gate.is_waiting
            )
        )
        await leader.disk.drain()
        await trio.dealt_with(leader)
        assert leader.diary.high_watermark == 1
        assert leader.quorum.replica.read_committed(Offset(1), 1 << 20) == b""


async def test_records_that_come_during_a_commit_share_the_next_one() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.until(lambda: leader.log.durable == 1)
        passed = leader.log_gate.passed
        leader.log_gate.close()
        leader.quorum.replica.propose([b"1"])
        await trio.until(lambda: leader.log_gate.is_waiting)
        for end in range(3, 8):
            leader.quorum.replica.propose([b"more"])
            await trio.until(lambda end=end: leader.log.end.offset == end)  # type: ignore[misc]
        leader.log_gate.open()
        await trio.until(lambda: leader.log.durable == 7)
        await leader.disk.drain()
        # The first of the two may have taken all; the other one follows for nothing.
        assert leader.log_gate.passed == passed + 2


async def test_only_the_leader_accepts_and_only_as_much_as_may_be_uncommitted() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        assert not trio[2].quorum.replica.accepts(1)
        assert not leader.quorum.replica.accepts(0)
        assert leader.quorum.replica.accepts(BATCH_RECORDS_MAX)
        assert not leader.quorum.replica.accepts(BATCH_RECORDS_MAX + 1)
        full, rest = [b""] * BATCH_RECORDS_MAX, UNCOMMITTED_RECORDS_MAX - BATCH_RECORDS_MAX
        # The record that opened the epoch counts until the leader's own disk has it.
        await trio.until(lambda: leader.quorum.replica.accepts(len(full), after=rest))
        for _ in range(UNCOMMITTED_RECORDS_MAX // BATCH_RECORDS_MAX):
            assert leader.quorum.replica.accepts(len(full))
            leader.quorum.replica.propose(full)
        assert not leader.quorum.replica.accepts(1)
        await trio.until(lambda: leader.quorum.replica.accepts(1))


async def test_a_leader_takes_no_more_when_it_holds_enough_bytes() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        leader.quorum.node.bounds = Bounds(uncommitted_bytes=1_000)
        for _ in range(2):
            for _ in range(10):
                assert leader.quorum.replica.accepts(1)
                leader.quorum.replica.propose([b"." * 100])
            assert not leader.quorum.replica.accepts(1)
            await trio.until(lambda: leader.log.durable == leader.quorum.replica.next_offset)
            await trio.until(
                lambda: leader.quorum.node.high_watermark == leader.quorum.replica.next_offset
            )
            await trio.until(lambda: leader.quorum.replica.accepts(1))


async def test_an_election_wakes_a_caller_that_waits_for_a_leader() -> None:
    async with Trio() as trio:
        observer = trio[3].quorum
        assert observer.leader is None
        await observer.leader_changed(within_seconds=20)
        assert observer.leader == 1


async def test_a_caller_waits_for_a_leader_no_longer_than_requested() -> None:
    async with Trio(stands=False) as trio:
        await trio[3].quorum.leader_changed(within_seconds=0.001)
        assert trio[3].quorum.leader is None


async def test_moments_of_the_node_are_shown_by_the_time_of_day() -> None:
    async with Trio(stands=False) as trio:
        quorum = trio[1].quorum
        assert abs(quorum.wall_shift_ms - WALL_MS) <= 1


def has_acknowledged(replica: Replica, end: Offset) -> bool:
    """True if the replica has told the leader that everything below `end` is on its disk."""
    fetches = replica.wires.sent_by(replica.me, FetchRequest)
    return any(fetch.log_end.offset >= end for fetch in fetches)
