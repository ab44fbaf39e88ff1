"""AlterQuorum and KIP-853's requests over the Kafka protocol of real controllers."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from admin.client.admin_client import AdminClient
from admin.faults import Refused
from controller.quorum_description import QuorumDescription
from quorum.core.messages import FetchRequest
from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from quorum.protocol.apis import ApiKey
from quorum.protocol.raft_messages import write_request
from quorum.records.control import ControlType, control_type, decode_voters
from quorum.records.decode import decode
from statemachine.commands import Done
from statemachine.limits import METADATA_VERSION_MAX
from tests.controller.apis.samples import OBSERVER, RAFT, controller_registration
from tests.controller.controller_commands import asked
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import (
    CLUSTER_ID,
    Node,
    a_controller,
    active,
    controllers,
)
from tests.support.kafka_client import Form, KafkaClient, kafka_client


def key(node: Node) -> ReplicaKey:
    return node.opened.quorum.node.me


def directory(node: Node) -> str:
    """As `describe` shows it, and the options of the commands take it."""
    return uuid_to_text(key(node).directory_id)


def by_id(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(ReplicaId(each)) for each in ids)


def client_of(*nodes: Node) -> AdminClient:
    return AdminClient([each.address for each in nodes], is_controller=True)


async def until(
    nodes: Collection[Node], holds: Callable[[QuorumDescription], bool]
) -> QuorumDescription:
    """The quorum as soon as `holds`; every look is an answer of a leader."""
    async with asyncio.timeout(PATIENCE_SECONDS), client_of(*nodes) as client:
        while True:
            found = await client.describe_quorum()
            if holds(found):
                return found


def votes(*ids: int) -> Callable[[QuorumDescription], bool]:
    """True if these vote, by a committed record, and it stays so."""
    return lambda found: (
        sorted(each.id for each in found.voters) == list(ids)
        and found.target_voters is None
        and found.waits_for is None
    )


async def test_a_follower_names_the_voters_with_the_directories_in_its_log(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        wanted = {each: node.opened.directory_id for each, node in nodes.items()}
        async with asyncio.timeout(PATIENCE_SECONDS), client_of(follower) as client:
            # The first leader records the others as soon as they have fetched.
            while True:
                found = await client.describe_quorum(stale=True)
                if {each.id: each.directory_id for each in found.voters} == wanted:
                    break


async def test_one_command_replaces_every_voter(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3, observers=(4, 5, 6), kraft_version=1) as nodes:
        await active(nodes.values())
        async with client_of(nodes[2]) as client:
            await client.alter_voters(by_id(4, 5, 6))
        voting = votes(4, 5, 6)
        found = await until(
            nodes.values(), lambda found: voting(found) and found.leader_id in (4, 5, 6)
        )
        directories = {each.id: each.directory_id for each in found.voters}
        assert directories == {each: key(nodes[each]).directory_id for each in (4, 5, 6)}
        listeners = {each: found.addresses[each] for each in (4, 5, 6)}
        assert listeners == {each: (("CONTROLLER", nodes[each].address),) for each in (4, 5, 6)}
        observers = {each.id for each in found.observers}
        assert observers <= {1, 2, 3}
        leader = await active(nodes.values())
        await leader.opened.quorum.stop()
        assert (await until([nodes[each] for each in (4, 5, 6)], votes(4, 5, 6))).leader_id
    log = SegmentedLog(tmp_path / "node-4" / LOG_FOLDER)
    try:
        records = list(decode(log.read(log.start, log.end.offset, 1 << 30)))
    finally:
        log.close()
    assigned = [
        decode_voters(each.value)
        for each in records
        if each.control and control_type(each.key) == ControlType.KRAFT_VOTERS
    ]
    assert assigned[0].current.sorted() == (1, 2, 3)
    for before, after in pairwise(assigned):
        assert len(before.current.ids ^ after.current.ids) <= 1
    assert assigned[-1].current.sorted() == (4, 5, 6)
    assert assigned[-1].target is None


async def test_a_waiting_change_of_voters_names_its_reason_and_can_be_cancelled(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, observers=(2,), kraft_version=1) as nodes:
        await active(nodes.values())
        async with client_of(nodes[1]) as client:
            await client.alter_voters(by_id(1, 7))
            found = await until([nodes[1]], lambda found: found.waits_for is not None)
            assert found.target_voters == (1, 7)
            assert found.waits_for == "7: they do not fetch from the leader"
            await client.alter_voters(None)
            assert (await client.describe_quorum()).target_voters is None
            await client.alter_voters(by_id(1, 2))
        await until([nodes[1]], votes(1, 2))


async def test_a_target_that_says_nowhere_else_where_it_listens_is_found_by_its_registration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's controllers do not gossip, but register (KIP-919).

    One that does not support a level in force does not become a voter, although it was named first.
    """
    form, register = Form(ApiKey.FETCH, 17), Form(ApiKey.CONTROLLER_REGISTRATION, 0)
    async with (
        a_controller(tmp_path, kraft_version=1) as node,
        kafka_client(node.address) as replica,
        client_of(node) as client,
    ):
        quorum, sample = node.opened.quorum, RAFT[ApiKey.FETCH]
        assert isinstance(sample, FetchRequest)

        async def fetch() -> None:
            request = replace(sample, epoch=quorum.node.epoch, log_end=quorum.node.log_end)
            body = write_request(request, form.version, to=quorum.node.me, cluster_id=CLUSTER_ID)
            await replica.send_bytes(form, body)

        await fetch()
        await client.alter_voters(by_id(1, OBSERVER.id))
        found = await until([node], lambda found: found.waits_for is not None)
        assert found.waits_for == f"{OBSERVER.id}: it is not known where they listen"
        older = METADATA_VERSION_MAX - 1
        payload = controller_registration(register, controller_id=OBSERVER.id, highest=older)
        assert (await replica.send(register, payload)).error_code.value == 0
        await fetch()
        assert f"{METADATA_VERSION_MAX} is in force, and controller {OBSERVER.id}" in caplog.text
        payload = controller_registration(register, controller_id=OBSERVER.id)
        assert OBSERVER.id not in quorum.node.voters
        assert (await replica.send(register, payload)).error_code.value == 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (voter := quorum.node.voters.get(OBSERVER.id)) is None:
                await fetch()
        assert voter.endpoints == (Endpoint("CONTROLLER", "127.0.0.1", 9093),)


