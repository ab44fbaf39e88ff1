"""Attacks of an unauthenticated client on running controllers, replayed over real sockets.

Three controllers whose log records the voters with their directories; the client knows ids, epochs
and addresses, but no directory.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from struct import Struct
from typing import Any
from uuid import UUID

from quorum.core.vocabulary import ReplicaId
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.headers import write_request_header
from quorum.protocol.raft_types import METADATA_TOPIC, METADATA_TOPIC_ID
from quorum.records.varint import uvarint
from tests.support.controllers import CLUSTER_ID, Node, active, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client

LENGTH = Struct(">i")
LEAP = 1 << 24
"""The most that a replica once believed of one message."""
NOBODY_AT = ("127.0.0.1", 1)


@asynccontextmanager
async def quorum(folder: Path) -> AsyncIterator[tuple[dict[int, Node], Node]]:
    """Three controllers with one leader, which has recorded the directories of all."""
    async with controllers(folder, 1, 2, 3, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        async with asyncio.timeout(30):
            while not all(_knows_all(each) for each in nodes.values()):
                await leader.opened.quorum.leader_changed(within_seconds=0.02)
        yield nodes, leader


def _knows_all(node: Node) -> bool:
    voters = node.opened.quorum.node.voters
    return len(voters) == 3 and all(each.directory_id_is_known for each in voters)


def epochs(nodes: Mapping[int, Node]) -> list[int]:
    return [each.opened.quorum.node.epoch for each in nodes.values()]


async def ask(client: KafkaClient, api_key: int, version: int, **values: Any) -> Any:
    """The one partition of the answer, or the answer itself if the whole is refused."""
    form = Form(api_key, version)
    body = codec.request_body(api_key, version, **values)
    answer = await client.send_bytes(form, body)
    topics = getattr(answer, "topics", None) or getattr(answer, "responses", None)
    return topics[0].partitions[0] if topics else answer


def election(**partition: Any) -> dict[str, Any]:
    found = {"partition_index": 0, "voter_directory_id": None, **partition}
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [found]}]}


async def test_votes_of_nobody_use_up_no_epochs(tmp_path: Path) -> None:
    """128 rounds of Vote v1, each 2^24 epochs on: every disk had the last epoch in 0.8 s."""
    async with quorum(tmp_path) as (nodes, leader):
        before = epochs(nodes)
        for node in nodes.values():
            async with kafka_client(node.address) as client:
                for round_ in range(128):
                    for cluster_id in (None, CLUSTER_ID):
                        await ask(
                            client,
                            ApiKey.VOTE,
                            1,
                            cluster_id=cluster_id,
                            voter_id=node.node_id,
                            **election(
                                replica_id=99,
                                replica_directory_id=UUID(int=99),
                                replica_epoch=min(before[0] + (round_ + 1) * LEAP, 2**31 - 1),
                                last_offset_epoch=0,
                                last_offset=1 << 40,
                            ),
                        )
        assert epochs(nodes) == before
        assert leader.controller.is_active


async def test_a_forged_leader_is_followed_by_nobody(tmp_path: Path) -> None:
    """BeginQuorumEpoch of a stranger and of a voter, and EndQuorumEpoch of the leader."""
    async with quorum(tmp_path) as (nodes, leader):
        before = epochs(nodes)
        for node in nodes.values():
            async with kafka_client(node.address) as client:
                for forged in (99, *nodes):
                    await ask(
                        client,
                        ApiKey.BEGIN_QUORUM_EPOCH,
                        1,
                        cluster_id=CLUSTER_ID,
                        voter_id=node.node_id,
                        leader_endpoints=(),
                        **election(leader_id=forged, leader_epoch=before[0] + 1),
                    )
                await ask(
                    client,
                    ApiKey.END_QUORUM_EPOCH,
                    1,
                    cluster_id=CLUSTER_ID,
                    leader_endpoints=(),
                    **election(
                        leader_id=leader.node_id,
                        leader_epoch=before[0],
                        preferred_candidates=[
                            {"candidate_id": each, "candidate_directory_id": None} for each in nodes
                        ],
                    ),
                )
        assert epochs(nodes) == before
        assert {each.opened.quorum.leader for each in nodes.values()} == {leader.node_id}
        assert leader.controller.is_active


async def test_a_fetch_in_the_name_of_a_voter_acknowledges_nothing(tmp_path: Path) -> None:
    """Topics were acknowledged that were gone after a fail-over."""
    async with quorum(tmp_path) as (nodes, leader):
        core = leader.opened.quorum.node
        async with kafka_client(leader.address) as client:
            for node_id in nodes:
                for directory in (None, UUID(int=99)):
                    await ask(
                        client,
                        ApiKey.FETCH,
                        17,
                        cluster_id=CLUSTER_ID,
                        replica_state={"replica_id": node_id, "replica_epoch": -1},
                        max_wait=timedelta(0),
                        min_bytes=0,
                        max_bytes=1,
                        forgotten_topics_data=(),
                        topics=[
                            {
                                "topic_id": METADATA_TOPIC_ID,
                                "partitions": [
                                    {
                                        "partition": 0,
                                        "current_leader_epoch": core.epoch,
                                        "fetch_offset": core.log_end.offset,
                                        "last_fetched_epoch": core.log_end.epoch,
                                        "log_start_offset": -1,
                                        "partition_max_bytes": 1,
                                        "replica_directory_id": directory,
                                    }
                                ],
                            }
                        ],
                    )
        strangers = [each for each in core.replicas() if each.voter is None]
        assert {each.replica.id for each in strangers} == {*nodes} - {leader.node_id}


async def test_gossip_of_a_stranger_moves_no_voter(tmp_path: Path) -> None:
    """Six DiscoverBrokers: each voter is where nobody listens, booted in a far future or now."""
    async with quorum(tmp_path) as (nodes, leader):
        places = {each: node.address for each, node in nodes.items()}
        for node in nodes.values():
            async with kafka_client(node.address) as client:
                for victim in set(nodes) - {node.node_id}:
                    me = nodes[victim].opened.addresses.gossip.me
                    assert me is not None
                    for boot in (1 << 62, me.boot_timestamp + 1):
                        await ask(
                            client,
                            ApiKey.DISCOVER_BROKERS,
                            0,
                            replica_id=victim,
                            boot_timestamp=boot,
                            host=NOBODY_AT[0],
                            port=NOBODY_AT[1],
                            cluster_id=CLUSTER_ID,
                            directory_id=me.directory_id,
                        )
            for each, place in places.items():
                assert node.opened.addresses.address_of(ReplicaId(each)) == tuple(place)
        # With the leader gone, the others find each other.
        await leader.stop()
        rest = [each for each in nodes.values() if each is not leader]
        assert (await active(rest)) is not leader


async def test_a_frame_of_16_mib_costs_nothing(tmp_path: Path) -> None:
    """8,000,000 empty names, and as many tagged fields in a header: 19 s and 1 GB each."""
    async with quorum(tmp_path) as (_, leader):
        loop = asyncio.get_running_loop()
        header = write_request_header(ApiKey.DESCRIBE_QUORUM, 0, 1, None)
        tags = uvarint(4_000_000) + b"\x00\x00" * 4_000_000
        frames = (
            write_request_header(ApiKey.METADATA, 1, 1, None)
            + LENGTH.pack(8_000_000)
            + bytes(15_900_000),
            header + uvarint(8_000_001) + b"\x01" * 8_000_000,
            header[:-1] + tags,
        )
        longest_seconds = 0.0
        for frame in frames:
            _, writer = await asyncio.open_connection(*leader.address)
            writer.write(LENGTH.pack(len(frame)) + frame)
            async with kafka_client(leader.address) as client:
                for _ in range(5):
                    began = loop.time()
                    await client.ask(ApiKey.API_VERSIONS, 0)
                    longest_seconds = max(longest_seconds, loop.time() - began)
            writer.transport.abort()
        assert longest_seconds < 5
        assert leader.listener.large_requests_bytes == 0
        assert leader.controller.is_active
