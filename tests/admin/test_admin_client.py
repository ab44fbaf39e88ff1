"""The admin client against nodes that elect, vanish, fall silent and refuse."""

import asyncio
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from admin.capabilities.brokers import CordonBrokers
from admin.capabilities.reassignments import AssignedPartition, BeginMove
from admin.client import elections, quotas, retrying_client, security
from admin.client.admin_client import AdminClient, Incompatible, Refused, Unreachable
from admin.client.channels import Channels, NoResponse
from admin.model import Assignment
from controller.move_requests import MoveOptions, OngoingReassignment
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.protocol.apis import SPOKEN, ApiKey
from quorum.protocol.extension import details_of
from quorum.protocol.refusals import build_refusal
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.outcomes import NOT_SENT, Cause, Failure, RequestFailed
from quorum.transport.security.credentials import ScramMechanism
from quorum.transport.security.protocols import PLAIN_CLIENT, UNPROTECTED
from statemachine.commands import ElectionType, UpgradeType
from statemachine.security.authorizer import (
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from statemachine.vocabulary import BROKER_RESOURCE
from tests.admin.scripted_node import (
    Asked,
    HangUp,
    Script,
    ScriptedNode,
    Silence,
    in_turn,
    listening,
)
from tests.quorum.transport.security.secured import (
    alice,
    sasl_client,
    sasl_listener,
    secured,
    server_tls,
    ssl_client,
    ssl_listener,
    trusting,
)
from tests.support.controllers import HOST
from tests.support.pem_authority import Authority

DIRECTORY = UUID("c5e6a618-197e-4118-9a62-0cd55a8c9d11")
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
NOT_CONTROLLER = 41
TOPIC_ALREADY_EXISTS = 36
ILLEGAL_SASL_STATE = 34
INVALID_REPLICATION_FACTOR = 38
NO_REASSIGNMENT_IN_PROGRESS = 85


def quorum(asked: Asked, error: int = 0) -> Any:
    replica = asked.part(
        "ReplicaState",
        replica_id=1,
        replica_directory_id=DIRECTORY,
        log_end_offset=7,
        last_fetch_timestamp=5,
        last_caught_up_timestamp=4,
    )
    partition = asked.part(
        "PartitionData",
        error=error,
        error_message="who knows" if error else None,
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        high_watermark=6,
        current_voters=(replica,),
        observers=(),
    )
    topic = asked.part("TopicData", topic_name="__cluster_metadata", partitions=(partition,))
    listener = asked.part("Listener", name="CONTROLLER", host="h", port=9093)
    node = asked.part("Node", node_id=1, listeners=(listener,))
    return asked.respond(0, error_message=None, topics=(topic,), nodes=(node,))


def cluster(*ids: int) -> Script:
    def script(asked: Asked) -> Any:
        brokers = tuple(
            asked.part("DescribeClusterBroker", broker_id=id, host="h", port=id, rack=None)
            for id in ids
        )
        return asked.respond(
            0, error_message=None, cluster_id="C", controller_id=1, brokers=brokers
        )

    return script


def metadata(asked: Asked) -> Any:
    brokers = tuple(
        asked.part("MetadataResponseBroker", node_id=id, host="h", port=id, rack="r")
        for id in (1, 101, 102)
    )
    partitions = tuple(
        asked.part(
            "MetadataResponsePartition",
            error=0,
            partition_index=number,
            leader_id=101,
            leader_epoch=2,
            replica_nodes=(101, 102),
            isr_nodes=(101,),
            offline_replicas=(),
        )
        for number in (1, 0)
    )
    topics = tuple(
        asked.part(
            "MetadataResponseTopic",
            error=0 if each.name == "orders" else 3,
            name=each.name,
            topic_id=DIRECTORY,
            partitions=partitions if each.name == "orders" else (),
        )
        for each in asked.message.topics or ()
    )
    return asked.respond(0, brokers=brokers, cluster_id="C", controller_id=1, topics=topics)


def created(error: int, message: str | None = None) -> Script:
    def script(asked: Asked) -> Any:
        topic = asked.part(
            "CreatableTopicResult",
            error=error,
            error_message=message,
            name="orders",
            topic_id=DIRECTORY,
            configs=(),
        )
        return asked.respond(topics=(topic,))

    return script


def altered(error: int) -> Script:
    def script(asked: Asked) -> Any:
        responses = tuple(
            asked.part(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=tuple(
                    asked.part(
                        "ReassignablePartitionResponse",
                        error=error,
                        error_message=None,
                        partition_index=each.partition_index,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in asked.message.topics
        )
        return asked.respond(0, error_message=None, responses=responses)

    return script


def refused_port() -> Address:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return Address("127.0.0.1", holder.getsockname()[1])


def client(*addresses: Address, timeout_ms: int = 5_000) -> AdminClient:
    return AdminClient(addresses, is_controller=True, timeout_ms=timeout_ms)


async def test_the_quorum_is_described_with_the_name_of_its_cluster() -> None:
    node = ScriptedNode({ApiKey.DESCRIBE_QUORUM: quorum, ApiKey.DESCRIBE_CLUSTER: cluster(1)})
    async with listening(node) as addresses, client(*addresses) as admin:
        found = await admin.describe_quorum()
    assert (found.cluster_id, found.leader_id, found.leader_epoch) == ("C", 1, 3)
    assert found.leader is not None
    assert found.leader.directory_id == DIRECTORY
    assert (found.leader.last_fetch_ms, found.leader.last_caught_up_ms) == (5, 4)
    assert found.addresses == {1: (("CONTROLLER", Address("h", 9093)),)}


@pytest.mark.parametrize("error", [6, 7, NOT_CONTROLLER])
async def test_during_an_election_the_next_node_is_asked(error: int) -> None:
    first = ScriptedNode({ApiKey.DESCRIBE_QUORUM: lambda asked: quorum(asked, error)})
    second = ScriptedNode({ApiKey.DESCRIBE_QUORUM: quorum, ApiKey.DESCRIBE_CLUSTER: cluster(1)})
    async with listening(first, second) as addresses, client(*addresses) as admin:
        assert (await admin.describe_quorum()).leader_id == 1
    assert (len(first.asked), len(second.asked)) == (1, 2)


async def test_a_controller_of_kafka_that_does_not_lead_is_asked_for_the_leader() -> None:
    """Kafka's controllers forward nothing, and their error does not name the leader."""
    leader = ScriptedNode({ApiKey.DESCRIBE_QUORUM: quorum, ApiKey.DESCRIBE_CLUSTER: cluster(1)})
    async with listening(leader) as (where,):

        def led(asked: Asked) -> Any:
            assert asked.message.endpoint_type == 2
            node = asked.part(
                "DescribeClusterBroker", broker_id=1, host=where.host, port=where.port, rack=None
            )
            return asked.respond(
                0, error_message=None, cluster_id="C", controller_id=1, brokers=(node,)
            )

        follower = ScriptedNode(
            {
                ApiKey.DESCRIBE_QUORUM: lambda asked: quorum(asked, NOT_LEADER_OR_FOLLOWER),
                ApiKey.DESCRIBE_CLUSTER: led,
            }
        )
        async with listening(follower) as addresses, client(*addresses) as admin:
            assert (await admin.describe_quorum()).leader_id == 1
            assert (await admin.describe_quorum()).leader_id == 1
    asked = [each.api_key for each in follower.asked]
    assert asked == [ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_CLUSTER], "once is enough"


async def test_a_node_that_is_gone_is_passed_over() -> None:
    node = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: cluster(1, 2)})
    async with listening(node) as addresses, client(refused_port(), *addresses) as admin:
        assert [each.id for each in (await admin.describe_cluster()).nodes] == [1, 2]


async def test_a_timeout_names_the_nodes_asked_and_their_answers() -> None:
    node = ScriptedNode({ApiKey.DESCRIBE_QUORUM: lambda asked: quorum(asked, NOT_CONTROLLER)})
    async with listening(node) as (address,), client(address, timeout_ms=1_000) as admin:
        with pytest.raises(Unreachable) as raised:
            await admin.describe_quorum()
    assert str(raised.value) == (
        "the quorum cannot be described: it was not answered within 1000 ms "
        f"({address}: who knows (NOT_CONTROLLER))"
    )
    assert len(node.asked) > 1


def removed(message: str) -> Script:
    return lambda asked: asked.respond(7, error_message=message)


async def test_a_change_that_its_leader_has_given_up_is_not_done() -> None:
    """The outcome of any other request that timed out there is unknown."""
    voter = ReplicaKey(ReplicaId(2), DIRECTORY)
    for message, may_be_done, said in (
        ("not done in time: 3: they do not fetch", False, "it was not done within 1000 ms ("),
        ("this node is no longer", True, "Whether it was done, or still will be, is unknown"),
    ):
        node = ScriptedNode({ApiKey.REMOVE_RAFT_VOTER: removed(message)})
        async with listening(node) as (address,), client(address, timeout_ms=1_000) as admin:
            with pytest.raises(Unreachable, match=re.escape(said)) as raised:
                await admin.remove_voter(voter)
        assert raised.value.may_be_done is may_be_done
        assert message in str(raised.value)


CANCEL = Assignment(topic="orders", partition=0, replicas=None)
ACL = security.Acl(
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    pattern_type=PatternType.LITERAL,
    principal="User:ann",
    host="*",
    operation=Operation.READ,
    permission_type=PermissionType.ALLOW,
)
CHANGES: dict[ApiKey, tuple[str, Callable[[AdminClient], Awaitable[Any]]]] = {
    ApiKey.CREATE_TOPICS: ("topics describe a", lambda admin: admin.create_topic("a")),
    ApiKey.CREATE_PARTITIONS: ("topics describe a", lambda admin: admin.create_partitions("a", 2)),
    ApiKey.DELETE_TOPICS: ("topics describe a", lambda admin: admin.delete_topic("a")),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        "configs describe --broker-default",
        lambda admin: admin.alter_configs(BROKER_RESOURCE, "", {"a": "b"}),
    ),
    ApiKey.UPDATE_FEATURES: (
        "features describe",
        lambda admin: admin.update_features({"a": 1}, upgrade_type=UpgradeType.UPGRADE),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        "users list",
        lambda admin: admin.carry_out(security.remove_user("ann", ScramMechanism.SHA_256)),
    ),
    ApiKey.CREATE_ACLS: (
        "acls list",
        lambda admin: admin.carry_out(security.create_acls([ACL])),
    ),
    ApiKey.DELETE_ACLS: (
        "acls list",
        lambda admin: admin.carry_out(security.delete_acls(security.AclFilter())),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        "quotas describe",
        lambda admin: admin.carry_out(
            quotas.alter_quotas({"user": "ann"}, {"a": 1.0}, (), dry_run=False)
        ),
    ),
    ApiKey.ELECT_LEADERS: (
        "topics describe",
        lambda admin: admin.carry_out(elections.elect_leaders(ElectionType.PREFERRED, None)),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        "moves list",
        lambda admin: admin.begin_move(BeginMove(assignments=[CANCEL])),
    ),
    ApiKey.ALTER_QUORUM: (
        "metadata-quorum describe --status",
        lambda admin: admin.alter_voters(None),
    ),
    ApiKey.CAPABILITY: (
        "brokers list",
        lambda admin: admin.ask(CordonBrokers(broker_ids=(101,))),
    ),
}


def leaderless(asked: Asked) -> Any:
    """The answer to DiscoverBrokers of a node that knows no leader."""
    return asked.respond(
        0, error_message=None, cluster_id="C", leader_id=-1, leader_epoch=4, brokers=()
    )


@pytest.mark.parametrize("key", CHANGES)
async def test_a_change_whose_answer_was_lost_has_an_unknown_outcome(key: ApiKey) -> None:
    """A leader without a majority has appended it; a later leader may commit it, or not."""

    def lost(asked: Asked) -> Any:
        return build_refusal(key, asked.version, asked.message, REQUEST_TIMED_OUT, "no more")

    command, change = CHANGES[key]
    node = ScriptedNode({key: lost, ApiKey.DISCOVER_BROKERS: leaderless})
    async with listening(node) as (address,), client(address, timeout_ms=200) as admin:
        with pytest.raises(Unreachable) as raised:
            await change(admin)
    words = "Whether it was done, or still will be, is unknown: see metaquorum"
    assert str(raised.value).endswith(f". {words} {command}")
    assert raised.value.may_be_done


async def test_a_refusal_after_a_lost_answer_leaves_it_open_what_the_first_attempt_did() -> None:
    script = in_turn(HangUp(), created(INVALID_REPLICATION_FACTOR, "too few brokers"))
    node = ScriptedNode({ApiKey.CREATE_TOPICS: script})
    async with listening(node) as (address,), client(address) as admin:
        with pytest.raises(Refused) as raised:
            await admin.create_topic("orders")
    assert str(raised.value) == (
        "topic orders cannot be created: too few brokers (INVALID_REPLICATION_FACTOR). An earlier "
        "attempt was not answered. Whether it was done, or still will be, is unknown: see "
        "metaquorum topics describe orders"
    )


async def test_a_silent_node_is_given_up() -> None:
    def silent(asked: Asked) -> Any:
        raise Silence

    node = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: silent})
    async with listening(node) as (address,), client(address, timeout_ms=100) as admin:
        with pytest.raises(Unreachable, match=r"no answer from .* within 100 ms"):
            await admin.describe_cluster()


