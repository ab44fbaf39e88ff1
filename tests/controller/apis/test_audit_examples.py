"""The example lines of the audit log in docs/security.md are what a controller writes."""

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from quorum.protocol.apis import ApiKey
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.audit_log import CHARACTERS_MAX
from statemachine.security.authorization import AuthorizerConfig
from tests.controller.apis import samples
from tests.support.broker_requests import registration
from tests.support.controllers import CLUSTER_ID, a_controller
from tests.support.kafka_client import Form, kafka_client

PAGE: Final = Path(__file__).parents[3] / "docs" / "security.md"
ENVELOPE: Final = Form(ApiKey.ENVELOPE, 0)
CLUSTER: Final = "Cluster:kafka-cluster"
ADMIN, ANN = KafkaPrincipal("User", "admin"), KafkaPrincipal("User", "ann")
DIFFERENT: Final[Mapping[str, Any]] = MappingProxyType(
    {"time": "", "host": "", "listener": "", "offset": 0}
)
"""What depends on where and when the line was written."""


def examples() -> Iterator[dict[str, Any]]:
    _, _, section = PAGE.read_text().partition("## The audit log\n")
    _, _, fenced = section.partition("```json\n")
    for line in fenced.partition("```")[0].splitlines():
        yield json.loads(line)


def same(line: dict[str, Any]) -> list[tuple[str, Any]]:
    """The fields in their order, without those that differ each time; null stays null."""
    return [(k, DIFFERENT.get(k, v) if v is not None else None) for k, v in line.items()]


async def test_a_refusal_names_what_was_wanted_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    rights = AuthorizerConfig(super_users=frozenset({"User:ANONYMOUS"}))
    scram, acls = Form(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0), Form(ApiKey.CREATE_ACLS, 3)
    filters, quotas = Form(ApiKey.DELETE_ACLS, 3), Form(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    configs = Form(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    secret: dict[str, str | None] = {"ssl.key.password": "swordfish"}
    topic: dict[str, str | None] = {"retention.ms": "swordfish"}
    requests = (
        (scram, samples.alter_scram(scram, *({"name": f"eve{each}"} for each in range(1_000)))),
        (scram, samples.alter_scram(scram, {"name": "eve"}, deletions=(("bob", 2),))),
        (acls, samples.create_acls(acls, {"principal": "User:eve"})),
        (filters, samples.delete_acls(filters)),
        (configs, samples.alter_configs(configs, (4, "101", secret), (2, "orders", topic))),
        (quotas, samples.alter_quotas(quotas, ({"user": "eve"}, {"producer_byte_rate": 1.0}))),
    )
    async with (
        a_controller(tmp_path, authorizer=rights) as node,
        kafka_client(node.address) as client,
    ):
        for number, (form, payload) in enumerate(requests):
            who = KafkaPrincipal("User", f"nobody{number}")
            await client.send_bytes(ENVELOPE, samples.wrapped(form, payload, who))
    assert "swordfish" not in caplog.text
    lines = [json.loads(each.message) for each in caplog.records if each.name == "audit"]
    (many, *found) = [action for each in lines for action in each["actions"]]
    assert many["detail"].startswith("User:eve0 set SCRAM-SHA-256; User:eve1 set")
    assert len(many["detail"]) == CHARACTERS_MAX + len("...")
    assert [(each["resource"], each["detail"]) for each in found] == [
        (CLUSTER, "User:bob remove SCRAM-SHA-512; User:eve set SCRAM-SHA-256"),
        (CLUSTER, "Topic:t ALLOW READ to User:eve from *, pattern LITERAL"),
        (CLUSTER, "Any:unknown ANY ANY to any from any, pattern ANY"),
        (CLUSTER, "broker 101: ssl.key.password"),
        ("Topic:orders", "retention.ms"),
        (CLUSTER, "user eve: producer_byte_rate"),
    ]


async def test_the_examples_are_what_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    rights = AuthorizerConfig(super_users=frozenset({"User:ANONYMOUS", "User:admin"}))
    async with (
        a_controller(tmp_path, authorizer=rights) as node,
        kafka_client(node.address) as client,
    ):

        async def ask(who: KafkaPrincipal, form: Form, payload: Any) -> None:
            await client.send_bytes(ENVELOPE, samples.wrapped(form, payload, who))

        form = Form(ApiKey.CREATE_ACLS, 3)
        allow = {"resource_name": "orders", "principal": "User:ann", "operation": 8}
        await ask(ADMIN, form, samples.create_acls(form, allow))
        form = Form(ApiKey.BROKER_REGISTRATION, 4)
        registered = await client.send(form, registration(form, 101, CLUSTER_ID))
        await client.ask(
            ApiKey.BROKER_HEARTBEAT,
            1,
            broker_id=101,
            broker_epoch=registered.broker_epoch,
            current_metadata_offset=registered.broker_epoch,
            want_fence=False,
            want_shut_down=False,
            offline_log_dirs=(),
        )
        form = Form(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
        await ask(ADMIN, form, samples.alter_scram(form, {"name": "ann", "mechanism": 2}))
        form = Form(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
        secret: tuple[int, str, dict[str, str | None]]
        secret = (4, "101", {"listener.name.clients.ssl.key.password": "swordfish"})
        await ask(ADMIN, form, samples.alter_configs(form, secret))
        form = Form(ApiKey.CREATE_TOPICS, 7)
        assignment = form.part("CreatableReplicaAssignment", partition_index=0, broker_ids=(101,))
        counts = {"num_partitions": -1, "replication_factor": -1, "assignments": (assignment,)}
        topics = tuple(
            form.part("CreatableTopic", name=name, configs=(), **counts)
            for name in ("orders", "a b")
        )
        asked = form.request(topics=topics, timeout=samples.TIMEOUT, validate_only=False)
        await ask(ADMIN, form, asked)
        end = node.controller.image.end_offset
        form = Form(ApiKey.DELETE_TOPICS, 6)
        state = form.part("DeleteTopicState", name="orders", topic_id=None)
        await ask(ANN, form, form.request(topics=(state,), timeout=samples.TIMEOUT))
    written = [json.loads(each.message) for each in caplog.records if each.name == "audit"]
    assert list(map(same, written)) == list(map(same, examples()))
    assert [each["offset"] for each in written if each["request"] == "CreateTopics"] == [
        end - 1,
        None,
    ]
