import asyncio
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum.protocol.apis import ApiKey
from quorum.transport.channel import Channel
from quorum.transport.limits import ChannelLimits
from quorum.transport.outcomes import (
    Cause,
    Failure,
    Outcome,
    RequestFailed,
)
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    HOST,
    OFFERED,
    Handler,
    ManualClock,
    Outcomes,
    Peer,
    channel_to,
    failure_cause,
    greet,
    refusing_port,
    scripted,
    serving,
)
from tests.support.parameters import at_most_in_quick

VOTE = ApiKey.VOTE
TIMEOUT_MS = 2_000


def test_a_refused_connection_fails_what_waits_and_delays_the_next_attempt(run: Run) -> None:
    async def test() -> None:
        clock, outcomes, lookups = ManualClock(), Outcomes(), 0
        port = refusing_port()

        def address() -> tuple[str, int]:
            nonlocal lookups
            lookups += 1
            return HOST, port

        sweeper = Sweeper(clock)
        channel = Channel(
            address, client_id=None, sweeper=sweeper, rng=random.Random(1), limits=ChannelLimits()
        )
        for _ in range(2):
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
        assert [failure_cause(o) for o in await outcomes.until(2)] == [Cause.REFUSED] * 2
        assert str(outcomes.all[0]).startswith(f"nobody accepts connections there: {HOST}:{port}: ")
        shortest_ms, longest_ms = 16, 24
        for attempts in range(2, 10):
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            clock.ms += shortest_ms - 1
            sweeper.sweep()
            assert lookups == attempts - 1
            clock.ms += longest_ms - shortest_ms + 1
            sweeper.sweep()
            assert lookups == attempts
            assert failure_cause((await outcomes.until(attempts + 1))[-1]) is Cause.REFUSED
            shortest_ms, longest_ms = min(2 * shortest_ms, 800), min(2 * longest_ms, 1_200)
        await channel.close()
        sweeper.close()

    run(test())


@pytest.mark.parametrize("address", [(HOST, 70_000), ("\0", 1), ("x" * 300 + ".", 1)])
def test_an_address_that_cannot_exist_is_a_refused_one(run: Run, address: tuple[str, int]) -> None:
    async def test() -> None:
        sweeper = Sweeper(ManualClock())
        channel = Channel(lambda: address, client_id=None, sweeper=sweeper, rng=random.Random(1))
        with pytest.raises(RequestFailed, match=r"no connection could|nobody accepts"):
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
        await channel.close()
        sweeper.close()

    run(test())


def test_without_an_address_a_request_fails_and_the_next_one_looks_again(run: Run) -> None:
    async def test() -> None:
        clock, known = ManualClock(), list[tuple[str, int]]()
        sweeper = Sweeper(clock)
        channel = Channel(
            lambda: known[0] if known else None,
            client_id=None,
            sweeper=sweeper,
            rng=random.Random(1),
        )
        async with serving(Handler(), clock) as (_, port):
            with pytest.raises(RequestFailed, match="no address is known"):
                await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            known.append((HOST, port))
            clock.ms += 24
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            await channel.close()
        sweeper.close()

    run(test())


