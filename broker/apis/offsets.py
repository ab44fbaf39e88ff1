"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp and by leader epoch."""

from collections.abc import Mapping
from typing import Any, Final

from broker.apis.fetch import CONSUMER
from broker.authorization import OPEN, BrokerRights
from broker.partition.partition import Partition
from broker.replica_manager import ReplicaManager
from quorum.core.vocabulary import Epoch, Offset
from quorum.protocol.errors import ErrorCode
from quorum.records.batch import CorruptBatch
from quorum.transport.inbound import InboundRequest
from statemachine.security.rights import CLUSTER_ACTION, DESCRIBE_TOPIC

EARLIEST: Final = -2
"""The timestamp of the first offset; -1: the end, -3: newest record, -4: the first local one."""

_TIME_MS_END: Final = 1 << 62


class OffsetsApi:
    """The handlers of both requests; each is answered at once."""

    def __init__(self, manager: ReplicaManager, rights: BrokerRights = OPEN) -> None:
        self._manager = manager
        self._rights = rights

    def list_offsets(self, request: InboundRequest, message: Any) -> Mapping[str, Any]:
        """ListOffsets (2): offsets by timestamp, or by one of the negative special timestamps."""
        is_consumer = message.replica_id == CONSUMER
        names = (topic.name for topic in message.topics)
        allowed = self._rights.access(request).allowed(DESCRIBE_TOPIC, names)
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            **(
                                self._offset(topic.name, each, is_consumer=is_consumer)
                                if topic.name in allowed
                                else _offset(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                            ),
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in message.topics
            ]
        }

    def _offset(self, topic: str, asked: Any, *, is_consumer: bool) -> Mapping[str, Any]:
        """The error, or offset, timestamp and leader epoch of one partition."""
        epoch = getattr(asked, "current_leader_epoch", -1)
        partition = self._leader(topic, asked.partition_index, epoch)
        if isinstance(partition, ErrorCode):
            return _offset(partition)
        try:
            return self._offset_in(partition, asked, is_consumer=is_consumer)
        except CorruptBatch:
            # An earlier release took batches whose records cannot be read.
            return _offset(ErrorCode.CORRUPT_MESSAGE)

    def _offset_in(
        self, partition: Partition, asked: Any, *, is_consumer: bool
    ) -> Mapping[str, Any]:
        leading = partition.leading
        assert leading is not None
        # Followers see the end of the log, consumers the high watermark.
        end = leading.high_watermark if is_consumer else leading.log_end
        if is_consumer and not leading.knows_committed and asked.timestamp != EARLIEST:
            return _offset(ErrorCode.OFFSET_NOT_AVAILABLE)
        match asked.timestamp:
            case -1:
                return _offset(ErrorCode.NONE, end, epoch=partition.leader_epoch)
            case -2 | -4:
                start = partition.log.start
                return _offset(ErrorCode.NONE, start, epoch=_epoch_at(partition, start))
            case -3:
                found = newest(partition, end)
            case time_ms if time_ms >= 0:
                found = partition.log.offset_for_timestamp(time_ms)
            case _:
                return _offset(ErrorCode.UNSUPPORTED_VERSION)
        if found is None or found[0] >= end:
            return _offset(ErrorCode.NONE)
        return _offset(ErrorCode.NONE, *found, epoch=_epoch_at(partition, found[0]))

    def for_leader_epoch(self, request: InboundRequest, message: Any) -> Mapping[str, Any]:
        """OffsetForLeaderEpoch (23): the end offset of an epoch (KIP-101, KIP-279, KIP-320)."""
        access = self._rights.access(request)
        allowed = frozenset(topic.topic for topic in message.topics)
        if not access.may(CLUSTER_ACTION, is_told=False):
            allowed = access.allowed(DESCRIBE_TOPIC, allowed)
        return {
            "topics": [
                {
                    "topic": topic.topic,
                    "partitions": [
                        {
                            "partition": each.partition,
                            **(
                                self._epoch_end(topic.topic, each)
                                if topic.topic in allowed
                                else _epoch_end(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                            ),
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in message.topics
            ]
        }

    def _epoch_end(self, topic: str, asked: Any) -> Mapping[str, Any]:
        """The error, or the epoch and its end offset in one partition."""
        partition = self._leader(topic, asked.partition, asked.current_leader_epoch)
        if isinstance(partition, ErrorCode):
            return _epoch_end(partition)
        if asked.leader_epoch > partition.leader_epoch or asked.leader_epoch < 0:
            return _epoch_end(ErrorCode.NONE)
        if asked.leader_epoch == partition.leader_epoch:
            return _epoch_end(ErrorCode.NONE, partition.leader_epoch, partition.log_end)
        end = partition.history.end_of(Epoch(asked.leader_epoch), Offset(partition.log_end))
        return _epoch_end(ErrorCode.NONE, end.epoch, end.offset)

    def _leader(self, topic: str, number: int, leader_epoch: int) -> Partition | ErrorCode:
        """The partition, if this broker leads it in this epoch, or the error."""
        partition = self._manager.partition(topic, number)
        if isinstance(partition, ErrorCode):
            return partition
        return partition.fetch_refusal(leader_epoch) or partition


def _offset(
    code: ErrorCode, offset: int = -1, time_ms: int = -1, *, epoch: int = -1
) -> Mapping[str, Any]:
    return {"error_code": code, "offset": offset, "timestamp": time_ms, "leader_epoch": epoch}


def _epoch_end(code: ErrorCode, epoch: int = -1, end_offset: int = -1) -> Mapping[str, Any]:
    return {"error_code": code, "leader_epoch": epoch, "end_offset": end_offset}


def newest(partition: Partition, end: int) -> tuple[int, int] | None:
    """The offset and timestamp of the first record with the largest timestamp below `end`
    (KIP-734).

    "A record at or after this time exists" only turns from true to false as the time rises, so a
    binary search over the time index finds the largest.
    """
    found, low, high = None, 0, _TIME_MS_END
    while low < high:
        middle = (low + high) // 2
        here = partition.log.offset_for_timestamp(middle)
        if here is None or here[0] >= end:
            high = middle
        else:
            found, low = here, max(middle, here[1]) + 1
    return found


def _epoch_at(partition: Partition, offset: int) -> int:
    """The leader epoch of the record at `offset`, or the current one at the end of the log."""
    if offset >= partition.log_end:
        return partition.leader_epoch
    return partition.history.epoch_at(Offset(offset))
