"""Envelopes of other nodes (KIP-590): the request inside is answered, or all is refused."""

import logging
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.apis import router
from controller.apis.admin_apis import APIS
from controller.apis.controller_apis import OFFERED
from controller.apis.request import KafkaRequest, refuse
from quorum.protocol import headers
from quorum.protocol.apis import SPOKEN, ApiKey
from quorum.protocol.codec import decode_response, encode_response_body
from quorum.protocol.principal import ANONYMOUS, KafkaPrincipal
from tests.controller.apis.samples import (
    SAMPLES,
    body_of,
    describe_quorum,
    list_reassignments,
    wrapped,
)
from tests.support.controllers import a_controller, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client

ENVELOPE = Form(ApiKey.ENVELOPE, 0)
PRINCIPAL = b"\x00\x00" + b"\x05User" + b"\x07tester" + b"\x00" + b"\x00"
"""Version 0, type, name, no token, no tags."""


def inner_answer(form: Form, data: bytes, correlation_id: int = 77) -> Any:
    """The answer inside, with its header checked."""
    assert data[:4] == struct.pack(">i", correlation_id)
    start = headers.response_body_start(data, form.api_key, form.version)
    return decode_response(form.api_key, form.version, data[start:])


async def refused(client: KafkaClient, data: bytes, principal: bytes = PRINCIPAL) -> int:
    """The error of an envelope with this inside."""
    request = ENVELOPE.request(
        request_data=data, request_principal=principal, client_host_address=b"\x7f\x00\x00\x01"
    )
    answer = await client.send(ENVELOPE, request)
    assert answer.response_data is None
    code: int = answer.error_code.value
    return code


async def test_the_answer_inside_is_that_of_the_request_inside(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        for api_key in APIS:
            inner = Form(api_key, OFFERED[api_key].highest)
            payload = SAMPLES[api_key](inner)
            # Some answers name the principal, which of the client itself is not known.
            envelope = wrapped(inner, payload, ANONYMOUS)
            answer = await client.send_bytes(ENVELOPE, envelope)
            assert answer.error_code.value == 0
            found = inner_answer(inner, answer.response_data)
            if api_key is not ApiKey.DESCRIBE_QUORUM:  # Which names the time of day.
                assert found == await client.send(inner, payload)


async def test_a_failure_is_logged_with_the_connection_that_its_envelope_came_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> Any:
        raise KeyError("planted")

    api_key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    planted = {**APIS, api_key: replace(APIS[api_key], handle=fail)}
    monkeypatch.setattr(router, "APIS", planted)
    inner = Form(api_key, 0)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await client.send_bytes(ENVELOPE, wrapped(inner, SAMPLES[api_key](inner)))
        (failed,) = (each for each in caplog.records if each.levelno == logging.ERROR)
        assert re.search(r"of 127\.0\.0\.1, forwarded by 127\.0\.0\.1:\d+$", failed.message)


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_headers_inside_are_those_of_the_version_inside(tmp_path: Path, version: int) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        inner = Form(ApiKey.CREATE_TOPICS, version)
        answer = await client.send_bytes(
            ENVELOPE, wrapped(inner, SAMPLES[ApiKey.CREATE_TOPICS](inner))
        )
        (topic,) = inner_answer(inner, answer.response_data).topics
        assert topic.error_code.value == 39  # There is no broker to hold it.


async def test_an_envelope_whose_principal_cannot_be_read_is_refused(tmp_path: Path) -> None:
    inner = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        sound = request_inside(inner, body_of(inner))
        for principal in (b"", b"\x00", b"\x00\x01", b"\x00\x00\xff", PRINCIPAL + b"\x00"):
            assert await refused(client, sound, principal) == 97


async def test_an_envelope_with_something_unreadable_inside_is_refused(tmp_path: Path) -> None:
    inner = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        sound = request_inside(inner, body_of(inner))
        for broken in (b"", sound[:5], sound[:-1], sound + b"\x00"):
            assert await refused(client, broken) == 42


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.BROKER_HEARTBEAT, 1),
        (ApiKey.FETCH, 17),
        (ApiKey.ENVELOPE, 0),
        (ApiKey.CREATE_TOPICS, 1),
        (ApiKey.METADATA, 14),
        (999, 0),
    ],
)
async def test_apis_that_are_not_offered_to_clients_are_refused_in_an_envelope_too(
    tmp_path: Path, api_key: int, version: int
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(api_key, version)
        if version in SPOKEN.get(api_key, ()):
            data = request_inside(form, body_of(form))
        else:
            data = struct.pack(">hhih", api_key, version, 77, -1)
        assert await refused(client, data) == 35


async def test_a_node_that_is_not_active_refuses_the_whole_envelope(tmp_path: Path) -> None:
    """Not the request inside: whoever passed it on shall look for the new active controller."""
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        kafka_client(nodes[1].address) as client,
    ):
        listing, describing = (
            Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0),
            Form(ApiKey.DESCRIBE_QUORUM, 2),
        )
        for inner, payload in (
            (listing, list_reassignments(listing)),
            (describing, describe_quorum(describing)),
        ):
            assert await refused(client, request_inside(inner, inner.body(payload))) == 41


@pytest.mark.parametrize("api_key", APIS, ids=str)
def test_every_refusal_can_be_said_in_every_version(api_key: ApiKey) -> None:
    for version in range(OFFERED[api_key].lowest, OFFERED[api_key].highest + 1):
        form = Form(api_key, version)
        call = KafkaRequest(
            api_key=api_key,
            version=version,
            client_id=None,
            principal=KafkaPrincipal("User", "tester"),
            message=SAMPLES[api_key](form),
        )
        refusal = refuse(call, 41, "no controller is active")
        body = encode_response_body(api_key, version, refusal)
        assert decode_response(api_key, version, body) == refusal


def request_inside(form: Form, body: bytes) -> bytes:
    """A whole request, as it stands in an envelope."""
    return headers.write_request_header(form.api_key, form.version, 77, "asker") + body
