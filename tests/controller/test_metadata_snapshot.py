"""The metadata of a broker that begins with a snapshot."""

from uuid import UUID

from broker.metadata import MetadataFollower
from quorum.core.vocabulary import Epoch, Offset
from quorum.records.encode import encode as batch
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.records import codec, kafka_records

TOPIC = kafka_records.Topic(name="orders", topic_id=UUID(int=7))
OTHER = kafka_records.Topic(name="others", topic_id=UUID(int=8))

PARTITIONS = [
    codec.encode(
        kafka_records.Partition(
            partition_id=number,
            topic_id=TOPIC.topic_id,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        ),
        29,
    )
    for number in (0, 1)
]


class Nothing:
    """A log of which nothing more is committed."""

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        raise AssertionError(f"nothing was committed at {start}, up to {max_bytes} bytes")


class OneRecordAtATime:
    """A log that gives a batch of one record at each read."""

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        return bytes(batch([codec.encode(OTHER, 29)], timestamp_ms=5, base_offset=start))


def catch_up(follower: MetadataFollower) -> None:
    while follower.is_behind:
        follower.catch_up()


def test_the_delta_of_a_snapshot_is_published_before_anything_is_committed() -> None:
    follower = MetadataFollower(Image())
    follower.load_snapshot([codec.encode(TOPIC, 29)], Offset(40), Epoch(3))
    follower.read_from(Nothing())
    told: list[MetadataDelta] = []
    follower.on_change = told.append
    catch_up(follower)
    (touched,) = told
    assert isinstance(touched, MetadataDelta)
    assert follower.image.end_offset == 40
    assert follower.image.topic_named("orders") is not None


def test_a_later_snapshot_replaces_everything_and_tells_what_is_gone() -> None:
    """A broker that was away for so long that the controllers no longer have what it missed."""
    follower = MetadataFollower(Image())
    follower.load_snapshot([codec.encode(TOPIC, 29), *PARTITIONS], Offset(40), Epoch(3))
    follower.read_from(Nothing())
    told: list[MetadataDelta] = []
    follower.on_change = told.append
    catch_up(follower)
    (first,) = told
    assert set(first.partitions) == {(TOPIC.topic_id, 0), (TOPIC.topic_id, 1)}
    follower.load_snapshot([codec.encode(OTHER, 29)], Offset(90), Epoch(5))
    catch_up(follower)
    (_, second) = told
    assert list(second.deleted) == [TOPIC.topic_id]
    assert set(second.partitions) == set(first.partitions)
    assert follower.image.end_offset == 90
    assert list(follower.image.topic_ids) == ["others"]


def test_its_own_snapshot_ends_where_it_has_read_to() -> None:
    follower = MetadataFollower(Image())
    follower.read_from(OneRecordAtATime())
    assert follower.snapshot() is None, "nothing has been read yet"
    follower.load_snapshot([codec.encode(TOPIC, 29)], Offset(40), Epoch(3))
    assert follower.snapshot() is None, "nothing has been read yet"
    catch_up(follower)
    follower.on_commit(Offset(60))
    assert follower.is_behind
    taken = follower.snapshot()
    assert taken is not None
    assert taken.end == 41
    written = [value for group in taken.groups for value in group]
    assert written == [codec.encode(TOPIC, 29), codec.encode(OTHER, 29)]
