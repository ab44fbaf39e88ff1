"""The quorum under a state machine of your own: a library's front door (docs/embedding.md).

`open_replica` opens a folder, listens for the other replicas, and runs until the block is left.
Through the `Replica` that it yields, records are proposed, the state is read, and it is seen who
leads. Nothing here knows what a record means, and nothing is decided here.
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
from quorum.snapshotting import SnapshotLimits
from quorum.transport.address import Address
from quorum.transport.inbound import InboundRequest
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
"""Records that were proposed at one replica and are not committed yet."""

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
"""The time that the listener gives pending answers to leave when the replica stops."""


APPLIED_AT_ONCE: Final = 1_000
"""Records that are applied before anyone else has a turn."""


START: Final = Offset(0)


class Machine(Protocol):
    """The state machine of an embedder: a value that depends on the committed records alone.

    Called in the event loop, one call at a time. `apply` must be deterministic (no clock, no
    chance, no order of a set): every replica calls it with the same records in the same order.
    What it raises ends the replica, for the others will come to the same record.
    """

    def apply(self, record: bytes) -> Any:
        """Take in the next committed record; what this returns, its proposer gets."""
        ...

    def snapshot(self) -> Iterator[Sequence[bytes]]:
        """Records from which `load_snapshot` makes the state as it is now, in small groups.

        The first group is taken at once, the others one by one between other work; what is applied
        meanwhile must not show in them.
        """
        ...

    def load_snapshot(self, records: Iterable[bytes]) -> None:
        """Replace the whole state by what these records say; raises `ValueError` if it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record that was proposed here and is not committed yet."""

    offset: Offset
    size_bytes: int
    result: "asyncio.Future[Any]"


class MachineApplier:
    """A `ports.StateMachine` that applies what is committed, on the leader as everywhere else."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.log: CommittedLog | None = None
        """The source of committed records; set before anything is committed."""
        self.waiting: deque[Waiting] = deque()
        """The records that were proposed here and are not committed yet, in order."""
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
        """Nothing is proposed here any more; what waits may be committed yet, or never."""
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

    # What the quorum says (ports.StateMachine).

    def snapshot(self) -> StateSnapshot | None:
        # What is still being applied may have come to the middle of a batch.
        if self.is_behind or self.applied == START:
            return None
        groups = iter(self._machine.snapshot())
        # At once: the body of a generator would not begin before it is asked, when more is applied.
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
        pass  # Applied like all others, when it is committed.

    def on_stop_leading(self, epoch: Epoch) -> None:
        self.close()

    def _apply(self, offset: int, record: bytes) -> None:
        result = self._machine.apply(record)
        if self.waiting and self.waiting[0].offset == offset:
            done = self.waiting.popleft()
            self.waiting_bytes -= done.size_bytes
            # Whoever proposed it may have stopped waiting.
            if not done.result.done():
                done.result.set_result(result)


class Unavailable(Exception):
    """It was not done, or not seen to be done. The message says why; ask again, of the leader."""

    may_be_done = False
    """True if the record may be applied all the same, now or later."""


class NotLeader(Unavailable):
    """Only the leader can do this; `Replica.leader` says who that is. Nothing was appended."""


class Overloaded(Unavailable):
    """Too much waits for its commit already. Nothing was appended."""


class VotersRefused(Exception):
    """These voters cannot be; the message says why, and what could be."""


class TransferRefused(Exception):
    """The lead was not handed over; the message says why."""


