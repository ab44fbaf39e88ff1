"""Every API of a controller's listener is refused without the right that Kafka asks for, and only
without that one."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import pytest

from controller.apis.admin_apis import APIS
from controller.apis.controller_apis import OFFERED
from controller.apis.request import KafkaRequest
from controller.authorization import NEEDS
from controller.service import NotActive
from quorum.protocol import headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response
from quorum.protocol.envelope import Forwarded, wrap
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.audit_log import Requester
from quorum.transport.security.token_hmacs import DelegationTokenConfig, DelegationTokens
from statemachine.commands import (
    AclCreation,
    AclFilter,
    AclsCreated,
    AclsDeleted,
    CreateAcls,
    CreateTopics,
    DeleteAcls,
    NewTopic,
    TopicsCreated,
)
from statemachine.security.authorization import AuthorizerConfig
from statemachine.security.authorizer import Operation, PatternType, PermissionType, ResourceType
from tests.controller.apis.samples import (
    SAMPLES,
    TESTER,
    TIMEOUT,
    alter_configs,
    body_of,
    create_token,
    wrapped,
)
from tests.support.acl_rights import DENIALS, Rights, acl, codes, error_of, messages, others
from tests.support.broker_requests import creation, joined
from tests.support.controllers import CLUSTER_ID, Node, a_controller, active, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client

ENVELOPE: Final = Form(ApiKey.ENVELOPE, 0)
SENDER: Final = "User:ANONYMOUS"
"""The principal of a connection of this test: it stands for a node."""
_ids: Final = itertools.count(1)
AUTHORIZER: Final = AuthorizerConfig(super_users=frozenset({"User:admin"}))

ACTION: Final = ("CLUSTER_ACTION CLUSTER",)
ALTER: Final = ("ALTER CLUSTER",)
DESCRIBE: Final = ("DESCRIBE CLUSTER",)

KAFKA: Final[Mapping[ApiKey, tuple[Rights, ...]]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: (),
        ApiKey.ENVELOPE: (ACTION,),
        ApiKey.FETCH: (ACTION,),
        ApiKey.FETCH_SNAPSHOT: (ACTION,),
        ApiKey.VOTE: (ACTION,),
        ApiKey.BEGIN_QUORUM_EPOCH: (ACTION,),
        ApiKey.END_QUORUM_EPOCH: (ACTION,),
        ApiKey.DISCOVER_BROKERS: (ACTION,),
        ApiKey.ALTER_PARTITION: (ACTION,),
        ApiKey.BROKER_REGISTRATION: (ACTION,),
        ApiKey.BROKER_HEARTBEAT: (ACTION,),
        ApiKey.ALLOCATE_PRODUCER_IDS: (ACTION,),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: (ACTION,),
        ApiKey.CONTROLLER_REGISTRATION: (ACTION,),
        ApiKey.UPDATE_RAFT_VOTER: (ACTION,),
        ApiKey.METADATA: (("DESCRIBE TOPIC",),),
        ApiKey.CREATE_TOPICS: (("CREATE CLUSTER",), ("CREATE TOPIC",)),
        ApiKey.DELETE_TOPICS: (("DELETE CLUSTER",), ("DELETE TOPIC",)),
        ApiKey.CREATE_PARTITIONS: (("ALTER TOPIC",),),
        ApiKey.DESCRIBE_CONFIGS: (("DESCRIBE_CONFIGS TOPIC", "DESCRIBE_CONFIGS CLUSTER"),),
        ApiKey.ALTER_CONFIGS: (("ALTER_CONFIGS TOPIC",),),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (("ALTER_CONFIGS TOPIC",),),
        ApiKey.ALTER_CLIENT_QUOTAS: (("ALTER_CONFIGS CLUSTER",),),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (("DESCRIBE_CONFIGS CLUSTER",),),
        ApiKey.DESCRIBE_ACLS: (DESCRIBE,),
        ApiKey.CREATE_ACLS: (ALTER,),
        ApiKey.DELETE_ACLS: (ALTER,),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DESCRIBE,),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ALTER,),
        # Its owner may always; others are in tests of their own.
        ApiKey.CREATE_DELEGATION_TOKEN: (),
        ApiKey.RENEW_DELEGATION_TOKEN: (),
        ApiKey.EXPIRE_DELEGATION_TOKEN: (),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: (),
        ApiKey.ELECT_LEADERS: (ALTER,),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (ALTER,),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (DESCRIBE,),
        ApiKey.DESCRIBE_QUORUM: (DESCRIBE,),
        ApiKey.ALTER_QUORUM: (ALTER,),
        ApiKey.ADD_RAFT_VOTER: (ALTER,),
        ApiKey.REMOVE_RAFT_VOTER: (ALTER,),
        ApiKey.UPDATE_FEATURES: (ALTER,),
        ApiKey.UNREGISTER_BROKER: (ALTER,),
        ApiKey.DESCRIBE_CLUSTER: (ALTER,),
        ApiKey.CAPABILITY: (DESCRIBE,),
    }
)
"""What the samples need in Kafka, written down again: each of these sets of rights is enough."""

EVERY_ACL: Final = AclFilter(
    resource_type=ResourceType.ANY,
    resource_name=None,
    pattern_type=PatternType.ANY,
    principal=None,
    host=None,
    operation=Operation.ANY,
    permission_type=PermissionType.ANY,
)


async def set_acls(node: Node, *acls: AclCreation) -> None:
    """Let these be the only ACLs."""
    await node.service.carry_out(DeleteAcls(filters=(EVERY_ACL,)), AclsDeleted, who="test")
    answer = await node.service.carry_out(CreateAcls(creations=acls), AclsCreated, who="test")
    assert not any(each.error.code for each in answer.results)


async def as_tester(
    client: KafkaClient, form: Form, payload: Any, principal: KafkaPrincipal = TESTER
) -> Any:
    """The answer to a request of the tester, which another node passes on."""
    answer = await client.send_bytes(ENVELOPE, wrapped(form, payload, principal))
    assert answer.error_code.value == 0, answer
    data = answer.response_data
    start = headers.response_body_start(data, form.api_key, form.version)
    return decode_response(form.api_key, form.version, data[start:])


async def answered(node: Node, client: KafkaClient, form: Form, rights: Rights) -> list[int]:
    """The error codes of the answer to a client, or a node, with just these rights."""
    if form.api_key in APIS:
        await set_acls(
            node,
            acl(SENDER, "CLUSTER_ACTION CLUSTER"),
            *[acl("User:tester", each) for each in rights],
        )
        answer = await as_tester(client, form, SAMPLES[form.api_key](form))
    else:
        await set_acls(node, *[acl(SENDER, each) for each in rights])
        answer = await client.send_bytes(form, body_of(form))
    if DENIALS & set(codes(answer)):
        named = [each for each in messages(answer) if "authorization failed" in each]
        assert all(" needs " in each for each in named)
    return list(codes(answer))


def test_every_api_has_a_row() -> None:
    assert NEEDS.keys() == OFFERED.keys() == KAFKA.keys()


@pytest.mark.parametrize("api_key", KAFKA, ids=str)
async def test_exactly_the_right_that_kafka_asks_for_is_needed(
    tmp_path: Path, api_key: ApiKey
) -> None:
    sets = KAFKA[api_key]
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        form = Form(api_key, OFFERED[api_key].highest)
        if sets:
            expected = {error_of(right) for rights in sets for right in rights}
            last = {error_of(sets[-1][-1])} if len(sets) > 1 else expected
            for rights in ((), others(sets)):
                found = set(await answered(node, client, form, rights)) & DENIALS
                assert found == last, (rights, found)
        for rights in sets or ((),):
            assert not DENIALS & set(await answered(node, client, form, rights)), rights


@pytest.mark.parametrize("api_key", [key for key, sets in KAFKA.items() if sets], ids=str)
async def test_a_refusal_can_be_said_in_every_version(tmp_path: Path, api_key: ApiKey) -> None:
    if api_key is ApiKey.ENVELOPE:
        return
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        versions = OFFERED[api_key]
        for version in range(versions.lowest, versions.highest + 1):
            found = await answered(node, client, Form(api_key, version), ())
            has_errors = api_key is not ApiKey.FETCH or version >= 7
            assert DENIALS & set(found) or not has_errors, version


def only(answer: Any, name: str) -> list[tuple[Any, ...]]:
    """The results in an answer: error, name, and id if there is one."""
    return [
        (each.error_code.value, each.name, getattr(each, "topic_id", None))
        for each in getattr(answer, name)
    ]


async def a_broker(node: Node, client: KafkaClient) -> None:
    """Register a broker, which can hold topics."""
    await set_acls(node, acl(SENDER, "CLUSTER_ACTION CLUSTER"))
    await joined(client, 101, CLUSTER_ID)


async def topic(node: Node, name: str) -> UUID:
    """Create a topic past every check."""
    topic_id = UUID(int=0x70 << 100 | next(_ids))
    new = NewTopic(
        name=name, topic_id=topic_id, partition_count=1, replication_factor=1, assignments=()
    )
    command = CreateTopics(topics=(new,))
    answer = await node.service.carry_out(command, TopicsCreated, who="test")
    assert answer.topics[0].error.code == 0, answer
    return topic_id


async def test_deleting_tells_nobody_whether_a_topic_exists_that_they_may_not_describe(
    tmp_path: Path,
) -> None:
    form = Form(ApiKey.DELETE_TOPICS, 6)

    def deletion(*asked: str | UUID) -> Any:
        states = [
            form.part(
                "DeleteTopicState",
                name=each if isinstance(each, str) else None,
                topic_id=each if isinstance(each, UUID) else None,
            )
            for each in asked
        ]
        return form.request(topics=tuple(states), timeout=TIMEOUT)

    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        await a_broker(node, client)
        known, nobodys = await topic(node, "known"), UUID(int=1 << 90)
        asked = deletion("known", "unknown", known, nobodys)
        sender = acl(SENDER, "CLUSTER_ACTION CLUSTER")
        await set_acls(node, sender)
        hidden = await as_tester(client, form, asked)
        assert only(hidden, "responses") == [
            (29, "known", None),
            (29, "unknown", None),
            (29, None, known),
            (100, None, nobodys),
        ]
        texts = [each.error_message for each in hidden.responses[:2]]
        assert texts[0].replace("known", "") == texts[1].replace("unknown", "")
        assert "TOPIC known" not in hidden.responses[2].error_message
        await set_acls(node, sender, acl("User:tester", "DESCRIBE TOPIC"))
        shown = await as_tester(client, form, asked)
        assert only(shown, "responses") == [
            (29, "known", None),
            (3, "unknown", None),
            (29, "known", known),
            (100, None, nobodys),
        ]
        assert "known" in node.controller.image.topic_ids
        await set_acls(node, sender, acl("User:tester", "DELETE TOPIC", "known"))
        deleted = await as_tester(client, form, deletion("other", "known"))
        assert only(deleted, "responses") == [(29, "other", None), (0, "known", known)]


async def test_metadata_leaves_out_what_nobody_may_describe(tmp_path: Path) -> None:
    form = Form(ApiKey.METADATA, 12)

    def metadata(*asked: str | UUID) -> Any:
        parts = [
            form.part(
                "MetadataRequestTopic",
                name=each if isinstance(each, str) else None,
                topic_id=each if isinstance(each, UUID) else None,
            )
            for each in asked
        ]
        return form.request(
            topics=tuple(parts) if asked else None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )

    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        await a_broker(node, client)
        mine, secret = await topic(node, "mine"), await topic(node, "secret")
        sender = acl(SENDER, "CLUSTER_ACTION CLUSTER")
        await set_acls(node, sender, acl("User:tester", "READ TOPIC", "mine"))
        every = await as_tester(client, form, metadata())
        assert only(every, "topics") == [(0, "mine", mine)]
        named = await as_tester(client, form, metadata("mine", "secret", "unknown"))
        assert only(named, "topics") == [
            (0, "mine", mine),
            (29, "secret", None),
            (29, "unknown", None),
        ]
        assert [len(each.partitions) for each in named.topics] == [1, 0, 0]
        by_id = await as_tester(client, form, metadata(secret))
        assert only(by_id, "topics") == [(29, None, secret)]


async def test_a_mixed_request_is_carried_out_as_far_as_it_is_allowed(tmp_path: Path) -> None:
    form = Form(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    change: dict[str, str | None] = {"retention.ms": "5000"}
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        await a_broker(node, client)
        await topic(node, "mine")
        await topic(node, "other")
        await set_acls(
            node,
            acl(SENDER, "CLUSTER_ACTION CLUSTER"),
            acl("User:tester", "ALTER_CONFIGS TOPIC", "mine"),
        )
        asked = alter_configs(form, (2, "other", change), (2, "mine", change), (4, "101", {}))
        answer = await as_tester(client, form, asked)
        found = {each.resource_name: each.error_code.value for each in answer.responses}
        assert found == {"mine": 0, "other": 29, "101": 31}
        assert set(node.controller.image.configs) >= {(2, "mine")}
        assert (2, "other") not in node.controller.image.configs


async def test_what_a_new_topic_is_like_takes_describe_configs(tmp_path: Path) -> None:
    form = Form(ApiKey.CREATE_TOPICS, 7)
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        await a_broker(node, client)
        for name, more, expected in (
            ("a", (), (-1, -1, 29)),
            ("b", ("DESCRIBE_CONFIGS TOPIC",), (1, 1, 0)),
        ):
            await set_acls(
                node,
                acl(SENDER, "CLUSTER_ACTION CLUSTER"),
                *[acl("User:tester", each) for each in ("CREATE TOPIC", *more)],
            )
            answer = await as_tester(client, form, creation(form, name, (101,)))
            (created,) = answer.topics
            assert created.error_code.value == 0, created
            seen = (created.num_partitions, created.replication_factor)
            assert (*seen, created.topic_config_error_code) == expected


async def test_an_envelope_is_refused_whole_from_whoever_may_not_forward(tmp_path: Path) -> None:
    form = Form(ApiKey.DESCRIBE_ACLS, 3)
    sample = SAMPLES[form.api_key](form)
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        admin = KafkaPrincipal.parse("User:admin")
        answer = await client.send_bytes(ENVELOPE, wrapped(form, sample, admin))
        assert (answer.error_code.value, answer.response_data) == (31, None)


async def test_the_host_of_the_client_counts_and_not_that_of_the_node_between(
    tmp_path: Path,
) -> None:
    form = Form(ApiKey.DESCRIBE_ACLS, 3)
    payload = form.body(SAMPLES[form.api_key](form))
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        await set_acls(
            node,
            acl(SENDER, "CLUSTER_ACTION CLUSTER"),
            acl("User:tester", "DESCRIBE CLUSTER", host="10.1.2.3"),
        )
        for host, expected in (("10.1.2.3", 0), ("127.0.0.1", 31)):
            forwarded = Forwarded(form.api_key, form.version, 77, "asker", TESTER, payload, host)
            answer = await client.send_bytes(ENVELOPE, wrap(forwarded, timeout_ms=20_000))
            start = headers.response_body_start(answer.response_data, form.api_key, form.version)
            inside = decode_response(form.api_key, form.version, answer.response_data[start:])
            assert inside.error_code.value == expected


async def test_before_the_acls_are_known_only_super_users_may_do_anything(tmp_path: Path) -> None:
    """One of three voters runs: nobody can tell it what is committed."""
    config = AuthorizerConfig(super_users=frozenset({"User:admin"}), allow_if_no_acl=True)
    heartbeat, describe = Form(ApiKey.BROKER_HEARTBEAT, 1), Form(ApiKey.FETCH, 17)
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3), authorizer=config) as nodes,
        kafka_client(nodes[1].address) as client,
    ):
        service = nodes[1].service
        assert not service.authorization.is_loaded
        answer = await client.send_bytes(heartbeat, body_of(heartbeat))
        assert answer.error_code.value == 41
        answer = await client.send_bytes(describe, body_of(describe))
        assert answer.error_code.value == -1
        with pytest.raises(NotActive):
            service.refusal(ApiKey.METADATA, Requester("User:tester", "127.0.0.1"))
        assert service.refusal(ApiKey.CREATE_ACLS, Requester("User:admin", "127.0.0.1")) is None


async def test_everybody_may_do_everything_without_an_authorizer(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await set_acls(node, acl("User:*", "ALL CLUSTER", permission_type=PermissionType.DENY))
        form = Form(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
        answer = await client.send(form, SAMPLES[form.api_key](form))
        assert answer.error_code.value == 0


async def test_a_right_that_is_taken_away_is_gone_at_once_on_open_connections(
    tmp_path: Path,
) -> None:
    form = Form(ApiKey.ALTER_PARTITION, 3)
    right = acl(SENDER, "CLUSTER_ACTION CLUSTER")
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        for _ in range(2):
            await set_acls(node)
            denied = await client.send_bytes(form, body_of(form))
            assert denied.error_code.value == 31
            await set_acls(node, right)
            for _ in range(2):
                allowed = await client.send_bytes(form, body_of(form))
                assert allowed.error_code.value == 77  # No such broker is registered.


async def test_a_token_of_another_user_takes_create_tokens(tmp_path: Path) -> None:
    create, describe = Form(ApiKey.CREATE_DELEGATION_TOKEN, 3), Form(41, 3)
    async with a_controller(tmp_path, authorizer=AUTHORIZER) as node:
        node.service.tokens = DelegationTokens(DelegationTokenConfig(secret_key="key"))
        async with kafka_client(node.address) as client:
            sender = acl(SENDER, "CLUSTER_ACTION CLUSTER")
            await set_acls(node, sender)
            asked = create_token(create, owner="bob")
            assert (await as_tester(client, create, asked)).error_code.value == 65
            await set_acls(node, sender, acl("User:tester", "CREATE_TOKENS USER", "User:bob"))
            made = await as_tester(client, create, asked)
            assert made.error_code.value == 0
            other = KafkaPrincipal.parse("User:eve")
            all_tokens = describe.request(owners=None)
            for right, name, count in (
                ("DESCRIBE TOPIC", "*", 0),
                ("DESCRIBE DELEGATION_TOKEN", made.token_id, 1),
                ("DESCRIBE_TOKENS USER", "User:bob", 1),
                ("DESCRIBE_TOKENS USER", "User:carol", 0),
            ):
                await set_acls(node, sender, acl("User:eve", right, name))
                answer = await as_tester(client, describe, all_tokens, other)
                assert (answer.error_code.value, len(answer.tokens)) == (0, count)


async def test_a_follower_forwards_and_the_leader_decides_for_the_client(tmp_path: Path) -> None:
    config = AuthorizerConfig(super_users=frozenset({SENDER}))
    form = Form(ApiKey.DESCRIBE_ACLS, 3)
    message = SAMPLES[form.api_key](form)
    asked = KafkaRequest(
        api_key=ApiKey.DESCRIBE_ACLS,
        version=form.version,
        client_id=None,
        principal=TESTER,
        message=message,
        body=form.body(message),
        host="10.1.2.3",
    )
    async with controllers(tmp_path, 1, 2, 3, authorizer=config) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        for rights, expected in (((), 31), (("DESCRIBE CLUSTER",), 0)):
            acls = [acl("User:tester", each, host="10.1.2.3") for each in rights]
            await set_acls(leader, *acls)
            body = await follower.router.answer(asked)
            answer = decode_response(form.api_key, form.version, body)
            assert answer.error_code.value == expected


async def test_the_operations_that_are_allowed_are_told_to_who_asks(tmp_path: Path) -> None:
    asking = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
        "allow_auto_topic_creation": False,
        "topics": None,
        "endpoint_type": 2,
    }
    async with (
        a_controller(tmp_path, authorizer=AUTHORIZER) as node,
        kafka_client(node.address) as client,
    ):
        await a_broker(node, client)
        await topic(node, "mine")
        rights = ("ALTER TOPIC", "ALTER CLUSTER")
        acls = [acl("User:tester", each, "mine" if "TOPIC" in each else None) for each in rights]
        await set_acls(node, acl(SENDER, "CLUSTER_ACTION CLUSTER"), *acls)
        form = Form(ApiKey.METADATA, 10)
        answer = await as_tester(client, form, form.request(**asking))
        # ALTER is 7 in Kafka's AclOperation, and it implies DESCRIBE, which is 8.
        assert answer.cluster_authorized_operations == 1 << 7 | 1 << 8
        assert [each.topic_authorized_operations for each in answer.topics] == [1 << 7 | 1 << 8]
        form = Form(ApiKey.DESCRIBE_CLUSTER, 1)
        answer = await as_tester(client, form, form.request(**asking))
        assert answer.cluster_authorized_operations == 1 << 7 | 1 << 8
        unasked = form.request(**asking | {"include_cluster_authorized_operations": False})
        answer = await as_tester(client, form, unasked)
        assert answer.cluster_authorized_operations == -(2**31)
