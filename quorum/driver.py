"""The asyncio shell around a replica, which does all the waiting.

While `Quorum.run` runs, the event loop calls `Replica.turn` after input from the network, the disk
thread or the state machine, and at the replica's deadline. A turn is a callback of the loop: a task
that a future wakes for each turn costs more than the wake-up itself.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeVar

from quorum.core.effects import ReadRefusal
from quorum.core.events import LeaderUnreachable
from quorum.core.messages import ChangeResponse, TransferRequest, VoterRequest
from quorum.core.node import QuorumNode
from quorum.core.roles import Candidate, Leader, Prospective
from quorum.core.vocabulary import Offset, ReplicaId, Snapshot
from quorum.histogram import DISK_SECONDS, ELECTION_SECONDS, Histogram, NativeHistogram
from quorum.log.disk_thread import DiskThread
from quorum.log_events import LogEvent
from quorum.ports import Clock, Rpc
from quorum.replica import Replica

logger = logging.getLogger("quorum")

FAREWELL_SECONDS_MAX: Final = 0.3
"""The time for which a stopping node waits until the others know that it resigns."""

OBSERVER_SILENCE_MS: Final = 300_000
"""An observer that has not fetched for this long no longer follows the log, as in Kafka."""

T = TypeVar("T")


class QuorumTimes:
    """The durations of commits, elections and fail-overs, as this node has seen them."""

    def __init__(self) -> None:
        self.commits = NativeHistogram(DISK_SECONDS)
        """From an append on the leader to its commit; one append at a time is measured, so that
        the others cost nothing."""
        self.elections = Histogram(ELECTION_SECONDS)
        """From the moment when this node stood until it led."""
        self.failovers = NativeHistogram(ELECTION_SECONDS)
        """From the loss of a leader until the next one was known."""
        self.leader_changes = 0
        """How often this node has learned of a leader."""
        self._log_end = Offset(0)
        self._measured: Offset | None = None
        """The end of the append whose commit is awaited."""
        self._began_seconds = 0.0
        self._stood_at_ms: int | None = None

    def on_turn(self, node: QuorumNode, began_seconds: float) -> None:
        """Note the appends and commits of a turn that began then, by `perf_counter`."""
        if node.epoch_start is None:
            self._measured = None
            return
        end = node.log_end.offset
        if self._measured is None and end > self._log_end:
            self._measured, self._began_seconds = end, began_seconds
        self._log_end = end
        if self._measured is not None and (node.high_watermark or 0) >= self._measured:
            self._measured = None
            self.commits.observe(perf_counter() - self._began_seconds)

    def on_no_leader(self, node: QuorumNode, now_ms: int) -> None:
        """Note whether this node stands; called as long as no leader is known."""
        if self._stood_at_ms is None and isinstance(node.role, Prospective | Candidate):
            self._stood_at_ms = now_ms

    def on_leader(self, node: QuorumNode, now_ms: int, lost_at_ms: int | None) -> None:
        """Note that a leader is known; `lost_at_ms` is when the one before was lost."""
        self.leader_changes += 1
        if lost_at_ms is not None:
            self.failovers.observe((now_ms - lost_at_ms) / 1_000)
        if node.leader == node.me.id:
            # A lone voter stands and wins within one turn.
            stood_at_ms = now_ms if self._stood_at_ms is None else self._stood_at_ms
            self.elections.observe((now_ms - stood_at_ms) / 1_000)
        self._stood_at_ms = None


class Quorum:
    """One running replica of the quorum, for callers that wait; `replica` serves all others."""

    def __init__(
        self, replica: Replica, *, disk: DiskThread, rpc: Rpc, clock: Clock, wall_clock: Clock
    ) -> None:
        self.node = replica.node
        self.replica = replica
        self._disk = disk
        self._rpc = rpc
        self._clock = clock
        self._wall_clock = wall_clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._stopped = False
        self._farewell: asyncio.Future[None] | None = None
        self._leader_watch: asyncio.Future[None] | None = None
        self._waiting: set[asyncio.Future[Any]] = set()
        self._leader_known: ReplicaId | None = None
        self._voters_known = self.node.voters
        self._leaderless_since_ms = clock()
        self._lost_at_ms: int | None = None
        """When the last leader was lost; None before the first one."""
        self.times = QuorumTimes()

    @property
    def leader(self) -> ReplicaId | None:
        return self.node.leader

    @property
    def leaderless_ms(self) -> int:
        """The time since this node knew a leader; 0 while it knows one."""
        return 0 if self.leader is not None else self._clock() - self._leaderless_since_ms

    @property
    def leaderless_since_ms(self) -> int | None:
        """The wall-clock time since which this node knows no leader; None while it knows one."""
        return None if self.leader is not None else self._wall_clock() - self.leaderless_ms

    @property
    def now_ms(self) -> int:
        """The time of the node's monotonic clock."""
        return self._clock()

    @property
    def now_wall_ms(self) -> int:
        """The wall-clock time, for people and for records; no decision depends on it."""
        return self._wall_clock()

    @property
    def wall_shift_ms(self) -> int:
        """The wall-clock time at 0 of the node's monotonic clock."""
        return self._wall_clock() - self._clock()

    @property
    def observers(self) -> tuple[ReplicaId, ...] | None:
        """The observers that follow the log, or None if this node cannot know all of them.

        A new leader learns of each at its first fetch, so it knows none to be gone before it has
        led for `OBSERVER_SILENCE_MS`.
        """
        since_ms = self.now_ms - OBSERVER_SILENCE_MS
        role = self.node.role
        if not isinstance(role, Leader) or role.since_ms > since_ms:
            return None
        replicas = self.node.replicas()
        return tuple(
            [each.replica.id for each in replicas if not each.voter and each.is_live(since_ms)]
        )

    async def leader_changed(self, *, within_seconds: float) -> None:
        """Return when the known leader changes, or when the time is up."""
        if self._leader_watch is None or self._leader_watch.done():
            self._leader_watch = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._leader_watch}, timeout=within_seconds)

    async def read_index(self) -> Offset | ReadRefusal:
        """Return the offset of a linearizable read of the state machine, or a refusal.

        The state machine has then applied everything that was answered before the call.
        """
        return await self._outcome(self.replica.read_index)

    async def change(self, request: VoterRequest | TransferRequest) -> ChangeResponse:
        """Change the voters or the leader.

        Returns once the voters are committed or the lead is given up, or with an error: only the
        leader carries it out. The time-out of a voter request bounds the wait for its conditions; a
        leader whose successor does not catch up within the election time-out keeps the lead.
        """
        return await self._outcome(partial(self.replica.change, request))

    async def take_snapshot(self) -> Snapshot | str:
        """Take a snapshot of what is committed now; return it, or the reason why there is none."""
        return await self._outcome(self.replica.take_snapshot)

    async def _outcome(self, ask: Callable[[Callable[[T], None]], None]) -> T:
        """Wait for the value that `ask` passes to its argument."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(found: T) -> None:
            # The caller may have given up and cancelled it meanwhile.
            if not outcome.done():
                outcome.set_result(found)

        self._waiting.add(outcome)
        ask(done)
        try:
            return await outcome
        finally:
            self._waiting.discard(outcome)

    def abandon(self, error: Exception) -> None:
        """Raise `error` in every call that still waits for an outcome."""
        for each in tuple(self._waiting):
            if not each.done():
                each.set_exception(error)

    def gone(self, replica: ReplicaId) -> None:
        """Report that `replica` closed its connection and refuses a new one."""
        if replica == self.node.leader:
            self.replica.heard(LeaderUnreachable(replica))

    # The owner task.

    async def run(self) -> None:
        """Own the replica until `stop`; raises an error of the disk or of our own logic."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._loop = loop
        try:
            self.wake()
            await self._ended
        finally:
            self._loop = None
            if self._timer is not None:
                self._timer.cancel()
            self._rpc.close()

    async def stop(self) -> None:
        """Resign, write everything appended to disk, and end `run`."""
        if self._stopped:
            return
        self._farewell = asyncio.get_running_loop().create_future()
        self.replica.say_farewell()
        await asyncio.wait({self._farewell}, timeout=FAREWELL_SECONDS_MAX)
        await self._disk.drain()
        self._stopped = True
        self.replica.stop()

    def wake(self) -> None:
        """Schedule a turn of the replica."""
        if self._loop is not None and not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_due = False
        if self._loop is None or self._ended is None or self._ended.done():
            return
        if self._stopped:
            self._ended.set_result(None)
            return
        replica = self.replica
        began_seconds = perf_counter()
        try:
            replica.turn()
            self.times.on_turn(self.node, began_seconds)
            self._tell()
            self._arm(self._loop, replica.deadline_ms)
        except Exception as failure:  # noqa: BLE001 - it is not swallowed: `run` raises it
            self._ended.set_exception(failure)
            return
        if replica.has_work:
            self.wake()

    def _tell(self) -> None:
        """Wake the callers that wait for a result of the last turn."""
        farewell = self._farewell
        if farewell is not None and self.replica.farewell_is_said and not farewell.done():
            farewell.set_result(None)
        if self.node.voters is not self._voters_known:
            self._tell_voters()
        leader = self.node.leader
        if leader is None:
            self.times.on_no_leader(self.node, self._clock())
        if leader != self._leader_known:
            self._leader_known = leader
            now_ms = self._leaderless_since_ms = self._clock()
            if leader is None:
                self._lost_at_ms = now_ms
            else:
                self.times.on_leader(self.node, now_ms, self._lost_at_ms)
                self._lost_at_ms = None
            logger.info("%s", self.node, extra=LogEvent.LEADER_CHANGED.extra)
            if self._leader_watch is not None and not self._leader_watch.done():
                self._leader_watch.set_result(None)

    def _tell_voters(self) -> None:
        """Log the voters that the log has added and removed since the last turn.

        A voter whose directory has become known is the same one.
        """
        before, self._voters_known = self._voters_known, self.node.voters
        now = self._voters_known
        for each in now:
            if not any(known.is_(each.key) for known in before):
                logger.info("%s is a voter now", each.key.text, extra=LogEvent.VOTER_ADDED.extra)
        for each in before:
            if not any(each.is_(known.key) for known in now):
                logger.info("%s votes no more", each.key.text, extra=LogEvent.VOTER_REMOVED.extra)

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline_ms: int | None) -> None:
        """Set a timer for the deadline. An early timer is cheap; re-arming is not."""
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_seconds = max(0, deadline_ms - self._clock()) / 1_000
        self._timer = loop.call_later(delay_seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()
