"""Quotas of clients over the Kafka protocol (KIP-546)."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from controller.apis.controller_apis import OFFERED
from quorum.protocol.apis import ApiKey
from quorum.transport.audit_log import WITHOUT_EFFECT_MAX
from tests.controller.apis.samples import alter_quotas, describe_quotas
from tests.support.controllers import a_controller
from tests.support.kafka_client import Form, KafkaClient, kafka_client

VERSIONS = list(range(OFFERED[ApiKey.ALTER_CLIENT_QUOTAS].highest + 1))
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
Entry = tuple[dict[str, str | None], dict[str, float | None]]

QUOTAS: list[Entry] = [
    ({"user": "a"}, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}),
    ({"user": None}, {"consumer_byte_rate": 5.0}),
    ({"client-id": "c", "user": "a"}, {"controller_mutation_rate": 0.5}),
    ({"client-id": "c"}, {"producer_byte_rate": 7.0}),
    ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0}),
]


async def alter(
    client: KafkaClient, *entries: Entry, version: int = 1, validate_only: bool = False
) -> list[tuple[int, str]]:
    """Error code and message of each entity."""
    form = Form(ApiKey.ALTER_CLIENT_QUOTAS, version)
    answer = await client.send(form, alter_quotas(form, *entries, validate_only=validate_only))
    return [(each.error_code.value, each.error_message or "") for each in answer.entries]


async def ask(
    client: KafkaClient,
    *filters: tuple[str, int, str | None],
    version: int = 1,
    strict: bool = False,
) -> Any:
    form = Form(ApiKey.DESCRIBE_CLIENT_QUOTAS, version)
    return await client.send(form, describe_quotas(form, *filters, strict=strict))


def found(answer: Any) -> list[Entry]:
    """The entities of an answer with their quotas."""
    assert answer.error_code.value == 0, answer
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in answer.entries
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_quotas_are_described_in_every_version(tmp_path: Path, version: int) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        assert await alter(client, *QUOTAS, version=version) == [(0, "")] * len(QUOTAS)
        everything = found(await ask(client, version=version))
        assert sorted(map(str, everything)) == sorted(map(str, QUOTAS))
        removal: Entry = ({"user": "a"}, {"producer_byte_rate": None, "unknown": None})
        assert await alter(client, removal, version=version) == [(0, "")]
        (left,) = found(await ask(client, ("user", EXACT, "a"), version=version, strict=True))
        assert left == ({"user": "a"}, {"request_percentage": 12.5})


@pytest.mark.parametrize(
    ("filters", "strict", "numbers"),
    [
        ([], False, [0, 1, 2, 3, 4]),
        ([], True, []),
        ([("user", EXACT, "a")], False, [0, 2]),
        ([("user", EXACT, "a")], True, [0]),
        ([("user", DEFAULT, None)], False, [1]),
        ([("user", SPECIFIED, None)], False, [0, 1, 2]),
        ([("client-id", SPECIFIED, None), ("user", EXACT, "a")], True, [2]),
        ([("ip", SPECIFIED, None)], True, [4]),
        ([("ip", EXACT, "10.0.0.2")], False, []),
    ],
)
async def test_filters_choose_entities(
    tmp_path: Path,
    filters: list[tuple[str, int, str | None]],
    strict: bool,
    numbers: list[int],
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await alter(client, *QUOTAS)
        answer = found(await ask(client, *filters, strict=strict))
        assert sorted(map(str, answer)) == sorted(str(QUOTAS[number]) for number in numbers)


@pytest.mark.parametrize(
    ("filters", "code", "named"),
    [
        ([("", EXACT, "a")], 42, "needs a type"),
        ([("group", EXACT, "a")], 35, "'group'"),
        ([("user", EXACT, None)], 42, "needs a name"),
        ([("user", DEFAULT, "a")], 42, "only an exact match"),
        ([("user", SPECIFIED, "a")], 42, "only an exact match"),
        ([("user", 3, None)], 42, "match type 3"),
        ([("user", EXACT, "a"), ("user", SPECIFIED, None)], 42, "one filter only"),
        ([("user", EXACT, "a"), ("ip", SPECIFIED, None)], 42, "cannot be combined"),
    ],
)
async def test_filters_that_make_no_sense_are_refused(
    tmp_path: Path, filters: list[tuple[str, int, str | None]], code: int, named: str
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        for version in VERSIONS:
            answer = await ask(client, *filters, version=version)
            assert answer.error_code.value == code
            assert named in answer.error_message
            assert answer.entries is None


async def test_each_entity_is_changed_or_refused_by_itself(tmp_path: Path) -> None:
    bad: list[tuple[Entry, str]] = [
        (({}, {"producer_byte_rate": 1.0}), "needs a type"),
        (({"group": "a"}, {"producer_byte_rate": 1.0}), "'group'"),
        (({"user": ""}, {"producer_byte_rate": 1.0}), "needs a name"),
        (({"user": "x", "ip": "::1"}, {"producer_byte_rate": 1.0}), "stands alone"),
        (({"ip": "not a host"}, {"connection_creation_rate": 1.0}), "'not a host'"),
        (({"ip": "::1"}, {"producer_byte_rate": 1.0}), "connection_creation_rate"),
        (({"user": "x"}, {"connection_creation_rate": 1.0}), "producer_byte_rate"),
        (({"user": "y"}, {"producer_byte_rate": 0.0}), "greater than 0"),
        (({"user": "z"}, {"producer_byte_rate": -5.0}), "greater than 0"),
        (({"client-id": "x"}, {"producer_byte_rate": 1.5}), "whole number"),
        (({"client-id": "y"}, {"request_percentage": float("nan")}), "greater than 0"),
        (({"ip": "h.example"}, {"connection_creation_rate": 2.0**31}), "at most 2147483647"),
    ]
    good: Entry = ({"user": "good"}, {"producer_byte_rate": 1.0})
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answers = await alter(client, *(entry for entry, _ in bad), good)
        assert [code for code, _ in answers] == [42] * len(bad) + [0]
        for (_, message), (_, named) in zip(answers, bad, strict=False):
            assert named in message
        assert found(await ask(client)) == [good]


async def test_an_entity_named_twice_is_refused_and_what_is_only_validated_is_not_done(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        twice: Entry = ({"user": "a", "client-id": "c"}, {"producer_byte_rate": 1.0})
        turned: Entry = ({"client-id": "c", "user": "a"}, {"producer_byte_rate": 2.0})
        ((code, message),) = await alter(client, twice, turned)
        assert code == 42
        assert "client-id c, user a is named more than once" in message
        assert await alter(client, twice, validate_only=True) == [(0, "")]
        assert node.controller.image.quotas == {}


async def test_the_audit_log_has_every_change_and_few_lines_of_what_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        for number in range(2 * WITHOUT_EFFECT_MAX):
            for is_dry in (True, False):
                entry: Entry = ({"user": f"user-{number}"}, {"producer_byte_rate": 1.0})
                assert await alter(client, entry, validate_only=is_dry) == [(0, "")]
    lines = [json.loads(each.message) for each in caplog.records if each.name == "audit"]
    changes = [each for each in lines if each["offset"] is not None]
    assert [each["actions"][0]["detail"] for each in changes] == [
        f"user user-{n}: producer_byte_rate" for n in range(2 * WITHOUT_EFFECT_MAX)
    ]
    assert len(lines) - len(changes) == WITHOUT_EFFECT_MAX
