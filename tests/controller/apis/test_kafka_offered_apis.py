"""Every API that a controller offers, in every version, over a real socket."""

import asyncio
import struct
from pathlib import Path

import pytest

from controller.apis.controller_apis import OFFERED
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import decode_response, response_schema
from tests.controller.apis.samples import body_of
from tests.quorum.transport.loopback import framed, peer_of
from tests.support.bell import PATIENCE_SECONDS
from tests.support.broker_requests import created, joined
from tests.support.controllers import CLUSTER_ID, a_controller
from tests.support.kafka_client import Form, kafka_client


async def test_every_version_of_every_api_gets_a_well_formed_answer(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        for broker_id in (101, 102):
            await joined(client, broker_id, CLUSTER_ID)
        await created(client, "t", (101, 102))
        for api_key, versions in OFFERED.items():
            for version in range(versions.lowest, versions.highest + 1):
                form = Form(api_key, version)
                response = await client.send_bytes(form, body_of(form))
                assert type(response) is response_schema(api_key, version)


async def test_every_offered_api_is_served(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answer = await client.ask(
            ApiKey.API_VERSIONS, 4, client_software_name="test", client_software_version="1"
        )
        said = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert said == {key: (each.lowest, each.highest) for key, each in OFFERED.items()}
        assert answer.finalized_features_epoch == node.controller.committed


async def test_an_api_versions_request_that_is_too_new_is_told_which_to_use(tmp_path: Path) -> None:
    """KIP-511: an answer of version 0 with error 35, whatever the body was."""
    async with a_controller(tmp_path) as node, peer_of(node.address.port) as peer:
        peer.write(framed(b"\x00\x12\x00\x63" + b"\x00\x00\x00\x07" + b"\xff\xff whatever"))
        frame = await peer.take_frame()
        response = decode_response(ApiKey.API_VERSIONS, 0, frame[4:])
        assert frame[:4] == b"\x00\x00\x00\x07"
        assert response.error_code.value == 35
        assert {each.api_key for each in response.api_keys} >= {ApiKey.API_VERSIONS}


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(ApiKey.PRODUCE, 9), (999, 0), (-1, 0), (ApiKey.FETCH, 12), (ApiKey.METADATA, 14)],
)
async def test_an_api_that_is_not_offered_closes_the_connection_with_one_log_line(
    tmp_path: Path, api_key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        async with peer_of(node.address.port) as peer:
            peer.write(framed(struct.pack(">hhihb", api_key, version, 7, -1, 0)))
            await asyncio.wait({peer.lost}, timeout=PATIENCE_SECONDS)
            assert peer.received == b""
            closed = [each.message for each in caplog.records if peer.name in each.message]
        assert len(closed) == 1
        assert "served" in closed[0]
        form = Form(ApiKey.DESCRIBE_CLUSTER, 1)
        assert (await client.send_bytes(form, body_of(form))).error_code.value == 0
