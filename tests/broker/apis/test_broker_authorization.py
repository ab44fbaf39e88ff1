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
