"""The library interface: the quorum under a state machine of your own (docs/embedding.md).

`open_replica` opens a folder, listens for the other replicas, and runs until the block is left. The
`Replica` that it yields proposes records, proves reads, and names the leader.
"""

import asyncio
import itertools
import random
from collections import deque
from collections.abc import (
    AsyncIterator,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol

from quorum.bootstrap import Opened, open_quorum
from quorum.clocks import monotonic_ms, wall_ms
from quorum.core.effects import ReadRefusal
from quorum.core.limits import BATCH_BYTES_MAX, Timeouts
from quorum.core.messages import AlterQuorumRequest, Error, TransferRequest
from quorum.core.vocabulary import Epoch, Offset, ReplicaId, ReplicaKey
from quorum.log.errors import StorageError
from quorum.metadata_loader import CommittedLog, next_records
from quorum.persistent_state import QuorumConfig
from quorum.ports import LogFailure, StateSnapshot
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.codec import decode_request
from quorum.protocol.raft_messages import VERSIONS
from quorum.protocol.request_limits import METADATA_LOG_FETCH_BYTES_MAX
from quorum.snapshotting import SnapshotLimits
from quorum.transport.address import Address
from quorum.transport.inbound import InboundRequest
from quorum.transport.limits import ServerLimits
from quorum.transport.security.protocols import UNPROTECTED, ListenerSecurity
from quorum.transport.server import Server

__all__ = [
    "Address",
    "Leader",
    "LogFailure",
    "Machine",
    "NotLeader",
    "OutcomeUnknown",
    "Overloaded",
    "QuorumConfig",
    "Replica",
    "ReplicaId",
    "SnapshotLimits",
    "StorageError",
    "Timeouts",
    "TransferRefused",
    "Unavailable",
    "VotersRefused",
    "open_replica",
]

RECORD_BYTES_MAX: Final = BATCH_BYTES_MAX // 2

WAITING_MAX: Final = 100_000
"""Uncommitted records that were proposed at one replica."""

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""The same in bytes; a further record is refused."""

OFFERED: Final = MappingProxyType(
    {
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.DISCOVER_BROKERS: VersionRange(0, 0),
        **VERSIONS,
    }
)

CHANGE_MS: Final = 10_000
"""The time that a change of voters may take until it is committed."""

CLOSE_MS: Final = 500
"""The time for pending answers to leave when the replica stops."""

APPLIED_AT_ONCE: Final = 1_000
"""Records that are applied in one turn of the event loop."""

START: Final = Offset(0)


class Machine(Protocol):
    """The state machine of an embedder: a value that depends only on the committed records.

    Called in the event loop, one call at a time. `apply` must be deterministic (no clock, no random
    numbers, no set order): every replica calls it with the same records in the same order. An
    exception ends the replica: the other replicas will reach the same record.
    """

    def apply(self, record: bytes) -> Any:
        """Apply the next committed record; the result goes to its proposer."""
        ...

    def snapshot(self) -> Iterator[Sequence[bytes]]:
        """Return records, in small groups, from which `load_snapshot` restores the present state.

        The first group is taken at once, the others one by one between other work. They must not
        include records applied meanwhile.
        """
        ...

    def load_snapshot(self, records: Iterable[bytes]) -> None:
        """Replace the whole state by that of these records; raises `ValueError` if it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """An uncommitted record that was proposed here."""

    offset: Offset
    size_bytes: int
    result: "asyncio.Future[Any]"


class MachineApplier:
    """A `ports.StateMachine` that applies records once they are committed, also on the leader."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.log: CommittedLog | None = None
        """The source of committed records; set before anything is committed."""
        self.waiting: deque[Waiting] = deque()
        """The uncommitted records that were proposed here, in order."""
        self.waiting_bytes = 0
        """The bytes of these records."""
        self.applied = START
        """Everything below has been applied."""
        self._target = START
        self.epoch: Epoch | None = None
        """The epoch that this replica leads and may propose in; None while it does not."""

    def wait_for(self, offset: Offset, size_bytes: int) -> "asyncio.Future[Any]":
        """Return a future for the result of the record at `offset`, proposed after all others."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(offset, size_bytes, result))
        self.waiting_bytes += size_bytes
        return result

    def close(self) -> None:
        """End the proposals here; those that wait get `OutcomeUnknown`."""
        self.epoch = None
        lost, self.waiting = self.waiting, deque()
        self.waiting_bytes = 0
        for each in lost:
            if not each.result.done():
                each.result.set_exception(
                    OutcomeUnknown(
                        "the lead was lost before the record was committed; it may be committed yet"
                    )
                )

    # ports.StateMachine

    def snapshot(self) -> StateSnapshot | None:
        # Until it has caught up, the last applied record may be in the middle of a batch.
        if self.is_behind or self.applied == START:
            return None
        groups = iter(self._machine.snapshot())
        # At once: a generator's body would only start later, when more records are applied.
        first = next(groups, ())
        close = groups.close if isinstance(groups, Generator) else lambda: None
        return StateSnapshot(self.applied, itertools.chain([first], groups), close)

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        self._machine.load_snapshot(records)
        self.applied, self._target = end, max(self._target, end)

    def on_commit(self, high_watermark: Offset) -> None:
        was_behind, self._target = self.is_behind, high_watermark
        if self.is_behind and not was_behind:
            self.catch_up()

    @property
    def is_behind(self) -> bool:
        return self.applied < self._target

    def catch_up(self) -> None:
        assert self.log is not None, "it is set before anything is committed"
        for run in next_records(self.log, self.applied, records_max=APPLIED_AT_ONCE):
            for offset, value in enumerate(run.values, run.offset):
                self._apply(offset, value)
                self.applied = Offset(offset + 1)
            self.applied = Offset(run.end)

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        assert start == self.applied
        self.epoch = epoch

    def on_control(self, end: Offset) -> None:
        pass  # Applied like all other records, once it is committed.

    def on_stop_leading(self, epoch: Epoch) -> None:
        self.close()

    def _apply(self, offset: int, record: bytes) -> None:
        result = self._machine.apply(record)
        if self.waiting and self.waiting[0].offset == offset:
            done = self.waiting.popleft()
            self.waiting_bytes -= done.size_bytes
            # The proposer may have stopped waiting.
            if not done.result.done():
                done.result.set_result(result)


class Unavailable(Exception):
    """A call that this replica could not complete. The message says why; retry at the leader."""

    may_be_done = False
    """True if the record may be applied all the same, now or later."""


class NotLeader(Unavailable):
    """Only the leader can do this; see `Replica.leader`. Nothing was appended."""


class Overloaded(Unavailable):
    """Too many records are uncommitted. Nothing was appended."""


class VotersRefused(Exception):
    """The requested voters are impossible; the message says why, and what is possible."""


class TransferRefused(Exception):
    """The lead was not handed over; the message says why."""


class OutcomeUnknown(Unavailable):
    """The lead was lost, or the replica stopped, before the record was committed."""

    may_be_done = True


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader and the address of its listener for replicas, if known."""

    id: ReplicaId
    address: Address | None


class Replica:
    """One running replica of the quorum; `open_replica` yields it."""

    def __init__(self, opened: Opened, applying: MachineApplier) -> None:
        self._opened = opened
        self._applying = applying

    @property
    def leader(self) -> Leader | None:
        """The leader that this replica knows; None while it knows none."""
        leader = self._opened.quorum.leader
        if leader is None:
            return None
        address = self._opened.addresses.address_of(leader)
        return Leader(leader, None if address is None else Address(*address))

    @property
    def is_leader(self) -> bool:
        """True if this replica leads and has applied all earlier commits."""
        return self._applying.epoch is not None

    @property
    def applied(self) -> Offset:
        """The offset below which all records have been applied here."""
        return self._applying.applied

    @property
    def voters(self) -> tuple[ReplicaId, ...]:
        """The current voters in this replica's log."""
        return tuple(each.id for each in self._opened.quorum.node.voters)

    async def leader_changed(self, *, within_seconds: float) -> None:
        """Return when the known leader changes, or when the time is up."""
        await self._opened.quorum.leader_changed(within_seconds=within_seconds)

    async def propose(self, record: bytes) -> Any:
        """Append `record`; return what `apply` returned for it, once it is committed.

        Committed means on the disks of a majority of the voters. Raises `NotLeader` or `Overloaded`
        if nothing was appended, `OutcomeUnknown` if the record may or may not be committed, and
        `ValueError` for a record above RECORD_BYTES_MAX.
        """
        if len(record) > RECORD_BYTES_MAX:
            raise ValueError(
                f"a record of {len(record)} bytes is too large: at most {RECORD_BYTES_MAX} bytes"
            )
        self._check_leads()
        replica, applying = self._opened.quorum.replica, self._applying
        if len(applying.waiting) >= WAITING_MAX or (
            applying.waiting_bytes + len(record) > WAITING_BYTES_MAX
        ):
            raise Overloaded(f"{len(applying.waiting)} records wait for their commit")
        if not replica.accepts(1):
            successor = replica.node.successor
            if successor is not None:
                raise Overloaded(f"the lead is being handed over to replica {successor}")
            if not replica.has_room:
                raise Overloaded("the disk of the leader is full, and no other could take over yet")
            raise Overloaded("the leader takes no more records until the others have caught up")
        offset = replica.propose([bytes(record)])
        return await applying.wait_for(offset, len(record))

    async def read_barrier(self) -> Offset:
        """Return once the state machine here has applied everything answered before the call.

        A read of it is then linearizable, as of the returned offset. Only the leader can prove
        that, by a majority's confirmation that it still leads: raises `NotLeader`, `Overloaded`,
        or `Unavailable` if no majority confirmed it in time.
        """
        self._check_leads()
        found = await self._opened.quorum.read_index()
        match found:
            case ReadRefusal.NOT_LEADER:
                raise NotLeader(str(found))
            case ReadRefusal.TOO_MANY:
                raise Overloaded(str(found))
            case ReadRefusal.NOT_PROVED:
                raise Unavailable(str(found))
            case _:
                return found

    async def change_voters(self, target: Collection[ReplicaId] | None) -> None:
        """Set the target voters; None cancels the change that is under way.

        Returns once the target is committed. Then the leader, and each leader after it, adds and
        removes one voter at a time. A replica is added once it has caught up as an observer. Raises
        `NotLeader`, `VotersRefused`, or `OutcomeUnknown` if no majority confirmed it in time.
        """
        self._check_leads()
        keys = None if target is None else tuple(ReplicaKey(each) for each in sorted(set(target)))
        await self._change(AlterQuorumRequest(target=keys, timeout_ms=CHANGE_MS), VotersRefused)

    async def transfer_leadership(self, to: ReplicaId | None = None) -> None:
        """Transfer the lead to `to`, by default the most advanced voter.

        Returns once this replica has given up its lead, with every proposal committed;
        `leader_changed` reports the outcome. Raises `NotLeader`, or `TransferRefused` if this
        replica keeps the lead.
        """
        self._check_leads()
        await self._change(TransferRequest(to), TransferRefused)

    async def _change(
        self, request: AlterQuorumRequest | TransferRequest, refused: type[Exception]
    ) -> None:
        response = await self._opened.quorum.change(request)
        match response.error:
            case Error.NONE:
                return
            case Error.NOT_LEADER_OR_FOLLOWER | Error.FENCED_LEADER_EPOCH:
                raise NotLeader(response.text)
            case Error.REQUEST_TIMED_OUT:
                raise OutcomeUnknown(response.text)
            case _:
                raise refused(response.text)

    def _check_leads(self) -> None:
        if self.is_leader:
            return
        leader = self.leader
        if leader is None:
            raise NotLeader("no leader is known; an election may be under way")
        if leader.id == self._opened.quorum.node.me.id:
            raise NotLeader("this replica has just been elected and is not ready yet")
        raise NotLeader(f"replica {leader.id} leads")


@asynccontextmanager
async def open_replica(
    config: QuorumConfig,
    machine: Machine,
    *,
    listener: Address | None = None,
    security: ListenerSecurity = UNPROTECTED,
) -> AsyncIterator[Replica]:
    """Run the replica of the folder in `config` for the duration of the block.

    A new `machine` gets the snapshot, if there is one, and then every committed record. The replica
    listens at `listener`, by default at its own address among `config.voters`, with this
    `security`; `config.security` is that of its connections to the others. At the end of the block
    a leader resigns first.

    Raises `StorageError` for a folder that is damaged, in use or another node's, `OSError` if the
    address cannot be bound, and `LogFailure`, inside the block, if the disk fails.
    """
    if not __debug__:
        raise RuntimeError("quorum does not run under python -O: its assertions must hold")
    place = listener or config.place
    if place is None:
        raise ValueError(f"replica {config.node_id} is not among the voters: give it a `listener`")
    host, port = place
    applying = MachineApplier(machine)
    rng = random.SystemRandom()
    try:
        async with AsyncExitStack() as parts:
            opened = open_quorum(
                config, applying, parts, clock=monotonic_ms, wall_clock=wall_ms, rng=rng
            )
            applying.log = opened.quorum.replica
            handle = partial(_handle, opened)
            limits = ServerLimits(request_bytes_of={ApiKey.FETCH: METADATA_LOG_FETCH_BYTES_MAX})
            server = Server(
                handle, offered=OFFERED, name="quorum", clock_ms=monotonic_ms, limits=limits
            )
            parts.push_async_callback(server.close, within_ms=CLOSE_MS)
            await server.listen(host, port, security)
            tasks = await parts.enter_async_context(asyncio.TaskGroup())
            running = tasks.create_task(opened.quorum.run(), name="quorum")
            gossiping = tasks.create_task(opened.gossiper.run(), name="gossip")
            try:
                yield Replica(opened, applying)
            finally:
                gossiping.cancel()
                if not running.done():
                    await opened.quorum.stop()
                applying.close()
                opened.quorum.abandon(NotLeader("this replica has ended"))
    except BaseExceptionGroup as group:
        # The task group wraps every error; a single one is raised itself.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


def _handle(opened: Opened, request: InboundRequest) -> None:
    """Handle a request of another replica."""
    if request.api_key == ApiKey.API_VERSIONS:
        decode_request(request.api_key, request.api_version, request.body)
        request.respond(write_offer(request.api_version, OFFERED))
    elif request.api_key == ApiKey.DISCOVER_BROKERS:
        opened.gossiper.asked(request)
    else:
        opened.raft_rpc.asked(request)