async def test_a_silent_node_does_not_use_up_the_time_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(asked: Asked) -> Any:
        raise Silence

    monkeypatch.setattr(retrying_client, "ATTEMPT_MS", 500)
    first = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: silent})
    second = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: cluster(1)})
    async with listening(first, second) as addresses, client(*addresses) as admin:
        assert (await admin.describe_cluster()).cluster_id == "C"
    assert (len(first.asked), len(second.asked)) == (1, 1)


async def test_a_node_without_the_api_is_incompatible() -> None:
    node = ScriptedNode({ApiKey.DESCRIBE_CLUSTER: cluster(1)})
    async with listening(node) as (address,), client(address) as admin:
        with pytest.raises(Incompatible, match=r"DescribeQuorum: .* not served there"):
            await admin.describe_quorum()


async def test_a_refusal_is_passed_on_at_once() -> None:
    script = created(INVALID_REPLICATION_FACTOR, "too few brokers")
    node = ScriptedNode({ApiKey.CREATE_TOPICS: script})
    async with listening(node) as (address,), client(address) as admin:
        with pytest.raises(Refused) as raised:
            await admin.create_topic("orders", partitions=3)
    assert len(node.asked) == 1
    assert str(raised.value) == (
        "topic orders cannot be created: too few brokers (INVALID_REPLICATION_FACTOR)"
    )
    topic = node.asked[0].message.topics[0]
    assert (topic.num_partitions, topic.replication_factor) == (3, -1)


