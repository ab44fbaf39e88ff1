"""Requests that a broker forwards to the active controller, and its errors without one."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.apis import broker_apis, forwarding
from broker.apis.broker_apis import FORWARDED, OFFERED
from broker.limits import LONG_BODY_BYTES
from quorum.protocol import codec, headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.envelope import Reason, write_refusal
from quorum.protocol.refusals import build_refusal
from quorum.transport.address import Address
from quorum.transport.controller_channel import NoActiveController, NodeToControllerChannelManager
from quorum.transport.inbound import InboundRequest
from quorum.transport.outcomes import RequestFailed
from tests.broker.embedded_cluster import cluster, until
from tests.controller.apis.samples import SAMPLES
from tests.support.kafka_client import Form, kafka_client
from tests.support.kio_values import make, nested


def create_topics(version: int, *, timeout_ms: int = 20_000) -> Any:
    schema = codec.request_schema(ApiKey.CREATE_TOPICS, version)
    topic = make(
        nested(schema, "CreatableTopic"),
        name="t",
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    return make(schema, topics=(topic,), timeout=timedelta(milliseconds=timeout_ms))


def created(version: int) -> bytes:
    """An answer, with the header that the client waits for."""
    message = create_topics(version)
    payload = build_refusal(ApiKey.CREATE_TOPICS, version, message, 36, "it is there")
    return codec.encode_response_body(ApiKey.CREATE_TOPICS, version, payload)


def answer_envelope(envelope: InboundRequest, *, data: bytes | None, code: int = 0) -> None:
    schema = codec.response_schema(ApiKey.ENVELOPE, 0)
    payload = make(schema, response_data=data, error_code=codec.error_code(code))
    envelope.respond(codec.encode_response_body(ApiKey.ENVELOPE, 0, payload))


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("version", [4, 5, 7])
async def test_the_request_travels_as_it_came_and_the_answer_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, *, is_long: bool
) -> None:
    monkeypatch.setattr(broker_apis, "LONG_BODY_BYTES", 0 if is_long else 1_000)
    async with cluster(tmp_path, 1) as brokers:
        request = create_topics(version)
        waiting = brokers.spawn(brokers[1].call(ApiKey.CREATE_TOPICS, version, request))
        envelopes = brokers.controller.envelopes
        await until(lambda: len(envelopes) == 1)
        inner = codec.decode_request(ApiKey.ENVELOPE, 0, envelopes[0].body)
        api_key, sent_version, correlation_id = headers.read_request_prefix(inner.request_data)
        assert (api_key, sent_version) == (ApiKey.CREATE_TOPICS, version)
        _, start = headers.read_request_header(inner.request_data, api_key, version)
        body = inner.request_data[start:]
        assert codec.decode_request(ApiKey.CREATE_TOPICS, version, body) == request
        assert inner.request_principal == b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"
        assert inner.client_host_address == bytes((127, 0, 0, 1))
        flexible = version >= 5
        frame = headers.write_framed_response_header(
            correlation_id, len(created(version)), flexible=flexible
        )
        answer_envelope(envelopes[0], data=frame[4:] + created(version))
        assert (await waiting).topics[0].error_code == 36


async def test_a_controller_that_is_none_any_more_is_asked_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        waiting = brokers.spawn(brokers[1].call(ApiKey.CREATE_TOPICS, 4, create_topics(4)))
        envelopes = brokers.controller.envelopes
        await until(lambda: len(envelopes) == 1)
        answer_envelope(envelopes[0], data=None, code=41)
        await until(lambda: len(envelopes) == 2)
        inner = codec.decode_request(ApiKey.ENVELOPE, 0, envelopes[1].body)
        _, _, correlation_id = headers.read_request_prefix(inner.request_data)
        frame = headers.write_framed_response_header(correlation_id, 0, flexible=False)
        answer_envelope(envelopes[1], data=frame[4:] + created(4))
        assert (await waiting).topics[0].error_code == 36


async def test_without_a_controller_the_client_is_told_in_its_own_time(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        request = create_topics(7, timeout_ms=1_000)
        answer = await brokers[1].call(ApiKey.CREATE_TOPICS, 7, request)
        assert answer.topics[0].error_code == 7
        assert answer.topics[0].error_message.startswith("no active controller answered in time: ")


@pytest.mark.thorough
async def test_why_no_controller_did_it_reaches_the_client(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        request = create_topics(7, timeout_ms=1_000)
        waiting = brokers.spawn(brokers[1].call(ApiKey.CREATE_TOPICS, 7, request))
        envelopes, asked = brokers.controller.envelopes, 0

        def is_asked_again() -> bool:
            return waiting.done() or len(envelopes) > asked

        while not waiting.done():
            for envelope in envelopes[asked:]:
                envelope.respond(write_refusal(41, Reason("its disk is full")))
            asked = len(envelopes)
            await until(is_asked_again)
        assert asked > 1
        answer = await waiting
        assert answer.topics[0].error_code == 41
        assert answer.topics[0].error_message.endswith(": its disk is full")


@pytest.mark.parametrize(("is_lost", "code"), [(False, 41), (True, 7)])
async def test_a_request_that_no_controller_can_have_carried_out_is_not_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, is_lost: bool
) -> None:
    patience_ms = 600

    losses = iter([is_lost])

    async def send(self: object, *_: object, **__: object) -> None:
        raise NoActiveController("nobody leads", may_be_done=next(losses, False))

    async with cluster(tmp_path, 1) as brokers:
        monkeypatch.setattr(NodeToControllerChannelManager, "send", send)
        began = asyncio.get_running_loop().time()
        answer = await brokers[1].call(
            ApiKey.CREATE_TOPICS, 7, create_topics(7, timeout_ms=patience_ms)
        )
        assert asyncio.get_running_loop().time() - began < patience_ms / 1_000, (
            "the client would have given up"
        )
        assert answer.topics[0].error_code == code
        assert answer.topics[0].error_message.endswith("in time: nobody leads")


async def test_another_error_of_the_envelope_is_the_clients_unknown_error(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        waiting = brokers.spawn(brokers[1].call(ApiKey.CREATE_TOPICS, 7, create_topics(7)))
        await until(lambda: len(brokers.controller.envelopes) == 1)
        answer_envelope(brokers.controller.envelopes[0], data=None, code=31)
        assert (await waiting).topics[0].error_code == -1


async def test_a_long_request_is_decoded_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, decoded = codec.decode_request, []

    def noted(api_key: int, *arguments: Any) -> Any:
        if api_key == ApiKey.CREATE_TOPICS:
            decoded.append(threading.current_thread() is threading.main_thread())
        return decode(api_key, *arguments)

    async with cluster(tmp_path, 1) as brokers:
        monkeypatch.setattr(codec, "decode_request", noted)
        part = create_topics(7).topics[0]
        for count in (1, LONG_BODY_BYTES // 8):
            asked = replace(create_topics(7), topics=count * (part,))
            waiting = brokers.spawn(brokers[1].call(ApiKey.CREATE_TOPICS, 7, asked))
            await until(lambda: bool(brokers.controller.envelopes))
            answer_envelope(brokers.controller.envelopes.pop(), data=None, code=31)
            await waiting
        assert decoded == [True, False]


async def test_a_long_request_that_is_malformed_or_too_much_goes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker_apis, "LONG_BODY_BYTES", 0)
    monkeypatch.setattr(forwarding, "FORWARDED_BYTES_MAX", 10)
    async with cluster(tmp_path, 1) as brokers:
        answer = await brokers[1].call(ApiKey.CREATE_TOPICS, 7, create_topics(7))
        (topic,) = answer.topics
        assert (topic.error_code, topic.error_message) == (
            7,
            "too many requests are being forwarded",
        )
        address = Address("127.0.0.1", brokers[1].port)
        async with kafka_client(address) as client:
            with pytest.raises(RequestFailed):
                await client.send_bytes(Form(ApiKey.CREATE_TOPICS, 7), b"\xff" * 8)
        assert not brokers.controller.envelopes
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (key, version)
        for key in sorted(FORWARDED)
        for version in range(OFFERED[key].lowest, OFFERED[key].highest + 1)
    ],
)
def test_every_forwarded_request_can_be_refused(api_key: ApiKey, version: int) -> None:
    request = SAMPLES[api_key](Form(api_key, version))
    refusal = build_refusal(api_key, version, request, 7, "too late")
    body = codec.encode_response_body(api_key, version, refusal)
    answer = codec.decode_response(api_key, version, body)
    assert getattr(answer, "error_code", 7) == 7
