"""Calls between replicas over real sockets: a listener, two channels, and failures."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from quorum import raft_rpc
from quorum.core.events import Asker
from quorum.core.limits import EPOCH_LEAP_MAX, FETCH_WAIT_MS_MAX
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import Epoch, HostPort, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.discovery.address_book import FIRST_PSEUDO_ID, AddressBook
from quorum.discovery.gossip import Gossip
from quorum.protocol import headers, raft_messages
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.raft_messages import VERSIONS, write_request
from quorum.protocol.raft_types import LeaderAndEpoch, LocalNode
from quorum.protocol.shape import Data
from quorum.raft_rpc import RaftRpc
from quorum.records.batch import outlines
from quorum.transport.channel import Channel
from quorum.transport.inbound import InboundRequest
from quorum.transport.peers import Peers
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper
from tests.contracts.batches import batch, run
from tests.quorum.transport.loopback import HOST, ManualClock, framed, peer_of
from tests.support.bell import Bell

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ELSEWHERE = "AAAAAAAAAAAAAAAAAAAAAA"
ASKING, ASKED = ReplicaId(1), ReplicaId(2)
LEADER_AT: HostPort = ("controller-3.example", 9093)
BOOTSTRAP_AT: HostPort = ("quorum.example", 9093)
OFFERED = {**VERSIONS, ApiKey.API_VERSIONS: VersionRange(0, 4)}

FETCH = FetchRequest(
    replica=ReplicaKey(ASKING, UUID(int=0xD1 << 100)),
    epoch=Epoch(4),
    log_end=OffsetAndEpoch(Epoch(3), Offset(70)),
    max_wait_ms=200,
    max_bytes=1 << 20,
)
VOTE = VoteRequest(epoch=Epoch(4), candidate=FETCH.replica, log_end=FETCH.log_end)


@dataclass
class Asked:
    """The requests that arrived at a replica, and the results at the asking one."""

    bell: Bell
    requests: list[tuple[Asker, Request]] = field(default_factory=list)
    outcomes: list[tuple[Response | None, bytes]] = field(default_factory=list)

    def hand_in(self, asker: Asker, request: Request) -> None:
        self.requests.append((asker, request))
        self.bell.ring()

    def done(self, response: Response | None, records: bytes) -> None:
        self.outcomes.append((response, records))
        self.bell.ring()

    async def request(self, place: int = 0) -> tuple[Asker, Request]:
        """The n-th request, as soon as it has come."""
        await self.bell.until(lambda: len(self.requests) > place)
        return self.requests[place]

    async def outcome(self, place: int = 0) -> tuple[Response | None, bytes]:
        """The result of the n-th request, as soon as it is known."""
        await self.bell.until(lambda: len(self.outcomes) > place)
        return self.outcomes[place]

    async def refusal(self, place: int = 0) -> tuple[Response | None, bytes]:
        """As `outcome`, where nobody here is asked anything."""
        await self.bell.until(lambda: self.requests or len(self.outcomes) > place)
        return self.outcomes[place]


class Pair:
    """Replica 1, which asks, and replica 2, which listens on a socket; no node is behind either."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sweeper = Sweeper(self.clock)
        self.there = Asked(Bell())
        self.port = 0
        self.peers = Peers(self, client_id="replica-1", sweeper=self.sweeper, rng=random.Random(1))
        self.asking = self._calls(ASKING, CLUSTER)
        self.asked = self._calls(ASKED, CLUSTER)

    def address_of(self, replica: ReplicaId) -> HostPort | None:
        return (HOST, self.port) if replica in (ASKED, FIRST_PSEUDO_ID) else None

    def _calls(self, me: ReplicaId, cluster_id: str) -> RaftRpc:
        return RaftRpc(
            LocalNode(cluster_id=cluster_id, replica=ReplicaKey(me)),
            LeaderAndEpoch(Epoch(4), ReplicaId(3)),
            self.peers,
            addresses=AddressBook(
                Gossip(None), configured={ReplicaId(3): LEADER_AT}, bootstrap=[BOOTSTRAP_AT]
            ),
            on_request=self.there.hand_in,
            timeout_ms=300,
            refusal_log=RefusalLog("quorum", lambda: 0),
        )

    def move_to_another_cluster(self) -> None:
        """The replica that is asked turns out to be of another cluster."""
        self.asked = self._calls(ASKED, ELSEWHERE)

    def ask(self, request: Request, to: ReplicaId = ASKED) -> None:
        self.asking.send(to, request, self.there.done)

    async def ask_and_answer(
        self, request: Request, response: Response, records: bytes = b""
    ) -> tuple[Response | None, bytes]:
        """Ask, let the other side say this, and return what arrives of it."""
        asked, answered = len(self.there.requests), len(self.there.outcomes)
        self.ask(request)
        asker, _ = await self.there.request(asked)
        self.asked.answer(asker, response, records)
        return await self.there.outcome(answered)