async def test_a_topic_that_an_unanswered_attempt_made_counts_as_created() -> None:
    node = ScriptedNode({ApiKey.CREATE_TOPICS: in_turn(HangUp(), created(TOPIC_ALREADY_EXISTS))})
    async with listening(node) as (address,), client(address) as admin:
        await admin.create_topic("orders")
    assert len(node.asked) == 2


async def test_a_topic_that_was_there_before_is_an_error() -> None:
    """Also when the first node could not be reached at all: it cannot have made it."""
    node = ScriptedNode({ApiKey.CREATE_TOPICS: created(TOPIC_ALREADY_EXISTS)})
    async with listening(node) as (address,), client(refused_port(), address) as admin:
        with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
            await admin.create_topic("orders")


async def test_after_a_lost_answer_the_same_request_is_asked_again_with_the_same_key() -> None:
    """Our controllers answer it as the first time, whatever they would say now."""
    script = in_turn(HangUp(), altered(0), altered(NO_REASSIGNMENT_IN_PROGRESS))
    node = ScriptedNode({ApiKey.ALTER_PARTITION_REASSIGNMENTS: script})
    async with listening(node) as (address,), client(address) as admin:
        assert await admin.alter_reassignments([CANCEL]) == [
            AssignedPartition(topic="orders", partition=0)
        ]
        await admin.alter_reassignments([CANCEL])
        own = BeginMove(assignments=[CANCEL], key="monday", name="rack 7", priority=3)
        await admin.begin_move(own)
    first, again, another, last = (options_in(each.message) for each in node.asked)
    assert first.key == again.key
    assert len({first.key, another.key, "monday", ""}) == 4
    assert (last.key, last.command.name, last.command.priority) == ("monday", "rack 7", 3)


