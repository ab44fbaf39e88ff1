"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp and by leader epoch."""

from datetime import timedelta
from typing import Any, Final

from broker.apis.partition_lookup import PartitionLookup
from broker.partition.partition import Partition
from quorum.core.vocabulary import Epoch, Offset
from quorum.protocol import codec
from quorum.protocol.errors import ErrorCode
from quorum.transport.inbound import InboundRequest

EARLIEST: Final = -2
"""The timestamp of the first offset; -1: the end, -3: newest record, -4: the first local one."""

_NO_TIME: Final = -1
_TIME_MS_END: Final = 1 << 62
_ZERO: Final = timedelta(0)
_CONSUMER: Final = -1


class OffsetsApi:
    """The handler of both requests; each is answered at once."""

    def __init__(self, lookup: PartitionLookup) -> None:
        self._lookup = lookup

    def list_offsets(self, request: InboundRequest) -> None:
        """ListOffsets (2): offsets by timestamp, or by one of the negative special timestamps."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        of_topic = codec.nested(schema, "ListOffsetsTopicResponse")
        of_partition = codec.nested(schema, "ListOffsetsPartitionResponse")
        is_consumer = message.replica_id == _CONSUMER

        def answer(topic: str, asked: Any) -> Any:
            code, offset, time_ms, epoch = self._listed(topic, asked, is_consumer=is_consumer)
            return codec.make_known(
                of_partition,
                partition_index=asked.partition_index,
                error_code=codec.error_code(code),
                timestamp=time_ms,
                offset=offset,
                leader_epoch=epoch,
            )

        topics = tuple(
            codec.make(
                of_topic,
                name=topic.name,
                partitions=tuple(answer(topic.name, asked) for asked in topic.partitions),
            )
            for topic in message.topics
        )
        payload = codec.make_known(schema, throttle_time=_ZERO, topics=topics)
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def _listed(self, topic: str, asked: Any, *, is_consumer: bool) -> tuple[int, int, int, int]:
        """Error code, offset, time and leader epoch."""
        partition = self._lookup.partition(topic, asked.partition_index)
        if isinstance(partition, ErrorCode):
            return partition, -1, _NO_TIME, -1
        refusal = partition.fetch_refusal(getattr(asked, "current_leader_epoch", -1))
        if refusal is not None:
            return refusal.code, -1, _NO_TIME, -1
        leading = partition.leading
        assert leading is not None
        # Followers see the end of the log, consumers the high watermark.
        end = leading.high_watermark if is_consumer else leading.log_end
        if is_consumer and not leading.knows_committed and asked.timestamp != EARLIEST:
            return ErrorCode.OFFSET_NOT_AVAILABLE, -1, _NO_TIME, -1
        match asked.timestamp:
            case -1:
                return ErrorCode.NONE, end, _NO_TIME, partition.leader_epoch
            case -2 | -4:
                start = partition.log.start
                return ErrorCode.NONE, start, _NO_TIME, _epoch_at(partition, start)
            case -3:
                found = newest(partition, end)
            case time_ms if time_ms >= 0:
                found = partition.log.offset_for_timestamp(time_ms)
            case _:
                return ErrorCode.UNSUPPORTED_VERSION, -1, _NO_TIME, -1
        if found is None or found[0] >= end:
            return ErrorCode.NONE, -1, _NO_TIME, -1
        return ErrorCode.NONE, found[0], found[1], _epoch_at(partition, found[0])

    def for_leader_epoch(self, request: InboundRequest) -> None:
        """OffsetForLeaderEpoch (23): the end offset of an epoch (KIP-101, KIP-279, KIP-320)."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        of_topic = codec.nested(schema, "OffsetForLeaderTopicResult")
        of_partition = codec.nested(schema, "EpochEndOffset")

        def answer(topic: str, asked: Any) -> Any:
            code, epoch, end = self._ended(topic, asked)
            return codec.make(
                of_partition,
                error_code=codec.error_code(code),
                partition=asked.partition,
                leader_epoch=epoch,
                end_offset=end,
            )

        topics = tuple(
            codec.make(
                of_topic,
                topic=topic.topic,
                partitions=tuple(answer(topic.topic, asked) for asked in topic.partitions),
            )
            for topic in message.topics
        )
        payload = codec.make(schema, throttle_time=_ZERO, topics=topics)
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def _ended(self, topic: str, asked: Any) -> tuple[int, int, int]:
        """Error code, epoch and end offset."""
        partition = self._lookup.partition(topic, asked.partition)
        if isinstance(partition, ErrorCode):
            return partition, -1, -1
        refusal = partition.fetch_refusal(asked.current_leader_epoch)
        if refusal is not None:
            return refusal.code, -1, -1
        if asked.leader_epoch > partition.leader_epoch or asked.leader_epoch < 0:
            return ErrorCode.NONE, -1, -1
        if asked.leader_epoch == partition.leader_epoch:
            return ErrorCode.NONE, partition.leader_epoch, partition.log_end
        end = partition.history.end_of(Epoch(asked.leader_epoch), Offset(partition.log_end))
        return ErrorCode.NONE, end.epoch, end.offset


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
    epoch = -1
    for each, start in partition.log.epochs:
        if start > offset:
            break
        epoch = each
    return epoch if offset < partition.log_end else partition.leader_epoch
