"""The batch accumulator: proposed records in order, and their encoding as batches of the log.

Small proposals are put together into one batch as long as they wait. The core counts records, and
bytes are counted here: what was proposed is in memory until it is committed, and on our own disk.
Nothing here decides when, or waits for a disk.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quorum.core.effects import (
    AppendAssignment,
    AppendFetched,
    AppendLeaderChange,
    AppendProposed,
)
from quorum.core.events import Correlation
from quorum.core.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, Offset
from quorum.ports import Clock, Log
from quorum.records.control import (
    LeaderChange,
    encode_assignment,
    encode_founding,
    encode_leader_change,
)
from quorum.records.encode import encode, stamp


def encode_control(
    effect: AppendLeaderChange | AppendAssignment, cluster_id: str | None, *, timestamp_ms: int
) -> bytearray:
    """The batch that `effect` asks for, ready to be stamped."""
    if isinstance(effect, AppendAssignment):
        return encode_assignment(effect.assignment, cluster_id, timestamp_ms=timestamp_ms)
    change = LeaderChange(leader=effect.leader, voters=effect.voters, granting=effect.granting)
    voters = effect.batch.assignment
    if voters is None:
        return encode_leader_change(change, timestamp_ms=timestamp_ms)
    return encode_founding(change, voters, cluster_id, timestamp_ms=timestamp_ms)


@dataclass(slots=True)
class _Proposal:
    """Records that become one batch, in the order in which they were proposed."""

    values: list[bytes]
    size_bytes: int


class BatchAccumulator:
    """The records that wait, as the batches that they will be."""

    __slots__ = ("_appended", "_epoch", "_held_bytes", "_waiting", "count", "durable")

    def __init__(self) -> None:
        self._waiting: deque[_Proposal] = deque()
        self.count = 0
        """The number of waiting records."""
        self.durable = Offset(0)
        """Up to where our own disk has the log, as it has said last."""
        self._held_bytes = 0
        """Of what waits, and of what was appended in this epoch and is still held."""
        self._appended: deque[tuple[Offset, int]] = deque()
        """The end offset of each appended batch, and its bytes."""
        self._epoch = Epoch(0)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def next_count(self) -> int:
        """The number of records in the next batch."""
        return len(self._waiting[0].values)

    def accepts(self, node: QuorumNode, count: int, *, after: int) -> bool:
        """Return True if a leader has room for `count` records after `after` others."""
        if not node.accepts(count, self.count + after):
            return False
        if node.epoch != self._epoch:
            # What it had appended when it led before may have been replaced since.
            assert not self._waiting
            self._epoch, self._held_bytes = node.epoch, 0
            self._appended.clear()
        reached = min(node.high_watermark or 0, self.durable)
        while self._appended and self._appended[0][0] <= reached:
            self._held_bytes -= self._appended.popleft()[1]
        return self._held_bytes < node.bounds.uncommitted_bytes

    def add(self, values: Sequence[bytes]) -> None:
        """Let these be appended, together in one batch."""
        size_bytes = sum(map(len, values))
        last = self._waiting[-1] if self._waiting else None
        if (
            last is not None
            and len(last.values) + len(values) <= BATCH_RECORDS_MAX
            and last.size_bytes + size_bytes <= BATCH_BYTES_MAX // 2
        ):
            last.values.extend(values)
            last.size_bytes += size_bytes
        else:
            self._waiting.append(_Proposal(list(values), size_bytes))
        self.count += len(values)
        self._held_bytes += size_bytes

    def take(self, end: Offset) -> list[bytes]:
        """The records of the next batch, which wait no more and end there in the log."""
        batch = self._waiting.popleft()
        self.count -= len(batch.values)
        self._appended.append((end, batch.size_bytes))
        return batch.values


class Appending:
    """Hands the batches that the node wants appended to the log."""

    __slots__ = (
        "_cluster_id",
        "_fetched",
        "_log",
        "_on_control",
        "_proposals",
        "_size_bytes",
        "_taken_bytes",
        "_wall_clock",
    )

    def __init__(
        self,
        log: Log,
        proposals: BatchAccumulator,
        fetched: dict[Correlation, bytes],
        *,
        cluster_id: Callable[[], str | None],
        wall_clock: Clock,
        on_control: Callable[[Offset], None],
    ) -> None:
        """`fetched` are the bytes that answers have brought, by what they answer.

        `on_control` is told where a batch ends that the state machine has not proposed.
        """
        self._log = log
        self._proposals = proposals
        self._fetched = fetched
        self._cluster_id = cluster_id
        self._wall_clock = wall_clock
        self._on_control = on_control
        self._size_bytes = 0
        self._taken_bytes = 0

    def take_bytes(self) -> int:
        """Return the bytes appended since the last call: they have to be committed."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        self._taken_bytes += size_bytes
        return size_bytes

    def take_all_bytes(self) -> int:
        """Return the bytes that `take_bytes` has returned since the last call."""
        taken_bytes, self._taken_bytes = self._taken_bytes, 0
        return taken_bytes

    def perform(
        self, effect: AppendProposed | AppendLeaderChange | AppendAssignment | AppendFetched
    ) -> None:
        """Let the log have it, with its place and its epoch."""
        match effect:
            case AppendProposed(batch):
                values = self._proposals.take(batch.end)
                assert len(values) == batch.end - batch.base
                encoded = encode(values, timestamp_ms=self._wall_clock())
            case AppendLeaderChange(batch=batch) | AppendAssignment(batch=batch):
                assert not self._proposals, "their offsets were given when they came"
                cluster_id = None if batch.assignment is None else self._cluster_id()
                encoded = encode_control(effect, cluster_id, timestamp_ms=self._wall_clock())
            case AppendFetched(correlation, batches):
                fetched = self._fetched.pop(correlation)
                appended = self._log.append(fetched)
                assert tuple(appended) == batches
                self._size_bytes += len(fetched)
                return
        stamp(encoded, batch.base, batch.epoch)
        self._log.append(encoded)
        self._size_bytes += len(encoded)
        if isinstance(effect, AppendAssignment):
            self._on_control(batch.end)
