"""What a follower asks of its leader: where it stands in each partition, as a Fetch request.

Nothing here waits or sends. At least version 13 is needed, for its topic ids; from 15 on the
request carries the broker epoch of the follower (KIP-903), and one that does not never gets the
follower into an ISR of a leader that asks for it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from broker.limits import REPLICA_FETCH_ANSWER_BYTES_MAX, REPLICA_FETCH_WAIT_MS_MAX
from broker.partition import Partition
from quorum.wire import codec
from quorum.wire.apis import ApiKey
from statemachine.vocabulary import BrokerId

_REPLICA_STATE_FROM: Final = 15
_TOPIC_IDS_FROM: Final = 13
_NO_EPOCH: Final = -1


class Position(NamedTuple):
    """What a fetch asked of one partition."""

    offset: int
    last_epoch: int
    leader_epoch: int


def position_of(partition: Partition, leader: BrokerId) -> Position | None:
    """Where to go on, or None while this partition is not to be fetched from `leader`."""
    following = partition.following
    if following is None or following.leader != leader or not partition.is_open:
        return None
    if partition.is_truncating or partition.written != partition.log_end:
        return None
    is_empty = partition.log_end == partition.log.start
    last_epoch = _NO_EPOCH if is_empty else partition.history.last
    return Position(partition.log_end, last_epoch, following.leader_epoch)


def fetch_request(
    version: int,
    replica: tuple[BrokerId, int],
    positions: Mapping[Partition, Position],
    partition_bytes_max: int,
) -> bytes:
    """The body of the fetch. Raises `ValueError` for versions without topic ids."""
    if version < _TOPIC_IDS_FROM:
        raise ValueError(f"Fetch v{version} names no topic ids, at least {_TOPIC_IDS_FROM} does")
    schema = codec.request_schema(ApiKey.FETCH, version)
    of_topic = codec.nested(schema, "FetchTopic")
    of_partition = codec.nested(schema, "FetchPartition")
    by_topic: dict[UUID, list[Any]] = {}
    for partition, position in positions.items():
        by_topic.setdefault(partition.key.topic_id, []).append(
            codec.make(
                of_partition,
                partition=partition.key.number,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_epoch,
                log_start_offset=partition.log.start,
                partition_max_bytes=partition_bytes_max,
            )
        )
    values: dict[str, Any] = {
        "max_wait": timedelta(milliseconds=REPLICA_FETCH_WAIT_MS_MAX),
        "min_bytes": 1,
        "max_bytes": REPLICA_FETCH_ANSWER_BYTES_MAX,
        "topics": tuple(
            codec.make(of_topic, topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        ),
        "forgotten_topics_data": (),
    }
    if version >= _REPLICA_STATE_FROM:
        values["replica_state"] = codec.make(
            codec.nested(schema, "ReplicaState"), replica_id=replica[0], replica_epoch=replica[1]
        )
    else:
        values["replica_id"] = replica[0]
    payload = codec.make(schema, **values)
    return codec.encode_request_body(ApiKey.FETCH, version, payload)
