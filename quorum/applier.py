"""The applier: tells the state machine of one replica about commits and changes of leadership.

A leader applies commits at once, because clients wait. A follower first sends what the leader waits
for. If commits follow each other closely, a voter gathers them for some milliseconds: a hundred
records at once cost far less than one record a hundred times. A state machine that is behind, after
a restart or an installed snapshot, applies one stride a turn, and the quorum does not wait for it;
reads and a new leadership wait here until it has caught up. Calls keep the order of the log.
"""

from collections.abc import Callable
from typing import Final

from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import AnswerChange, AnswerReads, ReadRefusal
from quorum.core.events import Asker, ChangeRequested, ReadIndex, ReadToken
from quorum.core.messages import ChangeResponse, TransferRequest, VoterRequest
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, Offset
from quorum.ports import Clock, Log, StateMachine

PUT_OFF_MAX: Final = 8
"""Turns for which a commit is postponed while events keep arriving."""

GATHER_MS: Final = 10
"""The time for which a follower gathers commits after it applied the last ones. The first commit
after a pause is applied at once, and so is every commit of an observer: brokers act on it."""

GATHERED_MAX: Final = 256
"""Records that gather: applying them must not delay what the leader waits for."""


ChangeDone = Callable[[ChangeResponse], None]

ReadDone = Callable[[Offset | ReadRefusal], None]
"""Called with the offset that the read includes, or the reason to refuse it."""


class Applier:
    """The state machine of one node, with the reads and requested changes that wait for it.

    Each callback of a read or a change is called exactly once.
    """

    def __init__(
        self,
        node: QuorumNode,
        log: Log,
        state_machine: StateMachine,
        cluster: ClusterIdentity,
        clock: Clock,
    ) -> None:
        self._node = node
        self._clock = clock
        self._log = log
        self._state_machine = state_machine
        self._cluster = cluster
        self._reads: dict[ReadToken, ReadDone] = {}
        self._changes: dict[Asker, ChangeDone] = {}
        self._last_id = 0
        self._lead_pending: Epoch | None = None
        self._reads_delayed: list[AnswerReads] = []
        """The answers to reads that wait until the state machine has caught up."""
        self._put_off = 0
        # Cached, because every turn asks twice. True until the state machine has been asked.
        self._is_behind = True
        self.due: Offset | None = None
        """The high watermark that the state machine has not received yet."""
        self._told = Offset(0)
        self._gather_until_ms: int | None = None

    @property
    def has_work(self) -> bool:
        """True if the state machine has something to apply now."""
        if self.due is None or self._is_behind:
            return self._is_behind
        return self._gather_until_ms is None or self._gather_until_ms <= self._clock()

    @property
    def deadline_ms(self) -> int | None:
        """The deadline for gathered commits; None without any."""
        return None if self.due is None else self._gather_until_ms

    def on_commit(self, high_watermark: Offset) -> None:
        """Apply a risen high watermark on a leader; on a follower, note that it is due."""
        is_first, self.due = self.due is None, high_watermark
        if self._node.epoch_start is not None:
            self.tell()
        elif self._gather_until_ms is not None:
            is_over = is_first and self._gather_until_ms <= self._clock()
            if is_over or high_watermark - self._told > GATHERED_MAX:
                self._gather_until_ms = None

    def is_time(self, *, busy: bool) -> bool:
        """Return True to call `go_on` before the other work of this turn."""
        if not self.has_work:
            return False
        self._gather_until_ms = None
        self._put_off += 1
        return not busy or self._put_off > PUT_OFF_MAX

    def go_on(self) -> None:
        """Apply what is due, and let a state machine that is behind catch up by one stride."""
        was_behind = self._state_machine.is_behind
        self._put_off = 0
        self.tell()
        if was_behind:
            self._state_machine.catch_up()
        self._release()

    def tell(self) -> None:
        """Report the due commit to the state machine, before any effect that depends on it."""
        if self.due is None:
            return
        high_watermark, self.due = self.due, None
        self._put_off = 0
        self._told, self._gather_until_ms = high_watermark, None
        if self._node.epoch_start is None and self._node.voters.has(self._node.me):
            self._gather_until_ms = self._clock() + GATHER_MS
        self._cluster.on_commit(self._log, high_watermark)
        self._state_machine.on_commit(high_watermark)
        self._release()

    def on_lead(self, epoch: Epoch) -> None:
        """Note that the node leads; `_release` reports it once the state machine is ready."""
        self._lead_pending = epoch

    def on_stop_leading(self, epoch: Epoch) -> None:
        """Report that the node no longer leads."""
        if self._lead_pending == epoch:
            self._lead_pending = None
            return
        self._state_machine.on_stop_leading(epoch)
        # It undoes its decisions, and then lacks those of them that were committed.
        self._is_behind = self._state_machine.is_behind

    def on_control(self, end: Offset) -> None:
        """Report that the quorum has appended control records that end at `end`."""
        # A state machine that does not know yet that it leads reads them from the log.
        if self._lead_pending is None:
            self._state_machine.on_control(end)

    def read(self, done: ReadDone) -> ReadIndex | None:
        """Return the event that requests a read, or None after refusing it: too many wait."""
        if len(self._reads) >= self._node.bounds.reads:
            done(ReadRefusal.TOO_MANY)
            return None
        self._last_id += 1
        token = ReadToken(self._last_id)
        self._reads[token] = done
        return ReadIndex(token)

    def change(self, request: VoterRequest | TransferRequest, done: ChangeDone) -> ChangeRequested:
        """Return the event that requests a change; the core limits how many may wait."""
        self._last_id += 1
        asker = Asker(self._last_id)
        self._changes[asker] = done
        return ChangeRequested(asker, request)

    def answer(self, effect: AnswerReads | AnswerChange) -> None:
        """Answer requests of this node; a read waits until the state machine has caught up."""
        if isinstance(effect, AnswerChange):
            self._changes.pop(effect.asker)(effect.response)
        elif not isinstance(effect.outcome, ReadRefusal) and self._state_machine.is_behind:
            self._is_behind = True
            self._reads_delayed.append(effect)
        else:
            for token in effect.tokens:
                self._reads.pop(token)(effect.outcome)

    def on_installed(self) -> None:
        """Note that a snapshot has replaced the log and that the state machine is loading it."""
        self._is_behind = self._state_machine.is_behind

    def _release(self) -> None:
        """Release waiting reads and a new leadership once the state machine has caught up."""
        self._is_behind = self._state_machine.is_behind
        if self._is_behind:
            return
        delayed, self._reads_delayed = self._reads_delayed, []
        for each in delayed:
            self.answer(each)
        start, high_watermark = self._node.epoch_start, self._node.high_watermark
        if self._lead_pending is None or start is None or (high_watermark or 0) <= start:
            return
        # Meanwhile the leader may have appended changes of the voters that are not committed yet.
        if high_watermark == self._node.log_end.offset:
            epoch, self._lead_pending = self._lead_pending, None
            self._state_machine.on_lead(epoch, high_watermark)
