import asyncio
from struct import pack

import pytest

from quorum.protocol.apis import ApiKey
from quorum.transport.limits import ChannelLimits
from quorum.transport.outcomes import (
    Cause,
    Failure,
    Reply,
    RequestFailed,
)
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    OFFERED,
    Handler,
    ManualClock,
    Outcomes,
    Peer,
    channel_to,
    failure_cause,
    framed,
    greet,
    next_request,
    scripted,
    serving,
)

VOTE = ApiKey.VOTE
TIMEOUT_MS = 2_000


def test_a_call_is_answered_in_the_highest_version_that_both_sides_speak(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with serving(Handler(), clock) as (_, port), channel_to(port, clock) as (channel, _):
            for api_key, version in ((ApiKey.FETCH, 16), (VOTE, 1), (ApiKey.BEGIN_QUORUM_EPOCH, 0)):
                reply = await channel.call(api_key, lambda v: b"v%d" % v, timeout_ms=TIMEOUT_MS)
                assert reply == Reply(api_key, version, b"v%d" % version)
            reply = await channel.call(VOTE, b"as told", version=0, timeout_ms=TIMEOUT_MS)
            assert reply == Reply(VOTE, 0, b"as told")

    run(test())


def test_an_answer_is_decoded_where_it_is_wanted(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with serving(Handler(), clock) as (_, port), channel_to(port, clock) as (channel, _):
            body = b"\x02n\x02v\x00"
            reply = await channel.call(ApiKey.API_VERSIONS, body, version=3, timeout_ms=TIMEOUT_MS)
            keys = {key.api_key for key in reply.decode().api_keys}
            assert keys == set(OFFERED)

    run(test())


def test_requests_are_pipelined_and_answered_in_order(run: Run) -> None:
    async def test() -> None:
        clock, outcomes, large = ManualClock(), Outcomes(), bytes(300_000)
        async with serving(Handler(), clock) as (_, port), channel_to(port, clock) as (channel, _):
            bodies = [b"%d" % n if n % 7 else large for n in range(100)]
            for body in bodies:
                channel.request(VOTE, body, outcomes, version=1, timeout_ms=TIMEOUT_MS)
            assert await outcomes.until(100) == [Reply(VOTE, 1, body) for body in bodies]

    run(test())


def test_an_outcome_never_comes_from_inside_the_request(run: Run) -> None:
    async def test() -> None:
        clock, outcomes = ManualClock(), Outcomes()
        limits = ChannelLimits(requests_in_flight_max=1)
        async with channel_to(1, clock, limits) as (channel, _):
            for _ in range(3):
                channel.request(VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
                assert not outcomes.all
            await outcomes.until(3)

    run(test())


def test_a_version_that_is_not_common_cannot_be_sent(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with serving(Handler(), clock) as (_, port), channel_to(port, clock) as (channel, _):
            for api_key, version, reason in (
                (
                    ApiKey.FETCH,
                    17,
                    "Fetch: asked in version 17, served there are versions 13 to 16",
                ),
                (ApiKey.END_QUORUM_EPOCH, None, "asked in version 0 to 1, not served there"),
                (29_999, None, "api 29999: asked in version None, not served there"),
                (VOTE, 2, "Vote: asked in version 2, served there are versions 0 to 1"),
            ):
                with pytest.raises(RequestFailed, match=reason) as failed:
                    await channel.call(
                        api_key, lambda v: b"", version=version, timeout_ms=TIMEOUT_MS
                    )
                assert failed.value.failure.cause is Cause.NOT_SERVED
            # The connection is none the worse for it.
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)

    run(test())


def test_a_body_that_cannot_be_written_fails_its_own_request_only(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        clock = ManualClock()

        def broken(version: int) -> bytes:
            raise LookupError("the cause")

        async with serving(Handler(), clock) as (_, port), channel_to(port, clock) as (channel, _):
            for _ in range(2):
                with pytest.raises(RequestFailed, match="cannot be sent: LookupError: the cause"):
                    await channel.call(VOTE, broken, timeout_ms=TIMEOUT_MS)
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
        assert [r.getMessage() for r in caplog.records if r.name == "quorum"] == [
            "cannot write Vote v1"
        ] * 2

    run(test())


def test_a_frame_that_the_other_side_would_not_take_is_not_sent(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        limits = ChannelLimits(frame_bytes_max=1_000)
        async with (
            serving(Handler(), clock) as (_, port),
            channel_to(port, clock, limits) as (channel, _),
        ):
            await channel.call(VOTE, bytes(985), version=1, timeout_ms=TIMEOUT_MS)
            with pytest.raises(RequestFailed, match="a frame of 1001 bytes, at most 1000"):
                await channel.call(VOTE, bytes(986), version=1, timeout_ms=TIMEOUT_MS)

    run(test())


def test_no_more_requests_are_under_way_than_the_limit(run: Run) -> None:
    async def test() -> None:
        clock, handler, outcomes = ManualClock(), Handler(), Outcomes()
        limits = ChannelLimits(requests_in_flight_max=3)
        async with (
            serving(handler, clock) as (_, port),
            channel_to(port, clock, limits) as (channel, _),
        ):
            # Three wait for the connection, then three for their answers.
            for _ in range(4):
                channel.request(VOTE, b"park", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            (first,) = await outcomes.until(1)
            reason = "3 requests without an answer, which is the limit"
            assert first == Failure(Cause.OVERLOADED, reason)
            await handler.until_parked(3)
            channel.request(VOTE, b"park", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            assert failure_cause((await outcomes.until(2))[1]) is Cause.OVERLOADED
            for request in handler.parked:
                request.respond(b"")
            assert (await outcomes.until(5))[2:] == [Reply(VOTE, 1, b"")] * 3

    run(test())


def test_no_more_bytes_wait_to_leave_than_the_limit(run: Run) -> None:
    async def test() -> None:
        clock, outcomes = ManualClock(), Outcomes()
        limits = ChannelLimits(outgoing_bytes_max=5_000)
        async with (
            serving(Handler(), clock) as (_, port),
            channel_to(port, clock, limits) as (channel, _),
        ):
            for _ in range(4):
                channel.request(VOTE, bytes(2_000), outcomes, version=1, timeout_ms=TIMEOUT_MS)
            everything = await outcomes.until(4)
            overloaded = [o for o in everything if failure_cause(o) is Cause.OVERLOADED]
            assert len(overloaded) == 2
            assert "bytes are unsent" in str(overloaded[0])

    run(test())


def test_an_older_node_is_asked_again_in_its_own_version(run: Run) -> None:
    """KIP-511, from the side of the asker."""

    async def test() -> None:
        versions: list[int] = []

        def old(peer: Peer) -> None:
            while (request := next_request(peer)) is not None:
                api_key, version, correlation_id = request
                head = pack(">i", correlation_id)
                if api_key != ApiKey.API_VERSIONS:
                    peer.write(framed(head + b"\x00" + b"done"))
                    continue
                versions.append(version)
                code, throttle = (35, b"") if version > 1 else (0, bytes(4))
                keys = pack(">ihhhhhh", 2, 18, 0, 1, 52, 0, 1)
                peer.write(framed(head + pack(">h", code) + keys + throttle))

        clock = ManualClock()
        async with scripted(old) as (_, port), channel_to(port, clock) as (channel, _):
            reply = await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            assert reply.body == b"done"
            assert versions == [3, 1]

    run(test())


def test_a_node_that_never_finds_a_version_is_left(run: Run) -> None:
    async def test() -> None:
        versions: list[int] = []

        def stubborn(peer: Peer) -> None:
            while (request := next_request(peer)) is not None:
                _, version, correlation_id = request
                versions.append(version)
                keys = pack(">ihhh", 1, 18, 0, 9)
                peer.write(framed(pack(">ih", correlation_id, 35) + keys))

        clock = ManualClock()
        async with scripted(stubborn) as (_, port), channel_to(port, clock) as (channel, _):
            with pytest.raises(RequestFailed, match="serves versions 0 to 9, not v0"):
                await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)
            assert versions == [3, 2, 1, 0]

    run(test())


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([1], None),
        ([2], "a response to request 2, expected one to 1"),
        ([1, 1], "a response without a request"),
    ],
)
def test_an_answer_to_another_request_ends_the_connection(
    run: Run, answers: list[int], reason: str | None
) -> None:
    async def test() -> None:
        def confused(peer: Peer) -> None:
            if peer.chunks == 1:
                greet(peer)
            elif next_request(peer) is not None:
                for correlation_id in answers:
                    peer.write(framed(pack(">i", correlation_id) + b"\x00"))

        clock, outcomes = ManualClock(), Outcomes()
        async with scripted(confused) as (peers, port), channel_to(port, clock) as (channel, _):
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            (outcome,) = await outcomes.until(1)
            if answers[0] == 1:
                assert outcome == Reply(VOTE, 1, b"")
            else:
                assert outcome == Failure(Cause.GARBLED, f"Vote v1: {reason}")
            if reason is not None:
                await peers[0].lost

    run(test())


def test_closing_fails_what_is_under_way_and_what_comes_after(run: Run) -> None:
    async def test() -> None:
        clock, handler, outcomes = ManualClock(), Handler(), Outcomes()
        async with serving(handler, clock) as (_, port), channel_to(port, clock) as (channel, _):
            channel.request(VOTE, b"park", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            await handler.until_parked(1)
            channel.request(VOTE, b"park", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            await channel.close()
            channel.request(VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            assert [failure_cause(o) for o in await outcomes.until(3)] == [Cause.SHUT] * 3
            await channel.close()

    run(test())


def test_closing_while_connecting_leaves_nothing_behind(run: Run) -> None:
    async def test() -> None:
        clock, outcomes = ManualClock(), Outcomes()
        async with serving(Handler(), clock) as (server, port):
            for turns in range(4):
                async with channel_to(port, clock) as (channel, _):
                    channel.request(VOTE, b"", outcomes, version=1, timeout_ms=TIMEOUT_MS)
                    for _ in range(turns):
                        await asyncio.sleep(0)
            assert len(await outcomes.until(4)) == 4
            async with channel_to(port, clock) as (channel, _):
                while server.connections > 1:
                    await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)

    run(test())


def test_a_caller_that_stops_waiting_disturbs_nobody(run: Run) -> None:
    async def test() -> None:
        clock, handler = ManualClock(), Handler()
        async with serving(handler, clock) as (_, port), channel_to(port, clock) as (channel, _):
            async with asyncio.TaskGroup() as group:
                impatient = group.create_task(
                    channel.call(VOTE, b"park", version=1, timeout_ms=TIMEOUT_MS)
                )
                await handler.until_parked(1)
                impatient.cancel()
            handler.parked[0].respond(b"")
            await channel.call(VOTE, b"", version=1, timeout_ms=TIMEOUT_MS)

    run(test())


@pytest.mark.parametrize("name", ["requests_in_flight_max", "retry_backoff_ms"])
def test_limits_of_a_channel_are_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        ChannelLimits(**{name: 0})


def test_a_back_off_above_its_maximum_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="must not be above retry_backoff_ms_max"):
        ChannelLimits(retry_backoff_ms=2_000)
