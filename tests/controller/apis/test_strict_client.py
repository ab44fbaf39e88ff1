"""A client that knows only Kafka's schemas, and no tagged field besides, reads every answer."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from controller.apis.controller_apis import OFFERED
from quorum.protocol import envelope, headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.extension import Consistency, Extension, with_extension
from tests.controller.apis.samples import SAMPLES, alter_reassignments, body_of
from tests.controller.apis.test_kafka_answers import a_scene
from tests.quorum.transport.loopback import Peer, framed, peer_of
from tests.support.controllers import controllers
from tests.support.kafka_client import Form

FORMS = [
    Form(api_key, version)
    for api_key, versions in OFFERED.items()
    if api_key < ApiKey.DISCOVER_BROKERS
    for version in range(versions.lowest, versions.highest + 1)
]


def plain(form: Form) -> bytes:
    """The body of a request as Kafka's schema writes it, without any field of ours."""
    if form.api_key == ApiKey.ENVELOPE:
        inner = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
        header = headers.write_request_header(inner.api_key, inner.version, 77, "kafka")
        return written(
            form,
            request_data=header + plain(inner),
            request_principal=b"\x00\x00\x05User\x07tester\x00\x00",
            client_host_address=b"\x7f\x00\x00\x01",
        )
    body = body_of(form)
    _, size = entity_reader(load_request_schema(form.api_key, form.version))(body, 0)
    assert size == len(body), f"{form} carries something of ours"
    return body


def written(form: Form, **values: Any) -> bytes:
    schema: Any = load_request_schema(form.api_key, form.version)
    buffer = BytesIO()
    entity_writer(schema)(buffer, schema(**values))
    return buffer.getvalue()


async def answer_to(peer: Peer, form: Form, body: bytes) -> bytes:
    """The body of the answer."""
    header = headers.write_request_header(form.api_key, form.version, 7, "kafka")
    peer.write(framed(header + body))
    frame = await peer.take_frame()
    return frame[headers.response_body_start(frame, form.api_key, form.version) :]


def read(form: Form, body: bytes) -> Any:
    """The answer as kio reads it; it takes no tagged field that Kafka's schema lacks."""
    schema = load_response_schema(form.api_key, form.version)
    value, size = entity_reader(schema)(body, 0)
    assert size == len(body), f"{len(body) - size} bytes behind the answer to {form}"
    return value


@pytest.mark.parametrize("api_key", sorted({each.api_key for each in FORMS}))
async def test_a_client_of_kafka_reads_every_answer(tmp_path: Path, api_key: int) -> None:
    async with a_scene(tmp_path) as scene, peer_of(scene.node.address.port) as peer:
        # There is a move to tell of, and there are voters to be.
        form = Form(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1)
        await scene.client.send(form, alter_reassignments(form, ("t", 0, (102,))))
        for form in FORMS:
            if form.api_key == api_key:
                read(form, await answer_to(peer, form, plain(form)))


async def test_a_node_of_kafka_reads_the_refusal_of_an_envelope(tmp_path: Path) -> None:
    form = Form(ApiKey.ENVELOPE, envelope.VERSION)
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        peer_of(nodes[1].address.port) as peer,
    ):
        refusal = read(form, await answer_to(peer, form, plain(form)))
        assert (refusal.error_code.value, refusal.response_data) == (41, None)


async def test_our_clients_get_the_offset_of_the_answer(tmp_path: Path) -> None:
    """The strict reader would find our field if it were there."""
    form = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    async with a_scene(tmp_path) as scene, peer_of(scene.node.address.port) as peer:
        message = SAMPLES[form.api_key](form)
        wanted = Extension(consistency=Consistency.LINEARIZABLE)
        ours = with_extension(type(message), form.body(message), wanted)
        with pytest.raises((AssertionError, KeyError, ValueError)):
            read(form, await answer_to(peer, form, ours))
