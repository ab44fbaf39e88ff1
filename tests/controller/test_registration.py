"""Every controller is registered in the log: the active one by itself, others on request."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from controller.registration import ControllerRegistrationManager, registration_fields
from quorum.core.vocabulary import ReplicaId
from quorum.discovery.address_book import AddressBook
from quorum.discovery.gossip import Gossip
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_request, request_body
from quorum.transport.controller_channel import NodeToControllerChannelManager
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import NOBODY, Node, active, controllers, registration


@asynccontextmanager
async def registering(
    nodes: Collection[Node], book: AddressBook | None = None
) -> AsyncIterator[None]:
    """The registrars of these nodes run meanwhile."""
    addresses = {ReplicaId(each.node_id): each.address for each in nodes}
    known = book or AddressBook(Gossip(None), configured=addresses)
    channels = [_channel(each, known) for each in nodes]
    tasks = [
        asyncio.get_running_loop().create_task(
            ControllerRegistrationManager(each.controller, each.opened.quorum, channel).run()
        )
        for each, channel in zip(nodes, channels, strict=True)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for channel in channels:
            await channel.close()


def _channel(node: Node, book: AddressBook) -> NodeToControllerChannelManager:
    """A channel of this node to the leader that it knows, at the address in this book."""

    def leader_address() -> tuple[str, int] | None:
        leader = node.opened.quorum.leader
        return None if leader is None else book.address_of(leader)

    return NodeToControllerChannelManager(
        leader_address,
        client_id="registrar",
        sweeper=node.opened.sweeper,
        rng=random.Random(node.node_id),
    )


async def until_known(nodes: Collection[Node], incarnations: Mapping[int, UUID]) -> None:
    """Every node knows every controller, in these incarnations."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for node in nodes:
            while known(node) != incarnations:
                await node.opened.quorum.leader_changed(within_seconds=0.01)


def known(node: Node) -> dict[int, UUID]:
    """The incarnation of every controller that is registered in the node's image."""
    found = node.controller.image.controllers
    return {each: found[each].incarnation_id for each in sorted(found)}


def incarnations(nodes: Collection[Node]) -> dict[int, UUID]:
    """The present ones."""
    return {each.node_id: each.controller.registration.incarnation_id for each in nodes}


async def test_all_controllers_are_registered_with_what_they_say(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        await active(nodes.values())
        async with registering(nodes.values()):
            await until_known(nodes.values(), incarnations(nodes.values()))
        for node in nodes.values():
            said = node.controller.image.controllers[node.node_id]
            assert said.endpoints[0].port == node.address.port
            assert said.features == node.controller.registration.features


async def test_a_new_incarnation_registers_once_more(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        other = next(each for each in nodes.values() if each is not leader)
        async with registering(nodes.values()):
            await until_known(nodes.values(), incarnations(nodes.values()))
        again = msgspec.structs.replace(other.controller.registration, incarnation_id=UUID(int=7))
        other.controller.registration = again
        book = AddressBook(Gossip(None), configured={ReplicaId(leader.node_id): leader.address})
        async with registering([other], book):
            await until_known(nodes.values(), incarnations(nodes.values()))


async def test_when_the_active_one_goes_the_next_one_is_asked(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        first = await active(nodes.values())
        await first.stop()
        rest = [each for each in nodes.values() if each is not first]
        second = await active(rest)
        async with registering(rest):
            await until_known(rest, incarnations([first, *rest]))
        assert second is not first


async def test_while_nobody_answers_it_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "controller")
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        other = next(each for each in nodes.values() if each is not leader)
        book = AddressBook(Gossip(None), configured={ReplicaId(leader.node_id): NOBODY})
        async with registering([other], book):
            while not told(caplog):
                await other.opened.quorum.leader_changed(within_seconds=0.01)
            book.hint(ReplicaId(leader.node_id), leader.address)
            await until_known([leader], incarnations([leader, other]))
    (line,) = told(caplog)
    assert line.startswith(f"node {leader.node_id} has not registered this controller; retrying: ")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings about registrations so far."""
    lines = [each.getMessage() for each in caplog.records]
    return [each for each in lines if "has not registered this controller" in each]


def test_the_request_says_what_the_controller_says_of_itself() -> None:
    """KIP-919."""
    said = registration(7, 9093)
    body = request_body(ApiKey.CONTROLLER_REGISTRATION, 0, **registration_fields(said))
    request = decode_request(ApiKey.CONTROLLER_REGISTRATION, 0, body)
    assert (request.controller_id, request.incarnation_id) == (7, said.incarnation_id)
    assert [(each.name, each.host, each.port) for each in request.listeners] == [
        ("CONTROLLER", "127.0.0.1", 9093)
    ]
    assert {each.name for each in request.features} >= {"metadata.version", "kraft.version"}
    assert not request.zk_migration_ready
