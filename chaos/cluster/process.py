"""Controller and broker processes: a replica with a state machine of the product above it.

They report to the checkers what a plain `Process` reports. `ControllerProcess` is here, the broker
in `chaos.cluster.broker.process`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from chaos.cluster.environment import ClusterEnvironment
from chaos.cluster.invariants.history import view_of_image
from chaos.invariants.durable_state import Incarnation
from chaos.simulation.machine import Machine
from chaos.simulation.process import ALL_BYTES, Process
from chaos.simulation.runtime import CoarseRandom
from chaos.violation import Violation
from controller.quorum_controller import QuorumController
from quorum.applier import ReadDone
from quorum.core.events import EndpointsUpdated
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, Offset
from quorum.persistent_state import PersistentState
from quorum.ports import StateMachine, StateSnapshot
from statemachine import commands
from statemachine.features.features import ELR_VERSION, RANGES
from statemachine.image.image import Image
from statemachine.limits import METADATA_VERSION_MAX
from statemachine.records import kafka_records

NO_OP_INTERVAL_MS: Final = 2_000
SLICE_MS: Final = 1
"""The pause between two slices of a long decision."""
LISTENER: Final = "CONTROLLER"


class ClusterProcess(Process, ABC):
    """A `Process` that passes the quorum's calls to `above` and checks its image."""

    world: ClusterEnvironment
    above: StateMachine

    @property
    @abstractmethod
    def image(self) -> Image:
        """Its image of the metadata."""

    def check_view(self, end: int) -> None:
        """P22: its image equals the committed log below `end`, a batch boundary."""
        difference = view_of_image(self.image).difference(self.world.history.view_at(end))
        if difference:
            raise Violation("P22", f"{self.id} at {end}: {difference}")

    # --- `quorum.ports.StateMachine` ---------------------------------------------------------

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        self.above.load_snapshot(records, end, epoch)
        history = self.world.history
        state: Any = history.state_at(end) if history.is_boundary(end) else None
        self.world.invariants.loads(self.incarnation, end, epoch, state)
        self.world.note("a snapshot is installed" if self._runs else "a snapshot is loaded")
        self.world.tell(self.id, f"loads the snapshot {end}@{epoch}")

    def snapshot(self) -> StateSnapshot | None:
        return self.above.snapshot()

    def on_commit(self, high_watermark: Offset) -> None:
        self._act()
        start = Offset(self.world.invariants.high_watermark(self.incarnation))
        records = self.log.read(start, high_watermark, ALL_BYTES) if high_watermark > start else b""
        self.world.invariants.commits(self.incarnation, high_watermark, records)
        self.above.on_commit(high_watermark)
        now_ms = self.world.timeline.now_ms
        self.world.trace.add(now_ms, self.id, f"commits {high_watermark}", high_watermark)
        self.world.on_told(self.id)

    @property
    def is_behind(self) -> bool:
        return self.above.is_behind

    def catch_up(self) -> None:
        self.above.catch_up()

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        self.leads, self.proposed_end = True, 0
        self.world.trace.add(self.world.timeline.now_ms, self.id, f"leads epoch {epoch}")
        self.above.on_lead(epoch, start)

    def on_control(self, end: Offset) -> None:
        super().on_control(end)
        self.above.on_control(end)

    def on_stop_leading(self, epoch: Epoch) -> None:
        self.leads = False
        self.above.on_stop_leading(epoch)
        self.world.trace.add(self.world.timeline.now_ms, self.id, f"led epoch {epoch}")

    def admit(self, serve: Callable[[], None]) -> None:
        """Serve a call now."""
        serve()

    def again(self, look: Callable[[], int]) -> None:
        """Run `look` now, and again after the delay in ms that it returns."""
        wait_ms = look()
        self.later(max(1, wait_ms), partial(self.again, look))


class ControllerProcess(ClusterProcess):
    """A controller process, which decides commands while it is active."""

    def __init__(
        self,
        world: ClusterEnvironment,
        machine: Machine,
        incarnation: Incarnation,
        past: PersistentState,
        rng: CoarseRandom,
    ) -> None:
        settings = world.settings
        self.controller = self.above = QuorumController(
            clock=self.now_ms,
            wall_clock=self.now_wall_ms,
            session_timeout_ms=settings.session_timeout_ms,
            metadata_version=METADATA_VERSION_MAX,
            registration=_registration(machine, rng),
            features=((ELR_VERSION, int(settings.has_elr)),),
            default_min_isr=settings.min_isr,
            no_op_interval_ms=NO_OP_INTERVAL_MS,
            later=partial(self._go_on_later, world),
            slice_us=settings.slice_us,
        )
        super().__init__(world, machine, incarnation, past, rng)
        self.controller.attach(_Port(self))
        for look in (
            self.controller.sweep,
            self.controller.advance_moves,
            self.controller.append_no_op,
        ):
            self.later(0, partial(self.again, look))

    @property
    def image(self) -> Image:
        return self.controller.image

    def _go_on_later(self, world: ClusterEnvironment, happen: Callable[[], None]) -> None:
        world.note("a decision is cut into slices")
        self.later(SLICE_MS, happen)

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        # A later leader may have committed more; then `start` is no boundary here.
        if self.world.history.is_boundary(start):
            self.check_view(start)
            self.world.note("a new controller knows the whole log")
        super().on_lead(epoch, start)

    def on_stop_leading(self, epoch: Epoch) -> None:
        super().on_stop_leading(epoch)
        self.check_view(self.controller.committed)

    def submit(self, command: commands.Command, done: Callable[[Any], None]) -> None:
        """Submit a command; an answer that is given before the commit waits for it."""
        self._act()
        self.controller.submit(command, done)


class _Port:
    """The replica behind `controller.ports.Proposing`; the checkers see every proposal."""

    def __init__(self, process: ControllerProcess) -> None:
        self._process = process
        self._replica = process.replica

    @property
    def node(self) -> QuorumNode:
        return self._replica.node

    @property
    def has_room(self) -> bool:
        return self._replica.has_room

    def accepts(self, count: int, *, after: int = 0) -> bool:
        return self._replica.accepts(count, after=after)

    def propose(self, values: Sequence[bytes]) -> Offset:
        process, base = self._process, self._replica.propose(values)
        process.proposed_end = self._replica.next_offset
        committed, durable = (
            process.world.invariants.high_watermark(process.incarnation),
            process.machine.durable.end,
        )
        process.queues.appended(process.proposed_end, committed, durable, sum(map(len, values)))
        return base

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        return self._replica.read_committed(start, max_bytes)

    def read_index(self, done: ReadDone) -> None:
        self._replica.read_index(done)

    def heard(self, news: EndpointsUpdated) -> None:
        self._replica.heard(news)


def _registration(machine: Machine, rng: CoarseRandom) -> commands.RegisterController:
    config = machine.config
    host, port = config.advertised or ("", 0)
    return commands.RegisterController(
        controller_id=config.node_id,
        incarnation_id=UUID(int=rng.getrandbits(128), version=4),
        endpoints=(
            kafka_records.Endpoint(name=LISTENER, host=host, port=port, security_protocol=0),
        ),
        features=RANGES,
    )
