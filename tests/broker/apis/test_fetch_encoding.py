"""Fetch responses packed by hand equal those of kio."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.apis.fetch import PartitionAnswer, write_answer
from broker.limits import REPLICA_FETCH_ANSWER_BYTES_MAX, REPLICA_FETCH_WAIT_MS_MAX
from broker.replication.follower_fetch import REPLICA_STATE_FROM, FetchPosition, fetch_request
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.protocol import codec
from quorum.protocol.apis import SPOKEN, ApiKey
from tests.broker.embedded_cluster import cluster
from tests.support.kio_values import make, nested

offsets = st.integers(-1, 2**63 - 1)
log_ends = st.builds(
    OffsetAndEpoch, st.integers(0, 2**31 - 1).map(Epoch), st.integers(0, 2**63 - 1).map(Offset)
)
partition_answers = st.builds(
    PartitionAnswer,
    number=st.integers(0, 2**31 - 1),
    error_code=st.sampled_from([0, 1, 3, 6, 74, 75]),
    high_watermark=offsets,
    log_start=offsets,
    diverging=st.none() | log_ends,
    records=st.binary(max_size=300),
)
topics = st.lists(st.tuples(st.uuids(), st.lists(partition_answers, max_size=4)), max_size=4)


def by_kio(version: int, code: int, found: Any, *, is_read_committed: bool) -> bytes:
    schema = codec.response_schema(ApiKey.FETCH, version)
    of_topic, of_partition, of_end = (
        nested(schema, name)
        for name in ("FetchableTopicResponse", "PartitionData", "EpochEndOffset")
    )

    def partition(answer: PartitionAnswer) -> Any:
        values: dict[str, Any] = {
            "partition_index": answer.number,
            "error_code": codec.error_code(answer.error_code),
            "high_watermark": answer.high_watermark,
            "last_stable_offset": answer.high_watermark,
            "log_start_offset": answer.log_start,
            "aborted_transactions": () if is_read_committed else None,
            "preferred_read_replica": -1,
            "records": answer.records,
        }
        if answer.diverging is not None:
            values["diverging_epoch"] = make(
                of_end, epoch=answer.diverging.epoch, end_offset=answer.diverging.offset
            )
        return make(of_partition, **values)

    payload = make(
        schema,
        throttle_time=timedelta(0),
        error_code=codec.error_code(code),
        session_id=0,
        responses=tuple(
            make(
                of_topic,
                partitions=tuple(map(partition, answers)),
                **({"topic_id": topic} if version >= 13 else {"topic": topic}),
            )
            for topic, answers in found
        ),
    )
    return codec.encode_response_body(ApiKey.FETCH, version, payload)


@pytest.mark.parametrize("version", range(13, SPOKEN[ApiKey.FETCH].highest + 1))
@given(found=topics, code=st.sampled_from([0, 70]), is_read_committed=st.booleans())
def test_an_answer_by_topic_id(
    version: int,
    found: list[tuple[UUID, list[PartitionAnswer]]],
    code: int,
    is_read_committed: bool,
) -> None:
    ours = b"".join(write_answer(code, found, is_read_committed=is_read_committed))
    assert ours == by_kio(version, code, found, is_read_committed=is_read_committed)


@given(name=st.text(min_size=1, max_size=200), answers=st.lists(partition_answers, max_size=3))
def test_an_answer_by_topic_name(name: str, answers: list[PartitionAnswer]) -> None:
    ours = b"".join(write_answer(0, [(name, answers)], is_read_committed=False))
    assert ours == by_kio(12, 0, [(name, answers)], is_read_committed=False)


async def test_a_followers_request(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("a", (1, 2), (1, 2))
        await brokers.create("b", (1, 2))
        held = [brokers[2].partition(*each) for each in (("a", 0), ("a", 1), ("b", 0))]
        positions = {
            partition: FetchPosition(offset=at * 1_000_000_007, last_epoch=at - 1, leader_epoch=at)
            for at, partition in enumerate(held)
        }
        for version in range(REPLICA_STATE_FROM, SPOKEN[ApiKey.FETCH].highest + 1):
            ours = fetch_request(version, (2, 12), positions, dict.fromkeys(positions, 1 << 20))
            assert (
                codec.encode_request_body(ApiKey.FETCH, version, request_of(version, positions))
                == ours
            )
        with pytest.raises(ValueError, match="carries no broker epoch"):
            fetch_request(
                REPLICA_STATE_FROM - 1, (2, 12), positions, dict.fromkeys(positions, 1 << 20)
            )


def request_of(version: int, positions: Any) -> Any:
    schema = codec.request_schema(ApiKey.FETCH, version)
    of_topic, of_partition = (nested(schema, n) for n in ("FetchTopic", "FetchPartition"))
    by_topic: dict[UUID, list[Any]] = {}
    for partition, position in positions.items():
        asked = make(
            of_partition,
            partition=partition.key.number,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_epoch,
            log_start_offset=0,
            partition_max_bytes=1 << 20,
        )
        by_topic.setdefault(partition.key.topic_id, []).append(asked)
    return make(
        schema,
        max_wait=timedelta(milliseconds=REPLICA_FETCH_WAIT_MS_MAX),
        min_bytes=1,
        max_bytes=REPLICA_FETCH_ANSWER_BYTES_MAX,
        topics=tuple(
            make(of_topic, topic_id=topic_id, partitions=tuple(asked))
            for topic_id, asked in by_topic.items()
        ),
        forgotten_topics_data=(),
        replica_state=make(nested(schema, "ReplicaState"), replica_id=2, replica_epoch=12),
    )
