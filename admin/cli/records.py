"""Records as lines of text: out of a stream as bytes arrive, and back into one.

A line is one record; its newline is not part of it. With a separator, what stands before the
first one is the key. Nothing here waits or opens a file.
"""

import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import click

from admin.cli.options import BadInput, Target, run, say, target, target_options, topic_name

if TYPE_CHECKING:
    from asyncio import Future

    from admin.client.consumer import Consumer
    from admin.client.producer import Producer, Sent


LINE_BYTES_MAX: Final = 1024 * 1024


class LineTooLong(ValueError):
    """A line has more bytes than a record may have."""


class KeyValue(NamedTuple):
    """A record as it stands in a line. A key of None is none; it is not an empty one."""

    key: bytes | None
    value: bytes


class LineSplitter:
    """Takes bytes as they come and gives whole lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._number = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes; raises `LineTooLong`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield self._checked(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self._checked(self._rest)

    def end(self) -> Iterator[bytes]:
        """The last line, when the stream has ended without a newline."""
        if self._rest:
            yield self._checked(self._rest)
            self._rest = b""

    def _checked(self, line: bytes) -> bytes:
        self._number += 1
        if len(line) > LINE_BYTES_MAX:
            raise LineTooLong(
                f"line {self._number} has more than {LINE_BYTES_MAX} bytes; a record has not"
            )
        return line.removesuffix(b"\r")


def parse(line: bytes, key_separator: bytes | None) -> KeyValue:
    """The record in `line`; `ValueError` for one without the separator that was asked for."""
    if key_separator is None:
        return KeyValue(None, line)
    key, separator, value = line.partition(key_separator)
    if not separator:
        shown = line[:40].decode(errors="replace")
        raise ValueError(f"the line {shown!r} has no {key_separator.decode()!r} after its key")
    return KeyValue(key, value)


def render(key: bytes | None, value: bytes | None, key_separator: bytes | None) -> bytes:
    """A record as a line with its newline; a missing key or value is an empty one."""
    opening = b"" if key_separator is None else (key or b"") + key_separator
    return opening + (value or b"") + b"\n"


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
def produce(topic: str, file: Path | None, acks: str, **options: Any) -> None:
    """Write the lines of stdin, or of a file, into TOPIC: each line is one record.

    Records with a key go to the partition that every Kafka client would choose.
    """
    form = {name: options.pop(name) for name in ("raw", "key_separator", "partition")}
    whom = target(**options)
    if whom.is_controller:
        raise click.UsageError("records are written to brokers: give --bootstrap-server")
    if form["raw"] and form["key_separator"] is not None:
        raise click.UsageError("--raw has no lines, and so no --key-separator")
    stream = _open_input(file)
    try:
        written = run(_produce(whom, topic, stream, acks, **form))
    finally:
        if file is not None:
            stream.close()
    say(f"{sum(written.values())} records are written to {topic}: {_by_partition(written)}")


def _open_input(file: Path | None) -> IO[bytes]:
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
    from admin.client.producer import Acks, Producer

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
    from admin.client.producer import partition_of

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
    """Read the bytes that are available, so that a slow pipe is passed on at once."""
    read1 = getattr(stream, "read1", stream.read)
    data: bytes = read1(READ_BYTES)
    return data


@click.command()
@topic_name
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the oldest records, and stop at the end."
)
@click.option("--follow", is_flag=True, help="With --from-beginning: go on with new records.")
@click.option("--max-records", type=click.IntRange(1), help="Stop after so many.")
@click.option("--partition", type=click.IntRange(0), help="Read this partition alone.")
@click.option("--key-separator", help="Print the key, and this behind it, before the value.")
@click.option("--raw", is_flag=True, help="Print the values and nothing between them.")
@click.option("--file", type=click.Path(path_type=Path), help="Write this instead of stdout.")
@target_options
def consume(topic: str, file: Path | None, **options: Any) -> None:
    """Print the records of TOPIC, each in a line.

    Without --from-beginning: those that come from now on, until interrupted.
    """
    names = ("from_beginning", "follow", "max_records", "partition", "key_separator", "raw")
    form = {name: options.pop(name) for name in names}
    whom = target(**options)
    if whom.is_controller:
        raise click.UsageError("records are read from brokers: give --bootstrap-server")
    if form["raw"] and form["key_separator"] is not None:
        raise click.UsageError("--raw prints values alone, and so no --key-separator")
    stream = _open_output(file)
    try:
        count = run(_consume(whom, topic, stream, **form))
    except click.ClickException:
        # The first failure is what is told; a full disk fails the closing as well.
        if file is not None:
            with suppress(OSError):
                stream.close()
        raise
    say(f"{count} records were read from {topic}")


def _open_output(file: Path | None) -> IO[bytes]:
    if file is None:
        return sys.stdout.buffer
    try:
        return file.open("wb")
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}") from None


async def _consume(
    whom: Target,
    topic: str,
    out: IO[bytes],
    *,
    from_beginning: bool,
    follow: bool,
    max_records: int | None,
    partition: int | None,
    key_separator: str | None,
    raw: bool,
) -> int:
    """Print what there is to print, and return how many records it was."""
    from admin.client.consumer import Consumer

    separator = None if key_separator is None else key_separator.encode()
    count = 0
    async with Consumer(whom.addresses, topic, timeout_ms=whom.timeout_ms) as reader:
        start, end = await _span(reader, partition, from_beginning, follow)
        async with aclosing(reader.read(start, end)) as chunks:
            async for chunk in chunks:
                left = None if max_records is None else max_records - count
                records = chunk.records[:left]
                for record in records:
                    out.write(
                        record.value or b"" if raw else render(record.key, record.value, separator)
                    )
                out.flush()
                count += len(records)
                if count == max_records:
                    break
    if out is not sys.stdout.buffer:
        out.close()
    return count


async def _span(
    reader: "Consumer", partition: int | None, from_beginning: bool, follow: bool
) -> tuple[Mapping[int, int], Mapping[int, int] | None]:
    """From where to where to read; no end means for ever."""
    from admin.client.consumer import Position

    partitions = await reader.partitions() if partition is None else [partition]
    latest = await reader.offsets(Position.LATEST, partitions)
    if not from_beginning:
        return latest, None
    earliest = await reader.offsets(Position.EARLIEST, partitions)
    return earliest, None if follow else latest
