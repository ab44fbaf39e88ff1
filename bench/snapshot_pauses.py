"""The pauses that a snapshot of a large image causes, slice by slice, and its cost.

    python -m bench.snapshot_pauses [PARTITIONS] [TOPICS]

The image, the snapshot, the batches and the files are the product's. A slice is the work of
`quorum.snapshotting` between two turns of other work. The benchmark writes to the disk inline, so
it reports that time separately. Slices are measured in processor time, so other load on the machine
is not part of them.
"""

import gc
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import click

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.checkpoint import checkpoint_name, read_checkpoint
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.records.control import SnapshotBatches
from quorum.snapshotting import WRITE_BYTES
from statemachine.image.image import Image
from statemachine.image.snapshot import Snapshot, begin, load
from statemachine.records import kafka_records
from statemachine.replay import replay

PARTITIONS: Final = 2_000_000
TOPICS: Final = 20_000
BROKERS: Final = 100
LEVEL: Final = 29
CHANGES_EVERY_SLICE: Final = 20
"""Partitions that change between two slices, so that their former state has to be kept."""


def an_image(partitions: int, topics: int) -> Image:
    """An image with partitions of three replicas, evenly divided among the topics."""
    image = Image()
    replay(image, kafka_records.FeatureLevel(name="metadata.version", level=LEVEL), 0)
    directories = [UUID(int=0xD17 << 100 | broker) for broker in range(BROKERS)]
    for topic in range(topics):
        topic_id = UUID(int=(topic + 1) << 64)
        replay(image, kafka_records.Topic(name=f"t-{topic}", topic_id=topic_id), image.end_offset)
        for number in range(partitions // topics):
            replicas = tuple((topic + number + place) % BROKERS for place in range(3))
            record = kafka_records.Partition(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(directories[broker] for broker in replicas),
            )
            replay(image, record, image.end_offset)
    return image


def changes(image: Image) -> Iterator[None]:
    """Remove a replica from the ISR of one partition after the other; later add it again."""
    while True:
        for topic_id, topic in image.topics.items():
            for number, partition in list(topic.existing()):
                isr = partition.replicas[: 2 + len(partition.isr) % 2]
                change = kafka_records.PartitionChange(
                    partition_id=number, topic_id=topic_id, isr=isr
                )
                replay(image, change, image.end_offset)
                yield


def sliced(snapshot: Snapshot, batches: SnapshotBatches, buffer: bytearray) -> bool:
    """Do the work of one slice; return True if there is more."""
    group = next(snapshot, None)
    if group is None:
        buffer += batches.closing()
        return False
    if group:
        buffer += batches.data(group)
    return True


def written(image: Image, folder: Path) -> tuple[OffsetAndEpoch, list[float], float, float]:
    """Take a snapshot while the image changes.

    Return its id, then the seconds of each slice, of the start, and of the disk.
    """
    store, changing = FileSnapshotStore(folder), changes(image)
    id_ = OffsetAndEpoch(Epoch(1), Offset(image.end_offset))
    begun = time.thread_time()
    snapshot = begin(image, image.end_offset)
    assert snapshot is not None
    batches = SnapshotBatches(id_.epoch, 1)
    buffer = batches.opening(None, None)
    beginning = time.thread_time() - begun
    slices, disk, position, more = [], 0.0, 0, True
    while more:
        at = time.thread_time()
        more = sliced(snapshot, batches, buffer)
        slices.append(time.thread_time() - at)
        if len(buffer) >= WRITE_BYTES or not more:
            at = time.perf_counter()
            store.write(id_, buffer, position)
            disk += time.perf_counter() - at
            position, buffer = position + len(buffer), bytearray()
        for _ in range(CHANGES_EVERY_SLICE):
            next(changing)
    store.finish(id_)
    return id_, slices, beginning, disk


@click.command()
@click.argument("partitions", type=click.IntRange(min=1), default=PARTITIONS)
@click.argument("topics", type=click.IntRange(min=1), default=TOPICS)
def main(partitions: int, topics: int) -> None:
    """Measure the pauses of a snapshot of PARTITIONS partitions in TOPICS topics."""
    at = time.perf_counter()
    image = an_image(partitions, topics)
    click.echo(
        f"{partitions} partitions in {topics} topics: replayed in {time.perf_counter() - at:.1f} s"
    )
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as name:
        id_, slices, beginning, disk = written(image, Path(name))
        slices.sort()
        path = Path(name) / checkpoint_name(id_)
        median, p99 = slices[len(slices) // 2], slices[len(slices) * 99 // 100]
        click.echo(
            f"in processor time: started in {beginning * 1e3:.1f} ms; {len(slices)} slices: median"
            f" {median * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, longest {slices[-1] * 1e3:.2f} ms,"
            f" total {sum(slices):.1f} s; disk {disk:.1f} s;"
            f" {path.stat().st_size / 1e6:.0f} MB"
        )
        del image
        at = time.thread_time()
        checkpoint = read_checkpoint(path)
        checked = time.thread_time()
        again = load(checkpoint.records(), id_.offset)
        click.echo(
            f"in processor time: checked in {checked - at:.1f} s,"
            f" loaded in {time.thread_time() - checked:.1f} s"
        )
        assert again.end_offset == id_.offset
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    click.echo(f"peak memory: {peak_kib / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
