"""A Metadata response of a controller that is made in slices, while its state changes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.apis import cluster
from controller.apis.request import decode
from controller.service import AsOf
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.principal import ANONYMOUS
from quorum.transport import long_responses
from quorum.transport.long_responses import LongResponses
from quorum.transport.outcomes import RequestFailed
from statemachine.image.image import Image
from statemachine.security.rights import UNLIMITED
from tests.broker.embedded_cluster import until
from tests.support.broker_requests import created, joined
from tests.support.controllers import CLUSTER_ID, a_controller
from tests.support.kafka_client import Form, kafka_client

VERSION = 1


class ShiftingService:
    """A service in which the lead is lost after the first of these epochs' reads."""

    def __init__(self, *epochs: int) -> None:
        self.long_responses = LongResponses()
        self.cluster_id, self.leader_id, self.voter_addresses = "c", 1, dict[int, Any]()
        self.authorization = SimpleNamespace(access=lambda _: UNLIMITED)
        self.quorum = SimpleNamespace(node=SimpleNamespace(epoch=0))
        self._epochs = iter(epochs)
        self.offset = 0

    async def read(self, read: Callable[[Image], Any], *, stale: bool) -> AsOf[Any]:
        self.quorum.node.epoch = next(self._epochs)
        self.offset += 1
        return AsOf(read(Image()), self.offset)


@pytest.mark.parametrize(("epochs", "offset"), [((5, 5), 2), ((5, 6, 6, 6), 4)])
async def test_it_is_as_of_its_end_and_made_anew_in_a_new_epoch(
    monkeypatch: pytest.MonkeyPatch, epochs: tuple[int, ...], offset: int
) -> None:
    """In a new epoch, what it shows may have been undone."""
    monkeypatch.setattr(long_responses, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(cluster, "metadata_topics", lambda *_, **__: iter((None, None)))
    body = codec.request_body(ApiKey.METADATA, VERSION, topics=None)
    request = decode(ApiKey.METADATA, VERSION, body, ANONYMOUS, client_id=None)
    service: Any = ShiftingService(*epochs)
    made = await cluster.metadata(request, service)
    assert made.offset == offset
    assert codec.decode_response(ApiKey.METADATA, VERSION, made.value).controller_id == 1


async def test_it_shows_all_topics_and_ends_with_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_responses, "SLICE_SECONDS", 0.0)
    form = Form(ApiKey.METADATA, VERSION)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await joined(client, 101, CLUSTER_ID)
        await created(client, "t", *[(101,)] * 200)
        (topic,) = (await client.send(form, form.request(topics=None))).topics
        assert [each.partition_index for each in topic.partitions] == list(range(200))
        async with kafka_client(node.address) as leaving:
            waiting = asyncio.get_running_loop().create_task(
                leaving.send(form, form.request(topics=None))
            )
            await until(lambda: node.service.long_responses.under_way == 1)
        with pytest.raises(RequestFailed):
            await waiting
        await client.send(form, form.request(topics=()))
        assert node.service.long_responses.under_way == 0