def options_in(message: Any) -> MoveOptions:
    """The move as our client describes it."""
    options = details_of(message, MoveOptions)
    assert options is not None
    return options


async def test_a_dry_run_is_never_carried_out_by_a_controller_that_does_not_support_it() -> None:
    """A controller of Kafka skips the field in which that is: for it nothing is to be done."""
    node = ScriptedNode({ApiKey.ALTER_PARTITION_REASSIGNMENTS: altered(0)})
    asked_for = BeginMove(assignments=[CANCEL], dry_run=True)
    async with listening(node) as (address,), client(address) as admin:
        with pytest.raises(Incompatible, match="the active controller does not support"):
            await admin.begin_move(asked_for)
    assert node.asked[0].message.topics == ()
    tried = options_in(node.asked[0].message).command
    assert tried.dry_run
    assert [each.topic for each in tried.reassignments] == ["orders"]


async def test_a_move_that_is_not_there_cannot_be_cancelled() -> None:
    script = altered(NO_REASSIGNMENT_IN_PROGRESS)
    node = ScriptedNode({ApiKey.ALTER_PARTITION_REASSIGNMENTS: script})
    async with listening(node) as (address,), client(address) as admin:
        (result,) = await admin.alter_reassignments([CANCEL])
    assert result.kafka_error == "NO_REASSIGNMENT_IN_PROGRESS"
    assert node.asked[0].message.topics[0].partitions[0].replicas is None


