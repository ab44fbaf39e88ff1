"""TransferLeadership over the Kafka protocol of real controllers."""

from collections.abc import Collection
from pathlib import Path

import pytest

from admin.capabilities.quorum import TransferLead, quorum_of
from admin.faults import Refused
from controller.ports import Unavailable
from quorum.core.messages import TransferRequest
from tests.controller.apis.test_kafka_voters import client_of, until
from tests.controller.controller_commands import asked, busy, join, topic
from tests.support.controllers import (
    Node,
    a_controller,
    active,
    controllers,
)


async def at_rest(nodes: Collection[Node]) -> Node:
    """The active controller, once every other voter has what it has."""
    leader = await active(nodes)
    await until([leader], lambda found: quorum_of(found).max_follower_lag == 0)
    return leader


async def test_the_lead_goes_to_whom_is_named_and_the_answer_tells_the_epoch(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        epoch = leader.opened.quorum.node.epoch
        wanted, other = (each for each in nodes.values() if each is not leader)
        # Any controller may be asked: the active one answers, and goes on to when it is not.
        async with client_of(other) as client:
            found = await client.ask(TransferLead(to=wanted.node_id))
        assert (found.leader_id, found.leader_epoch) == (wanted.node_id, epoch + 1)
        assert found.duration_ms >= 0
        assert await active(nodes.values()) is wanted


async def test_without_a_name_another_one_leads(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        async with client_of(leader) as client:
            found = await client.ask(TransferLead())
        assert found.leader_id in set(nodes) - {leader.node_id}


async def test_an_impossible_transfer_is_refused_in_one_sentence(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, voters=(3,), observers=(4,)) as nodes:
        await active(nodes.values())
        async with client_of(nodes[4]) as client:
            with pytest.raises(Refused, match=r"to 4: 4 is no voter; voters are 1, 2, 3 \(VOTER_N"):
                await client.ask(TransferLead(to=4))
            with pytest.raises(Refused, match=r"3 does not fetch from the leader; . could lead"):
                await client.ask(TransferLead(to=3))


async def test_the_transfer_to_the_leader_is_done_already(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2) as nodes:
        leader = await at_rest(nodes.values())
        epoch = leader.opened.quorum.node.epoch
        for node in nodes.values():
            async with client_of(node) as client:
                found = await client.ask(TransferLead(to=leader.node_id))
            assert found.led_already
            assert (found.leader_id, found.leader_epoch) == (leader.node_id, epoch)


async def test_a_lone_controller_has_nobody_to_hand_over_to(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        with pytest.raises(Refused, match="no voter but 1 fetches"):
            await client.ask(TransferLead())


async def test_a_command_is_refused_while_the_lead_is_handed_over(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101)
        async with busy(leader.opened.disk):
            # It waits for the disk, and with it the transfer.
            first = asked(leader.controller, topic("first", 101))
            done: list[object] = []
            replica = leader.opened.quorum.replica
            replica.change(TransferRequest(None), done.append)
            # At once, for a moment later it may have taken too long.
            replica.turn()
            assert leader.opened.quorum.node.successor is not None
            second = asked(leader.controller, topic("second", 101))
            assert second.result() is Unavailable.HANDING_OVER
            assert not first.done()
            assert not done
