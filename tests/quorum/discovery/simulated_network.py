"""A simulated network of nodes that discover each other: addresses, messages and one clock.

A message goes to an address, and the process that runs there receives it. There is no answer if
none runs there, or if it belongs to another cluster. Without `chaos` messages arrive at once; with
it, they are delayed or lost as drawn from `rng`.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quorum.core.effects import Commit, Effect
from quorum.core.events import Event, RequestTimedOut, ResponseReceived, Tick
from quorum.core.messages import FetchRequest
from quorum.core.vocabulary import HostPort, ReplicaId
from tests.quorum.core.simulated_node import Packet
from tests.quorum.discovery.simulated_discovery import Process, Resident

NEVER_MS: Final = 1 << 60

Watch = Callable[[Process], None]


@dataclass(frozen=True, slots=True)
class Chaos:
    """The faults of the network."""

    loss: float
    delay_ms_max: int


class SimulatedNetwork:
    def __init__(self, rng: random.Random, *, chaos: Chaos | None = None) -> None:
        self.rng = rng
        self.chaos = chaos
        self.now_ms = 0
        self.residents: dict[ReplicaId, Resident] = {}
        self.processes: dict[ReplicaId, Process] = {}
        self.told: list[str] = []
        """The lines about gossip for a transcript."""
        self.on_step: Watch = lambda _: None
        """Called after each event with the process that it happened to."""
        self.on_send: Callable[[Process, Packet], None] = lambda *_: None
        self.behind: dict[HostPort, list[ReplicaId]] = {}
        """The nodes that answer in turn at a shared address."""
        self._numbers = 0
        self._starts = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []

    # --- nodes --------------------------------------------------------------------------------

    def settle(self, resident: Resident) -> None:
        self.residents[resident.id] = resident

    def start(self, id_: ReplicaId) -> Process:
        self._starts += 1
        process = self.processes[id_] = Process(
            self.residents[id_],
            number=self._starts,
            now_ms=self.now_ms,
            rng=self.rng,
            made=f"made-{self._starts}",
        )
        self.on_step(process)
        return process

    def kill(self, id_: ReplicaId) -> None:
        self.processes.pop(id_)
        self.residents[id_].disk.lose_power(0)

    def at(self, place: HostPort) -> Process | None:
        """The process at this address, or the next one behind a shared address."""
        turns = self.behind.get(place)
        if turns is not None:
            turns.append(turns.pop(0))
            return self.processes.get(turns[-1])
        return next(
            (each for each in self.processes.values() if each.resident.address == place), None
        )

    # --- time ----------------------------------------------------------------------------------

    def run(self, ms: int) -> None:
        """Let everything happen that does within this time."""
        until_ms = self.now_ms + ms
        while (next_ms := self._next_ms()) <= until_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self._happen()
        self.now_ms = until_ms

    def gossip(self, process: Process) -> None:
        """One round of a process."""
        for place in process.discovery.round(self.now_ms):
            self._ask(process, place)
        self._hear(process)

    def _next_ms(self) -> int:
        if any(each.discovery.is_due(self.now_ms) for each in self.processes.values()):
            return self.now_ms
        moments = [due_ms for due_ms, _, _ in self._queue]
        moments += [each.deadline_ms for each in self.processes.values()]
        return min(moments, default=NEVER_MS)

    def _happen(self) -> None:
        due = sorted((each for each in self._queue if each[0] <= self.now_ms), key=lambda e: e[:2])
        if due:
            self._queue.remove(due[0])
            due[0][2]()
            return
        for process in sorted(self.processes.values(), key=lambda each: each.id):
            if process.discovery.is_due(self.now_ms):
                self.gossip(process)
                return
        process = min(self.processes.values(), key=lambda each: (each.deadline_ms, each.id))
        self._step(process, Tick())

    def _later(self, do: Callable[[], None]) -> None:
        delay_ms = 0 if self.chaos is None else self.rng.randrange(self.chaos.delay_ms_max + 1)
        self._numbers += 1
        self._queue.append((self.now_ms + delay_ms, self._numbers, do))

    def _is_lost(self) -> bool:
        return self.chaos is not None and self.rng.random() < self.chaos.loss

    def _lives(self, process: Process) -> bool:
        return self.processes.get(process.id) is process

    # --- gossip --------------------------------------------------------------------------------

    def _ask(self, asker: Process, place: HostPort) -> None:
        request = asker.discovery.request()
        where = f"{place[0]}:{place[1]}"

        def arrive() -> None:
            asked = None if self._is_lost() else self.at(place)
            if asked is None:
                self._later(lambda: fail("nobody answers"))
                return
            answer = asked.discovery.asked(request, self.now_ms)
            self._hear(asked)
            if isinstance(answer, str):
                self._later(lambda: fail(f"refused, {answer}"))
                return
            self._later(lambda: heard(asked.id, answer))

        def fail(why: str) -> None:
            if self._lives(asker):
                self.told.append(f"{asker.id} asks {where}: {why}")
                asker.discovery.failed(place)
                self._hear(asker)

        def heard(asked: ReplicaId, answer: object) -> None:
            if not self._lives(asker):
                return
            foreign = asker.discovery.heard(place, answer, self.now_ms)  # type: ignore[arg-type]
            what = f"nothing is learned, {foreign}" if foreign else f"{asked} answers"
            self.told.append(f"{asker.id} asks {where}: {what}")
            self._hear(asker)

        self._later(arrive)

    def _hear(self, process: Process) -> None:
        """Hand to the core what the gossip has for it."""
        while process.heard:
            self._step(process, process.heard.pop(0))
        self.on_step(process)

    # --- the core ------------------------------------------------------------------------------

    def _step(self, process: Process, event: Event) -> None:
        for effect in process.host.node.step(event, now_ms=self.now_ms):
            self._perform(process, effect)
        self.on_step(process)
        if process.host.disk.begin_flush():
            self._later(lambda: self._flush(process))

    def _flush(self, process: Process) -> None:
        if self._lives(process):
            self._step(process, process.host.flushed())

    def _perform(self, process: Process, effect: Effect) -> None:
        packet = process.host.perform(effect)
        if isinstance(effect, Commit):
            process.committed()
        if packet is None:
            return
        if packet.is_request:
            self.on_send(process, packet)
            place = process.book.address_of(packet.to)
            self._later(lambda: self._deliver(process, packet, place))
        else:
            self._later(lambda: self._return(process, packet))

    def _deliver(self, sender: Process, packet: Packet, place: HostPort | None) -> None:
        asked = None if place is None or self._is_lost() else self.at(place)
        if asked is None or sender.cluster.id not in (None, asked.cluster.id):
            self._later(lambda: self._give_up(sender, packet))
        elif asked.id != packet.to and not isinstance(packet.message, FetchRequest):
            # The wire names the voter that it is for (INVALID_VOTER_KEY).
            self._later(lambda: self._give_up(sender, packet))
        else:
            self._step(asked, asked.host.event(packet))

    def _return(self, answering: Process, packet: Packet) -> None:
        asker = self.processes.get(packet.to)
        if asker is None or not asker.host.expects(packet) or self._is_lost():
            if asker is not None and asker.host.expects(packet):
                self._give_up(asker, packet)
            return
        leader = packet.message.leader  # type: ignore[union-attr]
        if leader is not None:
            place = answering.book.address_of(leader)
            if place is not None:
                asker.book.hint(leader, place)
        event = asker.host.event(packet)
        assert isinstance(event, ResponseReceived)
        self._step(asker, event)

    def _give_up(self, sender: Process, packet: Packet) -> None:
        if self._lives(sender):
            self._step(sender, RequestTimedOut(packet.to, packet.correlation))

    def state(self) -> Iterator[str]:
        """Everyone who runs, in one line each."""
        for id_ in sorted(self.processes):
            process = self.processes[id_]
            cluster = process.cluster.id or "unknown"
            yield f"{process.host.node}, cluster {cluster}"
