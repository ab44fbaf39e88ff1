"""An image loaded in strides equals the image of the whole log."""

import random
from collections.abc import Sequence
from uuid import UUID

import pytest

from quorum.core.vocabulary import Offset
from quorum.metadata_loader import STRIDE_BYTES, MetadataLoader
from quorum.ports import LogFailure
from quorum.records.encode import encode as batch
from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import LOADED_AT_ONCE, Loading, begin
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.replay import replay
from tests.quorum.driver.test_committed_records import Log
from tests.statemachine.support.reference_checks import contents, indexed, scanned

TOPIC = UUID(int=7)
PARTITIONS = 50


def loader() -> MetadataLoader[Image]:
    return MetadataLoader(Image(), replay=replay_values, load_snapshot=Loading)


def log_of(count: int, *, seed: int) -> tuple[Log, list[kafka_records.Record]]:
    """A log of so many changes of ISRs, in batches of any size, and its records."""
    rng = random.Random(seed)
    written: list[kafka_records.Record] = [kafka_records.Topic(name="a", topic_id=TOPIC)]
    for number in range(PARTITIONS):
        written.append(
            kafka_records.Partition(
                partition_id=number,
                topic_id=TOPIC,
                replicas=(1, 2, 3),
                isr=(1, 2, 3),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    while len(written) < count:
        members = tuple(rng.sample((2, 3), rng.randrange(3)))
        number = rng.randrange(PARTITIONS)
        written.append(
            kafka_records.PartitionChange(partition_id=number, topic_id=TOPIC, isr=(1, *members))
        )
    log, at = Log(), 0
    while at < count:
        size = rng.randrange(1, 400)
        log.put(batch([encode(each, 29) for each in written[at : at + size]], timestamp_ms=5))
        at += size
    return log, written[: log.end.offset]


def image_of(written: Sequence[kafka_records.Record]) -> Image:
    image = Image()
    for offset, record in enumerate(written):
        replay(image, record, offset)
    return image


def snapshot_of(image: Image) -> list[bytes]:
    snapshot = begin(image, image.end_offset)
    assert snapshot is not None
    return [value for group in snapshot for value in group]


def test_a_long_log_takes_many_strides_and_gives_its_image() -> None:
    log, written = log_of(40_000, seed=1)
    replaying = loader()
    replaying.raise_to(log.end.offset)
    strides = 0
    while replaying.is_behind:
        assert not replaying.is_ready
        before = replaying.end
        replaying.go_on(log)
        assert before < replaying.end == replaying.image.end_offset
        strides += 1
    assert strides >= log.size_bytes // STRIDE_BYTES > 3
    assert replaying.is_ready
    assert contents(replaying.image) == contents(image_of(written))
    assert indexed(replaying.image) == scanned(replaying.image)


def test_a_snapshot_during_a_replay_replaces_it() -> None:
    log, written = log_of(30_000, seed=2)
    end = 20_000
    values = snapshot_of(image_of(written[:end]))
    extra = [
        kafka_records.Topic(name=str(each), topic_id=UUID(int=each)) for each in range(2_000, 5_000)
    ]
    values += [encode(each, 29) for each in extra]
    replaying = loader()
    replaying.raise_to(Offset(25_000))
    replaying.go_on(log)
    begun = replaying.end
    replaying.load(values, Offset(end))
    slices = 0
    while replaying.end == begun:
        # Half a snapshot is never seen.
        assert replaying.image.end_offset == begun
        replaying.go_on(log)
        slices += 1
    assert slices == len(values) // LOADED_AT_ONCE + 1
    assert replaying.end == end
    replaying.raise_to(log.end.offset)
    while replaying.is_behind:
        assert not replaying.is_ready
        replaying.go_on(log)
    assert replaying.is_ready
    expected = image_of(written)
    for each in extra:
        replay(expected, each, expected.end_offset - 1)
    assert contents(replaying.image)["topics"] == contents(expected)["topics"]
    assert replaying.image.end_offset == log.end.offset


def test_a_newer_snapshot_replaces_one_that_was_being_loaded() -> None:
    log, written = log_of(20_000, seed=3)
    old, new = (snapshot_of(image_of(written[:end])) for end in (5_000, 15_000))
    replaying = loader()
    replaying.load([*old, *(b"not a record" for _ in range(LOADED_AT_ONCE))][::-1], Offset(5_000))
    replaying.load(new, Offset(15_000))
    while replaying.is_behind:
        replaying.go_on(log)
    assert contents(replaying.image) == contents(image_of(written[:15_000]))


def test_it_is_ready_when_it_knows_what_is_committed_or_has_all_that_may_be() -> None:
    log, written = log_of(1_000, seed=4)
    snapshot = snapshot_of(image_of(written[:500]))
    for log_end, committed, ready in (
        (500, None, True),
        (1_000, None, False),
        (1_000, 500, True),
        (1_000, 600, True),
    ):
        replaying = loader()
        replaying.expect(Offset(log_end))
        replaying.load(snapshot, Offset(500))
        replaying.go_on(log)
        if committed is not None:
            # It may be said again that what is here already is committed.
            replaying.raise_to(Offset(committed))
            replaying.go_on(log)
            assert not replaying.is_behind
        assert replaying.is_ready is ready


def test_bytes_that_are_no_record_are_reported_with_their_offset() -> None:
    log, _ = log_of(1_000, seed=5)
    end = log.end.offset
    replaying = loader()
    replaying.raise_to(end)
    while replaying.is_behind:
        replaying.go_on(log)
    log.put(batch([b"\x01\x05"], timestamp_ms=5))
    replaying.raise_to(log.end.offset)
    with pytest.raises(LogFailure, match=rf"from offset {end} on cannot be read: .*Start the rel"):
        replaying.go_on(log)
    replaying.load([b"\x09"], Offset(2_000))
    with pytest.raises(LogFailure, match="snapshot that ends at offset 2000 cannot be read"):
        replaying.go_on(log)
