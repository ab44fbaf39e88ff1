"""Every API of a broker's listener is refused without the right that Kafka asks for, and only
without that one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
from msgspec.structs import asdict

from broker.apis.broker_apis import FORWARDED, OFFERED
from broker.authorization import NEEDS
from quorum.protocol.apis import ApiKey
from statemachine.commands import AclCreation
from statemachine.records.kafka_records import AccessControlEntry, RemoveAccessControlEntry
from statemachine.replay import replay
from statemachine.security.authorization import AuthorizerConfig
from tests.broker.apis.test_broker_strict_client import REQUESTS
from tests.broker.client_requests import batch, fetch_request, produce
from tests.broker.embedded_cluster import Node, cluster
from tests.controller.apis.samples import SAMPLES
from tests.support.acl_rights import DENIALS, Rights, acl, codes, error_of, messages, others
from tests.support.kafka_client import Form

CLIENT: Final = "User:ANONYMOUS"
AUTHORIZER: Final = AuthorizerConfig()

KAFKA: Final[Mapping[ApiKey, tuple[Rights, ...]]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: (),
        ApiKey.DESCRIBE_CLUSTER: (),
        ApiKey.PRODUCE: (("WRITE TOPIC",),),
        ApiKey.FETCH: (("READ TOPIC",),),
        ApiKey.LIST_OFFSETS: (("DESCRIBE TOPIC",),),
        ApiKey.METADATA: (("DESCRIBE TOPIC",),),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (("DESCRIBE TOPIC",),),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (("CLUSTER_ACTION CLUSTER",), ("DESCRIBE TOPIC",)),
        ApiKey.FIND_COORDINATOR: (("DESCRIBE GROUP",),),
        ApiKey.INIT_PRODUCER_ID: (("WRITE TOPIC",), ("IDEMPOTENT_WRITE CLUSTER",)),
        ApiKey.DESCRIBE_CONFIGS: (("DESCRIBE_CONFIGS TOPIC", "DESCRIBE_CONFIGS CLUSTER"),),
        ApiKey.DESCRIBE_LOG_DIRS: (("DESCRIBE CLUSTER",),),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (("DESCRIBE_CONFIGS CLUSTER",),),
        ApiKey.DISCOVER_BROKERS: (("CLUSTER_ACTION CLUSTER",),),
    }
)
"""What the requests need in Kafka, written down again: each of these sets of rights is enough."""


def set_acls(node: Node, *acls: AclCreation) -> None:
    """Let these be the only ACLs that the broker knows."""
    records: list[Any] = [RemoveAccessControlEntry(id=each) for each in node.image.acls]
    records += [AccessControlEntry(**asdict(each)) for each in acls]
    for each in records:
        replay(node.image, each, node.image.end_offset - 1)


async def answered(node: Node, form: Form, rights: Rights) -> Any:
    set_acls(node, *[acl(CLIENT, each) for each in rights])
    if form.api_key == ApiKey.DISCOVER_BROKERS:
        request = SAMPLES[form.api_key](form)
    else:
        request = REQUESTS[form.api_key](form, node)
    return await node.call(ApiKey(form.api_key), form.version, request)


def test_every_api_has_a_row() -> None:
    assert NEEDS.keys() == KAFKA.keys() == OFFERED.keys() - FORWARDED


@pytest.mark.parametrize("api_key", KAFKA, ids=str)
async def test_exactly_the_right_that_kafka_asks_for_is_needed(
    tmp_path: Path, api_key: ApiKey
) -> None:
    sets = KAFKA[api_key]
    async with cluster(tmp_path, 1, authorizer=AUTHORIZER) as brokers:
        await brokers.create("t", (1,))
        node, form = brokers[1], Form(api_key, OFFERED[api_key].highest)
        if sets:
            expected = {error_of(each) for each in (sets[0] if len(sets) == 1 else sets[-1])}
            for rights in ((), others(sets)):
                answer = await answered(node, form, rights)
                assert set(codes(answer)) & DENIALS == expected, (rights, answer)
                denied = [each for each in messages(answer) if "authorization failed" in each]
                assert all(" needs " in each for each in denied)
        if api_key is not ApiKey.DISCOVER_BROKERS:
            for rights in sets or ((),):
                answer = await answered(node, form, rights)
                assert not DENIALS & set(codes(answer)), rights


@pytest.mark.parametrize("api_key", [key for key, sets in KAFKA.items() if sets], ids=str)
async def test_a_refusal_can_be_said_in_every_version(tmp_path: Path, api_key: ApiKey) -> None:
    versions = OFFERED[api_key]
    async with cluster(tmp_path, 1, authorizer=AUTHORIZER) as brokers:
        await brokers.create("t", (1,))
        for version in range(versions.lowest, versions.highest + 1):
            answer = await answered(brokers[1], Form(api_key, version), ())
            # Before version 3, DescribeLogDirs has no error for the whole.
            has_error = api_key is not ApiKey.DESCRIBE_LOG_DIRS or version >= 3
            assert DENIALS & set(codes(answer)) or not has_error, version


async def test_a_refused_batch_is_not_in_the_log(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, authorizer=AUTHORIZER) as brokers:
        await brokers.create("mine", (1,))
        await brokers.create("other", (1,))
        set_acls(brokers[1], acl(CLIENT, "WRITE TOPIC", "mine"))
        assert (await produce(brokers[1], "mine", batch(b"a"))).error_code == 0
        assert (await produce(brokers[1], "other", batch(b"a"))).error_code == 29
        assert (await produce(brokers[1], "unknown", batch(b"a"))).error_code == 29
        assert brokers[1].partition("mine").log_end == 1
        assert brokers[1].partition("other").log_end == 0


async def test_a_follower_needs_cluster_action_and_nothing_else(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, authorizer=AUTHORIZER) as brokers:
        await brokers.create("t", (1,))
        node = brokers[1]
        request = fetch_request(node, "t", 0, version=12)
        request = replace(request, replica_id=1)
        for right, is_refused in (("READ TOPIC", True), ("CLUSTER_ACTION CLUSTER", False)):
            set_acls(node, acl(CLIENT, right))
            answer = await node.call(ApiKey.FETCH, 12, request)
            (partition,) = answer.responses[0].partitions
            assert (partition.error_code == 29) is is_refused
            assert not any(each.is_served_first for each in node.server._connections)


async def test_an_id_that_nobody_knows_is_unknown_with_and_without_rights(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, authorizer=AUTHORIZER) as brokers:
        await brokers.create("t", (1,))
        for rights, expected in (((), (29, 100)), (("READ TOPIC",), (0, 100))):
            set_acls(brokers[1], *[acl(CLIENT, each) for each in rights])
            for topic, code in zip(("t", "unknown"), expected, strict=True):
                request = fetch_request(brokers[1], topic, 0, version=17)
                answer = await brokers[1].call(ApiKey.FETCH, 17, request)
                assert answer.responses[0].partitions[0].error_code == code


async def test_lists_leave_out_topics_without_a_word(tmp_path: Path) -> None:
    form = Form(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    async with cluster(tmp_path, 1, authorizer=AUTHORIZER) as brokers:
        await brokers.create("mine", (1,))
        await brokers.create("other", (1,))
        set_acls(brokers[1], acl(CLIENT, "DESCRIBE TOPIC", "mine"))
        request = form.request(topics=(), response_partition_limit=10, cursor=None)
        answer = await brokers[1].call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        assert [each.name for each in answer.topics] == ["mine"]


# By the numbers of Kafka's AclOperation: READ is 3, DESCRIBE 8, CLUSTER_ACTION 9.
EVERY_OF_TOPIC: Final = 0b1101_1111_1000
EVERY_OF_CLUSTER: Final = 0b1_1111_1010_0000


def asked_operations(form: Form, **more: Any) -> Any:
    """A request for all topics, or about the cluster, with the operations that are allowed."""
    return form.request(
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
        allow_auto_topic_creation=False,
        topics=None,
        endpoint_type=1,
        **more,
    )


async def operations(node: Node) -> list[dict[str, int]]:
    """The operations in every answer that has some: on the cluster, and on the topics."""
    found = []
    for api_key, version in (
        *((ApiKey.METADATA, version) for version in (8, 9, 10, 11, 13)),
        (ApiKey.DESCRIBE_CLUSTER, 0),
        (ApiKey.DESCRIBE_CLUSTER, 1),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0),
    ):
        form = Form(api_key, version)
        request = asked_operations(form)
        if api_key is ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            request = form.request(topics=(), response_partition_limit=10, cursor=None)
        answer = await node.call(api_key, version, request)
        told = {
            each.name: each.topic_authorized_operations for each in getattr(answer, "topics", ())
        }
        if hasattr(answer, "cluster_authorized_operations"):
            told["the cluster"] = answer.cluster_authorized_operations
        found.append(told)
    return found


def told(cluster: int, **topics: int) -> list[dict[str, int]]:
    """The answer of `operations` if these are allowed."""
    both = {"the cluster": cluster, **topics}
    return [
        both,
        both,
        both,
        topics,
        topics,
        {"the cluster": cluster},
        {"the cluster": cluster},
        topics,
    ]


async def test_the_operations_that_are_allowed_are_told_to_who_asks(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, authorizer=AUTHORIZER) as brokers:
        for name in ("mine", "other"):
            await brokers.create(name, (1,))
        node = brokers[1]
        set_acls(node, acl(CLIENT, "READ TOPIC", "mine"))
        assert await operations(node) == told(0, mine=1 << 3 | 1 << 8)
        set_acls(
            node,
            acl(CLIENT, "ALL TOPIC", "mine"),
            acl(CLIENT, "DESCRIBE CLUSTER"),
            acl(CLIENT, "CLUSTER_ACTION CLUSTER"),
        )
        assert await operations(node) == told(1 << 8 | 1 << 9, mine=EVERY_OF_TOPIC)
        form = Form(ApiKey.METADATA, 12)
        unasked = replace(asked_operations(form), include_topic_authorized_operations=False)
        answer = await node.call(ApiKey.METADATA, 12, unasked)
        assert [each.topic_authorized_operations for each in answer.topics] == [-(2**31)]
        part = form.part("MetadataRequestTopic", name="other", topic_id=None)
        refused = await node.call(
            ApiKey.METADATA, 12, replace(asked_operations(form), topics=(part,))
        )
        assert [each.topic_authorized_operations for each in refused.topics] == [-(2**31)]


async def test_every_operation_is_allowed_without_an_authorizer(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        assert await operations(brokers[1]) == told(EVERY_OF_CLUSTER, t=EVERY_OF_TOPIC)