async def test_partitions_are_asked_for_in_their_order_and_answered_one_by_one() -> None:
    node = ScriptedNode({ApiKey.ALTER_PARTITION_REASSIGNMENTS: altered(0)})
    plan = [
        Assignment(topic=topic, partition=number, replicas=(101, 102))
        for topic, number in (("b", 1), ("a", 0), ("b", 0))
    ]
    async with listening(node) as (address,), client(address) as admin:
        results = await admin.alter_reassignments(plan)
    assert [str(result.id) for result in results] == ["b-1", "a-0", "b-0"]
    assert [topic.name for topic in node.asked[0].message.topics] == ["b", "a", "b"]


async def test_moves_are_listed_in_order() -> None:
    def script(asked: Asked) -> Any:
        partitions = tuple(
            asked.part(
                "OngoingPartitionReassignment",
                partition_index=number,
                replicas=(1, 2),
                adding_replicas=(2,),
                removing_replicas=(1,),
            )
            for number in (1, 0)
        )
        topic = asked.part("OngoingTopicReassignment", name="orders", partitions=partitions)
        return asked.respond(0, error_message=None, topics=(topic,))

    node = ScriptedNode({ApiKey.LIST_PARTITION_REASSIGNMENTS: script})
    async with listening(node) as (address,), client(address) as admin:
        found = await admin.list_reassignments()
        await admin.list_reassignments({"orders": [1]})
    assert [one.partition for one in found] == [0, 1]
    assert found[0] == OngoingReassignment(
        topic="orders", partition=0, replicas=(1, 2), adding=(2,), removing=(1,)
    )
    assert node.asked[0].message.topics is None
    assert node.asked[1].message.topics[0].partition_indexes == (1,)


