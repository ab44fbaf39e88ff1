"""One run of a whole cluster: the phases of a quorum's run, with brokers and clients above it.

Warm-up, faults, a healed majority of controllers, then all healed, until every move has ended and
every replica is in sync. The final state is then read, and all histories are checked.
"""

import random
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

from broker.partition.assignment import PartitionKey
from chaos.cluster.broker.partition_disk import held_on
from chaos.cluster.hostile import HostileClusterNode
from chaos.cluster.invariants.model import NOBODY, Part
from chaos.cluster.nemesis import DataLosses, SuddenLosses
from chaos.cluster.process import ControllerProcess
from chaos.cluster.profile import KEPT, MOVED, ClusterProfile
from chaos.cluster.workload import requests
from chaos.cluster.workload.clients import LIMITS, NOTED, PASSING, Client
from chaos.cluster.workload.producers import Consumer, Producer
from chaos.cluster.workload.requests import Request
from chaos.cluster.world import ClusterWorld
from chaos.hostile.node import HostileNode
from chaos.linearizability import models
from chaos.simulation.profile import Profile
from chaos.simulation.run import Report, Simulation
from chaos.simulation.world import World
from chaos.violation import HarnessError, Violation
from controller.ports import Unavailable
from quorum.core.vocabulary import ReplicaId
from statemachine.image.image import Image
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE

RETRY_MS: Final = 200
ANSWERED_MIN: Final = 10
"""The fewest answers to clients; a run with fewer proves nothing."""
RULE: Final = "reassignment.completion.rule"
THROTTLED: Final = "replication.throttled"
"""Part of the name of every throttle setting; only moves set these here."""


