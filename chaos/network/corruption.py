"""Corruption of messages: cut off, garbled, oversized, sent to another cluster, or forged.

A strike arms it; the next suitable message of the victim is corrupted on arrival. The product's own
connections (`chaos.network.connection`) decide what such bytes mean, and `chaos.network.calls` ends
the calls on a connection that closes. R13 and R30. What a faulty leader answers is forged before it
is written (`chaos.network.faulty_leader`). R34.
"""

import random
from collections.abc import Callable, Collection
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from chaos.invariants.disk_format import batches
from chaos.network.connection import CallResult, Side, Spoil, call
from chaos.network.faulty_leader import forged, is_of_leader
from chaos.network.gossip import FOREIGN_CLUSTER_ID
from chaos.network.virtual_network import Network, Packet
from chaos.simulation.profile import Fault
from chaos.violation import Violation
from quorum.core.limits import FRAME_BYTES_MAX
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.protocol.raft_types import LeaderAndEpoch

if TYPE_CHECKING:
    from chaos.simulation.process import Process

MESSAGES_BEFORE: Final = 4
"""So many of its messages still pass, at most, before one is struck."""
COVERED_FROM: Final = 21
"""Behind this byte of a batch everything is covered by its checksum."""
REQUEST_HEADER_BYTES: Final = 8
_LENGTH: Final = Struct(">i")


