"""Gossip over sockets: the answers of real nodes, and what an asking node learns."""

import logging
import random
from pathlib import Path

import pytest

from quorum.clocks import monotonic_ms
from quorum.core.vocabulary import ReplicaId
from quorum.discovery import discover_brokers as wire
from quorum.discovery.gossip import Advertisement, DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum.log.meta_properties import BOOT_FILE_NAME
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.protocol.raft_types import Refusal
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.inbound import InboundRequest
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import CLUSTER_ID, Node, a_controller, controllers

OTHER_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


async def ask(
    address: Address, advertisement: Advertisement | None, cluster_id: str | None = CLUSTER_ID
) -> DiscoverBrokersResponse | Refusal:
    """One exchange with the node that listens there."""
    sweeper = Sweeper(monotonic_ms)
    channel = Channel(lambda: address, client_id=None, sweeper=sweeper, rng=random.Random(1))
    request = DiscoverBrokersRequest(cluster_id=cluster_id, advertisement=advertisement)
    try:
        reply = await channel.call(
            ApiKey.DISCOVER_BROKERS,
            wire.write_request(request),
            timeout_ms=round(PATIENCE_SECONDS * 1_000),
            version=0,
        )
        return wire.read_response(reply.body)
    finally:
        await channel.close()
        sweeper.close()


def visitor(port: int, boot: int = 1) -> Advertisement:
    return Advertisement(id=ReplicaId(7), boot_timestamp=boot, host="127.0.0.1", port=port)


async def test_a_client_is_told_where_everyone_is_and_who_leads(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        answer = await ask(node.address, None, cluster_id=None)
        assert isinstance(answer, DiscoverBrokersResponse)
        assert (answer.cluster_id, answer.leader, answer.is_founded) == (CLUSTER_ID, 1, True)
        (own,) = answer.brokers
        assert (own.id, own.address) == (1, node.address)
        assert own.directory_id == node.opened.directory_id


async def test_a_node_that_asks_is_known_from_then_on(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await ask(node.address, visitor(1234, boot=2))
        await ask(node.address, visitor(1111, boot=1))
        assert node.opened.addresses.address_of(ReplicaId(7)) == ("127.0.0.1", 1234)


async def test_nodes_discover_each_other_without_a_leader(tmp_path: Path) -> None:
    """Two of five voters: nobody is elected, and still all that is known is told."""
    async with controllers(tmp_path, 1, 2, voters=(1, 2, 3, 4, 5)) as nodes:
        await ask(nodes[1].address, visitor(1234))
        await until_located(nodes[2], 7)
        assert nodes[2].opened.quorum.leader is None


async def until_located(node: Node, replica: int) -> None:
    while node.opened.addresses.gossip.of(ReplicaId(replica)) is None:
        await node.opened.quorum.leader_changed(within_seconds=0.01)


async def test_a_node_of_kafka_which_knows_no_discovery_is_no_reason_to_warn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our nodes ask every controller of a mixed quorum, again and again."""
    caplog.set_level(logging.INFO, "quorum")
    offered: dict[int, VersionRange] = {ApiKey.API_VERSIONS: SPOKEN[ApiKey.API_VERSIONS]}

    def answer(request: InboundRequest) -> None:
        request.respond(write_offer(request.api_version, offered))

    kafkas = Server(answer, offered=offered, name="kafka", clock_ms=monotonic_ms)
    where = Address("127.0.0.1", await kafkas.listen("127.0.0.1", 0))
    # Without a majority it searches, and so asks everyone soon.
    async with controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes:
        await ask(nodes[1].address, visitor(where.port))
        while not (found := [each for each in caplog.records if str(where) in each.message]):
            await nodes[1].opened.quorum.leader_changed(within_seconds=0.01)
    await kafkas.close(within_ms=200)
    assert [each.levelname for each in found] == ["INFO"]
    assert "does not know DiscoverBrokers" in found[0].message


async def test_a_foreign_cluster_is_refused_with_words_and_nothing_is_learned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_controller(tmp_path) as node:
        answer = await ask(node.address, visitor(1234), cluster_id=OTHER_CLUSTER)
        assert isinstance(answer, Refusal)
        assert answer.code == 104
        assert f"the sender is of cluster {OTHER_CLUSTER}" in answer.reason
        assert node.opened.addresses.address_of(ReplicaId(7)) is None
        assert any(OTHER_CLUSTER in each.message for each in caplog.records)


async def test_a_node_that_is_taken_for_another_raises_its_boot_timestamp_durably(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node:
        me = node.opened.addresses.gossip.me
        assert me is not None
        boot = me.boot_timestamp + 1_000
        rival = Advertisement(id=ReplicaId(1), boot_timestamp=boot, host="127.0.0.1", port=666)
        await ask(node.address, rival)
        while node.opened.addresses.gossip.me == me:
            await node.opened.quorum.leader_changed(within_seconds=0.01)
        assert node.opened.addresses.address_of(ReplicaId(1)) == node.address
        text = (tmp_path / "node-1" / BOOT_FILE_NAME).read_text()
        assert f"boot.timestamp={boot + 1}\n" in text


async def test_a_request_that_cannot_be_true_is_refused(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        answer = await ask(node.address, visitor(0))
        assert isinstance(answer, Refusal)
        assert "ports are 1 to 65535" in answer.reason
        answer = await ask(node.address, visitor(1234, boot=1 << 62))
        assert isinstance(answer, Refusal)
        assert f"node 7 has boot timestamp {1 << 62}, the time here is" in answer.reason
