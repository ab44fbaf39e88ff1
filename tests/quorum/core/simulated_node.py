"""One replica as a process: a node, its disk, and the packets that its effects become.

It performs effects by the contract of `quorum.core.effects` and decides nothing. The owner of the
hosts, a transcript or the simulation, provides time and network.
"""

import random
from dataclasses import dataclass, replace

from quorum.core.effects import (
    AdvanceLogStart,
    Answer,
    AppendAssignment,
    AppendFetched,
    AppendLeaderChange,
    AppendProposed,
    Effect,
    InstallSnapshot,
    PersistElection,
    Send,
    StoreChunk,
    TruncateTo,
)
from quorum.core.events import (
    Asker,
    ChangeRequested,
    Correlation,
    Event,
    Flushed,
    Proposed,
    ReadIndex,
    ReadToken,
    RequestReceived,
    ResponseReceived,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
)
from quorum.core.limits import Bounds, Timeouts
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    TransferRequest,
    VoteRequest,
    VoterRequest,
)
from quorum.core.node import QuorumNode
from quorum.core.state import DiscoveryState
from quorum.core.vocabulary import OffsetAndEpoch, ReplicaId, ReplicaKey, Snapshot
from quorum.core.voter_set import VoterAssignment, VoterSet
from tests.quorum.core.virtual_disk import Disk, StoredBatch

SNAPSHOTS_KEPT = 2

