"""DescribeConfigs and DescribeClientQuotas of an embedded broker, from its image and its file."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis.broker_apis import FORWARDED, OFFERED
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.transport import long_responses
from statemachine import slices
from statemachine.commands import (
    AlterClientQuotas,
    ConfigChange,
    ConfigOp,
    IncrementalAlterConfigs,
    QuotaChange,
    QuotaOp,
)
from statemachine.configs.topic_configs import GONE_WITH_KAFKA_4, TOPIC_CONFIGS
from statemachine.records.kafka_records import QuotaEntity
from tests.broker.embedded_cluster import Brokers, cluster, until
from tests.support.kio_values import make, nested

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def versions_of(api_key: ApiKey) -> range:
    return range(OFFERED[api_key].lowest, OFFERED[api_key].highest + 1)


def configure(brokers: Brokers, kind: int, resource: str, **configs: str) -> None:
    """Configurations, with _ for dots in their names."""
    ops = tuple(
        ConfigOp(name=name.replace("_", "."), operation=0, value=value)
        for name, value in configs.items()
    )
    change = ConfigChange(resource_type=kind, resource_name=resource, ops=ops)
    answer = brokers.controller.decide(IncrementalAlterConfigs(changes=(change,)))
    assert not answer.resources[0].error.code, answer


async def describe(
    brokers: Brokers, version: int, kind: int, name: str, keys: tuple[str, ...] | None = None
) -> Any:
    schema = codec.request_schema(ApiKey.DESCRIBE_CONFIGS, version)
    resource = make(
        nested(schema, "DescribeConfigsResource"),
        resource_type=kind,
        resource_name=name,
        configuration_keys=keys,
    )
    answer = await brokers[1].ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=(resource,),
        include_synonyms=True,
        include_documentation=True,
    )
    return answer.results[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CONFIGS))
async def test_a_topic_is_described_as_its_controller_describes_it(
    tmp_path: Path, version: int
) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,), retention_ms="5")
        configure(brokers, BROKER, "", log_roll_ms="7")
        configure(brokers, BROKER, "1", log_roll_ms="6", log_flush_interval_ms="9")
        result = await describe(brokers, version, TOPIC, "t")
        found = {each.name: each for each in result.configs}
        assert set(found) == set(TOPIC_CONFIGS) - GONE_WITH_KAFKA_4
        values = {name: (each.value, each.config_source) for name, each in found.items()}
        assert values["retention.ms"] == ("5", 1)
        assert values["segment.ms"] == ("6", 2)
        assert values["flush.ms"] == ("9", 2)
        assert values["cleanup.policy"] == ("delete", 5)
        synonyms = [(each.name, each.value, each.source) for each in found["segment.ms"].synonyms]
        assert synonyms[:2] == [("log.roll.ms", "6", 2), ("log.roll.ms", "7", 3)]
        if version >= 3:
            assert found["segment.ms"].config_type == 5
            assert found["segment.ms"].documentation


async def test_everything_else_that_has_configurations_is_described_too(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        configure(brokers, GROUP, "g", consumer_session_timeout_ms="50000")
        configure(brokers, METRICS, "m", interval_ms="1000")
        configure(brokers, BROKER, "1", listener_name_x_ssl_key_password="swordfish")
        group = await describe(brokers, 4, GROUP, "g", ("consumer.session.timeout.ms",))
        assert [(each.value, each.config_source) for each in group.configs] == [("50000", 8)]
        metrics = await describe(brokers, 4, METRICS, "m", ())
        assert [(each.value, each.config_source) for each in metrics.configs] == [("1000", 7)]
        own = {each.name: each for each in (await describe(brokers, 4, BROKER, "1")).configs}
        secret = own["listener.name.x.ssl.key.password"]
        assert (secret.value, secret.is_sensitive, secret.config_source) == (None, True, 2)
        assert (own["node.id"].value, own["node.id"].read_only) == ("1", True)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [(TOPIC, "u", 3), (BROKER, "2", 42), (LOGGER, "2", 42), (64, "x", 35), (GROUP, "", 42)],
)
async def test_a_resource_that_cannot_be_described_is_refused(
    tmp_path: Path, kind: int, name: str, code: int
) -> None:
    async with cluster(tmp_path, 1) as brokers:
        result = await describe(brokers, 1, kind, name)
        assert (result.error_code.value, result.configs) == (code, ())
        assert result.error_message


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CLIENT_QUOTAS))
async def test_quotas_are_read_from_the_image(tmp_path: Path, version: int) -> None:
    async with cluster(tmp_path, 1) as brokers:
        entity = (QuotaEntity(type="user", name=None),)
        change = QuotaChange(entity=entity, ops=(QuotaOp(key="producer_byte_rate", value=5.0),))
        brokers.controller.decide(AlterClientQuotas(changes=(change,)))
        schema = codec.request_schema(ApiKey.DESCRIBE_CLIENT_QUOTAS, version)
        for match, code in ((1, 0), (0, 42)):
            component = make(
                nested(schema, "ComponentData"),
                entity_type="user",
                match_type=match,
                match=None,
            )
            answer = await brokers[1].ask(
                ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=(component,), strict=True
            )
            assert answer.error_code.value == code
            if code == 0:
                ((found, values),) = ((each.entity, each.values) for each in answer.entries)
                assert [(part.entity_type, part.entity_name) for part in found] == [("user", None)]
                assert [(each.key, each.value) for each in values] == [("producer_byte_rate", 5.0)]


MANY = 300


async def test_many_configurations_are_described_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_responses, "SLICE_SECONDS", 0.0)
    async with cluster(tmp_path, 1) as brokers:
        schema = codec.request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
        resource = nested(schema, "DescribeConfigsResource")
        names = [f"m{number}" for number in range(MANY)]
        asking = brokers[1].ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=tuple(
                make(resource, resource_type=METRICS, resource_name=each, configuration_keys=None)
                for each in names
            ),
            include_synonyms=False,
            include_documentation=False,
        )
        task = asyncio.get_running_loop().create_task(asking)
        await until(lambda: brokers[1].apis.long_responses.under_way == 1)
        answer = await task
        assert [each.resource_name for each in answer.results] == names


async def test_many_quotas_are_described_in_slices_while_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SORTED_AT_ONCE_US", slices.SORTED_US)
    monkeypatch.setattr(long_responses, "SLICE_SECONDS", 0.0)
    async with cluster(tmp_path, 1) as brokers:
        names = [f"u{number:03}" for number in range(MANY)]
        alter_quotas(brokers, 5.0, *names)
        asking = brokers[1].ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=(), strict=False)
        task = asyncio.get_running_loop().create_task(asking)
        await until(lambda: brokers[1].apis.long_responses.under_way == 1)
        alter_quotas(brokers, None, names[-1])
        alter_quotas(brokers, 5.0, "new")
        answer = await task
        assert [each.entity[0].entity_name for each in answer.entries] == names[:-1]


def alter_quotas(brokers: Brokers, rate: float | None, *users: str) -> None:
    """Set the rate of these users, or remove it."""
    op = QuotaOp(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
    changes = [
        QuotaChange(entity=(QuotaEntity(type="user", name=each),), ops=(op,)) for each in users
    ]
    brokers.controller.decide(AlterClientQuotas(changes=tuple(changes)))


def test_changes_are_for_the_controller() -> None:
    assert {
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
    } <= FORWARDED
