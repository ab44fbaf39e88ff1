"""Fetches and produce requests to one broker process: `broker.apis` without bytes.

A fetch that finds nothing waits for up to half a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, runtime_checkable

from broker.limits import REPLICA_FETCH_BYTES_MAX, REPLICA_FETCH_WAIT_MS_MAX
from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition
from broker.replication.follower_fetch import FetchedPartition, FetchPosition
from chaos.cluster.broker.node import BrokerNode
from chaos.cluster.broker.replica_manager import ReplicaManager
from chaos.cluster.rpc import Respond, Serve, Server
from quorum.core.vocabulary import Offset, OffsetAndEpoch
from quorum.protocol.errors import ErrorCode

UNKNOWN_TOPIC_ID: Final = 100


@dataclass(slots=True)
class _Part:
    """One partition of a fetch."""

    position: FetchPosition
    refusal: ErrorCode | None = None
    diverging: OffsetAndEpoch | None = None


@dataclass(slots=True, eq=False)
class _Fetch:
    """One fetch on its way to its answer."""

    follower: int
    parts: dict[PartitionKey, _Part]
    respond: Respond
    is_answered: bool = False


class FetchHandler:
    """Answers fetches of followers and finds partitions for producers and consumers."""

    def __init__(self, process: BrokerNode, replicas: ReplicaManager) -> None:
        self._process = process
        self._replicas = replicas
        self._delayed: dict[int, _Fetch] = {}

    def fetch(
        self,
        follower: int,
        broker_epoch: int,
        positions: Mapping[PartitionKey, FetchPosition],
        respond: Respond,
    ) -> None:
        """Answer now, or once there are records."""
        before = self._delayed.pop(follower, None)
        if before is not None:
            self._finish(before)
        parts = {key: self._part(key, follower, broker_epoch, at) for key, at in positions.items()}
        request = _Fetch(follower, parts, respond)
        if self._is_satisfied(request):
            self._finish(request)
        else:
            self._delayed[follower] = request
            self._process.later(REPLICA_FETCH_WAIT_MS_MAX, partial(self._finish, request))

    def partition(self, key: PartitionKey) -> Partition | None:
        """The partition, if it is open here."""
        return self._replicas.partitions.get(key)

    def on_change(self, partition: Partition) -> None:
        """Answer the waiting fetches that a change of this partition satisfies."""
        for each in [*self._delayed.values()]:
            if partition.key in each.parts and self._is_satisfied(each):
                self._finish(each)

    def _part(
        self, key: PartitionKey, follower: int, broker_epoch: int, position: FetchPosition
    ) -> _Part:
        part = _Part(position)
        partition = self._replicas.partitions.get(key)
        if partition is None:
            part.refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return part
        result = partition.fetched_by(
            follower,
            broker_epoch=broker_epoch,
            current_leader_epoch=position.leader_epoch,
            offset=position.offset,
            last_fetched_epoch=position.last_epoch,
        )
        if isinstance(result, ErrorCode):
            part.refusal = result
        else:
            part.diverging = result
        return part

    def _is_satisfied(self, request: _Fetch) -> bool:
        """True if the fetch has an error or records to return."""
        self._recheck_leaders(request)
        for key, part in request.parts.items():
            if part.refusal is not None or part.diverging is not None:
                return True
            partition = self._replicas.partitions[key]
            has_more = partition.log_end > part.position.offset
            if has_more and not self._is_held_back(partition, request.follower):
                return True
        return False

    def _recheck_leaders(self, request: _Fetch) -> None:
        """Set the error of each partition that this broker has stopped leading meanwhile."""
        for key, part in request.parts.items():
            partition = self._replicas.partitions.get(key)
            if partition is None:
                part.refusal = part.refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif part.refusal is None:
                part.refusal = partition.fetch_refusal(part.position.leader_epoch)

    def _finish(self, request: _Fetch) -> None:
        if request.is_answered:
            return
        request.is_answered = True
        if self._delayed.get(request.follower) is request:
            del self._delayed[request.follower]
        self._recheck_leaders(request)
        follower = request.follower
        request.respond(
            {key: self._response(key, part, follower) for key, part in request.parts.items()}
        )

    def _is_throttled(self, partition: Partition, follower: int) -> bool:
        """True if the throttle limits what this follower gets (KIP-73)."""
        is_named = partition.key.number in partition.settings.leader_throttled
        leading = partition.leading
        return is_named and leading is not None and follower not in leading.assignment.isr

    def _is_held_back(self, partition: Partition, follower: int) -> bool:
        bucket, now_ms = self._replicas.throttles.leader, self._process.now_ms()
        return self._is_throttled(partition, follower) and bucket.wait_ms(now_ms) > 0

    def _response(self, key: PartitionKey, part: _Part, follower: int) -> FetchedPartition:
        if part.refusal is not None:
            return FetchedPartition(part.refusal)
        partition = self._replicas.partitions[key]
        known = partition.high_watermark
        if part.diverging is not None:
            return FetchedPartition(0, part.diverging, known)
        if self._is_held_back(partition, follower):
            self._process.world.note("a follower is held back by a throttle")
            return FetchedPartition(0, None, known)
        start, end = Offset(part.position.offset), Offset(partition.log_end)
        now_ms, bucket = self._process.now_ms(), self._replicas.throttles.leader
        is_throttled = self._is_throttled(partition, follower)
        available_bytes = bucket.available_bytes(now_ms) if is_throttled else None
        most_bytes = min(REPLICA_FETCH_BYTES_MAX, available_bytes or REPLICA_FETCH_BYTES_MAX)
        data = partition.log.read(start, end, most_bytes) if end > start else b""
        if is_throttled:
            bucket.take(len(data), now_ms)
        return FetchedPartition(0, None, known, data)


@runtime_checkable
class Leader(Protocol):
    """A broker process that answers fetches."""

    fetch_handler: FetchHandler


def fetch(
    follower: int, broker_epoch: int, positions: Mapping[PartitionKey, FetchPosition]
) -> Serve:
    """A fetch of a follower, to run at the leader."""

    def serve(process: Server, respond: Respond) -> None:
        assert isinstance(process, Leader), f"{process.id} is no broker"
        process.fetch_handler.fetch(follower, broker_epoch, positions, respond)

    return serve
