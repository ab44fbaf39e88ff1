"""A broker's view of the metadata that begins with a snapshot."""

import asyncio
from uuid import UUID

from broker.metadata import MetadataFollower
from quorum.core.vocabulary import Epoch, Offset
from statemachine import records, serde
from statemachine.image import Image, Touched
from tests.support.bell import PATIENCE_SECONDS

TOPIC = records.Topic(name="orders", topic_id=UUID(int=7))


class Nothing:
    """A log of which nothing more is committed."""

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        raise AssertionError(f"nothing was committed at {start}, up to {max_bytes} bytes")


async def test_what_a_snapshot_says_is_handed_on_before_anything_is_committed() -> None:
    follower = MetadataFollower(Image())
    follower.load_snapshot([serde.encode(TOPIC, 29)], Offset(40), Epoch(3))
    assert follower.image.end_offset == 40
    assert follower.image.topic_named("orders") is not None
    follower.read_from(Nothing())
    told: asyncio.Future[Touched] = asyncio.get_running_loop().create_future()
    follower.on_change = told.set_result
    running = asyncio.get_running_loop().create_task(follower.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        touched = await told
    running.cancel()
    await asyncio.wait({running})
    assert isinstance(touched, Touched)