REQUESTS = (
    VoteRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A message on its way. `boot` numbers the process that asked: an answer is for it alone."""

    sender: ReplicaId
    to: ReplicaId
    boot: int
    correlation: Correlation
    message: Request | Response
    question: Request
    records: tuple[StoredBatch, ...] = ()

    def __str__(self) -> str:
        return f"{self.sender} -> {self.to}: {self.said}"

    @property
    def said(self) -> str:
        """The message in words; the answer to a pre-vote does not say itself that it is one."""
        asked = self.question
        is_answer = isinstance(asked, VoteRequest) and asked.pre_vote and not self.is_request
        return f"Pre{self.message}" if is_answer else str(self.message)

    @property
    def is_request(self) -> bool:
        return isinstance(self.message, REQUESTS)


def voters_word(assignment: VoterAssignment) -> str:
    """The text of a Voters record in a log."""
    ids = "+".join(str(each.key) for each in assignment.current)
    target = assignment.target
    aim = "" if target is None else "->" + "+".join(map(str, target))
    return f"voters-{ids}{aim}"


class Host:
    def __init__(
        self,
        me: ReplicaId,
        voters: VoterSet,
        disk: Disk,
        *,
        boot: int,
        rng: random.Random,
        now_ms: int,
        timeouts: Timeouts,
        bounds: Bounds | None = None,
        batches_max: int = 100,
        records_voters: bool = False,
        echoes: bool = True,
        discovery: DiscoveryState | None = None,
    ) -> None:
        """`echoes` is False for a replica that leaves the rounds of reads out, as Kafka's do."""
        self.me = me
        self.disk = disk
        self.boot = boot
        self.batches_max = batches_max
        self.echoes = echoes
        self.node = QuorumNode(
            ReplicaKey(me, disk.directory_id),
            voters,
            election=disk.election,
            log=disk.recovered(),
            timeouts=timeouts,
            bounds=bounds,
            rng=rng,
            now_ms=now_ms,
            records_voters=records_voters,
            discovery=discovery,
        )
        self._askers: dict[Asker, Packet] = {}
        self._last_asker = 0
        self._last_read = 0
        self._proposed: tuple[str, ...] = ()
        self._fetched: dict[Correlation, tuple[StoredBatch, ...]] = {}
        self._received: tuple[StoredBatch, ...] = ()
        """The snapshot whose parts have arrived."""
        self.installing: OffsetAndEpoch | None = None

    def expects(self, packet: Packet) -> bool:
        """True if the packet can reach this process: answers to an earlier one cannot."""
        return packet.is_request or packet.boot == self.boot

    def event(self, packet: Packet) -> Event:
        """The event of the node for the arrival of `packet`."""
        message = packet.message
        if isinstance(message, REQUESTS):
            self._last_asker += 1
            asker = Asker(self._last_asker)
            self._askers[asker] = packet
            return RequestReceived(asker, message)
        self._fetched = {packet.correlation: packet.records}
        return ResponseReceived(packet.sender, packet.correlation, message)

    def proposal(self, words: tuple[str, ...]) -> Event:
        assert self.node.accepts(len(words))
        self._proposed = words
        return Proposed(len(words))

    def read(self) -> ReadIndex:
        self._last_read += 1
        return ReadIndex(ReadToken(self._last_read))

    def wanted(self, request: VoterRequest | TransferRequest) -> Event:
        """A client of this node asks for other voters or another leader."""
        self._last_asker += 1
        return ChangeRequested(Asker(self._last_asker), request)

    def flushed(self) -> Event:
        return Flushed(self.disk.complete_flush())

    def took_snapshot(self, size_bytes: int) -> Event:
        """The state machine has written all that is committed into a snapshot."""
        snapshot = Snapshot(self.disk.end_at(self.node.high_watermark or 0), size_bytes)
        self.disk.snapshots = (*self.disk.snapshots, snapshot)[-SNAPSHOTS_KEPT:]
        return SnapshotTaken(self.disk.snapshots)

    def installed(self, size_bytes: int) -> Event:
        """Install the received snapshot, which is complete, in place of the log."""
        assert self.installing is not None
        snapshot, self.installing = Snapshot(self.installing, size_bytes), None
        self.disk.install(snapshot, self._received)
        return SnapshotInstalled(snapshot, self.disk.voters_at(snapshot.end))

    def found_damaged(self) -> Event:
        """Reject the received parts: they are not the expected snapshot."""
        assert self.installing is not None
        id_, self.installing = self.installing, None
        return SnapshotRefused(id_, "its checksum is wrong")

    def perform(self, effect: Effect) -> Packet | None:
        """Do what the node asks for; what it sends is returned."""
        match effect:
            case PersistElection(election):
                self.disk.election = election
            case AppendLeaderChange(batch=batch, leader=leader):
                named = batch.assignment
                founding = () if named is None else ("kraft-version", voters_word(named))
                words = (f"leader-{leader}", *founding)
                self.disk.append(StoredBatch(batch, words))
            case AppendAssignment(batch, assignment):
                self.disk.append(StoredBatch(batch, (voters_word(assignment),)))
            case AppendProposed(batch):
                self.disk.append(StoredBatch(batch, self._proposed))
            case AppendFetched(correlation, batches):
                stored = self._fetched.pop(correlation)
                assert tuple(each.outline for each in stored) == batches
                for each in stored:
                    self.disk.append(each)
            case TruncateTo(end):
                self.disk.truncate_to(end)
            case Send():
                return self._request(effect)
            case Answer():
                return self._answer(effect)
            case _:
                self._perform_of_snapshots(effect)
        return None

    def _perform_of_snapshots(self, effect: Effect) -> None:
        match effect:
            case AdvanceLogStart(start):
                self.disk.start = start
            case StoreChunk(correlation):
                self._received = self._fetched.pop(correlation)
            case InstallSnapshot(id_):
                self.installing = id_
            case _:
                pass  # Commit, Lead, StopLeading, Warn: for the owner of the records to hear.

    def _request(self, send: Send) -> Packet:
        request = send.request
        if isinstance(request, FetchRequest) and not self.echoes:
            request = replace(request, round=0)
        return Packet(
            sender=self.me,
            to=send.to,
            boot=self.boot,
            correlation=send.correlation,
            message=request,
            question=request,
        )

    def _answer(self, answer: Answer) -> Packet:
        request = self._askers.pop(answer.asker)
        message, records = answer.response, tuple[StoredBatch, ...]()
        if isinstance(message, FetchResponse) and message.span is not None:
            span = message.span
            records = self.disk.read(span.start, span.end, self.batches_max)
            outlines = tuple(each.outline for each in records)
            message = replace(message, span=None, batches=outlines)
        if isinstance(message, FetchSnapshotResponse) and not message.error:
            below = message.snapshot.offset
            records = tuple(each for each in self.disk.batches if each.outline.end <= below)
        return replace(request, sender=self.me, to=request.sender, message=message, records=records)
