"""Configurations over the Kafka protocol: set, replaced, described, refused, kept secret."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from controller.apis.controller_apis import OFFERED
from quorum.protocol.apis import ApiKey
from quorum.transport import long_responses
from statemachine.configs.topic_configs import GONE_WITH_KAFKA_4, TOPIC_CONFIGS
from tests.broker.embedded_cluster import until
from tests.controller.apis.samples import alter_configs, describe_configs, wrapped
from tests.support.broker_requests import created, joined
from tests.support.controllers import CLUSTER_ID, Node, a_controller, active, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


async def a_cluster(client: KafkaClient) -> None:
    """Brokers 101 and 102, and topic t."""
    for broker_id in (101, 102):
        await joined(client, broker_id, CLUSTER_ID)
    await created(client, "t", (101, 102))


def versions(api_key: ApiKey) -> list[int]:
    return list(range(OFFERED[api_key].lowest, OFFERED[api_key].highest + 1))


async def alter(
    client: KafkaClient,
    *resources: tuple[int, str, dict[str, str | None]],
    operation: int = SET,
    version: int = 1,
    validate_only: bool = False,
) -> list[tuple[int, str]]:
    """Error code and message of each resource."""
    form = Form(ApiKey.INCREMENTAL_ALTER_CONFIGS, version)
    payload = alter_configs(form, *resources, operation=operation, validate_only=validate_only)
    answer = await client.send(form, payload)
    return [(each.error_code.value, each.error_message or "") for each in answer.responses]


async def described(
    client: KafkaClient, kind: int, name: str, *, version: int = 4, keys: Any = None
) -> dict[str, Any]:
    """The entries of one resource by name."""
    form = Form(ApiKey.DESCRIBE_CONFIGS, version)
    answer = await client.send(form, describe_configs(form, (kind, name), keys=keys))
    (result,) = answer.results
    assert result.error_code.value == 0, result
    return {each.name: each for each in result.configs}


def stored(node: Node, kind: int, name: str) -> dict[str, str]:
    return changed(node).get((kind, name), {})


def changed(node: Node) -> dict[tuple[int, str], dict[str, str]]:
    """The configurations, without the min ISR with which a cluster is founded (KIP-966)."""
    configs = {key: dict(each) for key, each in node.controller.image.configs.items()}
    configs.get((BROKER, ""), {}).pop("min.insync.replicas", None)
    return {key: each for key, each in configs.items() if each}


async def test_many_resources_are_described_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_responses, "SLICE_SECONDS", 0.0)
    form = Form(ApiKey.DESCRIBE_CONFIGS, 4)
    names = [f"m{number}" for number in range(300)]
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        asking = client.send(form, describe_configs(form, *[(METRICS, each) for each in names]))
        task = asyncio.get_running_loop().create_task(asking)
        await until(lambda: node.service.long_responses.under_way == 1)
        assert [each.resource_name for each in (await task).results] == names


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
async def test_every_kind_of_resource_is_changed_in_every_version(
    tmp_path: Path, version: int
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        wanted: list[tuple[int, str, dict[str, str | None]]] = [
            (TOPIC, "t", {"retention.ms": "5", "cleanup.policy": "compact"}),
            (BROKER, "101", {"leader.replication.throttled.rate": "1000000"}),
            (BROKER, "", {"num.io.threads": "16"}),
            (METRICS, "m", {"interval.ms": "1000", "match": "client_id=a.*"}),
            (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
        ]
        assert await alter(client, *wanted, version=version) == [(0, "")] * 5
        for kind, name, configs in wanted:
            assert stored(node, kind, name) == configs
        keys: tuple[int, str, dict[str, str | None]] = (TOPIC, "t", {"cleanup.policy": "delete"})
        assert await alter(client, keys, operation=APPEND, version=version) == [(0, "")]
        assert stored(node, TOPIC, "t")["cleanup.policy"] == "compact,delete"
        assert await alter(client, keys, operation=SUBTRACT, version=version) == [(0, "")]
        assert stored(node, TOPIC, "t")["cleanup.policy"] == "compact"
        assert await alter(client, keys, operation=DELETE, version=version) == [(0, "")]
        assert stored(node, TOPIC, "t") == {"retention.ms": "5"}


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
async def test_the_old_request_replaces_everything_in_every_version(
    tmp_path: Path, version: int
) -> None:
    form = Form(ApiKey.ALTER_CONFIGS, version)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        await alter(client, (TOPIC, "t", {"retention.ms": "5", "segment.ms": "9"}))
        for validate_only, after in (
            (True, {"retention.ms": "5", "segment.ms": "9"}),
            (False, {"segment.ms": "9", "flush.ms": "7"}),
        ):
            wish = (TOPIC, "t", {"segment.ms": "9", "flush.ms": "7"})
            payload = alter_configs(
                form,
                wish,  # type: ignore[arg-type]
                (TOPIC, "u", {"flush.ms": "7"}),
                (TOPIC, "t2", {"flush.ms": None}),
                validate_only=validate_only,
            )
            answer = await client.send(form, payload)
            assert [each.error_code.value for each in answer.responses] == [0, 3, 3]
            assert stored(node, TOPIC, "t") == after


async def test_each_resource_is_changed_or_refused_by_itself(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        found = await alter(
            client,
            (TOPIC, "t", {"retention.ms": "5"}),
            (TOPIC, "unknown", {"retention.ms": "5"}),
            (TOPIC, "", {"retention.ms": "5"}),
            (BROKER, "one", {"num.io.threads": "8"}),
            (BROKER, "999", {"num.io.threads": "8"}),
            (BROKER, "101", {"log.dirs": "x"}),
            (BROKER, "102", {"num.io.threads": "none"}),
            (LOGGER, "101", {"root": "DEBUG"}),
            (METRICS, "m", {"interval": "1"}),
            (GROUP, "g", {"consumer.session.timeout.ms": "1"}),
            (64, "x", {"a": "b"}),
        )
        assert [code for code, _ in found] == [0, 3, 42, 42, 102, 42, 42, 42, 42, 40, 35]
        for (_, message), named in zip(
            found,
            (
                "",
                "no topic unknown",
                "must be named",
                "'one'",
                "no broker 999",
                "log.dirs cannot be changed",
                "Invalid value none for configuration num.io.threads: it must be a whole number",
                "its own loggers alone",
                "match, metrics",
                "from 45000 to 60000",
                "resource type 64",
            ),
            strict=True,
        ):
            assert named in message
        assert list(changed(node)) == [(TOPIC, "t")]


@pytest.mark.parametrize(
    ("operation", "configs", "code", "named"),
    [
        (SET, {"retention.ms": None}, 42, "SET of retention.ms needs a value"),
        (APPEND, {"cleanup.policy": None}, 42, "APPEND of cleanup.policy needs a value"),
        (APPEND, {"retention.ms": "5"}, 40, "APPEND needs a list"),
        (SUBTRACT, {"unknown": "5"}, 40, "SUBTRACT needs a list"),
        (9, {"retention.ms": "5"}, 42, "operation 9"),
        (SET, {"retention.ms": "5", "unknown": "x"}, 40, "Unknown topic config name: unknown"),
        (SET, {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, 40, "must not be"),
    ],
)
async def test_an_invalid_topic_configuration_changes_nothing(
    tmp_path: Path, operation: int, configs: dict[str, str | None], code: int, named: str
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        ((found, message),) = await alter(client, (TOPIC, "t", configs), operation=operation)
        assert found == code
        assert named in message
        assert not stored(node, TOPIC, "t")


async def test_a_resource_named_twice_is_answered_once(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        twice: tuple[int, str, dict[str, str | None]] = (TOPIC, "t", {"retention.ms": "5"})
        other: tuple[int, str, dict[str, str | None]] = (BROKER, "", {"num.io.threads": "9"})
        found = await alter(client, twice, other, twice)
        assert found == [(42, "the resource is named more than once"), (0, "")]
        assert list(changed(node)) == [(BROKER, "")]


async def test_a_validated_configuration_is_not_changed(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        end = node.controller.image.end_offset
        good: tuple[int, str, dict[str, str | None]] = (TOPIC, "t", {"retention.ms": "5"})
        bad: tuple[int, str, dict[str, str | None]] = (BROKER, "", {"num.io.threads": "x"})
        found = await alter(client, good, bad, validate_only=True)
        assert [code for code, _ in found] == [0, 42]
        assert node.controller.image.end_offset == end


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
async def test_a_topic_is_described_with_its_defaults_in_every_version(
    tmp_path: Path, version: int
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        await alter(client, (TOPIC, "t", {"retention.ms": "5"}), (BROKER, "", {"log.roll.ms": "7"}))
        entries = await described(client, TOPIC, "t", version=version)
        assert set(entries) == set(TOPIC_CONFIGS) - GONE_WITH_KAFKA_4
        own, shared, default = (
            entries[name] for name in ("retention.ms", "segment.ms", "cleanup.policy")
        )
        assert (own.value, own.config_source) == ("5", 1)
        assert (shared.value, shared.config_source) == ("7", 3)
        assert (default.value, default.config_source) == ("delete", 5)
        assert not own.is_sensitive
        assert not own.read_only
        assert [(each.name, each.value, each.source) for each in own.synonyms] == [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "604800000", 5),
        ]
        if version >= 3:
            assert (own.config_type, default.config_type) == (5, 7)
            assert own.documentation == "How long records are kept; -1 has no limit."


async def test_brokers_groups_and_client_metrics_are_described(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        await alter(
            client,
            (BROKER, "101", {"num.io.threads": "9"}),
            (BROKER, "", {"num.io.threads": "16", "log.retention.ms": "7"}),
            (METRICS, "m", {"interval.ms": "1000"}),
            (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
        )
        one = await described(client, BROKER, "101")
        shown = {name: (each.value, each.config_source) for name, each in one.items()}
        assert shown["num.io.threads"] == ("9", 2)
        assert shown["log.retention.ms"] == ("7", 3)
        assert set(shown) <= {"num.io.threads", "log.retention.ms", "min.insync.replicas"}
        assert [each.source for each in one["num.io.threads"].synonyms] == [2, 3, 5]
        for_all = await described(client, BROKER, "")
        assert {each.config_source for each in for_all.values()} == {3}
        assert for_all["num.io.threads"].value == "16"
        of_the_controller = await described(client, BROKER, "1")
        assert of_the_controller["num.io.threads"].value == "16"
        group = await described(client, GROUP, "g")
        assert group["consumer.session.timeout.ms"].value == "50000"
        assert group["consumer.session.timeout.ms"].config_source == 8
        assert group["share.isolation.level"].config_source == 5
        metrics = await described(client, METRICS, "m", keys=("interval.ms", "other"))
        assert [(each.name, each.config_source) for each in metrics.values()] == [
            ("interval.ms", 7)
        ]


async def test_a_resource_that_cannot_be_described_is_refused_by_itself(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        form = Form(ApiKey.DESCRIBE_CONFIGS, 1)
        asked = ((TOPIC, "t"), (TOPIC, "u"), (BROKER, "x"), (BROKER, "9"), (LOGGER, "9"), (0, "x"))
        answer = await client.send(form, describe_configs(form, *asked))
        codes = [each.error_code.value for each in answer.results]
        assert codes == [0, 3, 42, 102, 42, 35]
        assert all(each.error_message for each in answer.results[1:])
        assert [(each.resource_type, each.resource_name) for each in answer.results] == list(asked)


async def test_a_password_is_never_shown_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = (
        "listener.name.external.ssl.keystore.password",
        "listener.name.external.plain.sasl.jaas.config",
        "plugin.token",
    )
    secret = "swordfish"
    caplog.set_level(logging.DEBUG)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        configs: dict[str, str | None] = dict.fromkeys(names, secret)
        assert await alter(client, (BROKER, "101", configs)) == [(0, "")]
        assert stored(node, BROKER, "101") == configs
        entries = await described(client, BROKER, "101")
        for entry in [entries[name] for name in names]:
            assert (entry.value, entry.is_sensitive) == (None, True)
            assert all(each.value is None for each in entry.synonyms)
    assert not [each for each in caplog.records if secret in each.getMessage()]


async def test_a_controller_that_is_not_active_passes_it_on(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        other = next(node for node in nodes.values() if node is not leader)
        async with kafka_client(leader.address) as first, kafka_client(other.address) as client:
            await a_cluster(first)
            assert await alter(client, (TOPIC, "t", {"retention.ms": "5"})) == [(0, "")]
            entries = await described(client, TOPIC, "t", keys=("retention.ms",))
            assert entries["retention.ms"].value == "5"


async def test_an_enveloped_change_is_answered_in_its_envelope(tmp_path: Path) -> None:
    inner = Form(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await a_cluster(client)
        payload = alter_configs(inner, (TOPIC, "t", {"retention.ms": "5"}))
        answer = await client.send_bytes(Form(ApiKey.ENVELOPE, 0), wrapped(inner, payload))
        assert answer.error_code.value == 0
        assert stored(node, TOPIC, "t") == {"retention.ms": "5"}
