"""Leadership transfer: requests meanwhile, the answers, and the next leader."""

import asyncio

from quorum.core.messages import ChangeResponse, Error, TransferRequest
from quorum.core.vocabulary import Offset, ReplicaId
from tests.quorum.driver.replicas import NOBODY, PATIENT, Replica, Trio, vote


def transfer(leader: Replica, to: int | None) -> "asyncio.Task[ChangeResponse]":
    wanted = None if to is None else ReplicaId(to)
    return asyncio.get_running_loop().create_task(leader.quorum.change(TransferRequest(wanted)))


async def on_the_way(trio: Trio) -> "tuple[Replica, asyncio.Task[ChangeResponse]]":
    """A leader that waits for voter 2, whose disk takes its time, and which wants to lead."""
    leader = await trio.leader()
    await trio.everywhere(Offset(1))
    trio[2].log_gate.close()
    await trio.commit(leader, b"x")
    asking = transfer(leader, 2)
    await trio.until(lambda: leader.quorum.node.successor == 2)
    return leader, asking


async def test_the_lead_goes_to_the_voter_that_is_named_as_soon_as_it_has_everything() -> None:
    async with Trio() as trio:
        leader, asking = await on_the_way(trio)
        joined = transfer(leader, None)
        assert not leader.quorum.replica.accepts(1)
        other = await transfer(leader, 3)
        assert (other.error, leader.leads) == (Error.INVALID_REQUEST, True)
        trio[2].log_gate.open()
        for each in (await asking, await joined):
            assert (each.error, each.epoch, each.successor) == (Error.NONE, 1, 2)
        # Time-outs are far longer than this test has patience.
        assert await trio.leader() is trio[2]
        await trio.commit(trio[2], b"y")
        assert trio[2].committed() == [b"x", b"y"]
        assert leader.diary.told.count("stop leading epoch 1") == 1


async def test_all_proposals_are_committed_before_a_transfer() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        leader.log_gate.close()
        trio[3].log_gate.close()
        leader.quorum.replica.propose([b"x"])
        asking = transfer(leader, 2)
        await trio.until(lambda: trio[2].log.durable == 2)
        # Voter 2 has it all. But nobody else does, so that the proposer has no answer yet.
        for _ in range(20):
            await trio[2].disk.drain()
        assert leader.leads
        leader.log_gate.open()
        assert (await asking).error is Error.NONE
        told = leader.diary.told
        assert told.index("commit 2") < told.index("stop leading epoch 1")
        trio[3].log_gate.open()
        assert await trio.leader() is trio[2]


async def test_a_leader_whose_successor_takes_too_long_says_so_and_leads_on() -> None:
    async with Trio() as trio:
        leader, asking = await on_the_way(trio)
        leader.skip(PATIENT.election_timeout_ms)
        response = await asking
        assert response.error is Error.ELIGIBLE_LEADERS_NOT_AVAILABLE
        assert "voter 2 has the log up to offset 1 of 2 after 10000 ms" in response.text
        assert leader.quorum.node.successor is None
        await trio.commit(leader, b"y")
        assert leader.committed() == [b"x", b"y"]
        trio[2].log_gate.open()


async def test_a_leader_deposed_during_a_transfer_answers_its_callers() -> None:
    async with Trio() as trio:
        leader, asking = await on_the_way(trio)
        leader.quorum.replica.asked(NOBODY, vote(candidate=3, epoch=7))
        response = await asking
        assert response.error is Error.FENCED_LEADER_EPOCH
        assert "lost the lead before it could hand it over" in response.text
        trio[2].log_gate.open()


async def test_a_replica_that_does_not_lead_refuses_a_transfer() -> None:
    async with Trio() as trio:
        leader = await trio.leader()
        await trio.everywhere(Offset(1))
        response = await transfer(trio[2], 3)
        assert (response.error, response.leader) == (Error.NOT_LEADER_OR_FOLLOWER, leader.me)
