"""Any bytes are answered or close their connection, and the node continues."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apis.controller_apis import OFFERED
from quorum.core.vocabulary import ReplicaId
from quorum.discovery.address_book import AddressBook
from quorum.discovery.gossip import Gossip
from quorum.protocol import headers
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response
from tests.controller.apis.samples import body_of
from tests.quorum.transport.loopback import framed, peer_of
from tests.support.bell import PATIENCE_SECONDS
from tests.support.broker_requests import created, joined
from tests.support.controllers import CLUSTER_ID, HOST, Node, a_controller
from tests.support.kafka_client import Form, kafka_client
from tests.support.parameters import at_most_in_quick

FORMS = [
    Form(api_key, version)
    for api_key, versions in OFFERED.items()
    for version in range(versions.lowest, versions.highest + 1)
]


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Form, bytes]:
    """A sensible request of some API, some bytes of which are other ones, gone, or new."""
    form = draw(st.sampled_from(FORMS))
    body = bytearray(body_of(form))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        gone = draw(st.integers(0, 3))
        body[at : at + gone] = draw(st.binary(max_size=4))
    return form, bytes(body)


ANYTHING = st.tuples(st.sampled_from(FORMS), st.binary(max_size=120))


class Watch:
    """Errors that must not happen meanwhile, in the loop or in the log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.raised: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.raised.append(context))

    def check(self, node: Node) -> None:
        raised, self.raised = self.raised, []
        errors = [each for each in self._caplog.records if each.levelno >= logging.ERROR]
        self._caplog.clear()
        assert raised == []
        assert [logging.Formatter().format(each) for each in errors] == []
        assert not node.running.done()


async def send(node: Node, form: Form, body: bytes, watch: Watch) -> None:
    """Send it on a connection of its own, and see what becomes of it."""
    async with asyncio.timeout(PATIENCE_SECONDS), peer_of(node.address.port) as peer:
        header = headers.write_request_header(form.api_key, form.version, 7, "stranger")
        peer.write(framed(header + body))
        try:
            frame = await peer.take_frame()
        except EOFError:
            return  # With a line in the log, which `watch` looks at.
        finally:
            watch.check(node)
        start = headers.response_body_start(frame, form.api_key, form.version)
        decode_response(form.api_key, form.version, frame[start:])


def test_no_bytes_of_anybody_hurt_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = AsyncExitStack()

    async def begin() -> tuple[Node, Watch]:
        node = await parts.enter_async_context(a_controller(tmp_path))
        async with kafka_client(node.address) as client:
            for broker_id in (101, 102):
                await joined(client, broker_id, CLUSTER_ID)
            await created(client, "t", (101, 102))
        return node, Watch(caplog)

    async def still_there(node: Node) -> None:
        async with kafka_client(node.address) as client:
            form = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
            answer = await client.send_bytes(form, body_of(form))
            assert answer.error_code.value == 0
        await parts.aclose()

    with asyncio.Runner() as runner:
        node, watch = runner.run(begin())

        @settings(max_examples=at_most_in_quick(250))
        @given(spoilt() | ANYTHING)
        def try_out(message: tuple[Form, bytes]) -> None:
            runner.run(send(node, *message, watch))

        try_out()
        runner.run(still_there(node))


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (Form(ApiKey.DESCRIBE_QUORUM, 2), b"\x00" + b"\x00"),
        (Form(ApiKey.CREATE_TOPICS, 7), b"\x00" + b"\x00\x00\x4e\x20" + b"\x00" + b"\x00"),
        (Form(ApiKey.CREATE_TOPICS, 2), b"\xff\xff\xff\xff" + b"\x00\x00\x4e\x20" + b"\x00"),
        (Form(ApiKey.METADATA, 0), b"\xff\xff\xff\xff"),
        (Form(ApiKey.ALTER_PARTITION, 3), bytes(12) + b"\x00" + b"\x00"),
    ],
    ids=str,
)
async def test_null_where_a_list_must_be_closes_the_connection(
    tmp_path: Path, form: Form, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_controller(tmp_path) as node, peer_of(node.address.port) as peer:
        header = headers.write_request_header(form.api_key, form.version, 7, None)
        peer.write(framed(header + body))
        await asyncio.wait({peer.lost}, timeout=PATIENCE_SECONDS)
        assert peer.received == b""
        (line,) = (each for each in caplog.records if peer.name in each.message)
        assert line.levelno == logging.WARNING
        assert "null" in line.message


async def test_an_answer_that_cannot_be_given_closes_the_connection_and_is_explained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the answers to all that follow on the connection would wait for ever."""
    async with a_controller(tmp_path) as node, peer_of(node.address.port) as peer:
        form = Form(ApiKey.DESCRIBE_CLUSTER, 1)
        header = headers.write_request_header(form.api_key, form.version, 7, None)
        # An address that no answer has room for.
        node.controller.image.controllers.clear()
        node.service.addresses = AddressBook(
            Gossip(None), configured={ReplicaId(1): (HOST, 1 << 40)}
        )
        peer.write(framed(header + body_of(form)))
        await asyncio.wait({peer.lost}, timeout=PATIENCE_SECONDS)
        assert peer.received == b""
        (failed,) = (each for each in caplog.records if each.levelno == logging.ERROR)
        assert "Failed to answer DescribeCluster v1" in failed.message
        assert failed.exc_info is not None
        assert not node.running.done()
