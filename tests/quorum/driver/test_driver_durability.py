"""Nothing is sent before it is durable, and a failing disk ends the node."""

import asyncio

import pytest

from quorum.core.messages import FetchRequest, VoteRequest, VoteResponse
from quorum.core.vocabulary import Offset, ReplicaId, ReplicaKey
from quorum.ports import LogFailure
from tests.quorum.driver.replicas import PATIENT, Trio, vote


async def test_a_vote_is_remembered_before_it_is_answered() -> None:
    async with Trio(stands=False) as trio:
        voter = trio[2]
        voter.election_gate.close()
        answer = trio.wires.ask(2, vote(candidate=3, epoch=7))
        await trio.until(lambda: voter.election_gate.is_waiting)
        await asyncio.sleep(0)
        assert not answer.done()
        assert voter.elections.read().voted_for is None
        voter.election_gate.open()
        response = await answer
        assert isinstance(response, VoteResponse)
        assert response.granted
        assert voter.elections.read().voted_for == ReplicaKey(ReplicaId(3))


async def test_a_vote_that_was_given_is_not_given_again_after_a_restart() -> None:
    async with Trio(stands=False) as trio:
        response = await trio.wires.ask(2, vote(candidate=3, epoch=7))
        assert isinstance(response, VoteResponse)
        assert response.granted
        await trio[2].crash()
        trio[2].start()
        response = await trio.wires.ask(2, vote(candidate=1, epoch=7))
        assert isinstance(response, VoteResponse)
        assert not response.granted
        response = await trio.wires.ask(2, vote(candidate=3, epoch=7))
        assert isinstance(response, VoteResponse)
        assert response.granted


async def test_a_candidate_remembers_its_own_vote_before_it_asks_for_others() -> None:
    async with Trio(stands=False) as trio:
        candidate = trio[1]
        candidate.election_gate.close()
        candidate.skip(2 * PATIENT.election_timeout_ms)
        await trio.until(lambda: candidate.election_gate.is_waiting)
        await asyncio.sleep(0)
        assert all(each.pre_vote for each in trio.wires.sent_by(1, VoteRequest))
        candidate.election_gate.open()
        await trio.until(lambda: not all(e.pre_vote for e in trio.wires.sent_by(1, VoteRequest)))
        assert candidate.elections.read().voted_for == ReplicaKey(ReplicaId(1))


async def test_a_follower_acknowledges_only_records_on_its_disk() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        follower = trio[2]
        follower.log_gate.close()
        leader.quorum.replica.propose([b"x"])
        await trio.until(lambda: follower.log_gate.is_waiting)
        assert follower.log.end.offset == 2
        await trio.until(lambda: trio[3].diary.high_watermark == 2)
        assert max(each.log_end.offset for each in trio.wires.sent_by(2, FetchRequest)) == 1
        follower.log_gate.open()
        await trio.everywhere(Offset(2))


async def test_the_loop_goes_on_while_a_disk_is_busy() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        leader.log_gate.close()
        leader.quorum.replica.propose([b"x"])
        await trio.until(lambda: leader.log_gate.is_waiting)
        response = await trio.wires.ask(1, vote(candidate=3, epoch=1))
        assert isinstance(response, VoteResponse)
        assert response.leader == 1


async def test_a_commit_that_fails_ends_the_node_and_says_why() -> None:
    async with Trio() as trio:
        trio.expects_failure = True
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        trio[2].log_gate.close()
        leader.log_gate.break_down()
        leader.quorum.replica.propose([b"x"])
        await trio.until(leader.running.done)
        with pytest.raises(LogFailure, match="no space left"):
            leader.running.result()
        # Only one disk has it for certain: it is for the next leader to say that it is committed.
        assert leader.diary.high_watermark == 1


async def test_a_vote_that_cannot_be_written_ends_the_node_and_is_never_given() -> None:
    async with Trio(stands=False) as trio:
        trio.expects_failure = True
        trio[2].election_gate.break_down()
        answer = trio.wires.ask(2, vote(candidate=3, epoch=7))
        await trio.until(trio[2].running.done)
        with pytest.raises(LogFailure, match="no space left"):
            trio[2].running.result()
        assert not answer.done()


async def test_an_error_of_our_own_logic_ends_the_node_too() -> None:
    async with Trio() as trio:
        trio.expects_failure = True
        leader = await trio.leader()

        def stumble() -> None:
            raise AssertionError("our own mistake")

        leader.diary.when_committed = stumble
        leader.quorum.replica.propose([b"x"])
        await trio.until(leader.running.done)
        with pytest.raises(AssertionError, match="our own mistake"):
            leader.running.result()


async def test_everyone_loses_power_and_what_was_committed_is_there() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        end = await trio.commit(leader, b"kept", b"kept too")
        epoch = leader.node.epoch
        for replica in trio.all:
            await replica.crash()
        # Any majority of the disks has it; and only who has it can be elected.
        furthest = max(trio.all, key=lambda each: each.log.end)
        for replica in trio.all:
            replica.start(stands=replica is furthest)
        leader = await trio.leader()
        await trio.everywhere(Offset(end + 1))
        assert leader.node.epoch > epoch
        assert [each.committed() for each in trio.all] == [[b"kept", b"kept too"]] * 3


async def test_a_leader_that_restarts_never_leads_the_same_epoch_again() -> None:
    """Any replica may lead next: a follower that hears of a restarted leader may stand first."""
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.until(lambda: leader.log.durable == 1)
        epoch = leader.node.epoch
        await leader.crash()
        leader.start(stands=True)
        assert leader.quorum.leader is None
        next_leader = await trio.leader()
        assert next_leader.diary.leads is not None
        assert next_leader.diary.leads > epoch