class WireCorruption:
    """The corruption of messages of one run."""

    def __init__(
        self,
        processes: "dict[ReplicaId, Process]",
        network: Network,
        rng: random.Random,
        note: Callable[[str], None],
    ) -> None:
        self._processes = processes
        self._network = network
        self._rng = rng
        self._note = note
        self._armed: list[tuple[ReplicaId, Fault]] = []
        self._faulty: dict[ReplicaId, Collection[ReplicaId]] = {}
        """Faulty replicas, and the followers to which they send only what is to be refused."""

    def arm(self, victim: ReplicaId, fault: Fault) -> None:
        """Corrupt one of the next messages of this replica."""
        self._armed.append((victim, fault))
        self._look()

    def disarm(self) -> None:
        """Corrupt no more messages."""
        self._armed.clear()
        self._faulty.clear()
        self._look()

    def turn_faulty(self, leader: ReplicaId, followers: Collection[ReplicaId]) -> None:
        """Forge all that this replica answers to the fetches of these, when it leads."""
        self._faulty[leader] = followers
        self._look()

    def turn_right(self, leader: ReplicaId, followers: Collection[ReplicaId]) -> None:
        """Forge no more, unless it has turned faulty once more since."""
        if self._faulty.get(leader) is followers:
            del self._faulty[leader]
            self._look()

    def _look(self) -> None:
        self._network.harm = self._takes if self._armed or self._faulty else None

    def ask_from_abroad(self, victim: "Process", other: ReplicaKey) -> None:
        """R13: a node of another cluster sends all replica requests, as if it were `other`."""
        here = _side(victim)
        abroad = foreigner(here, other)
        for request in questions(victim, other):
            told = self._call(abroad, here, request)
            if told.asked is not None or told.is_closed or told.response is not None:
                raise Violation("R13", f"{victim.id} accepts {request} of another cluster")
        self._note(Fault.ASKED_FROM_ABROAD)

    # --- a message that is struck ---------------------------------------------------------------

    def _takes(self, packet: Packet) -> bool:
        """True if this message is corrupted; it is not delivered as it is then."""
        if packet.to in self._faulty.get(packet.sender, ()) and is_of_leader(packet):
            self._network.later(partial(self._forge, packet))
            return True
        for each in self._armed:
            victim, fault = each
            if victim == packet.sender and self._can_strike(fault, packet):
                if self._rng.randrange(MESSAGES_BEFORE):
                    return False
                self._armed.remove(each)
                self._network.later(partial(self._strike, fault, packet))
                self._look()
                return True
        return False

    def _can_strike(self, fault: Fault, packet: Packet) -> bool:
        asker = self._asker(packet)
        if asker is None:
            return False
        match fault:
            case Fault.FLIPPED:
                return bool(packet.records)
            case Fault.ASTRAY:
                return packet.response is None and asker.cluster.id is not None
            case _:
                return True

    def _asker(self, packet: Packet) -> "Process | None":
        """The process that waits for the answer of this call, if it is awake."""
        process = self._processes.get(packet.sender if packet.response is None else packet.to)
        alive = process is not None and process.boot == packet.boot and process.asleep is None
        return process if alive else None

    def _strike(self, fault: Fault, packet: Packet) -> None:
        asker = self._asker(packet)
        answerer = self._processes.get(packet.to if packet.response is None else packet.sender)
        if (
            asker is None
            or answerer is None
            or answerer.asleep is not None
            or not asker.calls.is_under_way(packet.call)
            or not self._network.passes(packet)
        ):
            self.arm(packet.sender, fault)
            self._network.deliver(packet)
            return
        self._note(fault)
        match fault:
            case Fault.CUT_CALL:
                self._cut(packet, asker)
            case Fault.ASTRAY:
                self._goes_astray(packet, asker)
            case Fault.FLIPPED:
                self._flip(packet, asker, answerer)
            case _:
                spoil = self._oversized if fault is Fault.OVERSIZED else self._garbled
                self._garble(packet, asker, answerer, spoil)

    def _forge(self, packet: Packet) -> None:
        """A forged answer arrives, if one could; it may be unreadable."""
        asker, answerer = self._asker(packet), self._processes.get(packet.sender)
        if (
            asker is None
            or answerer is None
            or not asker.calls.is_under_way(packet.call)
            or not self._network.passes(packet)
        ):
            return
        self._note(Fault.FAULTY)
        answer = forged(packet, self._rng)
        told = self._call(_side(asker), _side(answerer), packet.request, answer)
        if told.response is None:
            asker.enter(partial(_refuse, asker, packet.call))
        else:
            read = answer._replace(response=told.response, records=told.records, is_forged=True)
            self._network.deliver(read)

    def _cut(self, packet: Packet, asker: "Process") -> None:
        """The connection is reset in the middle of it, or of its answer."""
        if packet.response is None and self._rng.randrange(2):
            self._network.deliver(packet)  # It had come whole: only the answer finds no way.
        asker.enter(partial(_hang_up, asker, packet.call))

    def _goes_astray(self, packet: Packet, asker: "Process") -> None:
        """Deliver the request to a node of another cluster: it must refuse the request, and the
        caller must ignore its response."""
        here = _side(asker)
        abroad = foreigner(here, ReplicaKey(packet.to))
        told = self._call(here, abroad, packet.request)
        if told.asked is not None:
            raise Violation("R13", f"a node of another cluster accepts {told.asked}")
        if told.response is not None:
            raise Violation(
                "R13", f"{asker.id} accepts the response of another cluster: {told.response}"
            )
        asker.enter(partial(asker.calls.is_useless, packet.call))

    def _garble(self, packet: Packet, asker: "Process", answerer: "Process", spoil: Spoil) -> None:
        """R30: garbled bytes are no message; the connection or the call ends."""
        here, there = _side(asker), _side(answerer)
        if packet.response is None:
            told = self._call(here, there, packet.request, spoil_request=spoil)
        else:
            told = self._call(here, there, packet.request, packet, spoil_answer=spoil)
        if told.response is not None or (packet.response is None and told.asked is not None):
            raise Violation("R30", f"corrupt bytes are read as {told.response or told.asked}")
        if told.is_closed:
            asker.enter(partial(_hang_up, asker, packet.call))
        elif told.is_lost:
            asker.enter(partial(asker.calls.is_garbled, packet.call))
        elif told.is_over:
            asker.enter(partial(asker.calls.is_useless, packet.call))
        else:
            raise Violation("R30", f"{packet} continues after an unreadable frame")

    def _flip(self, packet: Packet, asker: "Process", answerer: "Process") -> None:
        """Flip a bit of the records that a checksum covers."""
        position = self._place_in(packet)
        bit = 1 << self._rng.randrange(8)

        def flipped(frame: bytes) -> bytes:
            at = frame.find(packet.records)
            if at < 0:
                return frame  # The response has no records: the request was refused.
            spoilt = bytearray(frame)
            spoilt[at + position] ^= bit
            return bytes(spoilt)

        here, there = _side(asker), _side(answerer)
        told = self._call(here, there, packet.request, packet, spoil_answer=flipped)
        if told.response is None:
            asker.enter(partial(asker.calls.is_useless, packet.call))
        else:
            # A part of a snapshot is checked when all of it is there.
            self._network.deliver(packet._replace(records=told.records))

    def _place_in(self, packet: Packet) -> int:
        if not isinstance(packet.response, FetchResponse):
            return self._rng.randrange(len(packet.records))
        sent = batches(packet.records)
        at = self._rng.randrange(len(sent))
        before = sum(len(each.data) for each in sent[:at])
        return before + self._rng.randrange(COVERED_FROM, len(sent[at].data))

    # --- bytes ----------------------------------------------------------------------------------

    def _call(
        self,
        here: Side,
        there: Side,
        request: Request,
        answer: Packet | None = None,
        *,
        spoil_request: Spoil = bytes,
        spoil_answer: Spoil = bytes,
    ) -> CallResult:
        """One call, on a connection of its own."""
        try:
            return call(
                here,
                there,
                request,
                draw=lambda lowest, highest: self._rng.randrange(lowest, highest + 1),
                response=None if answer is None else answer.response,
                records=b"" if answer is None else answer.records,
                spoil_request=spoil_request,
                spoil_answer=spoil_answer,
            )
        except Exception as error:
            raise Violation("R23", f"{request}: {type(error).__name__} {error}") from error

    def _oversized(self, frame: bytes) -> bytes:
        """Set the frame length above the maximum, or below zero."""
        more = 1 + self._rng.randrange(1 << 24)
        return _LENGTH.pack(self._rng.choice((FRAME_BYTES_MAX + more, -more))) + frame[4:]

    def _garbled(self, frame: bytes) -> bytes:
        """Replace, cut or extend the contents of the frame."""
        content, rng = frame[_LENGTH.size :], self._rng
        noise = rng.randbytes(1 + rng.randrange(len(content)))
        head = content[:REQUEST_HEADER_BYTES]
        spoilt = rng.choice(
            (
                content[: rng.randrange(len(content))],
                content + noise,
                noise,
                head + noise,
                noise[:4] + content[4:],
            )
        )
        return _LENGTH.pack(len(spoilt)) + spoilt


