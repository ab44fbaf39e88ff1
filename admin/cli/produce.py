"""`metaquorum produce`: the lines of a file, or of a pipe, into a topic."""

import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from admin.cli.common import BadInput, Target, run, say, target, target_options
from admin.cli.lines import LINE_BYTES_MAX, KeyValue, LineSplitter, parse
from admin.cli.topic_name import topic_name

if TYPE_CHECKING:
    from asyncio import Future

    from admin.data.producer import Producer, Sent

READ_BYTES: Final = 256 * 1024
GROUP_RECORDS: Final = 500
"""Records without a key that go to one partition before the next one gets some."""


@click.command()
@topic_name
@click.option("--file", type=click.Path(path_type=Path), help="Read this instead of stdin.")
@click.option("--raw", is_flag=True, help="The whole input is one record.")
@click.option("--key-separator", help="What stands between key and value in each line.")
@click.option("--partition", type=click.IntRange(0), help="Write to this partition alone.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1"]),
    default="all",
    show_default=True,
    help="Who must have a record: all replicas in sync, or the leader.",
)
@target_options
def command(topic: str, file: Path | None, acks: str, **options: Any) -> None:
    """Write the lines of stdin, or of a file, into TOPIC: each line is one record.

    Records with a key go to the partition that every Kafka client would choose.
    """
    form = {name: options.pop(name) for name in ("raw", "key_separator", "partition")}
    whom = target(**options)
    if whom.is_controller:
        raise click.UsageError("records are written to brokers: give --bootstrap-server")
    if form["raw"] and form["key_separator"] is not None:
        raise click.UsageError("--raw has no lines, and so no --key-separator")
    stream = _open(file)
    try:
        written = run(_produce(whom, topic, stream, acks, **form))
    finally:
        if file is not None:
            stream.close()
    say(f"{sum(written.values())} records are written to {topic}: {_by_partition(written)}")


def _open(file: Path | None) -> IO[bytes]:
    if file is None:
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None


def _by_partition(written: "Counter[int]") -> str:
    parts = [f"{written[partition]} to partition {partition}" for partition in sorted(written)]
    return ", ".join(parts) or "there were none"


async def _produce(
    whom: Target,
    topic: str,
    stream: IO[bytes],
    acks: str,
    *,
    raw: bool,
    key_separator: str | None,
    partition: int | None,
) -> "Counter[int]":
    """Write everything, and return how many records each partition has confirmed."""
    from admin.data.producer import Acks, Producer

    separator = None if key_separator is None else key_separator.encode()
    groups = _whole(stream) if raw else _lines(stream, separator)
    chosen = Acks.ALL if acks == "all" else Acks.LEADER
    async with Producer(whom.addresses, acks=chosen, delivery_ms=whom.timeout_ms) as producer:
        return await _send_all(producer, topic, groups, partition)


async def _send_all(
    producer: "Producer",
    topic: str,
    groups: AsyncIterator[Sequence[KeyValue]],
    partition: int | None,
) -> "Counter[int]":
    from quorum.clocks import wall_ms
    from quorum.records.encode import ClientRecord

    partitions = await producer.partitions(topic)
    written: Counter[int] = Counter()

    def note(count: int, sent: "Future[Sent]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            written[sent.result().id.partition] += count

    turns = itertools.cycle(range(partitions))
    async for group in groups:
        parts: dict[int, list[ClientRecord]] = {}
        turn = next(turns)
        now_ms = wall_ms()
        for key, value in group:
            number = _partition(key, partition, partitions, turn)
            parts.setdefault(number, []).append(ClientRecord(now_ms, key, value))
        for number, records in parts.items():
            sent = await producer.send(topic, number, records)
            sent.add_done_callback(partial(note, len(records)))
    await producer.flush()
    return written


def _partition(key: bytes | None, fixed: int | None, partitions: int, turn: int) -> int:
    from admin.data.partitioner import partition_of

    if fixed is not None:
        return fixed
    return turn if key is None else partition_of(key, partitions)


async def _lines(stream: IO[bytes], separator: bytes | None) -> AsyncIterator[Sequence[KeyValue]]:
    """The lines of `stream` as they arrive, in groups; a wrong line ends the program."""
    from asyncio import to_thread

    splitter = LineSplitter()
    try:
        while data := await to_thread(_read, stream):
            records = [parse(line, separator) for line in splitter.feed(data)]
            for first in range(0, len(records), GROUP_RECORDS):
                yield records[first : first + GROUP_RECORDS]
        if last := [parse(line, separator) for line in splitter.end()]:
            yield last
    except ValueError as error:
        raise click.ClickException(str(error)) from None


async def _whole(stream: IO[bytes]) -> AsyncIterator[Sequence[KeyValue]]:
    from asyncio import to_thread

    data = await to_thread(stream.read, LINE_BYTES_MAX + 1)
    if len(data) > LINE_BYTES_MAX:
        raise click.ClickException(f"the input has more than {LINE_BYTES_MAX} bytes")
    yield [KeyValue(None, data)]


def _read(stream: IO[bytes]) -> bytes:
    """What is there, without waiting for more: a pipe that is slow is passed on at once."""
    read1 = getattr(stream, "read1", stream.read)
    data: bytes = read1(READ_BYTES)
    return data
