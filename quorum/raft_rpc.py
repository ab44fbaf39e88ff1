"""The calls between replicas over the network: `ports.Rpc` on Kafka's protocol.

An outgoing flat message becomes a Kafka request, and the response a flat message again; incoming
requests take the opposite way. Fetched records are checked here, batch by batch, before the core
hears of them.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from quorum.core.events import Asker
from quorum.core.limits import EPOCH_LEAP_MAX, FETCH_WAIT_MS_MAX
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, HostPort, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint
from quorum.discovery.address_book import AddressBook
from quorum.ports import Done
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.raft_messages import (
    API_KEYS,
    lowest_version,
    read_request,
    read_response,
    write_refusal,
    write_request,
    write_response,
)
from quorum.protocol.raft_types import LeaderAndEpoch, LocalNode, Refusal
from quorum.protocol.shape import Data
from quorum.records.batch import CorruptBatch, check
from quorum.records.control import BadControlRecord, assignment_in
from quorum.records.decode import UnsupportedCodec
from quorum.transport.address import Address
from quorum.transport.inbound import InboundRequest
from quorum.transport.outcomes import Cause, Outcome, Reply
from quorum.transport.peers import Peers
from quorum.transport.refusal_log import RefusalLog

logger = logging.getLogger("quorum")

ASKERS_MAX: Final = 100_000
"""Requests of other replicas that wait for an answer; a further one closes its connection."""


class RaftRpc:
    """The two directions of the calls of one replica."""

    def __init__(
        self,
        here: LocalNode,
        node: QuorumNode | LeaderAndEpoch,
        peers: Peers,
        *,
        addresses: AddressBook,
        on_request: Callable[[Asker, Request], None],
        timeout_ms: int,
        refusal_log: RefusalLog,
        endpoints: Sequence[Endpoint] = (),
    ) -> None:
        """`node` knows the epoch and the leader; `on_request` takes the requests of others.

        `endpoints` are the listeners of this replica, which it sends to voters when it leads.
        """
        self._here = here
        self._node = node
        self._endpoints = tuple(endpoints)
        self._peers = peers
        self._addresses = addresses
        self._timeout_ms = timeout_ms
        self._refusal_log = refusal_log
        self._inbound: dict[Asker, InboundRequest] = {}
        self._last_asker = 0
        self._last_answer: _Encoded | None = None
        self._on_request = on_request
        self._closed = False

    def know_cluster(self, cluster_id: str) -> None:
        """Set the cluster id, and refuse other clusters from now on."""
        self._here = replace(self._here, cluster_id=cluster_id)

    def asked(self, request: InboundRequest) -> None:
        """Take a request of another replica; raises `Malformed` for an unreadable one."""
        api_key, version = request.api_key, request.api_version
        message = read_request(api_key, version, request.body, here=self._here)
        if not isinstance(message, Refusal):
            message = self._unbelievable(message.epoch) or message
        if isinstance(message, Refusal):
            self._refusal_log.refused(request.peer, str(request), str(message))
            leader = self._node.leader
            current = LeaderAndEpoch(self._node.epoch, leader, self._addresses.address_of(leader))
            request.respond(write_refusal(api_key, version, message, current))
            return
        if len(self._inbound) >= ASKERS_MAX:
            request.reject(f"{ASKERS_MAX} requests of replicas wait for an answer")
            return
        if isinstance(message, FetchRequest | VoteRequest) and self._is_of_voter(message):
            request.serve_first()
        if isinstance(message, FetchRequest) and message.max_wait_ms > FETCH_WAIT_MS_MAX:
            message = replace(message, max_wait_ms=FETCH_WAIT_MS_MAX)
        self._last_asker += 1
        asker = Asker(self._last_asker)
        self._inbound[asker] = request
        self._on_request(asker, message)

    # ports.Rpc

    def answer(self, asker: Asker, response: Response, records: bytes) -> None:
        request = self._inbound.pop(asker)
        if request.is_gone:
            return
        last, version = self._last_answer, request.api_version
        if (
            last is None
            or last.response is not response
            or last.records is not records
            or last.version != version
        ):
            address = self._addresses.address_of(response.leader)
            body = write_response(response, version, records=records, leader_address=address)
            last = self._last_answer = _Encoded(response, records, version, body)
        request.respond(last.body)

    def send(self, to: ReplicaId, request: Request, done: Done) -> None:
        addressed = ReplicaKey(to)
        if isinstance(request, VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest):
            addressed = request.voter or addressed
        body = partial(
            write_request,
            request,
            to=addressed,
            cluster_id=self._here.cluster_id,
            endpoints=self._endpoints,
        )
        timeout_ms = self._timeout_ms
        if isinstance(request, FetchRequest):
            # The leader may park it that long.
            timeout_ms += request.max_wait_ms
        self._peers.request(
            to,
            API_KEYS[type(request)],
            body,
            partial(self._ended, to, request, done),
            timeout_ms=timeout_ms,
            lowest=lowest_version(request),
        )

    def close(self) -> None:
        self._closed = True

    def _ended(self, to: ReplicaId, request: Request, done: Done, outcome: Outcome) -> None:
        if self._closed:
            return
        if not isinstance(outcome, Reply):
            if outcome.cause is Cause.NOT_SERVED and isinstance(request, VoteRequest):
                # A voter of an older release would answer this if it knew the request (KIP-996).
                done(VoteResponse(error=Error.UNSUPPORTED_VERSION, epoch=request.epoch), b"")
                return
            logger.debug("%s: %s", self._named(to), outcome)
            done(None, b"")
            return
        try:
            response, leader_address, records = _read(outcome)
            unbelievable = self._unbelievable(response.epoch)
            if unbelievable is not None:
                raise _Refused(unbelievable.reason)
        except (Malformed, CorruptBatch, BadControlRecord, UnsupportedCodec, _Refused) as error:
            self._refusal_log.invalid_response(self._named(to), str(error))
            # A node of another cluster may listen at an address that is out of date.
            self._peers.look_up_again(to)
            done(None, b"")
            return
        if response.leader is not None and leader_address is not None:
            # Requests to the leader need its address from now on.
            self._addresses.hint(response.leader, leader_address)
        done(response, records)

    def _is_of_voter(self, message: FetchRequest | VoteRequest) -> bool:
        sender = message.replica if isinstance(message, FetchRequest) else message.candidate
        return self._addresses.voters().has(sender)

    def _named(self, to: ReplicaId) -> str:
        """Name a replica for the log; a bootstrap server has an address but no known id."""
        if to >= 0:
            return f"replica {to}"
        address = self._addresses.address_of(to)
        assert address is not None, f"{to} finds no address"
        return f"the bootstrap server at {Address(*address)}"

    def _unbelievable(self, epoch: Epoch) -> Refusal | None:
        """Return the refusal of an epoch that is implausibly high, or None."""
        own = self._node.epoch
        if epoch <= own + EPOCH_LEAP_MAX:
            return None
        reason = f"epoch {epoch} is implausible, this node is in {own}"
        return Refusal(ErrorCode.INVALID_REQUEST, reason, top_level=False)


class _Encoded(NamedTuple):
    """The last answer: the next ones may be the same, to observers at the same offset."""

    response: Response
    records: bytes
    version: int
    body: Sequence[Data]


class _Refused(Exception):
    """The other replica refused the whole call, for example as one of another cluster."""


def _read(reply: Reply) -> tuple[Response, HostPort | None, bytes]:
    """Return response, leader address and checked records; raises the errors of `_ended`."""
    answer = read_response(reply.api_key, reply.version, reply.body)
    if isinstance(answer, Refusal):
        raise _Refused(str(answer))
    response = answer.response
    if response.error is Error.INCONSISTENT_CLUSTER_ID:
        # Its epoch and its leader are another cluster's: the core must not learn of them.
        raise _Refused(f"refused: {response.error}")
    records = bytes(answer.records)
    if not isinstance(response, FetchResponse) or not records:
        return response, answer.leader_address, records
    batches = tuple(check(records, assignment_in=assignment_in))
    return response.carrying(batches), answer.leader_address, records
