"""Long requests are decoded, and long answers encoded, in a thread, with the same result."""

import threading
from pathlib import Path
from typing import Any

import pytest

from controller.apis import admin_apis, controller_apis, reassignments, request
from controller.apis.controller_apis import OFFERED
from controller.apis.request import LONG_PARTS, offload
from quorum.protocol import headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response
from tests.controller.apis.samples import body_of
from tests.quorum.transport.loopback import framed, peer_of
from tests.support.controllers import Node, a_controller
from tests.support.kafka_client import Form

FORMS = [
    Form(api_key, versions.highest)
    for api_key, versions in OFFERED.items()
    if api_key in admin_apis.APIS or api_key == ApiKey.ENVELOPE
]


@pytest.fixture
def everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every request and answer with any bytes or parts as long."""
    monkeypatch.setattr(controller_apis, "LONG_BODY_BYTES", 0)
    monkeypatch.setattr(request, "LONG_PARTS", 0)
    monkeypatch.setattr(reassignments, "LISTED_AT_ONCE_MAX", 0)


async def sent(node: Node, form: Form, body: bytes) -> Any:
    """The answer to this body; None if the connection was closed."""
    async with peer_of(node.address.port) as peer:
        header = headers.write_request_header(form.api_key, form.version, 7, "stranger")
        peer.write(framed(header + body))
        try:
            frame = await peer.take_frame()
        except EOFError:
            return None
        start = headers.response_body_start(frame, form.api_key, form.version)
        return decode_response(form.api_key, form.version, frame[start:])


@pytest.mark.usefixtures("everything_is_long")
async def test_long_requests_are_answered_as_short_ones_are(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        for form in FORMS:
            assert await sent(node, form, body_of(form)) is not None, form


@pytest.mark.usefixtures("everything_is_long")
async def test_a_long_request_that_cannot_be_read_closes_its_connection(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        form = Form(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0)
        assert await sent(node, form, body_of(form)[:-1] + b"\xff\xff") is None
        assert await sent(node, form, body_of(form)) is not None


async def test_long_work_is_done_in_a_thread() -> None:
    here = threading.get_ident()
    assert await offload(threading.get_ident, LONG_PARTS - 1) == here
    assert await offload(threading.get_ident, LONG_PARTS) != here
