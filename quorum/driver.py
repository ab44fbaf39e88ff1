"""The asyncio shell around a replica: it only waits.

While `Quorum.run` runs, the loop lets the replica (`quorum.replica`) take its turns, and nothing
else in the process does. What the network, the disk thread and the state machine hand in asks for
a turn, and so does the next moment that the node has named. A turn is a callback of the loop: a
task that is woken by a future for each of them costs more than the waking.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from quorum.applier import ReadDone
from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import ReadRefusal
from quorum.core.events import Asker, DiscoveryDone, EndpointsUpdated, LeaderUnreachable
from quorum.core.messages import Request, TransferResponse, VoterRequest, VotersResponse
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Offset, ReplicaId
from quorum.log.disk_thread import DiskThread
from quorum.ports import Clock, ElectionStore, Log, Rpc, SnapshotStore, StateMachine
from quorum.replica import Replica
from quorum.snapshotting import SnapshotLimits

logger = logging.getLogger("quorum")

FAREWELL_SECONDS_MAX: Final = 0.3
"""The time that a stopping node waits until the others have heard that it resigns."""


T = TypeVar("T")


async def _told(ask: Callable[[Callable[[T], None]], None]) -> T:
    """Wait for the value that `ask` passes to its argument."""
    outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(found: T) -> None:
        # The asker may have given up and cancelled it meanwhile.
        if not outcome.done():
            outcome.set_result(found)

    ask(done)
    return await outcome


class Quorum:
    """One running replica of the quorum, and the door to it for the state machine above."""

    def __init__(
        self,
        node: QuorumNode,
        *,
        log: Log,
        elections: ElectionStore,
        disk: DiskThread,
        rpc: Rpc,
        state_machine: StateMachine,
        clock: Clock,
        wall_clock: Clock,
        cluster: ClusterIdentity | None = None,
        store: SnapshotStore | None = None,
        snapshot_limits: SnapshotLimits | None = None,
    ) -> None:
        """`cluster_id` is written down beside the voters."""
        self.node = node
        self.replica = Replica(
            node,
            log=log,
            elections=elections,
            disk=disk,
            rpc=rpc,
            state_machine=state_machine,
            clock=clock,
            wall_clock=wall_clock,
            wake=self._wake,
            cluster=cluster,
            store=store,
            snapshot_limits=snapshot_limits,
        )
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
        self._leader_known: ReplicaId | None = None
        self._leaderless_since_ms = clock()

    # What the state machine above may ask.

    @property
    def leader(self) -> ReplicaId | None:
        return self.node.leader

    @property
    def leaderless_ms(self) -> int:
        """For how long this node has known no leader; 0 while it knows one."""
        return 0 if self.leader is not None else self._clock() - self._leaderless_since_ms

    @property
    def successor(self) -> ReplicaId | None:
        """To whom this node is handing over its lead, and takes no records meanwhile; else None."""
        return self.node.successor

    @property
    def has_room(self) -> bool:
        """True if there is room on the disk of this node, as far as it has tried."""
        return self.replica.has_room

    @property
    def high_watermark(self) -> Offset | None:
        return self.node.high_watermark

    @property
    def now_wall_ms(self) -> int:
        """The time of day, for people and for records; nothing is decided by it."""
        return self._wall_clock()

    def to_wall_ms(self, monotonic_ms: int | None) -> int:
        """The time of day at a moment of the node's own clock; -1 for one that is unknown."""
        if monotonic_ms is None:
            return -1
        return self._wall_clock() - self._clock() + monotonic_ms

    async def leader_changed(self, *, within_seconds: float) -> None:
        """Return when another leader is known, or none any more, or when the time is up."""
        if self._leader_watch is None or self._leader_watch.done():
            self._leader_watch = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._leader_watch}, timeout=within_seconds)

    @property
    def next_offset(self) -> Offset:
        """The offset that the next proposed record will get."""
        return self.replica.next_offset

    def accepts(self, count: int, *, after: int = 0) -> bool:
        """Return True if `propose` would take `count` records now, or once it has taken `after`
        others."""
        return self.replica.accepts(count, after=after)

    def propose(self, values: Sequence[bytes]) -> Offset:
        """Append these records, together in one batch; return the offset of the first one.

        They are committed when `StateMachine.on_commit` passes them, and lost if
        `on_stop_leading` comes before. The caller has asked `accepts`.
        """
        return self.replica.propose(values)

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        return self.replica.read_committed(start, max_bytes)

    def read_index(self, done: ReadDone) -> None:
        """Call `done`, later, when a read of the state machine cannot be stale."""
        self.replica.read_index(done)

    async def await_read_index(self) -> Offset | ReadRefusal:
        """The offset that a read of the state machine is now good for, or why it is not.

        Linearizable: the state machine has applied everything that was answered before the call.
        """
        return await _told(self.replica.read_index)

    async def want_voters(self, request: VoterRequest) -> VotersResponse:
        """Ask this node for other voters; answered once that is committed, or with why it is not.

        The request's own time-out bounds the wait for what must come before; a node that does not
        lead, or leads no longer, says so.
        """
        return await _told(partial(self.replica.want_voters, request))

    async def transfer_leadership(self, to: ReplicaId | None) -> TransferResponse:
        """Let `to` lead, or whichever voter suits best; answered once the lead is given up.

        Or with why it is not: a node that does not lead, or leads no longer, says so, and a leader
        whose successor does not catch up within the election time-out leads on.
        """
        return await _told(partial(self.replica.transfer_leadership, to))

    def heard(self, news: EndpointsUpdated | DiscoveryDone) -> None:
        """The gossip knows where a replica listens, or whether there is a quorum."""
        self.replica.heard(news)

    # What the network below hands in.

    def asked(self, asker: Asker, request: Request) -> None:
        """Another replica asks something of this node."""
        self.replica.asked(asker, request)

    def gone(self, replica: ReplicaId) -> None:
        """The connection to `replica` was closed by the other side, and a new one is refused."""
        if replica == self.node.leader:
            self.replica.heard(LeaderUnreachable(replica))

    def room(self, exists: bool) -> None:
        """There is no room on the disk for what was to be written, or there is again."""
        self.replica.room(exists)

    # The owner task.

    async def run(self) -> None:
        """Own the replica until `stop`; an error of the disk or of our own logic ends it loudly."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._loop = loop
        try:
            self._wake()
            await self._ended
        finally:
            self._loop = None
            if self._timer is not None:
                self._timer.cancel()
            self._rpc.close()

    async def stop(self) -> None:
        """Give the lead away, write out what was appended, and end `run`."""
        if self._stopped:
            return
        self._farewell = asyncio.get_running_loop().create_future()
        self.replica.say_farewell()
        await asyncio.wait({self._farewell}, timeout=FAREWELL_SECONDS_MAX)
        await self._disk.drain()
        self._stopped = True
        self.replica.stop()

    def fail(self, failure: BaseException) -> None:
        """End `run` with this error: the disk no longer keeps what it is given."""
        self.replica.fail(failure)

    def _wake(self) -> None:
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
        try:
            replica.turn()
            self._tell()
            self._arm(self._loop, replica.deadline_ms)
        except Exception as failure:  # noqa: BLE001 - it is not swallowed: `run` raises it
            self._ended.set_exception(failure)
            return
        if replica.has_work:
            self._wake()

    def _tell(self) -> None:
        """Wake those who wait for what the last turn has brought."""
        farewell = self._farewell
        if farewell is not None and self.replica.farewell_is_said and not farewell.done():
            farewell.set_result(None)
        leader = self.node.leader
        if leader != self._leader_known:
            self._leader_known = leader
            self._leaderless_since_ms = self._clock()
            logger.info("%s", self.node)
            if self._leader_watch is not None and not self._leader_watch.done():
                self._leader_watch.set_result(None)

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline_ms: int | None) -> None:
        """Let the next deadline wake us. A timer that is early is cheap; re-arming is not."""
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
        self._wake()
