import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from quorum.core.vocabulary import ReplicaId
from quorum.protocol.apis import ApiKey
from quorum.transport.outcomes import Cause, Failure, Reply
from quorum.transport.peers import Lane, Peers
from quorum.transport.sweeper import Sweeper
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import HOST, Handler, ManualClock, Outcomes, serving

TIMEOUT_MS = 2_000
THREE = ReplicaId(3)


class Addresses:
    def __init__(self, ports: Mapping[ReplicaId, int]) -> None:
        self.ports = dict(ports)

    def address_of(self, replica: ReplicaId) -> tuple[str, int] | None:
        port = self.ports.get(replica)
        return None if port is None else (HOST, port)


@asynccontextmanager
async def peers_at(addresses: Addresses, clock: ManualClock) -> AsyncIterator[Peers]:
    sweeper = Sweeper(clock)
    peers = Peers(addresses, client_id="replica 1", sweeper=sweeper, rng=random.Random(3))
    try:
        yield peers
    finally:
        await peers.close()
        sweeper.close()


def test_a_vote_does_not_wait_behind_a_parked_fetch(run: Run) -> None:
    async def test() -> None:
        clock, handler, fetched, voted = ManualClock(), Handler(), Outcomes(), Outcomes()
        async with (
            serving(handler, clock) as (_, port),
            peers_at(Addresses({THREE: port}), clock) as peers,
        ):
            peers.request(THREE, ApiKey.FETCH, lambda v: b"park", fetched, timeout_ms=TIMEOUT_MS)
            await handler.until_parked(1)
            peers.request(THREE, ApiKey.VOTE, lambda v: b"vote", voted, timeout_ms=TIMEOUT_MS)
            assert await voted.until(1) == [Reply(ApiKey.VOTE, 1, b"vote")]
            assert not fetched.all
            handler.parked[0].respond(b"records")
            assert await fetched.until(1) == [Reply(ApiKey.FETCH, 16, b"records")]
            assert {request.client_id for request in handler.seen[1:]} == {"replica 1"}

    run(test())


def test_a_replica_that_has_moved_is_found_at_its_new_address(run: Run) -> None:
    async def test() -> None:
        clock, here, there, outcomes = ManualClock(), Handler(), Handler(), Outcomes()
        addresses = Addresses({})
        async with (
            serving(here, clock) as (old, old_port),
            serving(there, clock) as (_, new_port),
            peers_at(addresses, clock) as peers,
        ):

            def ask() -> None:
                peers.request(THREE, ApiKey.VOTE, lambda v: b"", outcomes, timeout_ms=TIMEOUT_MS)

            ask()
            (unknown,) = await outcomes.until(1)
            assert isinstance(unknown, Failure)
            assert unknown.cause is Cause.NO_ADDRESS
            clock.ms += 24
            addresses.ports[THREE] = old_port
            ask()
            await outcomes.until(2)
            addresses.ports[THREE] = new_port
            channel = peers.channel(THREE, Lane.CONTROL)
            channel.request(ApiKey.VOTE, b"park", outcomes, version=1, timeout_ms=TIMEOUT_MS)
            await here.until_parked(1)
            await old.close(within_ms=1)
            await outcomes.until(3)
            ask()
            assert (await outcomes.until(4))[3] == Reply(ApiKey.VOTE, 1, b"")
            assert there.seen

    run(test())


def test_a_connection_to_an_old_address_is_left_only_if_another_one_is_known(run: Run) -> None:
    async def test() -> None:
        clock, here, there, outcomes = ManualClock(), Handler(), Handler(), Outcomes()
        async with (
            serving(here, clock) as (_, old_port),
            serving(there, clock) as (_, new_port),
            peers_at(addresses := Addresses({THREE: old_port}), clock) as peers,
        ):

            def ask() -> None:
                peers.request(THREE, ApiKey.VOTE, lambda v: b"", outcomes, timeout_ms=TIMEOUT_MS)

            for count in (1, 2):
                ask()
                await outcomes.until(count)
                peers.look_up_again(THREE)
            assert [request.api_key for request in here.seen].count(ApiKey.API_VERSIONS) == 1
            addresses.ports[THREE] = new_port
            peers.look_up_again(THREE)
            ask()
            lost = (await outcomes.until(3))[2]
            assert isinstance(lost, Failure)
            assert lost.cause is Cause.SHUT
            ask()
            assert (await outcomes.until(4))[3] == Reply(ApiKey.VOTE, 1, b"")
            assert there.seen

    run(test())
