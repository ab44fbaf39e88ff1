"""The end of a leadership, and the outcome of pending requests."""

import asyncio

from quorum.core.messages import EndQuorumEpochRequest, FetchRequest
from quorum.core.vocabulary import Offset
from quorum.driver import OBSERVER_SILENCE_MS
from tests.quorum.driver.in_memory_rpc import Letter
from tests.quorum.driver.replicas import HASTY, NOBODY, PATIENT, Replica, Trio, vote


async def test_a_leader_that_stops_hands_over_and_nothing_is_lost() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.commit(leader, b"acknowledged")
        await leader.quorum.stop()
        await trio.until(leader.running.done)
        assert leader.diary.told[-1] == "stop leading epoch 1"
        # Nobody waits for a time-out: they are far longer than this test has patience.
        successor = await trio.leader()
        assert successor is not leader
        await trio.commit(successor, b"and on")
        assert successor.committed() == [b"acknowledged", b"and on"]


async def test_the_most_advanced_voter_succeeds_a_leader_that_stops() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        trio[2].log_gate.close()
        await trio.commit(leader, b"x")
        await leader.quorum.stop()
        trio[2].log_gate.open()
        assert await trio.leader() is trio[3]
        assert trio[3].committed() == [b"x"]


async def test_a_leader_that_stops_writes_out_what_it_has_appended() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        leader.log_gate.close()
        leader.quorum.replica.propose([b"x"])
        await trio.until(lambda: leader.log_gate.is_waiting)
        trio.wires.cut_off(leader.me)  # So that nothing else holds it up.
        stopping = asyncio.get_running_loop().create_task(leader.quorum.stop())
        await trio.until(lambda: not leader.leads)
        for _ in range(20):
            await trio[2].disk.drain()
        assert not stopping.done()
        leader.log_gate.open()
        await stopping
        await leader.crash()
        assert leader.log.values() == [b"x"]


async def test_a_leader_that_stops_waits_until_the_others_have_heard_of_it() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        trio.wires.holds = is_farewell

        async def stop() -> None:
            # It is asked for something else in the same moment, and answers that first.
            leader.quorum.replica.asked(NOBODY, vote(candidate=3, epoch=0))
            await leader.quorum.stop()

        stopping = asyncio.get_running_loop().create_task(stop())
        await trio.until(lambda: len(trio.wires.held) == 2)
        for _ in range(20):  # Many times as long as it needs to end when it does not wait.
            await leader.disk.drain()
        assert not leader.running.done()
        trio.wires.release()
        await stopping
        await trio.until(leader.running.done)
        assert await trio.leader() is not leader


async def test_a_leader_that_stops_does_not_wait_forever_for_the_others() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        trio.wires.holds = lambda _: True
        await leader.quorum.stop()
        await trio.until(leader.running.done)


async def test_a_follower_stops_without_disturbing_the_others() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        await trio[2].quorum.stop()
        await trio.until(trio[2].running.done)
        await trio.commit(leader, b"x")
        assert (leader.diary.leads, trio[3].quorum.leader) == (1, 1)


async def test_a_stopped_replica_accepts_nothing() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await leader.quorum.stop()
        assert not leader.quorum.replica.accepts(1)
        await leader.quorum.stop()  # Twice is once.


async def test_an_isolated_leader_is_replaced_and_resigns() -> None:
    """KIP-595, zombie leader: who is not fetched from by a majority resigns."""
    async with Trio(HASTY) as trio:
        leader = await trio.leader()
        await trio.commit(leader, b"acknowledged")
        trio.wires.cut_off(leader.me)
        others = [each for each in trio.all if each is not leader]
        await trio.until(lambda: not leader.leads and any(each.leads for each in others))
        trio.wires.mend()
        await trio.until(lambda: leader.committed() and leader.quorum.leader is not None)
        assert leader.committed()[0] == b"acknowledged"


async def test_proposals_that_wait_when_the_lead_is_lost_are_not_committed() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        # A fetch that is looked at after the jump would be a recent one, and keep it in the lead.
        trio.wires.cut_off(leader.me)
        await trio.dealt_with(leader)
        leader.skip(PATIENT.check_quorum_ms)
        leader.quorum.replica.propose([b"too late"])
        await trio.until(lambda: not leader.leads)
        # They went first, as their offsets were given, and stay in a log that nobody goes by.
        assert leader.log.end.offset == 2
        assert leader.diary.high_watermark == 1
        assert not leader.quorum.replica.accepts(1)
        leader = await succeeded(trio, leader)
        trio.wires.mend()
        await trio.commit(leader, b"in time")
        assert leader.committed() == [b"in time"]