class OutcomeUnknown(Unavailable):
    """The lead was lost, or the replica stopped, before the record was committed."""

    may_be_done = True


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader and the address of its listener for replicas, as far as this one knows."""

    id: ReplicaId
    address: Address | None


class Replica:
    """One replica of the quorum that runs; `open_replica` makes it."""

    def __init__(self, opened: Opened, applying: MachineApplier) -> None:
        self._opened = opened
        self._applying = applying

    @property
    def leader(self) -> Leader | None:
        """The leader, as far as this replica knows; None while there is none."""
        leader = self._opened.quorum.leader
        if leader is None:
            return None
        address = self._opened.addresses.address_of(leader)
        return Leader(leader, None if address is None else Address(*address))

    @property
    def is_leader(self) -> bool:
        """True if this replica leads and has applied all that was committed before."""
        return self._applying.epoch is not None

    @property
    def applied(self) -> Offset:
        """Everything below this offset of the log has been applied here."""
        return self._applying.applied

    @property
    def voters(self) -> tuple[ReplicaId, ...]:
        """The current voters, as far as this replica knows."""
        return tuple(each.id for each in self._opened.quorum.node.voters)

    async def leader_changed(self, *, within_seconds: float) -> None:
        """Return when another leader is known, or none any more, or when the time is up."""
        await self._opened.quorum.leader_changed(within_seconds=within_seconds)

    async def propose(self, record: bytes) -> Any:
        """Append `record`; return what `apply` returned for it, once it is committed.

        Committed means on the disks of a majority of the voters. Raises `NotLeader` or
        `Overloaded` when nothing was appended, `OutcomeUnknown` when that cannot be said, and
        `ValueError` for a record above RECORD_BYTES_MAX.
        """
        if len(record) > RECORD_BYTES_MAX:
            raise ValueError(
                f"a record of {len(record)} bytes: one may have {RECORD_BYTES_MAX} bytes at most"
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
        """Return when the state machine here has applied all that was answered before the call.

        What is then read of it is linearizable, as of the offset that this returns. Only the
        leader can say so, after a majority has confirmed that it still leads: raises `NotLeader`,
        `Overloaded`, or `Unavailable` when no majority confirmed it in time.
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
        """Let these replicas be the voters in the end; None gives up a change that is under way.

        Returns when the wish is committed; then the leader adds and removes one voter at a time,
        whoever leads meanwhile. A replica is added once it has caught up as an observer. Raises
        `NotLeader`, `VotersRefused`, or `OutcomeUnknown` when no majority confirmed it in time.
        """
        self._check_leads()
        keys = None if target is None else tuple(ReplicaKey(each) for each in sorted(set(target)))
        await self._change(AlterQuorumRequest(target=keys, timeout_ms=CHANGE_MS), VotersRefused)

    async def transfer_leadership(self, to: ReplicaId | None = None) -> None:
        """Let `to` lead, or whichever voter has come furthest; `leader_changed` tells the rest.

        Returns when this replica has given up its lead; all that was proposed is committed then.
        Raises `NotLeader`, and `TransferRefused` where it leads on, or `to` could not lead.
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
            raise NotLeader("nobody is known to lead; an election may be under way")
        if leader.id == self._opened.quorum.node.me.id:
            raise NotLeader("this replica has just been elected and is not ready yet")
        raise NotLeader(f"replica {leader.id} leads")


@asynccontextmanager
async def open_replica(
    config: QuorumConfig, machine: Machine, *, listener: Address | None = None
) -> AsyncIterator[Replica]:
    """Run the replica whose folder `config` names, from entering the block to leaving it.

    `machine` is new: it is given a snapshot, if there is one, and then every committed record.
    The replica listens at `listener`, by default at its own address among `config.voters`. Left
    in good order, a leader gives its lead away first.

    Raises `StorageError` for a folder that is another's, in use or damaged, `OSError` if the
    address cannot be had, and, in the middle of the block, `LogFailure` when the disk fails.
    """
    if not __debug__:
        raise RuntimeError("quorum does not run under python -O: its assertions must hold")
    place = listener or config.place
    if place is None:
        raise ValueError(
            f"replica {config.node_id} is not among the voters: name the `listener` of it"
        )
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
            server = Server(handle, offered=OFFERED, name="quorum", clock_ms=monotonic_ms)
            parts.push_async_callback(server.close, within_ms=CLOSE_MS)
            await server.listen(host, port)
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
        # The group is of the task beside the block; one error is raised as what it is.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


def _handle(opened: Opened, request: InboundRequest) -> None:
    """Handle a request of another replica; there are no others here."""
    if request.api_key == ApiKey.API_VERSIONS:
        decode_request(request.api_key, request.api_version, request.body)
        request.respond(write_offer(request.api_version, OFFERED))
    elif request.api_key == ApiKey.DISCOVER_BROKERS:
        opened.gossiper.asked(request)
    else:
        opened.raft_rpc.asked(request)
