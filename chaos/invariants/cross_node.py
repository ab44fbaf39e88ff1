"""Invariants over the messages between nodes: R12 (durability regressions), R25, R26, R28, R34.

R12: a voter that fetches from below its last acknowledgement has lost data; the leader that got the
acknowledgement must log a warning. R28: the leader appends a voter set only if a majority of it has
fetched since the request and since the previous set was appended.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from chaos.invariants.disk_format import batches
from chaos.invariants.durable_state import Incarnation
from chaos.invariants.faulty_leader import FaultyLeaderInvariant
from chaos.invariants.leadership import LeaderStickiness, StaleLeaderInvariant
from chaos.invariants.quorum import QuorumInvariants
from chaos.invariants.voter_sets import VoterSet, VoterSets, names, voter_set_in
from chaos.network.virtual_network import Packet
from chaos.violation import Violation
from quorum.core.limits import Timeouts
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
    VoterRequest,
)
from quorum.core.vocabulary import ReplicaId, ReplicaKey


class Node(Protocol):
    """A process, as these invariants know it."""

    @property
    def incarnation(self) -> Incarnation:
        """Its replica, boot and disk."""
        ...

    @property
    def is_overdue(self) -> bool:
        """True if its deadline has passed and its timer is late."""
        ...

    @property
    def may_have_no_room(self) -> bool:
        """True if its disk may be full."""
        ...

    def now_ms(self) -> int:
        """The time by its own clock."""
        ...


class CrossNodeInvariants:
    """The dispatcher of messages to the cross-node invariants of one run."""

    def __init__(
        self, judge: QuorumInvariants, timeouts: Timeouts, note: Callable[[str], None]
    ) -> None:
        self.regressions = DurabilityRegressions(judge, note)
        self._judge = judge
        self._stickiness = LeaderStickiness(judge, timeouts.fetch_timeout_ms)
        self._stale_leaders = StaleLeaderInvariant(judge, timeouts.fetch_timeout_ms)
        self._faulty_leaders = FaultyLeaderInvariant(timeouts, note)

    def request_sent(self, who: Node, to: ReplicaId, request: Request, call: int) -> None:
        """The process sends a request."""
        self._stickiness.request_sent(who.incarnation, to, request, call)
        if who.may_have_no_room:
            self._faulty_leaders.forgets(who.incarnation)
        self._faulty_leaders.request_sent(who.incarnation, to, request, call, who.now_ms())
        if isinstance(request, BeginQuorumEpochRequest) and not who.is_overdue:
            self._stale_leaders.says(who.incarnation, request, who.now_ms())

    def request_received(self, who: Node, packet: Packet) -> None:
        """A request arrives."""
        self._stickiness.request_received(who.incarnation, packet.boot, packet.call, packet.request)
        self._stale_leaders.request_received(who.incarnation, packet.request, who.now_ms())

    def response_sent(self, who: Node, packet: Packet, response: Response, records: bytes) -> None:
        """The process sends a response."""
        self._judge.response_sent(who.incarnation, packet.sender, packet.request, response, records)
        self.regressions.response_sent(who.incarnation, packet.request, response)
        if who.is_overdue:
            self.woken(who)
        self._stale_leaders.says(who.incarnation, response, who.now_ms())
        if isinstance(response, VoteResponse) and response.granted:
            assert isinstance(packet.request, VoteRequest)
            if packet.request.pre_vote:
                self._faulty_leaders.forgets(who.incarnation)
                asker = packet.boot, packet.call
                self._stickiness.promises(who.incarnation, *asker, who.now_ms())

    def cannot_promise(self, asker: int, epoch: int) -> None:
        """A voter without pre-vote support got a pre-vote request from boot `asker`."""
        self._stickiness.must_stand(asker, epoch)

    def response_received(self, who: Node, packet: Packet) -> None:
        """A response to a pending request arrives."""
        if packet.is_forged:
            self.refuses(who, packet.call)
            return
        response, call = packet.response, packet.call
        assert response is not None
        self._stickiness.response_received(who.incarnation, call, response, who.now_ms())
        self._faulty_leaders.answered(who.incarnation, call)

    def refuses(self, who: Node, call: int) -> None:
        """A response arrives that the process must refuse."""
        self._faulty_leaders.refuses(who.incarnation, call, who.now_ms())

    def loses(self, who: Node) -> None:
        """The process considers its leader unreachable."""
        self._stickiness.forgets(who.incarnation)

    def woken(self, who: Node) -> None:
        """The process was paused, or its timer is late."""
        self._stale_leaders.woken(who.incarnation, who.now_ms())


@dataclass(slots=True)
class _Acknowledged:
    """The highest acknowledgement of one replica to one leader process."""

    epoch: int
    end: int
    is_forgotten: bool = False
    """True once the leader has forgotten it: what is said later may come from before."""


class DurabilityRegressions(logging.Handler):
    """R12: acknowledgements per leader, and the product's warnings about regressions."""

    def __init__(self, judge: QuorumInvariants, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note
        self._judge = judge
        self._acknowledged: dict[tuple[int, ReplicaKey], _Acknowledged] = {}
        self._warnings: set[str] = set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record the product's warnings inside the block."""
        logger = logging.getLogger("quorum")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        warning, found, _ = record.getMessage().partition(
            ": its disk has lost that, or an older copy"
        )
        if found:
            self._warnings.add(warning)

    def response_sent(self, who: Incarnation, request: Request, response: Response) -> None:
        """A leader answers a fetch, which acknowledges something if the logs agree."""
        if (
            not isinstance(request, FetchRequest)
            or not isinstance(response, FetchResponse)
            or response.error
            or response.leader != who.id
        ):
            return
        end, key = request.log_end.offset, request.replica
        acknowledges = response.diverging is None and response.snapshot is None
        known = self._acknowledged.get((who.boot, key))
        if known is None or known.epoch != response.epoch:
            if acknowledges:
                self._acknowledged[who.boot, key] = _Acknowledged(response.epoch, end)
            return
        if known.is_forgotten:
            return
        before = known.end
        if acknowledges:
            known.end = end
        elif end < before:
            known.is_forgotten = True
        if end < before and self._votes(key):
            self._note("a voter has lost acknowledged data")
            warning = f"voter {key} fetches from offset {end}, but had acknowledged everything "
            if acknowledges:
                is_reported = f"{warning}below {before}" in self._warnings
            else:
                # A waiting fetch may have acknowledged more meanwhile; it is not answered yet.
                is_reported = any(each.startswith(warning) for each in self._warnings)
                self._note("a voter that has lost acknowledged data is sent elsewhere")
            if not is_reported:
                raise Violation("R12", f"{who} does not log: {warning}below {before}")

    def _votes(self, key: ReplicaKey) -> bool:
        """True if it is a voter in every log."""
        voter_sets = self._judge.possible_voter_sets
        return all(any(names(v, key) for v in each.voters) for each in voter_sets)


SLACK_MS: Final = 500
"""The tolerance for work that a leader had begun when its time was up."""


class VoterChangeInvariant:
    """R28: the replicas that have fetched from each leader since voters could change there."""

    def __init__(self, voter_sets: VoterSets, fetch_timeout_ms: int) -> None:
        self._electorates = voter_sets
        self._silent_ms_max = fetch_timeout_ms + SLACK_MS
        self._fetched_ms: dict[int, dict[ReplicaKey, int]] = {}
        self._wanted: dict[int, list[VoterRequest]] = {}

    def request_received(self, who: Incarnation, request: Request, now_ms: int) -> None:
        """A request arrives."""
        if isinstance(request, FetchRequest):
            self._fetched_ms.setdefault(who.boot, {})[request.replica] = now_ms

    def wanted(self, boot: int, request: VoterRequest) -> None:
        """A client requests other voters; the process sees it in its next turn."""
        self._wanted.setdefault(boot, []).append(request)

    def refused(self, boot: int, request: VoterRequest) -> None:
        """The request is refused: it causes no later append."""
        if request in self._wanted.get(boot, ()):
            self._wanted[boot].remove(request)

    def turned(self, boot: int) -> None:
        """The process had a turn: earlier fetches no longer show that a replica is alive."""
        if self._wanted.pop(boot, None):
            self._fetched_ms.pop(boot, None)

    def appends(self, who: Incarnation, records: bytes, now_ms: int) -> None:
        """The leader has appended control records, at this time of its clock."""
        for batch in batches(records):
            new = voter_set_in(*batch)
            if new is not None and new.base > 0:
                before = self._electorates.before(who.durable.assigned, who.durable.end, new)
                self.names(who, before, new, now_ms)

    def names(self, who: Incarnation, before: VoterSet, new: VoterSet, now_ms: int) -> None:
        """The leader appends a voter set in place of `before`."""
        fetched_ms = self._fetched_ms.pop(who.boot, {})
        if _are_the_same(before, new):
            return
        there = [who.key, *(key for key, at in fetched_ms.items() if self._is_recent(at, now_ms))]
        found = [each for each in new.voters if any(names(each, key) for key in there)]
        if 2 * len(found) <= len(new.voters):
            text = " ".join(map(str, found))
            raise Violation("R28", f"{who} appends {new}, but only {text} fetched recently")

    def _is_recent(self, at_ms: int, now_ms: int) -> bool:
        return now_ms - at_ms <= self._silent_ms_max


def _are_the_same(before: VoterSet, new: VoterSet) -> bool:
    """True if no voter joins or leaves; a directory id may have become known."""
    return len(before.voters) == len(new.voters) and all(
        any(names(each, key) for each in before.voters) for key in new.voters
    )
