"""A hostile node on the virtual network: it forges requests to every replica, all the time.

Its draws are a stream of their own. It is outside of the cluster: no fault of the network keeps it
from anybody.
"""

import random
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from chaos.hostile.listener import AuthorizingListener, asked_of_core
from chaos.hostile.repertoire import STRANGER, Repertoire, Target
from chaos.network.connection import Message
from chaos.network.virtual_network import NO_BOOT, Packet
from chaos.simulation.machine import EPOCH_WALL_MS
from chaos.simulation.process import Process
from chaos.simulation.profile import Hostility
from chaos.violation import HarnessError
from quorum.core.messages import Request
from quorum.core.vocabulary import ReplicaId
from quorum.transport.inbound import Handler

if TYPE_CHECKING:
    from chaos.simulation.world import World

PAUSE_MS_MAX: Final = 250
"""The longest pause between two visits."""


class HostileNode:
    """The hostile node of one run."""

    def __init__(self, world: "World", hostility: Hostility, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._knows_all = hostility is Hostility.UNAUTHORIZED
        self._repertoire = Repertoire(rng, knows_all=self._knows_all)
        self._listeners: dict[int, AuthorizingListener] = {}
        self._visits = 0
        self._calls = 0
        self._is_over = False
        self.is_steady = False
        """True while every replica is sure to hear a leader: nothing else is wrong."""

    def begin(self) -> None:
        """Visit replicas from now on."""
        if self._is_over:
            return
        pause_ms = self._rng.randrange(1, PAUSE_MS_MAX)
        self._world.timeline.after(pause_ms, self.begin)
        awake = sorted(e.id for e in self._world.processes.values() if e.asleep is None)
        if awake:
            self._visit(self._world.processes[self._rng.choice(awake)])

    def end(self) -> None:
        """Visit nobody any more."""
        self._is_over = True

    def _visit(self, process: Process) -> None:
        self._visits += 1
        messages = [*self._messages(process)]
        if not messages:
            return
        self._world.note("a hostile node forges requests")
        if not self._knows_all:
            self._ask(process, messages)
            return
        listener = self._listeners.get(process.boot)
        if listener is None:
            listener = self._listeners[process.boot] = self._authorizing(process)
            if not listener.admits_nodes(messages):
                raise HarnessError(f"{process.id} admits not even a node")
        listener.refuse(messages, process.id)

    def _ask(self, process: Process, messages: list[Message]) -> None:
        asked: list[Request] = []

        def happen() -> None:
            more = self._handlers(process)
            asked.extend(asked_of_core(process, messages, more, self._visits))

        process.enter(happen)
        for request in asked:
            if not process.is_dead:
                self._calls += 1
                self._world.note("a forged request reaches a core")
                process.arrived(Packet(STRANGER, process.id, NO_BOOT, self._calls, request))

    def _messages(self, process: Process) -> Iterator[Message]:
        """Return the requests to this process."""
        return self._repertoire.messages(self._target(process))

    def _handlers(self, process: Process) -> Mapping[int, Handler]:
        """The handlers of the process for what is no request of the quorum."""
        return {}

    def _authorizing(self, process: Process) -> AuthorizingListener:
        """The listener of this process, with authentication."""
        return AuthorizingListener()

    def _target(self, process: Process) -> Target:
        world, node, durable = self._world, process.replica.node, process.machine.durable
        recorded = durable.assigned[-1].voters if durable.assigned else ()
        proved = {each.id for each in recorded if each.directory_id.int}
        committed = {e.id for e in world.invariants.voter_set.voters if e.directory_id.int}
        is_voter = process.id in ({each.id for each in recorded} or world.voters)
        return Target(
            key=process.incarnation.key,
            is_voter=is_voter,
            epoch=node.epoch,
            leader=node.leader,
            end=node.log_end,
            wall_ms=EPOCH_WALL_MS + world.timeline.now_ms,
            cluster_id=process.cluster.id,
            voters=sorted(proved & committed),
            is_proved=process.id in proved if is_voter else bool(recorded),
            is_steady=self.is_steady,
            has_address=sorted(filter(partial(self._has_address, process), proved & committed)),
        )

    def _has_address(self, process: Process, voter: ReplicaId) -> bool:
        found = process.replica.node.voters.get(voter)
        address = self._world.directory.address_of(voter)
        return found is not None and any(
            (each.host, each.port) == address for each in found.endpoints
        )
