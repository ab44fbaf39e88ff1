"""The state machine on the quorum: the image of this node and, on the leader, its decisions.

Every controller replays committed records into an image. The active one, which leads the quorum,
decides commands on that image, one after the other and long ones in slices
(`controller.event_queue`). It proposes their records and replays them at once, so decisions do not
wait for commits. What was overwritten is kept until the commit and restored when the lead is lost.
`controller.deferred` holds the answers until then.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from controller.command_execution import CommandExecutor, Done, PendingCommand
from controller.deferred import DeferredEventQueue
from controller.event_queue import ControllerEventQueue, Later
from controller.heartbeats import BrokerHeartbeatManager
from controller.ports import RaftClient, Unavailable
from controller.read_queue import ReadQueue
from controller.record_appender import Batch, RecordAppender
from quorum.core.events import EndpointsUpdated
from quorum.core.vocabulary import Epoch, Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint
from quorum.metadata_loader import MetadataLoader
from quorum.ports import Clock, StateSnapshot
from quorum.records.control import KRAFT_VERSION, ControlType, control_type, decode_kraft_version
from quorum.records.decode import Record as LogRecord
from statemachine.commands import (
    AdvanceMoves,
    Answer,
    Command,
    FenceBrokers,
    ForgetMoves,
    FoundCluster,
    RegisterController,
)
from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import begin, begin_loading
from statemachine.reassignment.copies import Told, untold
from statemachine.reassignment.retention import has_too_much
from statemachine.reassignment.scheduler.backlog import is_left
from statemachine.records.codec import encode
from statemachine.records.kafka_records import NoOp
from statemachine.records.kafka_records import RegisterController as Registered
from statemachine.slices import Slices, whole
from statemachine.vocabulary import LEVEL_NO_OP

logger = logging.getLogger("controller")

ADVANCE_INTERVAL_MS: Final = 100
"""Between two looks of the active controller whether more steps of moves could begin."""

SESSION_SWEEP_MS_MIN: Final = 20
"""Shortest interval between two checks for expired sessions."""

STANDBY_LOOK_MS: Final = 2_000
"""Interval at which a standby checks whether it has become active."""


T = TypeVar("T")


class QuorumController:
    """One controller's image and, while it is active, its decisions; a `ports.StateMachine`."""

    def __init__(
        self,
        *,
        clock: Clock,
        wall_clock: Clock,
        session_timeout_ms: int,
        metadata_version: int,
        registration: RegisterController,
        features: tuple[tuple[str, int], ...] = (),
        default_min_isr: int = 1,
        no_op_interval_ms: int = 0,
        later: Later | None = None,
        slice_us: int | None = None,
    ) -> None:
        """`metadata_version` and `features` found a new cluster. `no_op_interval_ms` without an
        append are followed by a NoOp; 0 is never. `later` continues work that takes longer than
        `slice_us`; without it nothing is sliced."""
        self.image = Image()
        self.heartbeats: BrokerHeartbeatManager | None = None
        """Heartbeats of brokers; None while this node is not active."""
        self.active_epoch: Epoch | None = None
        """The epoch that this node leads as the active controller; None while it does not."""
        self.kraft_version = 0
        """The level of kraft.version in force, from control records of the log."""
        self._quorum: RaftClient | None = None
        self._clock = clock
        self._wall_clock = wall_clock
        self._session_timeout_ms = session_timeout_ms
        self._metadata_version = metadata_version
        self._features = features
        self.registration = registration
        """The registration of this controller."""
        self.default_min_isr = default_min_isr
        """`min.insync.replicas` of a cluster that has no record of it."""
        self.no_op_interval_ms = no_op_interval_ms
        self._replaying = MetadataLoader(
            self.image,
            replay=replay_values,
            load_snapshot=begin_loading,
            on_control=self._take_control,
        )
        self._answers = DeferredEventQueue(self._replaying)
        self._appending = RecordAppender(self._replaying, self._answers, clock)
        self._deciding = CommandExecutor(
            self.image, self._appending, wall_clock=wall_clock, metadata_version=metadata_version
        )
        self._slicing = ControllerEventQueue(later, slice_us)
        self._looking = ReadQueue(
            self.image,
            replaying=self._replaying,
            answers=self._answers,
            appending=self._appending,
            slicing=self._slicing,
        )
        self._own: set[type[Command]] = set()
        self._is_loaded = False

    def attach(self, quorum: RaftClient) -> None:
        """Set the quorum; the two need each other."""
        self._quorum = quorum
        self._replaying.expect(quorum.node.log_end.offset)

    @property
    def is_active(self) -> bool:
        return self.active_epoch is not None

    @property
    def committed(self) -> Offset:
        """The end of what is committed and in the image."""
        return self._replaying.end

    @property
    def is_ready(self) -> bool:
        """True once the image has everything that was committed when this node started."""
        return self._replaying.is_ready

    @property
    def progress(self) -> str:
        """Describe the progress of replay for an operator; empty when it is complete."""
        if self.is_ready or not self.is_behind:
            return ""
        return f", it is still replaying: {self.committed} of {self._replaying.target} records"

    def submit(self, command: Command, done: Done, *, proved: bool = False) -> None:
        """Decide `command` and call `done` with the answer, once all it rests on is committed.

        An answer that changes nothing also waits, if it is to be `proved`, until it is certain
        that this node was the active controller when the command came.
        """
        if self.active_epoch is None:
            done(Unavailable.NOT_ACTIVE)
        elif self._answers.are_full or self._slicing.is_full:
            done(Unavailable.OVERLOADED)
        else:
            is_next = self._slicing.is_idle and not proved
            answer = self._deciding.at_once(command, self._the_quorum) if is_next else None
            if answer is not None:
                self._answers.settle(answer, done)
                return
            asked = PendingCommand(command, done, proved=proved)
            self._slicing.add(self._carried_out(asked), asked.lose)

    def _carried_out(self, asked: PendingCommand) -> Slices[None]:
        """Decide, append and replay, and let the answer wait for its commit."""
        outcome = yield from self._deciding.carry_out(asked, self._the_quorum)
        self._own.discard(type(asked.command))
        asked.is_over = True
        if asked.is_proposed:
            self._answers.settle(outcome, asked.done)
        elif isinstance(outcome, Unavailable):
            asked.done(outcome)
        elif asked.proved:
            self._answers.prove(outcome, asked.done, self._the_quorum)
        else:
            self._answers.settle(outcome, asked.done)
        yield from self._looking.go_on()

    def query(
        self,
        read: Callable[[Image], T],
        done: Callable[[T | Unavailable], None],
        *,
        stale: bool = False,
    ) -> None:
        """Read the image, and call `done` once everything that was read is committed.

        Only the active controller answers, once it has proved that it is; any node answers a
        `stale` query, from what it has. If the lead is lost first, `done` gets NOT_ACTIVE, and on a
        node that still replays what was committed before its start, NOT_READY.
        """
        if self._can_look(done, stale=stale):
            self._looking.look(read, done, None if stale else self._the_quorum)

    def _can_look(self, done: Callable[[Unavailable], None], *, stale: bool) -> bool:
        """Return True if this node may answer; otherwise `done` was told the reason."""
        if not self.is_ready:
            done(Unavailable.NOT_READY)
        elif not (stale or self.is_active):
            done(Unavailable.NOT_ACTIVE)
        else:
            return True
        return False

    def query_long(
        self,
        reading: Callable[[Image], Slices[T]],
        done: Callable[[T | Unavailable], None],
        *,
        stale: bool = False,
    ) -> None:
        """Read in slices."""
        if self._can_look(done, stale=stale):
            self._looking.look_long(reading, done, None if stale else self._the_quorum)

    def told_of_copies(self) -> Told:
        """Return the brokers' reports of their copies; only the active controller gets them."""
        return untold if self.heartbeats is None else self.heartbeats.copies.at(self._clock())

    def sweep(self) -> int:
        """Fence brokers whose sessions have expired, and forget old moves.

        Returns when to check again, in ms.
        """
        # Who becomes active, and who is unfenced meanwhile, begins with a full session.
        if self.heartbeats is None:
            return self._session_timeout_ms
        now_ms = self._clock()
        silent = self.heartbeats.expired(self.image, now_ms)
        if silent:
            logger.warning("Fencing brokers %s: no heartbeat in time", list(silent))
            self._ask_itself(FenceBrokers(broker_ids=silent))
        if has_too_much(self.image, self._wall_clock()):
            self._ask_itself(ForgetMoves())
        next_ms = self.heartbeats.next_expiry_ms(self.image)
        if next_ms is None:
            return self._session_timeout_ms
        return max(SESSION_SWEEP_MS_MIN, next_ms - now_ms)

    def advance_moves(self) -> int:
        """Take up work that earlier decisions left over; returns when to check again, in ms."""
        if self.is_active and (
            self.image.index.waiting or is_left(self.image, self._deciding.scheduler)
        ):
            self._ask_itself(AdvanceMoves())
        return ADVANCE_INTERVAL_MS if self.is_active else STANDBY_LOOK_MS

    def keep_moving(self) -> int:
        """Append a NoOp record after an idle interval; returns when to check again, in ms.

        Brokers report their progress by offsets and notice by them that they are cut off. A standby
        checks seldom: a new leader has just appended records.
        """
        interval_ms = self.no_op_interval_ms
        assert interval_ms > 0, "NoOp records are off"
        if not self.is_active:
            return max(interval_ms, STANDBY_LOOK_MS)
        if self.image.level < LEVEL_NO_OP:
            return interval_ms
        idle_ms = self._clock() - self._appending.last_ms
        if idle_ms < interval_ms:
            return interval_ms - idle_ms
        # What waits for its commit moves the log by itself, and a NoOp behind it would only wait.
        is_still = self._slicing.is_idle and self.image.end_offset <= self.committed
        if is_still and self._the_quorum.accepts(1):
            no_op = Batch((NoOp(),), [encode(NoOp(), self.image.level)])
            whole(self._appending.append(self._the_quorum, [no_op]))
        return interval_ms

    # What the quorum says (ports.StateMachine).

    def snapshot(self) -> StateSnapshot | None:
        # While a log is replayed: one when that is done is worth more than many on the way.
        can_be_had = self.is_ready and not self._appending.is_halfway
        found = begin(self.image, self.committed) if can_be_had else None
        return None if found is None else StateSnapshot(Offset(found.end), found, found.close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        assert not self.is_active, "who leads has the whole log"
        self._replaying.load(records, end)
        self._is_loaded = True
        logger.info("the image begins with the checkpoint at offset %d of epoch %d", end, epoch)

    def on_commit(self, high_watermark: Offset) -> None:
        if self._is_loaded:
            # A snapshot names its voters beside the level, outside of the metadata.
            self._is_loaded = False
            if self._the_quorum.node.voters_at(high_watermark) is not None:
                self.kraft_version = KRAFT_VERSION
        if self.is_active:
            self._appending.committed(high_watermark)
            return
        was_behind = self.is_behind
        self._replaying.raise_to(high_watermark)
        if not was_behind:
            self.catch_up()
            if self.progress:
                logger.info("Replaying the log%s", self.progress)

    @property
    def is_behind(self) -> bool:
        return self._replaying.is_behind

    def catch_up(self) -> None:
        if self._looking.is_reading:
            # It ends soon, and this is called again until then.
            return
        was_ready = self.is_ready
        self._replaying.go_on(self._the_quorum)
        if self.is_ready and not was_ready:
            logger.info("the image has all that is committed, up to offset %d", self.committed)
        self._answers.leave()

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        assert self.image.end_offset == start == self.committed
        logger.info("active controller in epoch %d", epoch)
        self.image.begin_undo_log(start)
        self.active_epoch = epoch
        self.heartbeats = BrokerHeartbeatManager(
            self.image, self._clock(), self._session_timeout_ms
        )
        # It also puts an end to a transaction that the leader before this one had begun.
        if not self.image.level or self.image.transaction is not None:
            founding = FoundCluster(
                metadata_version=self._metadata_version,
                features=self._features,
                default_min_isr=self.default_min_isr,
            )
            self._ask_itself(founding)
        self._ask_itself(self.registration)
        self._ask_itself(AdvanceMoves())
        for registered in self.image.controllers.values():
            self.locate(registered)

    def locate(self, registered: RegisterController | Registered) -> None:
        """Tell the quorum the endpoints of a controller, in case it becomes a voter.

        Our controllers advertise themselves, and that goes first; Kafka's only register.
        """
        endpoints = tuple(Endpoint(e.name, e.host, e.port) for e in registered.endpoints)
        replica = ReplicaKey(ReplicaId(registered.controller_id))
        self._the_quorum.heard(EndpointsUpdated(replica, endpoints))

    def on_control(self, end: Offset) -> None:
        assert self.is_active, "the quorum appends records of its own once it leads"
        self._appending.advanced(end)

    def on_stop_leading(self, epoch: Epoch) -> None:
        if not self.is_active:
            return
        assert self.active_epoch == epoch
        logger.info("no longer the active controller of epoch %d", epoch)
        self.active_epoch = None
        self.heartbeats = None
        self._appending.lose()
        self._answers.lose()
        self._own.clear()
        self._slicing.lose()
        self._looking.lose()

    def on_truncate(self, end: Offset) -> None:
        # Only what is committed is in this image, and that is never cut.
        assert end >= self.committed

    @property
    def _the_quorum(self) -> RaftClient:
        assert self._quorum is not None, "attach comes first"
        return self._quorum

    def _take_control(self, record: LogRecord) -> None:
        if control_type(record.key) == ControlType.KRAFT_VERSION:
            self.kraft_version = decode_kraft_version(record.value)

    def _ask_itself(self, command: Command) -> None:
        """Submit an internal command unless one of its kind is waiting already."""
        if type(command) not in self._own:
            self._own.add(type(command))
            self.submit(command, partial(self._expect_done, type(command)))

    def _expect_done(self, kind: type[Command], answer: Answer | Unavailable) -> None:
        """Take the answer to an internal command."""
        self._own.discard(kind)
        if answer in (Unavailable.OVERLOADED, Unavailable.DISK_FULL, Unavailable.TOO_LARGE):
            logger.warning("Internal command %s failed: %s", kind.__name__, answer)