@asynccontextmanager
async def a_pair() -> AsyncIterator[Pair]:
    pair = Pair()

    def handle(request: InboundRequest) -> None:
        if request.api_key == ApiKey.API_VERSIONS:
            request.respond(write_offer(request.api_version, OFFERED))
        else:
            pair.asked.asked(request)

    server = Server(handle, offered=OFFERED, name="raft", clock_ms=pair.clock)
    pair.port = await server.listen(HOST, 0)
    try:
        yield pair
    finally:
        await pair.peers.close()
        await server.close(within_ms=100)
        pair.sweeper.close()


EXCHANGES: list[tuple[Request, Response]] = [
    (VOTE, VoteResponse(epoch=Epoch(4), granted=True)),
    (VOTE, VoteResponse(epoch=Epoch(5), leader=ReplicaId(3))),
    (VOTE, VoteResponse(error=Error.FENCED_LEADER_EPOCH, epoch=Epoch(9), leader=ReplicaId(3))),
    (
        BeginQuorumEpochRequest(epoch=Epoch(4), leader=ASKING, voter=ReplicaKey(ASKED)),
        BeginQuorumEpochResponse(epoch=Epoch(4), leader=ASKING),
    ),
    (
        EndQuorumEpochRequest(
            epoch=Epoch(4),
            leader=ASKING,
            preferred_successors=(ASKED, ReplicaId(3)),
            voter=ReplicaKey(ASKED),
        ),
        EndQuorumEpochResponse(epoch=Epoch(4)),
    ),
    (
        FETCH,
        FetchResponse(
            epoch=Epoch(4), leader=ASKED, high_watermark=Offset(60), log_start=Offset(10)
        ),
    ),
    (
        FETCH,
        FetchResponse(epoch=Epoch(4), leader=ASKED, diverging=OffsetAndEpoch(Epoch(2), Offset(50))),
    ),
    (
        FETCH,
        FetchResponse(error=Error.NOT_LEADER_OR_FOLLOWER, epoch=Epoch(4), leader=ReplicaId(3)),
    ),
]


@pytest.mark.parametrize(("request_", "response"), EXCHANGES, ids=str)
async def test_requests_and_answers_arrive_as_they_were_sent(
    request_: Request, response: Response
) -> None:
    async with a_pair() as pair:
        assert await pair.ask_and_answer(request_, response) == (response, b"")
        assert pair.there.requests[0][1] == request_


@pytest.mark.interpreted
async def test_a_response_for_many_replicas_is_encoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded = []

    def write_response(response: Response, version: int, **others: Any) -> Sequence[Data]:
        encoded.append(response)
        return raft_messages.write_response(response, version, **others)

    monkeypatch.setattr(raft_rpc, "write_response", write_response)
    async with a_pair() as pair:
        records = b"".join(run(70, 2, 1, epoch=4))
        responses = [
            FetchResponse(epoch=Epoch(4), leader=ASKED, high_watermark=Offset(end))
            for end in (73, 73, 74)
        ]
        responses[1] = responses[0]
        for _ in responses:
            pair.ask(FETCH)
        for number, response in enumerate(responses):
            asker, _ = await pair.there.request(number)
            pair.asked.answer(asker, response, records)
        for number, response in enumerate(responses):
            carrying = replace(response, batches=tuple(outlines(records)))
            assert await pair.there.outcome(number) == (carrying, records)
    assert encoded == responses[1:]


async def test_records_of_a_fetch_arrive_as_they_are_with_their_outlines() -> None:
    async with a_pair() as pair:
        records = b"".join(run(70, 2, 1, 3, epoch=4))
        response = FetchResponse(epoch=Epoch(4), leader=ASKED, high_watermark=Offset(70))
        arrived, bytes_ = await pair.ask_and_answer(FETCH, response, records)
        assert arrived == replace(response, batches=tuple(outlines(records)))
        assert bytes_ == records


