"""The cost of a very large cluster for a controller: memory, loading, pauses, one query.

    python -m bench.scale [--partitions N] [--brokers N] [--write docs/performance.md]

The benchmark writes a snapshot with partitions of three replicas, placed by the product without
racks. A process that has imported a controller then loads the snapshot, as after a restart, queries
the partitions in sync on several brokers, fences one broker (`bench.fencing`), and takes a snapshot
while partitions change (`bench.snapshot_pauses`). Memory is that of this process as Linux counts
it. Times are processor time, so other load on the machine is not part of them; files are read from
the page cache.
"""

import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

import click
import msgspec

from bench import machine
from bench.faults import RunFailed
from bench.fencing import fence
from bench.options import document_option, folder_option
from bench.report import Section
from bench.snapshot_pauses import LEVEL, written
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.checkpoint import checkpoint_name, read_checkpoint
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.metadata_loader import MetadataLoader
from quorum.records.control import SnapshotBatches
from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import GROUP_RECORDS_MAX, Loading
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.topics.placement import place
from statemachine.vocabulary import BrokerId

SECTION: Final = "scale"
PARTITIONS: Final = 2_000_000
BROKERS: Final = 1_000
TOPIC_PARTITIONS: Final = 100
REPLICATION_FACTOR: Final = 3
ASKED: Final = 100
"""The brokers that are queried."""
WRITE_BYTES: Final = 8 * 1024 * 1024
_DIRECTORY: Final = 0xD17 << 100


class Measured(msgspec.Struct, kw_only=True):
    """The results of the process that loaded the snapshot."""

    imported_mb: float
    """Memory before the load."""
    rss_mb: float
    peak_mb: float
    checked_s: float
    loaded_s: float
    """Time to load, without the preceding check of the file."""
    slice_ms: float
    """The longest pause of other work during the load."""
    pause_ms: float
    """The longest pause of other work during a snapshot."""
    snapshot_s: float
    isr_ms: float
    """Time of the query for the slowest broker."""
    isr_count: int
    """The number of its partitions."""
    fence_s: float
    """The cost of fencing one broker, until all its partitions have new leaders."""
    fence_stop_ms: float
    fence_held: int
    fence_led: int
    rss_after_mb: float
    """Memory after the snapshot, including the changes meanwhile."""


class Row(msgspec.Struct):
    """One line of the table."""

    what: str
    unit: str
    value: Callable[[Measured], float]
    must: float | None = None
    aim: float | None = None


ROWS: Final = (
    Row("memory of the process (RSS), loaded", "MB", lambda m: m.rss_mb, 400, 300),
    Row("... at its highest", "MB", lambda m: m.peak_mb),
    Row("... before, with everything imported", "MB", lambda m: m.imported_mb),
    Row("... after a snapshot", "MB", lambda m: m.rss_after_mb),
    Row("load: the file checked, then read", "s", lambda m: m.checked_s + m.loaded_s, 3, 1.5),
    Row("... of it, the check", "s", lambda m: m.checked_s),
    Row("... longest stop of everything else", "ms", lambda m: m.slice_ms),
    Row("longest stop while a snapshot is written", "ms", lambda m: m.pause_ms, 25, 10),
    Row("... the whole snapshot", "s", lambda m: m.snapshot_s),
    Row("all partitions with a broker in the ISR, the slowest", "ms", lambda m: m.isr_ms, 10, 2),
    Row("... how many these are", "", lambda m: m.isr_count),
    Row("a broker is fenced: until others lead what it led", "s", lambda m: m.fence_s, 0.5, 0.1),
    Row("... longest stop of everything else", "ms", lambda m: m.fence_stop_ms),
    Row("... partitions with a replica on it", "", lambda m: m.fence_held),
    Row("... of them, those that it led", "", lambda m: m.fence_led),
)


