"""One channel to the active controller, which follows the lead."""

import asyncio
import random
from typing import Any

import pytest

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.transport.controller_channel import NoActiveController, NodeToControllerChannelManager
from quorum.transport.sweeper import Sweeper
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import HOST, Handler, ManualClock, refusing_port, serving

VOTED = codec.response_body(ApiKey.VOTE, 1, error_code=0, topics=())
"""The handler of these tests answers with the body of the request."""


async def ask(channel: NodeToControllerChannelManager, body: bytes = VOTED) -> Any:
    return await channel.send(ApiKey.VOTE, body, version=1)


def test_the_next_leader_is_asked_at_once_where_the_last_one_refused(run: Run) -> None:
    """The delay after a failed attempt belongs to the address that failed."""

    async def test() -> None:
        clock = ManualClock()
        sweeper = Sweeper(clock)
        async with serving(Handler(), clock) as (_, port):
            leader: list[tuple[str, int] | None] = [None]
            channel = NodeToControllerChannelManager(
                lambda: leader[0], client_id="broker", sweeper=sweeper, rng=random.Random(1)
            )
            with pytest.raises(NoActiveController, match="no leader") as unknown:
                await ask(channel)
            leader[0] = HOST, refusing_port()
            with pytest.raises(NoActiveController, match="nobody accepts connections") as refused:
                await ask(channel)
            assert [each.value.may_be_done for each in (unknown, refused)] == [False, False]
            leader[0] = HOST, port
            assert (await ask(channel)).error_code == 0
            await channel.close()
        sweeper.close()

    run(test())


def test_a_request_to_a_node_that_leads_no_more_fails(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        sweeper = Sweeper(clock)
        old = Handler()
        async with (
            serving(old, clock) as (_, old_port),
            serving(Handler(), clock) as (_, new_port),
        ):
            leader: list[tuple[str, int] | None] = [(HOST, old_port)]
            channel = NodeToControllerChannelManager(
                lambda: leader[0], client_id="broker", sweeper=sweeper, rng=random.Random(1)
            )
            waiting = asyncio.get_running_loop().create_task(ask(channel, b"park"))
            await old.until_parked(1)
            leader[0] = None
            channel.sweep(clock())
            assert not waiting.done(), "it may lead again"
            leader[0] = HOST, new_port
            channel.sweep(clock())
            with pytest.raises(NoActiveController, match="another address") as lost:
                await waiting
            assert lost.value.may_be_done
            assert (await ask(channel)).error_code == 0
            await channel.close()
        sweeper.close()

    run(test())
