"""One process: a real replica with its real log and files, on a virtual disk, clock and network.

It can end at any moment: between two effects, in the middle of a write.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from chaos.invariants.durable_state import Incarnation
from chaos.invariants.queue_bounds import Queues
from chaos.network.calls import Calls
from chaos.network.gossip import Gossiper, cluster_for
from chaos.network.virtual_network import Packet, as_asked, as_received
from chaos.simulation.disk_queue import DiskQueue
from chaos.simulation.environment import Environment
from chaos.simulation.ledger import Ledger
from chaos.simulation.machine import Machine
from chaos.simulation.own_machine import CheckedMachine
from chaos.simulation.runtime import CoarseRandom
from chaos.violation import Died, Violation
from quorum.bootstrap import make_node
from quorum.core.events import Asker, LeaderUnreachable
from quorum.core.messages import (
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
    VoterRequest,
)
from quorum.core.vocabulary import Epoch, Offset, ReplicaId
from quorum.embedding import MachineApplier
from quorum.log.errors import StorageError
from quorum.persistent_state import PersistentState
from quorum.ports import Done, LogFailure, StateSnapshot
from quorum.replica import Replica

ALL_BYTES: Final = 1 << 40


class Process:
    """One process, from its creation to `is_dead`; later events are ignored."""

    def __init__(
        self,
        world: Environment,
        machine: Machine,
        incarnation: Incarnation,
        past: PersistentState,
        rng: CoarseRandom,
    ) -> None:
        self.world = world
        self.machine = machine
        self.incarnation = incarnation
        self.id = incarnation.id
        self.boot = incarnation.boot
        self.is_dead = False
        self.is_leaving = False
        """True while it writes out what it has before it ends; it takes no more turns."""
        self.leads = False
        """True if the state machine above may propose."""
        self.wishes: list[VoterRequest] = []
        """The pending requests for other voters."""
        self.dies_in: int | None = None
        """The number of effects until it dies; None if it does not."""
        self.rng = rng
        self.fetch_bytes_max = world.profile.fetch_bytes_max
        self.part_bytes_max = world.profile.part_bytes_max
        self.log = past.log
        self.disk_queue = DiskQueue(self, world)
        self.proposed_end = 0
        """The end of its proposals, since it leads."""
        self.queues = Queues(incarnation, world.profile.bounds)
        self._runs = False
        self._parts_of: Epoch | None = None
        own = world.profile.machine
        self.ledger: Ledger | CheckedMachine = Ledger() if own is None else CheckedMachine(own)
        self._applying = MachineApplier(self.ledger)
        past.tell(self)
        self.calls = Calls(self.takes_for_gone)
        self._askers: dict[Asker, Packet] = {}
        self._last_asker = 0
        self.asleep: list[Callable[[], None]] | None = None
        self._woken = self._turn_is_due = False
        self.timer_ms: int | None = None
        self.cluster = cluster_for(self, past)
        self.replica = Replica(
            make_node(machine.config, past, rng=rng, now_ms=self.now_ms()),
            log=past.log,
            elections=past.elections,
            disk=self.disk_queue,
            rpc=self,
            state_machine=self,
            clock=self.now_ms,
            wall_clock=self.now_wall_ms,
            wake=self._wake,
            cluster=self.cluster,
            store=past.store,
            snapshot_limits=machine.config.snapshots,
        )
        self.gossip = Gossiper(self, past, self.cluster, world.directory, world.note)
        self._applying.log = self.replica
        self._runs = True
        self._arm()

    def __str__(self) -> str:
        return str(self.replica.node)

    def now_ms(self) -> int:
        """The time by its monotonic clock."""
        return self.machine.clock.at(self.world.timeline.now_ms)

    def now_wall_ms(self) -> int:
        """The time of day by its clock."""
        return self.world.wall_ms(self.machine)

    # --- calls of the world ---------------------------------------------------------

    def enter(self, happen: Callable[[], None]) -> None:
        """Run this in the process, then the turns that follow at once."""
        if self.is_dead:
            return
        if self.asleep is not None:
            self.asleep.append(happen)
            return
        try:
            happen()
            if self._woken:
                self._turn_soon()
        except Died:
            self.world.has_died(self.id, self.dies_in is not None and self.dies_in < 0)
        except (LogFailure, StorageError) as failure:
            if not self.machine.explains(failure):
                raise Violation("R23", f"{self.id} fails for no reason: {failure}") from failure
            self.world.has_failed(self.id)
        except Violation:
            raise
        except Exception as error:
            raise Violation("R23", f"{self.id}: {type(error).__name__} {error}") from error

    @property
    def is_overdue(self) -> bool:
        """True if its deadline has passed and its timer is late."""
        return self.timer_ms is not None and self.timer_ms <= self.world.timeline.now_ms

    @property
    def may_have_no_room(self) -> bool:
        """True if its disk has a limit now."""
        return self.machine.disk.capacity_bytes is not None

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """Run this inside after a delay, if the process still lives."""
        self.world.timeline.after(delay_ms, partial(self.enter, happen))

    def pause(self) -> None:
        """Pause; events wait until it wakes."""
        if self.asleep is None:
            self.asleep = []

    def wake_up(self) -> None:
        """Resume after a pause."""
        missed, self.asleep = self.asleep or (), None
        self.world.cross_node.woken(self)
        for happen in missed:
            self.enter(happen)

    def recover(self) -> None:
        """Remove all faults of this process."""
        self.dies_in, self.rng.coarse = None, False
        self.fetch_bytes_max = self.part_bytes_max = ALL_BYTES
        self.wake_up()
        self.timer_ms = None  # Late timers are on time from now on.
        self.enter(self._turn)

    def break_connections(self) -> bool:
        """End all calls without an answer; return True if there was one."""
        under_way = bool(self.calls)
        self.enter(self.calls.break_all)
        return under_way

    def mislead(self) -> bool:
        """Let it take its leader for unreachable; return True if it follows one."""
        leader = self.replica.node.leader
        if leader is None or leader == self.id:
            return False
        self.enter(partial(self.takes_for_gone, leader))
        return True

    def arrived(self, packet: Packet) -> None:
        """See `chaos.network.virtual_network.End`."""
        message, now_ms = packet.message, self.world.timeline.now_ms
        facts = packet.sender, packet.to, message.epoch
        self.world.trace.add(now_ms, packet, message, *facts)
        self.enter(partial(self._asked if packet.response is None else self._answered, packet))

    def refused(self, call: int) -> None:
        """See `chaos.network.virtual_network.End`."""
        self.enter(partial(self.calls.refused, call))

    def closed(self, at: ReplicaId) -> None:
        """See `chaos.network.virtual_network.End`."""
        self.enter(partial(self._closed, at))

    def not_reached(self, to: ReplicaId) -> None:
        """See `chaos.network.virtual_network.End`."""
        self.enter(partial(self.calls.not_reached, to))

    def _closed(self, at: ReplicaId) -> None:
        for to in self.calls.closed(at):
            self.world.network.dial(self, to, self.gossip.whereabouts(to))

    def takes_for_gone(self, to: ReplicaId) -> None:
        """See `quorum.driver.Quorum.gone`."""
        if to == self.replica.node.leader:
            self.world.note("a leader is taken for gone")
            self.world.cross_node.loses(self)
            self.replica.heard(LeaderUnreachable(to))

    def _asked(self, packet: Packet) -> None:
        request = packet.request
        if self.machine.is_old and isinstance(request, VoteRequest) and request.pre_vote:
            self._refuse_pre_vote(packet, request)
            return
        self.world.cross_node.request_received(self, packet)
        self.world.voter_changes.request_received(self.incarnation, packet.request, self.now_ms())
        self._last_asker += 1
        asker = Asker(self._last_asker)
        self._askers[asker] = packet
        self.queues.request_received(packet.request)
        self.replica.asked(asker, packet.request)

    def _refuse_pre_vote(self, packet: Packet, request: VoteRequest) -> None:
        """Answer as an older release, which serves Vote up to version 1 (no KIP-996)."""
        self.world.note("a pre-vote is not known")
        self.world.cross_node.cannot_promise(packet.boot, request.epoch)
        refusal = VoteResponse(error=Error.UNSUPPORTED_VERSION, epoch=request.epoch)
        answer = (self.id, packet.sender, packet.boot, packet.call, request, refusal)
        self.world.network.post(Packet(*answer))

    def _answered(self, packet: Packet) -> None:
        done = self.calls.answered(packet.call)
        if done is not None:
            response = packet.response
            assert response is not None
            self.world.cross_node.response_received(self, packet)
            done(as_received(response, packet.records), packet.records)

    # --- turns and timers -----------------------------------------------------------

    def _wake(self) -> None:
        self._woken = True

    def _turn_soon(self) -> None:
        self._woken = False
        delay_ms = self.world.gathering_ms()
        if delay_ms == 0:
            self._turn()
        elif not self._turn_is_due:
            self._turn_is_due = True
            self.later(delay_ms, self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        if self.is_leaving:
            return
        self.replica.turn()
        while self.replica.has_work:
            self.replica.turn()
        self.world.voter_changes.turned(self.boot)
        self.world.trace.roles[type(self.replica.node.role)] += 1
        self._woken = False
        if self.replica.deadline_ms is not None:  # It does not wait for its disk.
            self.queues.check()
        self._arm()

    def _is_early(self) -> bool:
        """True if a turn now would do nothing: it was not woken and no deadline has passed."""
        if self._turn_is_due or self._woken or self.is_leaving or self.replica.has_work:
            return False
        deadline_ms = self.replica.deadline_ms
        return deadline_ms is not None and deadline_ms > self.now_ms()

    def _arm(self) -> None:
        """Arm the timer, as the driver does: a timer that is early is cheap."""
        deadline_ms = self.replica.deadline_ms
        if deadline_ms is None:
            return
        now_ms = self.world.timeline.now_ms
        at_ms = max(now_ms, self.machine.clock.when(deadline_ms))
        if self.timer_ms is not None and self.timer_ms <= at_ms:
            return
        self.timer_ms = at_ms
        self.later(at_ms - now_ms + self.world.lateness_ms(), partial(self._on_timer, at_ms))

    def _on_timer(self, at_ms: int) -> None:
        if self.timer_ms != at_ms:
            return
        self.timer_ms = None
        if self._is_early():
            self._arm()
        else:
            self._turn()

    def _act(self) -> None:
        """Die before the next effect on the world, if this is due."""
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                raise Died

    # --- `quorum.ports.Rpc` ---------------------------------------------------------

    def send(self, to: ReplicaId, request: Request, done: Done) -> None:
        """See the port."""
        self._act()
        timeout_ms = self.machine.config.timeouts.request_timeout_ms
        if isinstance(request, FetchRequest):
            timeout_ms += request.max_wait_ms
            size = min(request.max_bytes, self.fetch_bytes_max)
            round_ = 0 if self.world.profile.is_mute or self.machine.is_old else request.round
            if (size, round_) != (request.max_bytes, request.round):
                request = as_asked(request, size, round_)
        elif isinstance(request, FetchSnapshotRequest):
            request = replace(request, max_bytes=min(request.max_bytes, self.part_bytes_max))
            self._note_part(request)
        self.world.invariants.request_sent(self.incarnation, to, request)
        at = self.gossip.whereabouts(to)
        call = self.calls.begin(to, at, request, done)
        self.world.cross_node.request_sent(self, to, request, call)
        self.later(timeout_ms, partial(self.calls.give_up, call))
        if at is None:
            # The address is unknown, or no process listens there.
            self.later(1, partial(self.calls.refused, call))
        else:
            self.world.network.post(Packet(self.id, at, self.boot, call, request))

    def _note_part(self, request: FetchSnapshotRequest) -> None:
        is_begun = request.position > 0 and self._parts_of != request.epoch
        self.world.note("a snapshot is gone on with" if is_begun else "a part of a snapshot comes")
        self._parts_of = request.epoch

    def answer(self, asker: Asker, response: Response, records: bytes) -> None:
        """See the port."""
        self._act()
        packet = self._askers.pop(asker)
        self.queues.request_answered(packet.request)
        to = packet.sender
        self.world.cross_node.response_sent(self, packet, response, records)
        answer = (self.id, to, packet.boot, packet.call, packet.request, response, records)
        self.world.network.post(Packet(*answer))

    def close(self) -> None:
        """Never called: the world drops the process and closes the network."""
        raise AssertionError("the world closes the network")

    # --- `quorum.ports.StateMachine` ------------------------------------------------

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        self._applying.load_snapshot(records, end, epoch)
        self.world.invariants.loads(self.incarnation, end, epoch, self.ledger.state)
        self.world.note("a snapshot is installed" if self._runs else "a snapshot is loaded")
        self.world.tell(self.id, f"loads the snapshot {end}@{epoch}")

    def snapshot(self) -> StateSnapshot | None:
        if self.ledger.is_open:
            self.world.note("a transaction has no snapshot")
            return None
        return self._applying.snapshot()

    def on_commit(self, high_watermark: Offset) -> None:
        self._act()
        start = Offset(self.world.invariants.high_watermark(self.incarnation))
        records = self.log.read(start, high_watermark, ALL_BYTES) if high_watermark > start else b""
        self.world.invariants.commits(self.incarnation, high_watermark, records)
        self._applying.on_commit(high_watermark)
        self._hold()
        self.world.trace.add(
            self.world.timeline.now_ms, self.id, f"commits {high_watermark}", high_watermark
        )
        self.world.on_told(self.id)

    @property
    def is_behind(self) -> bool:
        return self._applying.is_behind

    def catch_up(self) -> None:
        self._applying.catch_up()
        self._hold()

    def _hold(self) -> None:
        if not self.is_behind:
            self.world.invariants.holds(self.incarnation, self._applying.applied, self.ledger.state)

    @property
    def claims_to_lead(self) -> bool:
        """True if it acts as the leader of the quorum."""
        return self.replica.node.epoch_start is not None

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        self.leads, self.proposed_end = True, 0
        self.queues.leads()
        self._applying.on_lead(epoch, start)
        self.world.trace.add(self.world.timeline.now_ms, self.id, f"leads epoch {epoch}")

    def on_control(self, end: Offset) -> None:
        self._act()
        records = self.log.read(Offset(end - 1), end, ALL_BYTES)
        self.world.voter_changes.appends(self.incarnation, records, self.now_ms())
        self.world.invariants.appends_control(self.incarnation, records)
        self.world.note("voters are changed")

    def on_stop_leading(self, epoch: Epoch) -> None:
        self.leads = False
        self._applying.on_stop_leading(epoch)
        self.world.trace.add(self.world.timeline.now_ms, self.id, f"led epoch {epoch}")

    @property
    def serves(self) -> bool:
        """True if it is awake and its state machine leads."""
        return self.leads and self.asleep is None