def table(measured: Measured) -> str:
    """The results beside their targets."""
    lines = [
        "| what | unit | measured | must | aim | met |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for row in ROWS:
        value = row.value(measured)
        lines.append(
            f"| {row.what} | {row.unit} | {_shown(value)} | {_shown(row.must)} "
            f"| {_shown(row.aim)} | {met(row, value)} |"
        )
    return "\n".join(lines)


def met(row: Row, value: float) -> str:
    """The better target that was met: `aim`, `must`, or neither."""
    if row.must is None or row.aim is None:
        return ""
    return "aim" if value <= row.aim else "must" if value <= row.must else "no"


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def a_cluster(partitions: int, brokers: int) -> Iterator[bytes]:
    """The records of a snapshot with this number of partitions and brokers."""
    yield encode(kafka_records.FeatureLevel(name="metadata.version", level=LEVEL), LEVEL)
    for broker_id in range(brokers):
        yield encode(_registration(broker_id), LEVEL)
    directories = [UUID(int=_DIRECTORY | each) for each in range(brokers)]
    registered = [_registration(each) for each in range(brokers)]
    for topic in range(-(-partitions // TOPIC_PARTITIONS)):
        # Like a random id: the upper half differs, and determines the start of the placement.
        topic_id = UUID(int=(topic + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128))
        yield encode(kafka_records.Topic(name=f"topic-{topic}", topic_id=topic_id), LEVEL)
        count = min(TOPIC_PARTITIONS, partitions - topic * TOPIC_PARTITIONS)
        placed = place(registered, topic_id, count, REPLICATION_FACTOR)
        for number, replicas in enumerate(placed):
            record = kafka_records.Partition(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=topic % 50,
                partition_epoch=topic + number,
                directories=tuple([directories[each] for each in replicas]),
            )
            yield encode(record, LEVEL)


def _registration(broker_id: int) -> kafka_records.RegisterBroker:
    return kafka_records.RegisterBroker(
        broker_id=broker_id,
        incarnation_id=UUID(int=broker_id + 1),
        broker_epoch=broker_id,
        endpoints=(
            kafka_records.Endpoint(
                name="PLAINTEXT", host=f"host-{broker_id}", port=9092, security_protocol=0
            ),
        ),
        features=(),
        rack=None,
        fenced=False,
        log_dirs=(UUID(int=_DIRECTORY | broker_id),),
    )


def write_snapshot(values: Iterator[bytes], folder: Path) -> Path:
    """Write a snapshot of these records in the product's format."""
    store, id_ = FileSnapshotStore(folder), OffsetAndEpoch(Epoch(1), Offset(1 << 32))
    batches = SnapshotBatches(id_.epoch, 1)
    buffer, position = batches.opening(None, None), 0
    while group := list(islice(values, GROUP_RECORDS_MAX)):
        buffer += batches.data(group)
        if len(buffer) >= WRITE_BYTES:
            store.write(id_, buffer, position)
            position, buffer = position + len(buffer), bytearray()
    buffer += batches.closing()
    store.write(id_, buffer, position)
    store.finish(id_)
    return folder / checkpoint_name(id_)


def measured(path: Path) -> Measured:
    """Load the snapshot and make all measurements; runs in a new process."""
    __import__("admin.daemon")
    imported_mb = memory_mb("VmRSS")
    at = time.process_time()
    checkpoint = read_checkpoint(path)
    checked_s = time.process_time() - at
    image = Image()
    replaying, slices = (
        MetadataLoader(image, replay=replay_values, load_snapshot=Loading),
        list[float](),
    )
    replaying.load(checkpoint.records(), Offset(checkpoint.id.offset))
    while replaying.is_behind:
        at = time.process_time()
        replaying.go_on(_NoLog())
        slices.append(time.process_time() - at)
    rss_mb, peak_mb = memory_mb("VmRSS"), memory_mb("VmHWM")
    isr_ms, isr_count = _asked(image)
    fenced = fence(image, _largest(image))
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        _, pauses, beginning, _ = written(image, Path(folder))
    return Measured(
        imported_mb=imported_mb,
        rss_mb=rss_mb,
        peak_mb=peak_mb,
        checked_s=checked_s,
        loaded_s=sum(slices),
        slice_ms=max(slices) * 1e3,
        pause_ms=max(beginning, *pauses) * 1e3,
        snapshot_s=sum(pauses),
        isr_ms=isr_ms,
        isr_count=isr_count,
        fence_s=fenced.seconds,
        fence_stop_ms=fenced.stop_ms,
        fence_held=fenced.held,
        fence_led=fenced.led,
        rss_after_mb=memory_mb("VmRSS"),
    )


class _NoLog:
    """An empty log after the snapshot."""

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        raise AssertionError(f"there is nothing at {start}")


def _asked(image: Image) -> tuple[float, int]:
    """The time in ms of the slowest query, and the size of its result."""
    index, slowest = image.index, (0.0, 0)
    for broker_id in islice(sorted(index.isr_of), ASKED):
        at = time.process_time()
        found = index.partitions(index.isr_of[broker_id])
        slowest = max(slowest, ((time.process_time() - at) * 1e3, len(found)))
    return slowest


def _largest(image: Image) -> BrokerId:
    """The broker with the most partitions."""
    replicas_of = image.index.replicas_of
    return max(replicas_of, key=lambda broker_id: len(replicas_of[broker_id]))


def memory_mb(name: str) -> float:
    """A line of this process's status, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RunFailed(f"/proc/self/status has no {name}")


def run(partitions: int, brokers: int, folder: Path) -> Measured:
    """Write the snapshot, and measure it in a new process."""
    click.echo(f"writing a snapshot of {partitions:,} partitions on {brokers:,} brokers", err=True)
    path = write_snapshot(a_cluster(partitions, brokers), folder)
    click.echo(f"{path.stat().st_size / 1e6:,.0f} MB; loading it", err=True)
    argv = [sys.executable, "-m", "bench.scale", "--load", str(path)]
    found = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
    if found.returncode:
        raise RunFailed(f"{' '.join(argv)} ended with {found.returncode}")
    return msgspec.json.decode(found.stdout, type=Measured)


@click.command()
@click.option("--partitions", type=click.IntRange(1), default=PARTITIONS, show_default=True)
@click.option("--brokers", type=click.IntRange(3), default=BROKERS, show_default=True)
@click.option(
    "--load",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Only load this snapshot, and print the measurements as JSON.",
    hidden=True,
)
@folder_option
@document_option
def command(
    partitions: int, brokers: int, load: Path | None, folder: Path | None, document: Path | None
) -> None:
    """Measure the cost of a very large cluster for a controller."""
    if load is not None:
        click.echo(msgspec.json.encode(measured(load)))
        return
    try:
        machine.check()
        section = None if document is None else Section(document, SECTION)
        with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as place_:
            found = run(partitions, brokers, Path(place_))
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    click.echo(table(found))
    if section is not None:
        argv = f"python -m bench.scale --partitions {partitions} --brokers {brokers}"
        section.write_run(argv, machine.facts(), table(found))


if __name__ == "__main__":
    command()