def test_a_server_that_comes_back_is_found_without_delay(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with (
            serving(Handler(), clock) as (first, port),
            channel_to(port, clock) as (
                channel,
                _,
            ),
        ):
            outcomes = Outcomes()
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            channel.request(VOTE, b"park", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            await first.close(within_ms=1)
            assert [failure_cause(o) for o in await outcomes.until(1)] == [Cause.CLOSED]
            second = Server(Handler(), offered=OFFERED, name="second", clock_ms=clock)
            await second.listen(HOST, port)
            # The clock stands still: whoever waited for a back-off would wait for ever.
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            await second.close()

    run(test())


def test_a_request_without_an_answer_times_out_and_takes_its_connection_along(run: Run) -> None:
    """KIP-595: the request is failed and the connection dropped."""

    async def test() -> None:
        clock, handler, outcomes = ManualClock(), Handler(), Outcomes()
        async with (
            serving(handler, clock) as (_, port),
            channel_to(port, clock) as (
                channel,
                sweeper,
            ),
        ):
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            channel.request(VOTE, b"park", outcomes, version=1, timeout_ms=100)
            clock.ms += 60
            channel.request(VOTE, b"park", outcomes, version=1, timeout_ms=100)
            await handler.until_parked(1)
            clock.ms += 39
            sweeper.sweep()
            assert not outcomes.all
            clock.ms += 1
            sweeper.sweep()
            assert await outcomes.until(2) == [
                Failure(Cause.TIMED_OUT, "no answer within 100 ms"),
                Failure(Cause.SILENT, "Vote got no answer"),
            ]
            # On a new connection, at once.
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            handler.parked[0].respond(b"too late")

    run(test())


def test_a_server_that_never_greets_is_given_up_like_one_that_never_answers(run: Run) -> None:
    async def test() -> None:
        clock, outcomes = ManualClock(), Outcomes()
        asked = asyncio.get_running_loop().create_future()

        def silent(peer: Peer) -> None:
            if not asked.done():
                asked.set_result(None)

        async with (
            scripted(silent) as (peers, port),
            channel_to(port, clock) as (
                channel,
                sweeper,
            ),
        ):
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=100)
            await asked
            clock.ms += 100
            sweeper.sweep()
            assert await outcomes.until(1) == [Failure(Cause.TIMED_OUT, "no answer within 100 ms")]
            await peers[0].lost

    run(test())


@contextmanager
def unreachable_port() -> Iterator[int]:
    """A port at which attempts to connect hang, because too many others already wait."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((HOST, 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        for _ in range(4):
            other = stack.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex((HOST, port))
        yield port


def test_an_attempt_that_hangs_is_given_up_with_the_request_that_began_it(run: Run) -> None:
    async def test() -> None:
        clock, outcomes = ManualClock(), Outcomes()
        with unreachable_port() as port:
            async with channel_to(port, clock) as (channel, sweeper):
                for attempt in range(1, 4):
                    channel.request(VOTE, b"", outcomes, version=1, timeout_ms=100)
                    for _ in range(10):
                        await asyncio.sleep(0)
                    clock.ms += 100
                    sweeper.sweep()
                    assert (await outcomes.until(attempt))[-1] == Failure(
                        Cause.TIMED_OUT, "no answer within 100 ms"
                    )
            # Closing waits for each attempt to end, however long that takes.

    run(test())


def test_an_attempt_that_goes_on_for_too_long_is_given_up(run: Run) -> None:
    async def test() -> None:
        clock, outcomes = ManualClock(), Outcomes()
        async with (
            serving(Handler(), clock) as (_, port),
            channel_to(port, clock) as (
                channel,
                sweeper,
            ),
        ):
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=100)
            clock.ms += 100
            # Before the loop has had a turn: there is no socket yet.
            sweeper.sweep()
            assert await outcomes.until(1) == [Failure(Cause.TIMED_OUT, "no answer within 100 ms")]
            clock.ms += 24
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)

    run(test())


def test_a_request_that_waits_for_the_next_attempt_in_vain_is_told_why_the_last_one_failed(
    run: Run,
) -> None:
    async def test() -> None:
        clock, outcomes = ManualClock(), Outcomes()
        limits = ChannelLimits(retry_backoff_ms=1_000)
        async with channel_to(refusing_port(), clock, limits) as (channel, sweeper):
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=100)
            assert failure_cause((await outcomes.until(1))[0]) is Cause.REFUSED
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=100)
            clock.ms += 100
            sweeper.sweep()
            assert failure_cause((await outcomes.until(2))[1]) is Cause.REFUSED

    run(test())


@given(junk=st.binary(min_size=1, max_size=60), greets=st.booleans())
@settings(
    max_examples=at_most_in_quick(50), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_request_ends_once_and_raises_nothing_whatever_the_server_sends(
    run: Run, junk: bytes, greets: bool
) -> None:
    async def test() -> None:
        def babbling(peer: Peer) -> None:
            if greets and peer.chunks == 1:
                greet(peer)
                return
            peer.write(junk)
            peer.transport.close()

        clock, outcomes = ManualClock(), Outcomes()
        async with scripted(babbling) as (_, port), channel_to(port, clock) as (channel, _):
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            await outcomes.until(1)
            await channel.close()
            assert len(outcomes.all) == 1

    run(test())


def test_a_caller_that_raises_does_not_take_the_outcomes_of_others_along() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        raised: list[str] = []
        loop.set_exception_handler(lambda _, context: raised.append(str(context["exception"])))
        clock, outcomes = ManualClock(), Outcomes()

        def broken(outcome: Outcome) -> None:
            raise LookupError("the cause")

        async with channel_to(refusing_port(), clock) as (channel, _):
            for on_done in (outcomes, broken, outcomes):
                channel.request(VOTE, b"", on_done, version=1, timeout_ms=TIMEOUT_MS)
            assert [failure_cause(o) for o in await outcomes.until(2)] == [Cause.REFUSED] * 2
        assert raised == ["the cause"]

    asyncio.run(test())