def _hang_up(process: "Process", number: int) -> None:
    """The other side has closed the connection of this call, and can be reached."""
    for to in process.calls.cut(number):
        process.world.network.dial(process, to, process.gossip.whereabouts(to))


def _refuse(process: "Process", number: int) -> None:
    """The answer to this call cannot be read."""
    process.world.cross_node.refuses(process, number)
    process.calls.is_useless(number)


def _side(process: "Process") -> Side:
    node = process.replica.node
    return Side(
        key=process.incarnation.key,
        cluster_id=process.cluster.id,
        standing=LeaderAndEpoch(node.epoch, node.leader),
    )


AHEAD: Final = 7
"""Its lead in epochs: small enough to be plausible."""
FAR: Final = Offset(1 << 40)


def foreigner(of_ours: Side, key: ReplicaKey) -> Side:
    """A node of another cluster in place of this replica; it claims to follow it in a later
    epoch."""
    standing = LeaderAndEpoch(Epoch(of_ours.standing.epoch + AHEAD), key.id)
    return Side(key=key, cluster_id=FOREIGN_CLUSTER_ID, standing=standing)


def questions(asked: "Process", other: ReplicaKey) -> tuple[Request, ...]:
    """All requests that a replica may send, as if from `other`."""
    node, end = asked.replica.node, asked.log.end
    now, later = node.epoch, Epoch(node.epoch + AHEAD)
    ahead = OffsetAndEpoch(later, FAR)
    leader = other.id if node.leader is None else node.leader
    return (
        VoteRequest(epoch=later, candidate=other, log_end=ahead),
        VoteRequest(epoch=later, candidate=other, log_end=ahead, pre_vote=True),
        BeginQuorumEpochRequest(epoch=later, leader=other.id),
        EndQuorumEpochRequest(epoch=now, leader=leader, preferred_successors=(other.id,)),
        FetchRequest(replica=other, epoch=now, log_end=end, max_wait_ms=0, max_bytes=1),
        FetchSnapshotRequest(replica=other, epoch=now, snapshot=end, position=0, max_bytes=1),
    )