async def test_controllers_are_told_from_brokers() -> None:
    """A controller's Metadata lists controllers too, so that any client can go on there."""
    node = ScriptedNode({ApiKey.METADATA: metadata, ApiKey.DESCRIBE_CLUSTER: cluster(1)})
    async with listening(node) as (address,), client(address) as admin:
        assert [broker.id for broker in await admin.brokers()] == [101, 102]


async def test_topics_are_described_and_those_that_are_not_there_left_out() -> None:
    node = ScriptedNode({ApiKey.METADATA: metadata})
    async with listening(node) as (address,), client(address) as admin:
        found = await admin.describe_topics(["orders", "payments"])
    assert list(found) == ["orders"]
    assert [partition.partition for partition in found["orders"].partitions] == [0, 1]
    assert found["orders"].partitions[0].isr == (101,)
    assert found["orders"].topic_id == DIRECTORY
    assert not node.asked[0].message.allow_auto_topic_creation


@pytest.mark.parametrize("cause", list(Cause))
async def test_a_request_that_was_not_sent_is_certainly_not_done(
    cause: Cause, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed(self: Channel, api_key: int, write: Any, *, timeout_ms: int) -> Any:
        raise RequestFailed(api_key, Failure(cause, "because"))

    monkeypatch.setattr(Channel, "call", failed)
    channels = Channels("test")
    with pytest.raises((NoResponse, Incompatible)) as raised:
        await channels.ask(Address(HOST, 1), ApiKey.METADATA, lambda form: form, timeout_ms=1)
    await channels.close()
    if isinstance(raised.value, NoResponse):
        assert raised.value.may_be_done == (cause not in NOT_SENT)


@pytest.mark.parametrize("has_tls", [True, False])
async def test_a_client_without_tls_is_told_that_a_node_speaks_it(
    tmp_path: Path, has_tls: bool
) -> None:
    """Either node hangs up; the one without TLS for reasons of its own, so it is asked again."""
    tls = server_tls(Authority().files(tmp_path, "node")).context() if has_tls else None
    server = await asyncio.start_server(lambda _, out: out.close(), HOST, 0, ssl=tls)
    async with server:
        address = Address(HOST, server.sockets[0].getsockname()[1])
        async with AdminClient([address], is_controller=False, timeout_ms=500) as admin:
            with pytest.raises(Incompatible if has_tls else Unreachable) as raised:
                await admin.describe_topics()
    assert str(raised.value) == (
        f"{address} speaks TLS, and this client does not: give --command-config a file with "
        "security.protocol, SSL or SASL_SSL, and what that needs"
        if has_tls
        else f"the metadata cannot be read: no answer from {address} within 500 ms ({address}: the "
        "other side closed the connection: end of stream)"
    )


@pytest.mark.parametrize("has_tls", [True, False])
async def test_a_client_without_sasl_is_told_that_a_listener_asks_for_it(
    tmp_path: Path, has_tls: bool
) -> None:
    files = Authority().files(tmp_path, "node")
    listener = sasl_listener(tls=server_tls(files) if has_tls else None)
    security = ssl_client(trusting(files.truststore)) if has_tls else PLAIN_CLIENT
    async with secured(listener, offered=SPOKEN) as (_, port, _):
        address = Address(HOST, port)
        admin = AdminClient([address], is_controller=False, timeout_ms=20_000, security=security)
        async with admin:
            with pytest.raises(Incompatible) as raised:
                await admin.describe_topics()
    protocol, wanted = ("SSL", "SASL_SSL") if has_tls else ("PLAINTEXT", "SASL_PLAINTEXT")
    assert str(raised.value) == (
        f"{address} hangs up at the first request, as a listener does that asks for SASL, and "
        f"security.protocol of this client is {protocol}: give --command-config a file with "
        f"{wanted}, sasl.mechanism and sasl.jaas.config"
    )


@pytest.mark.parametrize("has_sasl", [True, False])
async def test_a_client_with_tls_is_told_that_a_listener_has_none(
    tmp_path: Path, has_sasl: bool
) -> None:
    """The node only hangs up, as one does that stops: without another look it is asked again."""
    tls = trusting(Authority().files(tmp_path, "node").truststore)
    security = sasl_client(alice("PLAIN"), tls) if has_sasl else ssl_client(tls)
    listener = sasl_listener() if has_sasl else UNPROTECTED
    async with secured(listener, offered=SPOKEN) as (_, port, _):
        address = Address(HOST, port)
        admin = AdminClient([address], is_controller=False, timeout_ms=5_000, security=security)
        async with admin:
            with pytest.raises(Incompatible) as raised:
                await admin.describe_topics()
    protocol, wanted = ("SASL_SSL", "SASL_PLAINTEXT") if has_sasl else ("SSL", "PLAINTEXT")
    assert str(raised.value) == (
        f"{address} answers, but without TLS, and security.protocol of this client is {protocol}: "
        f"set {wanted}, or give the port of a listener with {protocol}"
    )


async def test_a_reset_in_the_tls_handshake_ends_it_like_an_end_of_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is busy does so as well: it is looked at once, and asked again."""
    looks: list[Address] = []

    async def look(address: Address) -> bool:
        looks.append(address)
        return False

    async def reset(inbound: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        await inbound.read(1)
        linger = struct.pack("ii", 1, 0)
        out.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        out.transport.abort()

    monkeypatch.setattr("admin.client.channels.speaks_tls", look)
    monkeypatch.setattr("admin.client.channels.answers_without_tls", look)
    security = ssl_client(trusting(Authority().files(tmp_path, "node").truststore))
    async with await asyncio.start_server(reset, HOST, 0) as server:
        address = Address(HOST, server.sockets[0].getsockname()[1])
        admin = AdminClient([address], is_controller=False, timeout_ms=500, security=security)
        async with admin:
            with pytest.raises(Unreachable, match="it ended the TLS handshake"):
                await admin.describe_topics()
    assert len(looks) == 2


@pytest.mark.parametrize("has_tls", [True, False])
async def test_a_client_with_sasl_is_told_that_a_listener_asks_for_none(
    tmp_path: Path, has_tls: bool
) -> None:
    files = Authority().files(tmp_path, "node")
    security = sasl_client(alice("PLAIN"), trusting(files.truststore) if has_tls else None)
    listener = ssl_listener(server_tls(files)) if has_tls else UNPROTECTED
    async with secured(listener) as (_, port, _):
        address = Address(HOST, port)
        admin = AdminClient([address], is_controller=False, timeout_ms=5_000, security=security)
        async with admin:
            with pytest.raises(Incompatible) as raised:
                await admin.describe_topics()
    protocol, wanted = ("SASL_SSL", "SSL") if has_tls else ("SASL_PLAINTEXT", "PLAINTEXT")
    assert str(raised.value) == (
        f"{address} asks for no SASL, and security.protocol of this client is {protocol}: set "
        f"{wanted}, or give the port of a listener with {protocol}"
    )


async def test_a_client_with_sasl_is_told_that_a_listener_of_kafka_asks_for_none() -> None:
    """Kafka's brokers offer SASL at every listener, and refuse it where they do not ask for it."""
    refusing = {
        ApiKey.SASL_HANDSHAKE: lambda asked: asked.respond(ILLEGAL_SASL_STATE, mechanisms=()),
    }
    async with listening(ScriptedNode(refusing)) as (address,):
        security = sasl_client(alice("PLAIN"))
        admin = AdminClient([address], is_controller=False, timeout_ms=5_000, security=security)
        async with admin:
            with pytest.raises(Incompatible) as raised:
                await admin.describe_topics()
    assert f"{address} asks for no SASL, and security.protocol" in str(raised.value)