class ClusterSimulation(Simulation):
    """The run of one profile; see `Simulation`."""

    def __init__(self, profile: ClusterProfile) -> None:
        super().__init__(profile)
        cluster = self.cluster
        self._clients = [
            Client(cluster, number, self._stream(f"client {number}"))
            for number in range(profile.settings.clients)
        ]
        self._askers: list[Producer | Consumer] = [
            Producer(cluster, number, self._stream(f"producer {number}"))
            for number in range(profile.settings.producers)
        ]
        self._askers.append(Consumer(cluster, len(self._askers), self._stream("consumer")))
        self._helper = Client(cluster, len(self._clients), self._stream("helper"))
        self._losses = DataLosses(self, self._stream("losses"))
        self._sudden = SuddenLosses(self, self._stream("sudden losses"))
        self._has_begun = False
        self._closes = self._is_closed = False

    @property
    def cluster(self) -> ClusterWorld:
        """The world of this run."""
        assert isinstance(self.world, ClusterWorld)
        return self.world

    def _stream(self, name: str) -> random.Random:
        return random.Random(f"{self.profile.seed}/{name}")

    def _world(self, profile: Profile) -> World:
        assert isinstance(profile, ClusterProfile)
        return ClusterWorld(profile)

    def _hostile_node(self, rng: random.Random) -> HostileNode:
        return HostileClusterNode(self.cluster, self.profile.hostility, rng)

    # --- the beginning -----------------------------------------------------------------------

    def _propose_again(self) -> None:
        """Create the permanent topics and start the clients."""
        settings = self.cluster.settings
        topics = [
            partial(
                requests.create,
                name,
                UUID(int=self._rng.getrandbits(128), version=4),
                partitions=settings.partitions,
                factor=settings.factor,
            )
            for name in (KEPT, MOVED)
        ]
        self._create([each() for each in topics])

    def _create(self, wanted: list[Request]) -> None:
        if not wanted:
            self._has_begun = True
            for each in (*self._clients, *self._askers):
                each.begin()
            return

        def on_answer(answer: Hashable) -> None:
            is_there = isinstance(answer, models.Created | models.Exists)
            rest = wanted[1:] if is_there else wanted
            self._helper.later(RETRY_MS, partial(self._create, rest))

        self._helper.ask(wanted[0], on_answer)

    def _commit_more(self, count: int, failure: str) -> None:
        super()._commit_more(count, failure)
        if not self._has_begun:
            self._reach(lambda: self._has_begun, "brokers of a new cluster hold nothing")

    def _read_of_others(self, reader: ReplicaId) -> None:
        super()._read_of_others(reader)
        judge = self.world.invariants
        for process in self.cluster.running():
            if not isinstance(process, ControllerProcess) or process.id == reader:
                continue
            if (
                process.controller.is_active
                and judge.high_watermark(process.incarnation) < judge.read_floor
            ):
                self.world.timeline.after(0, partial(query, process))

    # --- data losses -------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """True if no client waits for an answer."""
        return not any(each.waits for each in (*self._clients, self._helper))

    def pass_ms(self, ms: int) -> None:
        """Let this much time pass."""
        self._pass(ms)

    def reach(self, is_reached: Callable[[], bool], failure: str) -> None:
        """Let time pass until the condition holds; else the run has failed."""
        self._reach(is_reached, failure)

    def _disturb(self) -> None:
        super()._disturb()
        for _ in range(self.cluster.settings.losses):
            self._losses.strike()
        for _ in range(self.cluster.settings.sudden_losses):
            self._sudden.strike()

    # --- the end -----------------------------------------------------------------------------

    def _has_converged(self) -> bool:
        for each in (*self._clients, *self._askers):
            each.is_done = True
        # A pending request may still pause a move.
        if not self._closes and self.is_quiet:
            self._closes = True
            self._close(self._last_requests())
        return self._is_closed and self._is_settled() and super()._has_converged()

    def _last_requests(self) -> list[Request]:
        """The requests that let every move end."""
        final = [
            requests.configure(BROKER_RESOURCE, "", name, None)._replace(key=None)
            for name in (*LIMITS, RULE)
        ]
        topic_wide = requests.configure(TOPIC_RESOURCE, MOVED, "min.insync.replicas", None)
        final.append(topic_wide._replace(key=None))
        final += [
            requests.resume(move_id, who="helper", key=f"resume {move_id}")._replace(key=None)
            for move_id in self.cluster.history.keys.moves
        ]
        return final

    def _close(self, final: list[Request]) -> None:
        if not final:
            self._is_closed = True
            return

        def on_answer(answer: Hashable) -> None:
            rest = final if answer is None else final[1:]
            self._helper.later(1, partial(self._close, rest))

        self._helper.ask(final[0], on_answer)

    def _is_settled(self) -> bool:
        return next(self._unsettled(), None) is None

    def _unsettled(self) -> Iterator[object]:
        """Brokers that are not open, throttles that remain, and partitions that still move or lack
        in-sync replicas."""
        model = self.cluster.history.model
        yield from (each for each in self.cluster.brokers if not self.cluster.is_known(each))
        lost = {key for key, part in model.parts.items() if self._is_lost(*key, part)}
        # A move, and so its throttle, lasts until its last partition is done.
        if not any(model.parts[key].moves for key in lost):
            throttles = (key for key, value in model.settings.items() if value)
            yield from (key for key in throttles if THROTTLED in key[2])
        for key, part in model.parts.items():
            is_whole = part.leader != NOBODY and len(part.isr) == len(part.replicas)
            if (part.moves or not is_whole) and key not in lost:
                yield key, part

    def _is_lost(self, topic_id: str, number: int, part: Part) -> bool:
        """True if the only in-sync replica has lost its disk: no replica that may lead has the
        data. An operator may elect another one and accept the loss.

        With eligible leader replicas the last leader is out of the ISR by then, and the ELR is
        empty.
        """
        those_last = part.isr or part.last_known_elr
        if part.leader != NOBODY or part.elr or len(those_last) != 1:
            return False
        key = PartitionKey(UUID(hex=topic_id), number)
        last = ReplicaId(those_last[0])
        has_lost_disk = key not in held_on(self.world.machines[last].disk)
        if has_lost_disk:
            self.world.note("a partition waits for an operator")
        return has_lost_disk

    def _reach(self, is_reached: Callable[[], bool], failure: str) -> None:
        try:
            super()._reach(is_reached, failure)
        except Violation as late:
            if late.rule != "liveness":
                raise
            rest = "".join(f"\nnot settled: {each}" for each in self._unsettled())
            raise Violation(late.rule, f"{failure}{rest}") from late

    def _start_once_more(self) -> None:
        self._read_what_is_left()
        self._check_views()
        self.cluster.folders.check_end()
        self._reach(self.cluster.records.are_equal, "the replicas do not become equal")
        self.cluster.records.check_end()
        for _ in range(self.cluster.client_history.check()):
            self.world.note("a history is undecided")
        super()._start_once_more()

    def _read_what_is_left(self) -> None:
        self.cluster.client_history.closes()
        wanted = [
            *(
                requests.list_partition(KEPT, number)
                for number in range(self.cluster.settings.partitions)
            ),
            *map(requests.describe, PASSING),
            requests.config_of(KEPT, NOTED),
            *map(requests.describe_move, self.cluster.moves),
        ]
        answers: list[Hashable] = []
        # All at once: if voters do not echo rounds, each read waits for the next record.
        for each in wanted:
            self._helper.ask(each, answers.append)
        self._reach(lambda: len(answers) == len(wanted), "the final state cannot be read")

    def _check_views(self) -> None:
        """Check P22 for every running process."""
        for process in self.cluster.running():
            end = process.image.end_offset
            if self.cluster.history.is_boundary(end):
                process.check_view(end)

    def _check_harness(self) -> None:
        super()._check_harness()
        answered = self.world.trace.counts["a client is answered"]
        if answered < ANSWERED_MIN:
            raise HarnessError(f"only {answered} requests of clients were answered")


def simulate(seed: int) -> Report:
    """Run the cluster of this seed."""
    return ClusterSimulation(ClusterProfile.drawn(seed)).run()


# --- L2: a controller answers a query only from a state that includes every earlier answer ---


def query(process: ControllerProcess) -> None:
    """Query the end of its image; it must not be below any high watermark reported so far."""
    process.enter(partial(_query, process))


def _query(process: ControllerProcess) -> None:
    world = process.world
    floor = world.invariants.read_floor

    def done(outcome: Any) -> None:
        if isinstance(outcome, Unavailable):
            return
        world.note("a query is answered")
        if outcome < floor:
            raise Violation(
                "L2", f"{process.id} answers as of {outcome}, but {floor} was reported before"
            )

    process.controller.query(_end_of, done)


def _end_of(image: Image) -> int:
    return image.end_offset