@pytest.mark.parametrize("size", [20, 200_000], ids=["small", "large"])
async def test_corrupt_records_count_as_no_answer(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower appends what its leader sends; so it looks at every checksum before."""
    async with a_pair() as pair:
        records = bytearray(batch(70, 3, epoch=4, size=size))
        records[-5] ^= 1
        response = FetchResponse(epoch=Epoch(4), leader=ASKED)
        arrived = await pair.ask_and_answer(FETCH, response, bytes(records))
        assert arrived == (None, b"")
        assert "ignored an invalid response from replica 2: the batch at byte 0" in caplog.text
        # The connection is sound, and so is the next answer.
        assert await pair.ask_and_answer(FETCH, response) == (response, b"")


async def test_a_replica_of_another_cluster_is_refused_by_name_and_never_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its epochs and leaders, which belong to its own cluster, are not learned either."""
    async with a_pair() as pair:
        pair.move_to_another_cluster()
        questions: list[Request] = [VOTE, FETCH]
        for place, question in enumerate(questions):
            pair.ask(question)
            assert await pair.there.refusal(place) == (None, b"")
        assert f"the sender is of cluster {CLUSTER}, this node of {ELSEWHERE}" in caplog.text
        assert "ignored an invalid response from replica 2: refused: INCONSISTENT" in caplog.text
        # A server without an id is named by its place.
        pair.ask(FETCH, ReplicaId(FIRST_PSEUDO_ID))
        assert await pair.there.refusal(2) == (None, b"")
        assert (
            "ignored an invalid response from the bootstrap server at quorum.example:9093"
            in caplog.text
        )


async def test_a_vote_asked_of_another_replica_than_it_reaches_is_refused() -> None:
    async with a_pair() as pair:
        pair.asked = pair.asking
        pair.ask(VOTE)
        answer, _ = await pair.there.outcome()
        assert answer is not None
        assert answer.error is Error.INVALID_VOTER_KEY
        assert pair.there.requests == []


@pytest.mark.parametrize(
    "question",
    [
        replace(VOTE, epoch=Epoch(2**31 - 1)),
        BeginQuorumEpochRequest(epoch=Epoch(2**31 - 1), leader=ReplicaId(3)),
        EndQuorumEpochRequest(
            epoch=Epoch(2**31 - 1), leader=ReplicaId(3), preferred_successors=(ASKED,)
        ),
        replace(FETCH, epoch=Epoch(2**31 - 1)),
    ],
    ids=str,
)
async def test_an_epoch_out_of_all_proportion_is_not_believed(
    question: Request, caplog: pytest.LogCaptureFixture
) -> None:
    """After the last epoch that 31 bits can count there would be no election any more."""
    async with a_pair() as pair:
        pair.ask(question)
        answer, _ = await pair.there.outcome()
        assert answer is not None
        assert (answer.error, answer.epoch) == (Error.INVALID_REQUEST, 4)
        assert pair.there.requests == []
        assert "epoch 2147483647 is implausible, this node is in 4" in caplog.text


async def test_an_answer_with_such_an_epoch_is_not_believed_either() -> None:
    async with a_pair() as pair:
        for leap, arrives in ((EPOCH_LEAP_MAX, True), (EPOCH_LEAP_MAX + 1, False)):
            answer = VoteResponse(epoch=Epoch(4 + leap))
            arrived, _ = await pair.ask_and_answer(VOTE, answer)
            assert arrived == (answer if arrives else None)


@pytest.mark.parametrize("api_key", VERSIONS, ids=lambda key: str(ApiKey(key)))
async def test_a_body_that_cannot_be_read_closes_the_connection_with_one_line(
    api_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_pair() as pair, peer_of(pair.port) as peer:
        for version in VERSIONS[api_key].lowest, VERSIONS[api_key].highest:
            async with peer_of(pair.port) as other:
                header = headers.write_request_header(api_key, version, 7, "stranger")
                other.write(framed(header + b"\xff\x00\xff\xff"))
                await asyncio.wait({other.lost})
                assert other.received == b""
        closed = [each for each in caplog.records if "closed the connection" in each.message]
        assert [each.levelno for each in closed] == [logging.WARNING] * 2
        assert pair.there.requests == []
        assert not peer.lost.done()


async def test_an_answer_for_a_connection_that_is_gone_is_dropped() -> None:
    async with a_pair() as pair:
        async with peer_of(pair.port) as peer:
            body = write_request(VOTE, 1, to=ReplicaKey(ASKED), cluster_id=CLUSTER)
            peer.write(framed(headers.write_request_header(ApiKey.VOTE, 1, 7, None) + body))
            asker, _ = await pair.there.request()
        # The listener hears of it before it hears of anything new.
        answered = await pair.ask_and_answer(VOTE, VoteResponse(epoch=Epoch(4)))
        pair.asked.answer(asker, VoteResponse(epoch=Epoch(4), granted=True), b"")
        assert answered == (VoteResponse(epoch=Epoch(4)), b"")


async def test_a_replica_that_cannot_be_reached_does_not_answer() -> None:
    async with a_pair() as pair:
        pair.ask(VOTE, to=ReplicaId(3))
        assert await pair.there.outcome() == (None, b"")
        pair.port = 1  # Nobody listens there.
        pair.ask(VOTE)
        assert await pair.there.outcome(1) == (None, b"")


async def test_a_fetch_may_take_as_long_as_the_leader_may_keep_it_and_some_more() -> None:
    async with a_pair() as pair:
        pair.ask(FETCH)
        await pair.there.request()
        pair.clock.ms += 300
        pair.sweeper.sweep()
        # There was time for it to be given up: another question has come and gone.
        await pair.ask_and_answer(VOTE, VoteResponse(epoch=Epoch(4)))
        assert [response for response, _ in pair.there.outcomes] == [VoteResponse(epoch=Epoch(4))]
        pair.clock.ms += 200
        pair.sweeper.sweep()
        assert await pair.there.outcome(1) == (None, b"")


async def test_nobody_may_have_a_fetch_kept_for_longer_than_the_limit() -> None:
    async with a_pair() as pair:
        pair.ask(replace(FETCH, max_wait_ms=60_000))
        _, request = await pair.there.request()
        assert isinstance(request, FetchRequest)
        assert request.max_wait_ms == FETCH_WAIT_MS_MAX


@pytest.mark.interpreted
async def test_a_replica_that_waits_for_too_many_answers_takes_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(raft_rpc, "ASKERS_MAX", 1)
    async with a_pair() as pair:
        pair.ask(FETCH)
        await pair.there.request()
        pair.ask(VOTE)
        assert await pair.there.outcome() == (None, b"")
        assert "1 requests of replicas wait for an answer" in caplog.text
        assert len(pair.there.requests) == 1


async def test_after_the_end_nobody_is_told_anything() -> None:
    async with a_pair() as pair:
        pair.ask(VOTE)
        asker, _ = await pair.there.request()
        pair.asking.close()
        pair.asked.answer(asker, VoteResponse(epoch=Epoch(4)), b"")
        await pair.peers.close()
        assert pair.there.outcomes == []


@pytest.mark.parametrize(("api_key", "version"), [(ApiKey.FETCH, 17), (ApiKey.VOTE, 1)])
async def test_an_answer_says_where_the_leader_it_names_listens(
    api_key: ApiKey, version: int
) -> None:
    """KIP-853: a broker that knows no voters finds the leader by it."""
    async with a_pair() as pair:
        channel = Channel(
            lambda: (HOST, pair.port),
            client_id=None,
            sweeper=pair.sweeper,
            rng=random.Random(2),
        )
        request = FETCH if api_key is ApiKey.FETCH else VOTE
        body = write_request(request, version, to=ReplicaKey(ASKED), cluster_id=CLUSTER)
        calling = asyncio.get_running_loop().create_task(
            channel.call(api_key, body, timeout_ms=5_000, version=version)
        )
        asker, _ = await pair.there.request()
        kind = FetchResponse if api_key is ApiKey.FETCH else VoteResponse
        pair.asked.answer(
            asker, kind(error=Error.FENCED_LEADER_EPOCH, epoch=Epoch(5), leader=ReplicaId(3)), b""
        )
        response = (await calling).decode()
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (3, *LEADER_AT)
        await channel.close()