async def test_uncommitted_records_are_cut_when_another_leader_has_continued() -> None:
    async with Trio() as trio:
        old = await trio.leader()
        await trio.everywhere(Offset(1))
        new = await replaced_with_a_tail(trio, old, b"lost")
        trio.wires.mend()
        end = await trio.commit(new, b"kept")
        await trio.everywhere(end)
        assert old.log.truncations == [1]
        assert [each.log.values() for each in trio.all] == [[b"kept"]] * 3


async def test_a_late_disk_does_not_report_on_a_tail_that_is_cut() -> None:
    """Else the node would believe that its disk holds what its log does not."""
    async with Trio() as trio:
        old = await trio.leader()
        await trio.everywhere(Offset(1))
        trio.wires.cut_off(1)
        # Two commits are asked for, and the first one takes all: the second is for nothing.
        old.log_gate.close()
        old.quorum.replica.propose([b"1"])
        await trio.until(lambda: old.log_gate.is_waiting)
        old.quorum.replica.propose([b"2"])
        await trio.until(lambda: old.log.end.offset == 3)
        passed = old.log_gate.passed
        old.log_gate.open_once()
        await trio.until(lambda: old.log_gate.passed == passed + 1 and old.log_gate.is_waiting)
        assert old.log.durable == 3
        new = await deposed(trio, old)
        trio.wires.mend()
        # It cannot even remember the new epoch before its disk is done with the old one.
        await trio.until(lambda: old.node.epoch == new.node.epoch)
        assert not old.log.truncations
        old.log_gate.open()
        end = await trio.commit(new, b"kept")
        await trio.everywhere(end)
        assert old.log.truncations == [1]
        assert old.log.values() == [b"kept"]


async def test_records_fetched_from_a_leader_of_the_past_are_neither_appended_nor_kept() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        follower = trio[2]
        trio.wires.holds = lambda letter: brings_records(letter) and letter.sender == 2
        await trio.commit(leader, b"x")
        await trio.until(lambda: trio.wires.held)
        # Meanwhile it has learned of a higher epoch, and follows nobody.
        trio.wires.cut_off(2)
        await trio.wires.ask(2, vote(candidate=3, epoch=5))
        trio.wires.mend()
        stale = trio.wires.held[0]
        trio.wires.release()
        await trio.until(lambda: stale.is_done)
        await trio.dealt_with(follower)
        assert follower.log.end.offset == 1
        assert follower.quorum.replica._fetched == {}


async def test_a_record_that_only_a_dead_leader_had_does_not_come_back_with_it() -> None:
    async with Trio() as trio:
        old = await trio.leader()
        await trio.everywhere(Offset(1))
        new = await replaced_with_a_tail(trio, old, b"never promised")
        await old.crash()
        assert old.log.values() == [b"never promised"]
        trio.wires.mend()
        end = await trio.commit(new, b"promised")
        old.start()
        await trio.everywhere(end)
        assert [each.log.values() for each in trio.all] == [[b"promised"]] * 3


def is_farewell(letter: Letter) -> bool:
    return isinstance(letter.request, EndQuorumEpochRequest)


def brings_records(letter: Letter) -> bool:
    return isinstance(letter.request, FetchRequest) and letter.records != b""


async def deposed(trio: Trio, old: Replica) -> Replica:
    """Let the leader, which is cut off, resign, and another succeed it; return that one."""
    old.skip(PATIENT.check_quorum_ms)
    await trio.until(lambda: not old.leads)
    return await succeeded(trio, old)


async def succeeded(trio: Trio, old: Replica) -> Replica:
    """Let the others miss the leader: who still hears of it grants nobody a pre-vote."""
    for each in trio.all:
        if each is not old:
            each.skip(2 * PATIENT.fetch_timeout_ms)
    return await trio.leader()


async def replaced_with_a_tail(trio: Trio, old: Replica, value: bytes) -> Replica:
    """Cut the leader off after it has written a record that nobody else has; return the next."""
    trio.wires.cut_off(old.me)
    old.quorum.replica.propose([value])
    await trio.until(lambda: old.log.durable == 2)
    return await deposed(trio, old)


async def test_a_new_leader_does_not_say_who_has_gone_before_it_can_know() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        assert trio[2].quorum.observers is None
        leader.skip(OBSERVER_SILENCE_MS - 60_000)
        assert leader.quorum.observers is None
        leader.skip(70_000)
        assert leader.quorum.observers == ()