async def test_one_voter_is_added_and_removed_as_kafkas_tools_do(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3, observers=(4,), kraft_version=1) as nodes:
        leader = await active(nodes.values())
        assert await asked(leader.controller, nodes[4].controller.registration) == Done()
        async with client_of(nodes[3]) as client:
            await client.add_voter(key(nodes[4]), [("CONTROLLER", nodes[4].address)])
            await until(nodes.values(), votes(1, 2, 3, 4))
            await client.remove_voter(key(nodes[1]))
            await until(nodes.values(), votes(2, 3, 4))
            with pytest.raises(Refused, match=f"1:{directory(nodes[1])} is no voter; .* "):
                await client.remove_voter(key(nodes[1]))
            with pytest.raises(Refused, match=f"already, with directory {directory(nodes[4])}: "):
                await client.add_voter(key(nodes[4]), [("CONTROLLER", nodes[4].address)])


async def update(client: KafkaClient, voter: ReplicaKey, epoch: int, port: int) -> int:
    """UpdateRaftVoter; the error code."""
    form = Form(ApiKey.UPDATE_RAFT_VOTER, 0)
    payload = form.request(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=epoch,
        voter_id=voter.id,
        voter_directory_id=voter.directory_id,
        listeners=(form.part("Listener", name="OTHER", host="127.0.0.1", port=port),),
        k_raft_version_feature=form.part(
            "KRaftVersionFeature", min_supported_version=0, max_supported_version=1
        ),
    )
    return int((await client.send(form, payload)).error_code.value)


def listeners_of(node: Node, voter: int) -> list[tuple[str, int]]:
    found = node.opened.quorum.node.voters.get(ReplicaId(voter))
    assert found is not None
    return [(each.name, each.port) for each in found.endpoints]


async def test_a_voter_says_where_it_listens_now(tmp_path: Path) -> None:
    """KIP-853's UpdateRaftVoter, as a controller of Kafka's sends it, which does not gossip."""
    async with controllers(tmp_path, 1, 2, 3, voters=(1, 2, 3, 4), kraft_version=1) as nodes:
        node = await active(nodes.values())
        epoch = node.opened.quorum.node.epoch
        silent = ReplicaKey(ReplicaId(4), UUID(int=4 << 100))
        async with kafka_client(node.address) as client:
            assert await update(client, silent, epoch, 9_999) == 0
            assert listeners_of(node, 4) == [("OTHER", 9_999)]
            assert await update(client, silent, 0, 9_998) == 74
            # The next record of the voters is made of what is known of them all.
            other = next(each for each in nodes.values() if each is not node)
            async with client_of(node) as admin:
                await admin.remove_voter(key(other))
            await until([node], votes(*sorted({1, 2, 3, 4} - {other.node_id})))
            assert listeners_of(node, 4) == [("OTHER", 9_999)]


async def test_the_own_announcement_of_a_node_precedes_an_update_in_its_name(
    tmp_path: Path,
) -> None:
    """An UpdateRaftVoter in its name is recorded, and corrected again."""
    async with (
        controllers(tmp_path, 1, kraft_version=1) as nodes,
        kafka_client(nodes[1].address) as client,
    ):
        node = await active(nodes.values())
        assert await update(client, key(node), node.opened.quorum.node.epoch, 9_999) == 0
        own = (("CONTROLLER", node.address),)
        await until([node], lambda found: found.addresses[1] == own)


async def test_a_cluster_whose_log_names_nobody_says_why_its_voters_stay(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, kraft_version=0) as nodes:
        await active(nodes.values())
        async with client_of(nodes[1]) as client:
            with pytest.raises(Refused, match=r"kraft\.version 0"):
                await client.alter_voters(by_id(1, 2))


async def test_another_cluster_is_refused(tmp_path: Path) -> None:
    async with (
        controllers(tmp_path, 1, kraft_version=1) as nodes,
        kafka_client(nodes[1].address) as client,
    ):
        await active(nodes.values())
        response = await client.ask(
            ApiKey.ALTER_QUORUM,
            0,
            cluster_id="another",
            timeout=timedelta(seconds=1),
            target_voters=None,
        )
        assert (response.error_code, response.error_message) == (
            104,
            f"this is cluster {CLUSTER_ID}, not another",
        )


def test_a_directory_that_is_not_named_is_any() -> None:
    assert by_id(1)[0].directory_id == NO_DIRECTORY
