"""The system behind the commands of a transcript: nodes, their disks, a network and one clock.

Nothing happens by itself. Packets wait in the inbox of their receiver, records wait in memory until
a disk is flushed, and the clock stands still until a command moves it. The invariants are checked
after every step of a node. `transcript_commands` lists the commands.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from quorum.core.effects import (
    AnswerChange,
    AnswerReads,
    AppendFetched,
    AppendProposed,
    Effect,
    Warn,
)
from quorum.core.events import Correlation, Event, RequestTimedOut, ResponseReceived, Tick
from quorum.core.limits import Timeouts
from quorum.core.messages import Request, Response
from quorum.core.vocabulary import ReplicaId
from tests.quorum.core.quorum_invariants import Judge
from tests.quorum.core.simulated_node import Host, Packet
from tests.quorum.core.virtual_disk import Disk

OUTSIDE = ReplicaId(0)
ROUNDS_MAX = 1_000
SNAPSHOT_BYTES = 2_500_000
"""The parts of every snapshot in transcripts: three."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A request that nobody has answered yet."""

    asked: ReplicaId
    sent_ms: int
    message: Request | Response


class Backstage:
    def __init__(self) -> None:
        self._now_ms = 0
        self._judge = Judge(())
        self.disks: dict[ReplicaId, Disk] = {}
        self.hosts: dict[ReplicaId, Host] = {}
        self._inboxes: dict[ReplicaId, list[Packet]] = {}
        self._parts: dict[ReplicaId, int] = {}
        self._cuts: set[frozenset[ReplicaId]] = set()
        self._open: dict[tuple[ReplicaId, Correlation], Unfinished] = {}
        self._shown: dict[ReplicaId, str] = {}
        self._told: list[str] = []
        """The answers to callers outside the quorum while `run` ran."""

    # --- a node ------------------------------------------------------------------------------

    def _host(self, number: str) -> Host:
        return self.hosts[ReplicaId(int(number))]

    def _state(self) -> Iterator[str]:
        yield from (self._show(self.hosts[each]) for each in sorted(self.hosts))

    def _show(self, host: Host) -> str:
        """The node as it is; after an event that is shown only when it has changed."""
        shown = self._shown[host.me] = str(host.node)
        return shown

    def _step(self, host: Host, event: Event) -> Iterator[str]:
        if isinstance(event, ResponseReceived):
            self._open.pop((host.me, event.correlation), None)
        for effect in host.node.step(event, now_ms=self._now_ms):
            yield self._perform(host, effect)
        if self._shown.get(host.me) != str(host.node):
            yield f"  {self._show(host)}"

    def _perform(self, host: Host, effect: Effect) -> str:
        self._judge.about_to_perform(host, effect)
        end_before = len(host.disk.records)
        packet = host.perform(effect)
        self._judge.performed(host, effect, end_before)
        if isinstance(effect, AnswerChange | AnswerReads | Warn):
            self._told.append(f"{host.me}: {effect}")
        if packet is None:
            added = " ".join(record.word for record in host.disk.records[end_before:])
            is_of_words = isinstance(effect, AppendProposed | AppendFetched)
            return f"  {effect}: {added}" if is_of_words else f"  {effect}"
        self._judge.leaving(host, packet)
        if packet.is_request:
            sent = Unfinished(packet.to, self._now_ms, packet.message)
            self._open[host.me, packet.correlation] = sent
        if packet.is_request or packet.to == OUTSIDE:
            shown = str(effect) if packet.is_request else f"answer: {packet.said}"
        else:
            shown = f"answer to {packet.to}: {packet.said}"
        return f"  {shown}{'' if self._post(packet) else ' (lost)'}"

    def _flush(self, number: str) -> Iterator[str]:
        host = self._host(number)
        if not host.disk.begin_flush():
            yield f"{host.me} has nothing to flush"
            return
        event = host.flushed()
        self._judge.durable(host)
        yield f"{host.me}: {event}"
        yield from self._step(host, event)

    def _install(self, number: str, *damaged: str) -> Iterator[str]:
        host = self._host(number)
        event = host.found_damaged() if damaged else host.installed(SNAPSHOT_BYTES)
        self._judge.durable(host)
        yield f"{host.me}: {event}"
        yield from self._step(host, event)

    def _give_up(self, host: Host, correlation: Correlation) -> Iterator[str]:
        given_up = self._open.pop((host.me, correlation))
        yield f"{host.me}: no answer from {given_up.asked} to {given_up.message}"
        yield from self._step(host, RequestTimedOut(given_up.asked, correlation))

    # --- the network -------------------------------------------------------------------------

    def _post(self, packet: Packet) -> bool:
        """Put the packet into the inbox it is for; False if the network loses it."""
        if packet.to == OUTSIDE:
            return True
        apart = self._parts.get(packet.sender, 0) != self._parts.get(packet.to, 0)
        apart |= frozenset((packet.sender, packet.to)) in self._cuts
        if apart or packet.to not in self.hosts:
            return False
        self._inboxes[packet.to].append(packet)
        return True

    def _take(self, number: str, *source: str) -> list[Packet]:
        me = ReplicaId(int(number))
        wanted = ReplicaId(int(source[1])) if source else None
        inbox = self._inboxes[me]
        taken = [each for each in inbox if wanted in (None, each.sender)]
        self._inboxes[me] = [each for each in inbox if each not in taken]
        return taken

    def _deliver(self, number: str, *source: str) -> Iterator[str]:
        for packet in self._take(number, *source):
            host = self.hosts[packet.to]
            if not host.expects(packet):
                yield f"{packet} (of no use: {packet.to} has restarted since)"
                continue
            yield str(packet)
            yield from self._step(host, host.event(packet))

    # --- letting things happen ---------------------------------------------------------------

    def _run(self, ms: str) -> Iterator[str]:
        end_ms = self._now_ms + int(ms)
        self._told.clear()
        for _ in range(ROUNDS_MAX):
            if self._happens_now():
                continue
            next_ms = min(self._moments(), default=end_ms + 1)
            if next_ms > end_ms:
                break
            self._now_ms = max(self._now_ms, next_ms)
            self._fire()
        else:
            raise AssertionError(f"the nodes do not come to rest in {ROUNDS_MAX} rounds")
        self._now_ms = end_ms
        yield from self._told
        yield f"at {self._now_ms} ms"
        yield from self._state()

    def _happens_now(self) -> bool:
        """Flush every disk, then deliver every packet; False if there was nothing to do."""
        done = False
        for me in sorted(self.hosts):
            if self.hosts[me].disk.batches_at_risk and self.hosts[me].node.has_room:
                done = bool(list(self._flush(str(me))))
            if self.hosts[me].installing is not None:
                done = bool(list(self._install(str(me))))
            if self._inboxes[me]:
                done = bool(list(self._deliver(str(me))))
        return done

    def _moments(self) -> list[int]:
        timers = [host.node.deadline_ms for host in self.hosts.values()]
        timeout_ms = Timeouts().request_timeout_ms
        timeouts = [each.sent_ms + timeout_ms for each in self._open.values()]
        return [each for each in timers if each is not None] + timeouts

    def _fire(self) -> None:
        timeout_ms = Timeouts().request_timeout_ms
        for asker, correlation in sorted(self._open):
            sent = self._open.get((asker, correlation))
            if sent is not None and self._now_ms >= sent.sent_ms + timeout_ms:
                list(self._give_up(self.hosts[asker], correlation))
        for me in sorted(self.hosts):
            deadline_ms = self.hosts[me].node.deadline_ms
            if deadline_ms is not None and self._now_ms >= deadline_ms:
                list(self._step(self.hosts[me], Tick()))
