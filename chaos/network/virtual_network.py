"""The network between the replicas: it loses, duplicates, delays, holds back and cuts messages.

A call is a request and its response. As `ports.Rpc` promises, each call ends once: with a response,
or without one after a time-out or when the other end is gone. A packet holds the message as an
object and the records as bytes, which are checked on arrival.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from chaos.simulation.profile import CALM, Rates
from chaos.simulation.runtime import Timeline, below
from quorum.core.messages import FetchRequest, FetchResponse, Request, Response
from quorum.core.vocabulary import ReplicaId
from quorum.records.batch import check
from quorum.records.control import assignment_in

LATENCY_MS: Final = (1, 6)
STRAGGLING_MS_MAX: Final = 4_000
REFUSED_SHARE: Final = 0.8
"""The share of refusals that reach the caller; otherwise it waits for its timeout."""

NO_BOOT: Final = 0
"""The boot of one that is no process of the cluster."""

Link = tuple[ReplicaId, ReplicaId]


class Packet(NamedTuple):
    """A message in transit. `boot` and `call` identify the call that waits for the response."""

    sender: ReplicaId
    to: ReplicaId
    boot: int
    call: int
    request: Request
    response: Response | None = None
    records: bytes = b""
    is_forged: bool = False
    """True if its receiver must refuse it."""

    def __str__(self) -> str:
        return f"{self.sender} -> {self.to}"

    @property
    def message(self) -> Request | Response:
        return self.request if self.response is None else self.response


class End(Protocol):
    """A process, as the network sees it."""

    boot: int

    @property
    def id(self) -> ReplicaId:
        """The id of its replica."""
        ...

    def arrived(self, packet: Packet) -> None:
        """A request, or an answer to a call of this very process, arrives."""
        ...

    def refused(self, call: int) -> None:
        """The connection was refused; ignored for a call that has ended."""
        ...

    def closed(self, at: ReplicaId) -> None:
        """The process at the other end has closed its connections."""
        ...

    def not_reached(self, to: ReplicaId) -> None:
        """A connection attempt of `dial` was refused."""
        ...


class Network:
    """The network; the world keeps `listeners`, the running processes."""

    def __init__(
        self,
        timeline: Timeline,
        rng: random.Random,
        note: Callable[[str], None],
    ) -> None:
        self.listeners: dict[ReplicaId, End] = {}
        self.dark: set[ReplicaId] = set()
        """Replicas without power: they refuse nothing, and close no connection."""
        self.rates: Rates = CALM
        self.harm: Callable[[Packet], bool] | None = None
        """Asked of each packet, while something is to happen to one: whether it sees to this one.
        """
        self._timeline = timeline
        self._rng = rng
        self._note = note
        self._cuts: set[Link] = set()
        self._clogged: dict[ReplicaId, list[Packet]] = {}

    # --- calls of the nemesis ---------------------------------------------------------------

    def cut(self, links: set[Link]) -> None:
        """Drop everything on these links from now on."""
        self._cuts |= links

    def mend(self, links: set[Link]) -> None:
        """Restore these links."""
        self._cuts -= links

    def clog(self, replica: ReplicaId) -> None:
        """Hold back all traffic of this replica until `unclog`."""
        self._clogged.setdefault(replica, [])

    def unclog(self, replica: ReplicaId) -> None:
        """Release the held traffic at once, in order."""
        for packet in self._clogged.pop(replica, ()):
            self._timeline.after(0, partial(self.deliver, packet))

    def heal(self) -> None:
        """Restore all links."""
        self._cuts.clear()
        for replica in sorted(self._clogged):
            self.unclog(replica)

    # --- connections ------------------------------------------------------------------------

    def hang_up(self, replica: ReplicaId) -> None:
        """Close the connections of a process that has ended."""
        for end in [*self.listeners.values()]:
            if end.id != replica and self._rng.random() < REFUSED_SHARE:
                notify = partial(self._tell, end, replica, end.closed)
                self._timeline.after(self._latency_ms(), notify)

    def dial(self, end: End, to: ReplicaId, at: ReplicaId | None) -> None:
        """Connect again to `at`, the machine at the known address of `to`. The network reports a
        refusal, but not silence."""

        def arrive() -> None:
            if at is None or (at not in self.listeners and at not in self.dark):
                self._tell(end, to, end.not_reached)

        self._timeline.after(self._latency_ms(), arrive)

    def _tell(self, end: End, to: ReplicaId, how: Callable[[ReplicaId], None]) -> None:
        links = {(end.id, to), (to, end.id)}
        if not links & self._cuts and not {end.id, to} & self._clogged.keys():
            how(to)

    # --- messages ---------------------------------------------------------------------

    def post(self, packet: Packet) -> None:
        """Send a packet."""
        if self.harm is not None and self.harm(packet):
            return
        rates, rng = self.rates, self._rng
        lost = rates.lost_requests if packet.response is None else rates.lost_answers
        if lost and rng.random() < lost:
            self._note("a message is lost")
            return
        deliver = partial(self.deliver, packet)
        self._timeline.after(self._latency_ms(), deliver)
        if rates.duplicates and rng.random() < rates.duplicates:
            self._note("a message comes twice")
            late_ms = rng.randrange(STRAGGLING_MS_MAX)
            self._timeline.after(late_ms, deliver)

    def carry(self, link: Link, arrive: Callable[[], None], *, is_request: bool) -> None:
        """Deliver something other than a replica call over this link, if it gets through."""
        rates, rng = self.rates, self._rng
        lost = rates.lost_requests if is_request else rates.lost_answers
        if lost and rng.random() < lost:
            return

        def pass_() -> None:
            if link not in self._cuts and not {*link} & self._clogged.keys():
                arrive()

        self._timeline.after(self._latency_ms(), pass_)
        if rates.duplicates and rng.random() < rates.duplicates:
            self._timeline.after(rng.randrange(STRAGGLING_MS_MAX), pass_)

    def _latency_ms(self) -> int:
        rng = self._rng
        if self.rates.stragglers and rng.random() < self.rates.stragglers:
            self._note("a message straggles")
            return below(rng, STRAGGLING_MS_MAX)
        return LATENCY_MS[0] + below(rng, LATENCY_MS[1] - LATENCY_MS[0])

    def later(self, happen: Callable[[], None]) -> None:
        """Run this when something posted now would arrive."""
        self._timeline.after(LATENCY_MS[0], happen)

    def passes(self, packet: Packet) -> bool:
        """True if this packet would arrive now."""
        ends = {packet.sender, packet.to}
        return (packet.sender, packet.to) not in self._cuts and not ends & self._clogged.keys()

    def deliver(self, packet: Packet) -> None:
        """Deliver a packet now, subject to cuts and holds."""
        if self._cuts and (packet.sender, packet.to) in self._cuts:
            self._note("a message is cut off")
            return
        for end in (packet.sender, packet.to) if self._clogged else ():
            if end in self._clogged:
                self._note("a message is held back")
                self._clogged[end].append(packet)
                return
        listener = self.listeners.get(packet.to)
        if listener is None:
            self._refuse(packet)
        elif packet.response is None or packet.boot == listener.boot:
            listener.arrived(packet)

    def _refuse(self, packet: Packet) -> None:
        """Report the refusal to the caller, most of the time."""
        asker = self.listeners.get(packet.sender)
        if packet.response is not None or asker is None or asker.boot != packet.boot:
            return
        if packet.to not in self.dark and self._rng.random() < REFUSED_SHARE:
            asker.refused(packet.call)


def as_asked(request: FetchRequest, max_bytes: int, round_: int) -> FetchRequest:
    """The fetch with a lower byte limit, and this read round."""
    # Field by field, here and below: `replace` takes three times as long.
    return FetchRequest(
        replica=request.replica,
        epoch=request.epoch,
        log_end=request.log_end,
        max_wait_ms=request.max_wait_ms,
        max_bytes=max_bytes,
        round=round_,
    )


def as_received(response: Response, records: bytes) -> Response:
    """The answer on arrival: its records are checked and outlined."""
    if not isinstance(response, FetchResponse) or (response.span is None and not records):
        return response
    found = check(records, assignment_in=assignment_in) if records else ()
    return FetchResponse(
        error=response.error,
        epoch=response.epoch,
        leader=response.leader,
        high_watermark=response.high_watermark,
        log_start=response.log_start,
        batches=tuple(found),
        diverging=response.diverging,
        snapshot=response.snapshot,
        round=response.round,
    )
