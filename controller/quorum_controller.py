"""The state machine on the quorum: the image of this node and, on the leader, its decisions.

Every controller replays committed records into an image. The active one, which leads the quorum,
decides commands on that image, one after the other and long ones in slices
(`controller.event_queue`). It appends their records and replays them at once
(`controller.record_appender`), so decisions do not wait for commits; when the lead is lost, it
restores what they overwrote. The answers wait for the commits (`controller.deferred`).

A query waits while an append is halfway. A long one reads in slices and still sees one state: on
the active controller between decisions, on any other one between strides of replay.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, TypeVar

from controller.deferred import DeferredEventQueue
from controller.event_queue import SLICE_US, ControllerEventQueue, Later
from controller.heartbeats import BrokerHeartbeatManager, Liveness
from controller.ports import RaftClient, Unavailable
from controller.record_appender import Batch, RecordAppender, batching, records_asked
from quorum.core.events import EndpointsUpdated
from quorum.core.vocabulary import Epoch, Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint
from quorum.log_events import LogEvent
from quorum.metadata_loader import MetadataLoader
from quorum.ports import Clock, StateSnapshot
from quorum.records.control import KRAFT_VERSION, ControlType, control_type, decode_kraft_version
from quorum.records.decode import Record as LogRecord
from statemachine.commands import (
    AdvanceMoves,
    Answer,
    Command,
    Decision,
    FenceBrokers,
    ForgetDelegationTokens,
    ForgetMoves,
    FoundCluster,
    MutationsAnswered,
    RegisterBroker,
    RegisterController,
)
from statemachine.decide import decide, decide_at_once, deciding
from statemachine.features.features import KRAFT_VERSION as KRAFT_VERSION_FEATURE
from statemachine.features.features import levels_refusal, unsupported_reason
from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import Loading, begin
from statemachine.limits import MUTATION_WINDOW_NUM, MUTATION_WINDOW_SIZE_SECONDS
from statemachine.partitions.isr import PlainIsrs
from statemachine.reassignment.copies import CopyLookup, no_report
from statemachine.reassignment.retention import has_too_much
from statemachine.reassignment.scheduler.backlog import is_left
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.records.codec import encode
from statemachine.records.kafka_records import NoOp, UserScramCredential
from statemachine.records.kafka_records import RegisterController as Registered
from statemachine.security.delegation_tokens import has_expired_tokens
from statemachine.slices import Slices, whole
from statemachine.topics.mutation_quota import MutationQuotas
from statemachine.vocabulary import LEVEL_NO_OP, BrokerId

logger = logging.getLogger("controller")

ADVANCE_INTERVAL_MS: Final = 100
"""Interval at which the active controller checks whether more steps of moves can begin."""

SESSION_SWEEP_MS_MIN: Final = 20
"""Shortest interval between two checks for expired sessions."""

STANDBY_CHECK_MS: Final = 2_000
"""Interval at which a standby checks whether it has become active."""

BULK_RECORDS: Final = 1_000
"""From so many records on, the quorum is asked for room before the decision, which takes long."""

BEHIND_TURNS_MAX: Final = 100
"""Turns that a long query waits at most for the image to catch up: some hundred milliseconds of
replay, about as long as the query itself. So queries and replay do not starve each other."""

T = TypeVar("T")
Done = Callable[[Answer | Unavailable], None]
ReadCallback = Callable[[T | Unavailable], None]
"""Called with the result of a query, or the reason why there is none."""


class PendingCommand:
    """A command in the event queue and its callback."""

    __slots__ = ("command", "done", "is_proposed", "on_append", "proved")

    def __init__(
        self,
        command: Command,
        done: Done,
        *,
        proved: bool,
        on_append: Callable[[int], None] | None,
    ) -> None:
        self.command = command
        self.done = done
        self.proved = proved
        """True if an answer without records must be linearizable."""
        self.on_append = on_append
        self.is_proposed = False
        """True once its records are proposed: it may take effect whatever happens here."""

    def propose(self) -> None:
        """Note that its records are about to be appended."""
        self.is_proposed = True
        self.appended(0)

    def appended(self, end: int) -> None:
        """Note the end of its records."""
        if self.on_append is not None:
            self.on_append(end)

    def lose(self) -> None:
        """Answer that the lead is lost."""
        self.done(Unavailable.LEAD_LOST if self.is_proposed else Unavailable.NOT_ACTIVE)


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
        scram_credentials: tuple[UserScramCredential, ...] = (),
        default_min_isr: int = 1,
        no_op_interval_ms: int = 0,
        later: Later | None = None,
        slice_us: int | None = None,
        mutation_window_seconds: int = MUTATION_WINDOW_NUM * MUTATION_WINDOW_SIZE_SECONDS,
    ) -> None:
        """`metadata_version`, `features` and `scram_credentials` found a new cluster.
        `no_op_interval_ms` without an append are followed by a NoOp; 0 is never. `later` continues
        work that takes longer than `slice_us`; without it nothing is sliced. A client may use its
        quota of controller mutations for `mutation_window_seconds` at once."""
        self.image = Image()
        self.heartbeats: BrokerHeartbeatManager | None = None
        """Heartbeats of brokers; None while this node is not active."""
        self.active_epoch: Epoch | None = None
        """The epoch that this node leads as the active controller; None while it does not."""
        self.kraft_version = 0
        """The level of kraft.version in force, from control records of the log."""
        self._quorum: RaftClient
        self._clock = clock
        self._wall_clock = wall_clock
        self._session_timeout_ms = session_timeout_ms
        self._metadata_version = metadata_version
        self._features = features
        self._scram_credentials = scram_credentials
        self.registration = registration
        """The registration of this controller."""
        self.default_min_isr = default_min_isr
        """`min.insync.replicas` of a cluster that has no record of it."""
        self.no_op_interval_ms = no_op_interval_ms
        self._loader = MetadataLoader(
            self.image,
            replay=replay_values,
            load_snapshot=Loading,
            on_control=self._on_control_record,
            refusal=lambda image: unsupported_reason(image.features),
        )
        self._scheduler = Scheduler(self.image)
        self._plain_isrs = PlainIsrs()
        self._mutation_quotas = MutationQuotas(mutation_window_seconds)
        self.throttled_mutations = 0
        """Decisions that made a client wait for its quota of controller mutations."""
        self._deferred = DeferredEventQueue(self._loader)
        self._appender = RecordAppender(self._loader, self._deferred, clock)
        self._event_queue = ControllerEventQueue(later, slice_us)
        self._submitted: set[type[Command]] = set()
        self._said_silent: frozenset[int] = frozenset()
        """The brokers that the last sweep has found silent."""
        """Kinds of the internal commands under way."""
        self._is_reading = False
        """True during a long query: the image must not change."""
        self._is_loaded = False

    def attach(self, quorum: RaftClient) -> None:
        """Set the quorum; the two need each other."""
        self._quorum = quorum
        self._loader.expect(quorum.node.log_end.offset)

    @property
    def is_active(self) -> bool:
        return self.active_epoch is not None

    @property
    def committed(self) -> Offset:
        """The end of what is committed and in the image."""
        return self._loader.end

    @property
    def finalized_features(self) -> dict[str, int]:
        """The levels of features in force, kraft.version included."""
        return {**self.image.features, KRAFT_VERSION_FEATURE: self.kraft_version}

    @property
    def is_ready(self) -> bool:
        """True once the image has everything that was committed when this node started."""
        return self._loader.is_ready

    @property
    def progress(self) -> str:
        """Describe the progress of replay for an operator; empty when it is complete."""
        if self.is_ready or not self.is_behind:
            return ""
        return f", it is still replaying: {self.committed} of {self._loader.target} records"

    def submit(
        self,
        command: Command,
        done: Done,
        *,
        proved: bool = False,
        on_append: Callable[[int], None] | None = None,
    ) -> None:
        """Decide `command` and call `done` with the answer, once all it rests on is committed.

        An answer that changes nothing also waits, if it is to be `proved`, until it is certain
        that this node was the active controller when the command came. `on_append`, for commands
        with `proved`, is called with 0 before their records are appended: from then on they may
        take effect, whatever the answer. Afterwards it is called with the end of the records.
        """
        if self.active_epoch is None:
            done(Unavailable.NOT_ACTIVE)
        elif self._deferred.is_full or self._event_queue.is_full:
            done(Unavailable.OVERLOADED)
        else:
            is_next = self._event_queue.is_idle and not proved
            answer = self._decide_at_once(command) if is_next else None
            if answer is not None:
                self._deferred.settle(answer, done)
                return
            pending = PendingCommand(command, done, proved=proved, on_append=on_append)
            self._event_queue.add(self._carry_out(pending), pending.lose)

    def _decide_at_once(self, command: Command) -> Answer | None:
        """Decide a short command at once and append its records.

        None if it takes longer or there is no room: nothing was done. Only while no other command
        is under way.
        """
        decided = decide_at_once(self.image, command, self._scheduler, self._plain_isrs)
        if decided is None:
            return None
        change, answer = decided
        if change is not None:
            if not self._quorum.accepts(1):
                return None
            level = self.image.level or self._metadata_version
            self._appender.append_at_once(self._quorum, change, level)
        return answer

    def _carry_out(self, pending: PendingCommand) -> Slices[None]:
        """Decide, append and replay, and let the answer wait for its commit."""
        outcome = yield from self._execute(pending)
        self._submitted.discard(type(pending.command))
        if isinstance(outcome, Unavailable) and not pending.is_proposed:
            pending.done(outcome)
        elif pending.proved and not pending.is_proposed:
            self._deferred.prove(outcome, pending.done, self._quorum)
        else:
            self._deferred.settle(outcome, pending.done)

    def _execute(self, pending: PendingCommand) -> Slices[Answer | Unavailable]:
        """Return the answer once the records are appended, or the reason to refuse the command."""
        count = records_asked(self.image, pending.command)
        # Check for room first: the decision takes seconds, while other requests wait.
        if count >= BULK_RECORDS and not self._quorum.accepts(1, after=count - 1):
            return self._reason_to_refuse()
        decision, batches = yield from self._decide(pending.command)
        if batches is None:
            return Unavailable.TOO_LARGE
        answer = decision.answer if decision.is_complete else Unavailable.OVERLOADED
        if batches:
            before_last = sum(len(batch.values) for batch in batches[:-1])
            if not self._quorum.accepts(len(batches[-1].values), after=before_last):
                return self._reason_to_refuse()
        self._count_mutations(decision)
        if batches:
            pending.propose()
            decided = decision.decided
            # Its records go with the batches, one after the other.
            del decision
            yield from self._appender.append(self._quorum, batches, decided)
            pending.appended(self.image.end_offset)
        return answer

    def _count_mutations(self, decision: Decision) -> None:
        """Count what a decision takes of a quota: it is carried out, or refused for the quota."""
        if decision.tokens is not None:
            self._mutation_quotas.record(decision.tokens)
        if isinstance(decision.answer, MutationsAnswered) and decision.answer.throttled_until_ms:
            self.throttled_mutations += 1

    def ms_until(self, time_ms: int) -> int:
        """Return the time left until a moment of this node's monotonic clock; 0 if it is over."""
        return max(0, time_ms - self._clock())

    def _decide(self, command: Command) -> Slices[tuple[Decision, list[Batch] | None]]:
        """Decide a command and encode its records."""
        image, now_ms = self.image, self._wall_clock()
        end, level = image.end_offset, image.level or self._metadata_version
        mutations = self._mutation_quotas.at(self._clock())
        decision = yield from deciding(
            image, command, now_ms=now_ms, scheduler=self._scheduler, mutations=mutations
        )
        batches = yield from batching(decision.records, level)
        if image.end_offset != end and isinstance(command, RegisterBroker):
            # A control record has moved the offset, which is to be the broker epoch.
            decision = decide(image, command, now_ms=now_ms, scheduler=self._scheduler)
            batches = whole(batching(decision.records, level))
        return decision, batches

    def _reason_to_refuse(self) -> Unavailable:
        if self._quorum.node.successor is not None:
            return Unavailable.HANDING_OVER
        return Unavailable.OVERLOADED if self._quorum.has_room else Unavailable.DISK_FULL

    def query(
        self, read: Callable[[Image], T], done: ReadCallback[T], *, stale: bool = False
    ) -> None:
        """Read the image, and call `done` once everything that was read is committed.

        Only the active controller answers, once it has proved that it is; any node answers a
        `stale` query, from what it has. If the lead is lost first, `done` gets NOT_ACTIVE, and on a
        node that still replays what was committed before its start, NOT_READY.
        """
        waits = self._appender.is_halfway
        reason = self._reason_not_to_read(stale=stale, waits=waits)
        if reason is not None:
            done(reason)
        elif waits:
            lost = partial(done, Unavailable.NOT_ACTIVE)
            self._event_queue.add_next(self._read_later(read, done, stale=stale), lost)
        else:
            self._defer_result(read(self.image), done, stale=stale)

    def query_long(
        self,
        reading: Callable[[Image], Slices[T]],
        done: ReadCallback[T],
        *,
        stale: bool = False,
    ) -> None:
        """Read in slices, after everything that was asked for before."""
        reason = self._reason_not_to_read(stale=stale, waits=True)
        if reason is None:
            lost = partial(done, Unavailable.NOT_ACTIVE)
            self._event_queue.add(self._read_in_slices(reading, done, stale=stale), lost)
        else:
            done(reason)

    def _reason_not_to_read(self, *, stale: bool, waits: bool) -> Unavailable | None:
        if not self.is_ready:
            return Unavailable.NOT_READY
        if not (stale or self.is_active):
            return Unavailable.NOT_ACTIVE
        if self._deferred.is_full or (waits and self._event_queue.is_full):
            return Unavailable.OVERLOADED
        return None

    def _read_later(
        self, read: Callable[[Image], T], done: ReadCallback[T], *, stale: bool
    ) -> Slices[None]:
        self._defer_result(read(self.image), done, stale=stale)
        # The read may have taken long.
        yield SLICE_US

    def _read_in_slices(
        self, reading: Callable[[Image], Slices[T]], done: ReadCallback[T], *, stale: bool
    ) -> Slices[None]:
        for _ in range(BEHIND_TURNS_MAX):
            if not self._loader.is_behind:
                break
            yield SLICE_US
        self._is_reading = True
        try:
            found = yield from reading(self.image)
        finally:
            self._is_reading = False
        self._defer_result(found, done, stale=stale)

    def _defer_result(self, found: T, done: ReadCallback[T], *, stale: bool) -> None:
        """Give the result of a query once it is committed and, unless stale, the lead is proved."""

        def tell(outcome: T | Unavailable) -> None:
            done(Unavailable.NOT_ACTIVE if outcome is Unavailable.LEAD_LOST else outcome)

        if stale:
            self._deferred.settle(found, tell)
        else:
            self._deferred.prove(found, tell, self._quorum)

    def reported_copies(self) -> CopyLookup:
        """Return a lookup of the brokers' copy reports; empty unless this node is active."""
        return no_report if self.heartbeats is None else self.heartbeats.copies.at(self._clock())

    def liveness(self, *, without: Collection[BrokerId] = ()) -> Liveness | None:
        """Return the liveness of the brokers, `without` some; None unless this node is active."""
        if self.heartbeats is None:
            return None
        return self.heartbeats.liveness(self._clock(), without=without)

    def sweep(self) -> int:
        """Fence brokers whose sessions have expired, and forget old moves.

        Returns when to check again, in ms.
        """
        # A standby needs no sweep: sessions begin in full once it becomes active.
        if self.heartbeats is None:
            return self._session_timeout_ms
        now_ms = self._clock()
        silent = self.heartbeats.expired(now_ms)
        if news := sorted({*silent} - self._said_silent):
            logger.warning(
                "Fencing brokers %s: no heartbeat in time", news, extra=LogEvent.BROKER_FENCED.extra
            )
        # Sweeps find them again until the decision is committed: each is said once.
        self._said_silent = frozenset(silent)
        if silent:
            self._submit_internal(FenceBrokers(broker_ids=silent))
        if has_too_much(self.image, self._wall_clock()):
            self._submit_internal(ForgetMoves())
        next_ms = self.heartbeats.next_expiry_ms()
        if next_ms is None:
            return self._session_timeout_ms
        return max(SESSION_SWEEP_MS_MIN, next_ms - now_ms)

    def forget_delegation_tokens(self, interval_ms: int) -> int:
        """Remove delegation tokens that have expired; returns when to check again, in ms."""
        if not self.is_active or not has_expired_tokens(self.image, self._wall_clock()):
            return interval_ms
        self._submit_internal(ForgetDelegationTokens())
        # One decision removes a part of many.
        return min(interval_ms, STANDBY_CHECK_MS)

    def advance_moves(self) -> int:
        """Take up work that earlier decisions left over; returns when to check again, in ms."""
        if self.is_active and (self.image.index.waiting or is_left(self.image, self._scheduler)):
            self._submit_internal(AdvanceMoves())
        return ADVANCE_INTERVAL_MS if self.is_active else STANDBY_CHECK_MS

    def append_no_op(self) -> int:
        """Append a NoOp record after an idle interval; returns when to check again, in ms.

        Brokers report their progress by offsets and notice by them that they are cut off. A standby
        checks seldom: a new leader has just appended records.
        """
        interval_ms = self.no_op_interval_ms
        assert interval_ms > 0, "NoOp records are off"
        if not self.is_active:
            return max(interval_ms, STANDBY_CHECK_MS)
        if self.image.level < LEVEL_NO_OP:
            return interval_ms
        idle_ms = self._clock() - self._appender.last_ms
        if idle_ms < interval_ms:
            return interval_ms - idle_ms
        # Uncommitted records advance the log by themselves, and a NoOp would wait behind them.
        is_still = self._event_queue.is_idle and self.image.end_offset <= self.committed
        if is_still and self._quorum.accepts(1):
            no_op = Batch((NoOp(),), [encode(NoOp(), self.image.level)])
            whole(self._appender.append(self._quorum, [no_op]))
        return interval_ms

    # ports.StateMachine

    def snapshot(self) -> StateSnapshot | None:
        # During replay a snapshot would soon be outdated.
        can_be_had = self.is_ready and not self._appender.is_halfway
        found = begin(self.image, self.committed) if can_be_had else None
        return None if found is None else StateSnapshot(Offset(found.end), found, found.close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        assert not self.is_active, "a leader has the whole log"
        self._loader.load(records, end)
        self._is_loaded = True
        logger.info(
            "Loading the checkpoint at offset %d of epoch %d",
            end,
            epoch,
            extra=LogEvent.LOADING.extra,
        )

    def on_commit(self, high_watermark: Offset) -> None:
        if self._is_loaded:
            # A snapshot names its voters beside the level, outside of the metadata.
            self._is_loaded = False
            if self._quorum.node.voters_at(high_watermark) is not None:
                self.kraft_version = KRAFT_VERSION
        if self.is_active:
            self._appender.committed(high_watermark)
            return
        was_behind = self.is_behind
        self._loader.raise_to(high_watermark)
        if not was_behind:
            self.catch_up()
            if self.progress:
                logger.info("Replaying the log%s", self.progress, extra=LogEvent.LOADING.extra)

    @property
    def is_behind(self) -> bool:
        return self._loader.is_behind

    def catch_up(self) -> None:
        if self._is_reading:
            # The query ends soon, and the quorum calls again.
            return
        was_ready = self.is_ready
        self._loader.go_on(self._quorum)
        if self.is_ready and not was_ready:
            logger.info(
                "Replay complete up to offset %d", self.committed, extra=LogEvent.LOADED.extra
            )
        self._deferred.leave()

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        assert self.image.end_offset == start == self.committed
        logger.info(
            "This node is the active controller in epoch %d", epoch, extra=LogEvent.ELECTED.extra
        )
        self.image.begin_undo_log(start)
        self.active_epoch = epoch
        self.heartbeats = BrokerHeartbeatManager(
            self.image, self._clock(), self._session_timeout_ms
        )
        # It also aborts a transaction that the previous leader had begun.
        if not self.image.level or self.image.transaction is not None:
            founding = FoundCluster(
                metadata_version=self._metadata_version,
                features=self._features,
                scram_credentials=self._scram_credentials,
                default_min_isr=self.default_min_isr,
            )
            self._submit_internal(founding)
        self._submit_internal(self.registration)
        self._submit_internal(AdvanceMoves())
        for registered in self.image.controllers.values():
            self.locate(registered)

    def locate(self, registered: RegisterController | Registered) -> None:
        """Tell the quorum the endpoints of a controller, in case it becomes a voter.

        Our controllers also advertise themselves, which has precedence; Kafka's only register. One
        that does not support a level in force stays without an address, so that a target that
        names it waits: it could not follow the log.
        """
        who = f"controller {registered.controller_id}"
        reason = levels_refusal(who, registered.features, self.finalized_features)
        if reason is not None:
            logger.warning(
                "%s: it does not become a voter", reason, extra=LogEvent.QUORUM_WARNING.extra
            )
            return
        endpoints = tuple(Endpoint(e.name, e.host, e.port) for e in registered.endpoints)
        replica = ReplicaKey(ReplicaId(registered.controller_id))
        self._quorum.heard(EndpointsUpdated(replica, endpoints))

    def on_control(self, end: Offset) -> None:
        assert self.is_active, "only a leader appends control records"
        self._appender.advanced(end)

    def on_stop_leading(self, epoch: Epoch) -> None:
        if not self.is_active:
            return
        assert self.active_epoch == epoch
        logger.info(
            "This node is no longer the active controller of epoch %d",
            epoch,
            extra=LogEvent.RESIGNED.extra,
        )
        self.active_epoch = None
        self.heartbeats = None
        self._appender.lose()
        self._deferred.lose()
        self._submitted.clear()
        self._event_queue.lose()

    def _on_control_record(self, record: LogRecord) -> None:
        if control_type(record.key) == ControlType.KRAFT_VERSION:
            self.kraft_version = decode_kraft_version(record.value)

    def _submit_internal(self, command: Command) -> None:
        """Submit an internal command unless one of its kind is waiting already."""
        if type(command) not in self._submitted:
            self._submitted.add(type(command))
            self.submit(command, partial(self._on_internal_answer, type(command)))

    def _on_internal_answer(self, kind: type[Command], answer: Answer | Unavailable) -> None:
        """Take the answer to an internal command."""
        self._submitted.discard(kind)
        if answer in (Unavailable.OVERLOADED, Unavailable.DISK_FULL, Unavailable.TOO_LARGE):
            logger.warning(
                "Internal command %s failed: %s",
                kind.__name__,
                answer,
                extra=LogEvent.COMMAND_FAILED.extra,
            )
