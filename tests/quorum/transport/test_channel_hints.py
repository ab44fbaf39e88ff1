"""The hints of a channel that the process at the other end is gone."""

import asyncio
import random

from quorum.protocol.apis import ApiKey
from quorum.transport.channel import Channel
from quorum.transport.sweeper import Sweeper
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    HOST,
    Handler,
    ManualClock,
    Outcomes,
    refusing_port,
    serving,
)

TIMEOUT_MS = 2_000


def channel_that_tells(port: int, clock: ManualClock, told: asyncio.Event) -> Channel:
    return Channel(
        lambda: (HOST, port),
        client_id=None,
        sweeper=Sweeper(clock),
        rng=random.Random(1),
        on_gone=told.set,
    )


def test_a_connection_closed_and_then_refused_is_told_at_once(run: Run) -> None:
    async def test() -> None:
        clock, told, outcomes = ManualClock(), asyncio.Event(), Outcomes()
        async with serving(Handler(), clock) as (_, port):
            channel = channel_that_tells(port, clock, told)
            await channel.call(ApiKey.VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            # An answer is waited for, as a follower always does; nobody asks anything after it.
            channel.request(ApiKey.FETCH, b"park", outcomes, version=16, timeout_ms=TIMEOUT_MS)
            assert not told.is_set()
        async with asyncio.timeout(5):
            await told.wait()
        await channel.close()

    run(test())


def test_one_refused_attempt_is_not_enough_and_the_second_is(run: Run) -> None:
    async def test() -> None:
        clock, told, outcomes = ManualClock(), asyncio.Event(), Outcomes()
        channel = channel_that_tells(refusing_port(), clock, told)
        channel.request(ApiKey.VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
        await outcomes.until(1)
        assert not told.is_set()
        clock.ms += 100
        channel.request(ApiKey.VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
        await outcomes.until(2)
        assert told.is_set()
        await channel.close()

    run(test())


def test_a_silent_connection_tells_nothing(run: Run) -> None:
    async def test() -> None:
        clock, told, outcomes = ManualClock(), asyncio.Event(), Outcomes()
        silent = await asyncio.start_server(lambda *_: None, HOST, 0)
        port = silent.sockets[0].getsockname()[1]
        channel = channel_that_tells(port, clock, told)
        for asked in range(1, 4):
            channel.request(ApiKey.VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            clock.ms += TIMEOUT_MS
            channel.sweep(clock.ms)
            await outcomes.until(asked)
        assert not told.is_set()
        await channel.close()
        silent.close()

    run(test())
