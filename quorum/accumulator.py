"""The batch accumulator: proposed records in order, and the batches that are appended to the log.

Small proposals that wait are combined into one batch. The core counts records, the accumulator
bytes: proposed records stay in memory until they are committed and on this node's disk.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import AppendAssignment, AppendLeaderChange
from quorum.core.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from quorum.core.messages import Batch
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, Offset
from quorum.ports import Clock, Log
from quorum.records.control import (
    LeaderChange,
    encode_assignment,
    encode_leader_change,
)
from quorum.records.encode import encode, stamp


@dataclass(slots=True)
class _Proposal:
    """Records of one batch, in the order in which they were proposed."""

    values: list[bytes]
    size_bytes: int


class BatchAccumulator:
    """The proposed records that wait, and the one place that appends to the log of a replica."""

    def __init__(self, log: Log, cluster: ClusterIdentity, wall_clock: Clock) -> None:
        self._log = log
        self._cluster = cluster
        self._wall_clock = wall_clock
        self._size_bytes = 0
        self._waiting: deque[_Proposal] = deque()
        self.count = 0
        """The number of waiting records."""
        self.durable = Offset(0)
        """The end of the log on this node's disk, from the last report."""
        self._held_bytes = 0
        """Bytes of waiting records, and of records of this epoch that are still in memory."""
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
            # Records from an earlier leadership of this node may have been replaced since.
            assert not self._waiting
            self._epoch, self._held_bytes = node.epoch, 0
            self._appended.clear()
        reached = min(node.high_watermark or 0, self.durable)
        while self._appended and self._appended[0][0] <= reached:
            self._held_bytes -= self._appended.popleft()[1]
        return self._held_bytes < node.bounds.uncommitted_bytes

    def add(self, values: Sequence[bytes]) -> None:
        """Queue these records, to be appended together in one batch."""
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

    def append_proposed(self, batch: Batch) -> None:
        """Append the next batch of proposed records and remove it from the queue."""
        proposal = self._waiting.popleft()
        assert len(proposal.values) == batch.end - batch.base
        self.count -= len(proposal.values)
        self._appended.append((batch.end, proposal.size_bytes))
        self._append(batch, encode(proposal.values, timestamp_ms=self._wall_clock()))

    def append_fetched(self, fetched: bytes, batches: tuple[Batch, ...]) -> None:
        """Append `fetched` unchanged; `batches` are its outlines."""
        appended = self._log.append(fetched)
        assert tuple(appended) == batches
        self._size_bytes += len(fetched)

    def append_control(self, effect: AppendLeaderChange | AppendAssignment) -> None:
        """Append the control records that the quorum itself writes."""
        assert not self._waiting, "proposed records have their offsets already"
        timestamp_ms, assignment = self._wall_clock(), effect.batch.assignment
        cluster_id = None if assignment is None else self._cluster.id_to_found_with()
        if isinstance(effect, AppendAssignment):
            encoded = encode_assignment(effect.assignment, cluster_id, timestamp_ms=timestamp_ms)
        else:
            change = LeaderChange(
                leader=effect.leader, voters=effect.voters, granting=effect.granting
            )
            encoded = encode_leader_change(
                change, assignment, cluster_id, timestamp_ms=timestamp_ms
            )
        self._append(effect.batch, encoded)

    def _append(self, batch: Batch, encoded: bytearray) -> None:
        stamp(encoded, batch.base, batch.epoch)
        self._log.append(encoded)
        self._size_bytes += len(encoded)

    def take_bytes(self) -> int:
        """Return the number of bytes appended since the last call, which have to be committed."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        return size_bytes
