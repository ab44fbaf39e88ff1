"""`metaquorum produce` and `metaquorum consume`: records as lines of text.

A line is one record; its newline is not part of it. With a separator, the text before the first
one is the key. Headers are shown as Kafka's console consumer shows them, before the key and a tab.
"""

import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Final

import click

from admin.cli.options import (
    NAME_VALUE,
    BadInput,
    Parsed,
    Target,
    WholeNumber,
    say,
    topic_name,
    until_interrupted,
    with_target,
)
from admin.cli.start_offsets import Kind, StartOffset, offset_in, parse_start_offset

if TYPE_CHECKING:
    from asyncio import Future

    from admin.client.consumer import Consumer, ReadRecord
    from admin.client.producer import Producer, Sent
    from quorum.transport.address import Address

Headers = Sequence[tuple[str, bytes | None]]

LINE_BYTES_MAX: Final = 1024 * 1024
ESCAPES: Final[Mapping[str, str]] = MappingProxyType({r"\t": "\t", r"\n": "\n", r"\\": "\\"})
"""What a separator may have in place of characters that shells make hard to type."""


def separator_bytes(text: str) -> bytes:
    """Return the bytes of a separator; its escapes stand for their characters."""
    return re.sub(r"\\[tn\\]", lambda found: ESCAPES[found[0]], text).encode()


SEPARATOR: Final = Parsed("text", separator_bytes)
START_OFFSET: Final = Parsed("offset", parse_start_offset)
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
NO_HEADERS: Final = b"NO_HEADERS"
"""In the words of Kafka's console consumer."""


class LineSplitter:
    """Splits a stream of bytes, fed piece by piece, into lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._number = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Return the lines that `data` completes; raises `ValueError` if one is too long."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield self._checked(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self._checked(self._rest)

    def end(self) -> Iterator[bytes]:
        """Return the last line of a stream that ended without a newline."""
        if self._rest:
            yield from self.feed(b"\n")

    def _checked(self, line: bytes) -> bytes:
        self._number += 1
        if len(line) > LINE_BYTES_MAX:
            raise ValueError(
                f"line {self._number} has more than {LINE_BYTES_MAX} bytes, the limit of a record"
            )
        return line.removesuffix(b"\r")


def parse(line: bytes, key_separator: bytes | None) -> tuple[bytes | None, bytes]:
    """Return the key and value of a line; raises `ValueError` if the separator is missing."""
    if key_separator is None:
        return None, line
    key, separator, value = line.partition(key_separator)
    if not separator:
        shown = line[:40].decode(errors="replace")
        raise ValueError(f"the line {shown!r} has no {key_separator.decode()!r} after its key")
    return key, value


def render(
    key: bytes | None,
    value: bytes | None,
    key_separator: bytes | None,
    headers: Headers | None = None,
) -> bytes:
    """Return the line of a record with its newline; a missing key or value is empty.

    Headers, if they are wanted, come first, as `name:value,name:value` and a tab.
    """
    opening = b"" if key_separator is None else (key or b"") + key_separator
    if headers is not None:
        shown = b",".join(name.encode() + b":" + (content or b"") for name, content in headers)
        opening = (shown or NO_HEADERS) + b"\t" + opening
    return opening + (value or b"") + b"\n"


READ_BYTES: Final = 256 * 1024


@click.command()
@topic_name
@click.option(
    "--file",
    type=click.File("rb", lazy=False),
    default="-",
    help="Read this file instead of stdin.",
)
@click.option("--raw", is_flag=True, help="The whole input is one record.")
@click.option(
    "--key-separator",
    type=SEPARATOR,
    help="The text between key and value in each line; \\t is a tab.",
)
@click.option("--partition", type=WholeNumber(0), help="Write to this partition only.")
@click.option(
    "--header", "headers", type=NAME_VALUE, multiple=True, help="A header of every record."
)
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default=COMPRESSIONS[0],
    show_default=True,
    help="The compression of the batches.",
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1"]),
    default="all",
    show_default=True,
    help="The replicas that acknowledge a record: all in sync, or the leader.",
)
@with_target
async def produce(
    target: Target,
    topic: str,
    file: BufferedReader,
    raw: bool,
    key_separator: bytes | None,
    partition: int | None,
    headers: Sequence[tuple[str, str]],
    compression: str,
    acks: str,
) -> None:
    """Write the lines of stdin, or of a file, into TOPIC: each line is one record.

    Records with a key go to the partition that every Kafka client would choose; those without one
    go to all partitions in turn.
    """
    servers = target.brokers("records are written to brokers: give --bootstrap-server")
    if raw and key_separator is not None:
        raise click.UsageError("--raw cannot be combined with --key-separator")
    from admin.client.producer import Producer

    records = _whole(file) if raw else _lines(file, key_separator)
    async with Producer(
        servers,
        acks=acks,
        compression=compression,
        delivery_ms=target.timeout_ms,
        config=target.config,
    ) as producer:
        added = [(name, value.encode()) for name, value in headers]
        written = await _send_all(producer, topic, records, partition, added)
    parts = [f"{count} to partition {number}" for number, count in sorted(written.items())]
    say(
        f"{written.total()} records are written to {topic}: {', '.join(parts) or 'there were none'}"
    )


async def _send_all(
    producer: "Producer",
    topic: str,
    pieces: AsyncIterator[Sequence[tuple[bytes | None, bytes]]],
    partition: int | None,
    headers: Headers,
) -> "Counter[int]":
    """Send everything, and return how many records each partition has confirmed."""
    from admin.client.producer import ANY_PARTITION
    from quorum.clocks import wall_ms
    from quorum.records.encode import ClientRecord

    number = ANY_PARTITION if partition is None else partition
    await producer.check(topic, number)
    written: Counter[int] = Counter()

    def count(sent: "Future[Sent]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            written.update(position.partition for position in sent.result())

    async for piece in pieces:
        now_ms = wall_ms()
        if records := [ClientRecord(now_ms, key, value, headers) for key, value in piece]:
            sent = await producer.send(topic, number, records)
            sent.add_done_callback(count)
    await producer.flush()
    return written


async def _lines(
    stream: BufferedReader, separator: bytes | None
) -> AsyncIterator[Sequence[tuple[bytes | None, bytes]]]:
    """Yield the records of `stream` as they arrive; a wrong line ends the program."""
    from asyncio import to_thread

    splitter = LineSplitter()
    try:
        # Whatever is available, so that a slow pipe is passed on at once.
        while data := await to_thread(stream.read1, READ_BYTES):
            yield [parse(line, separator) for line in splitter.feed(data)]
        yield [parse(line, separator) for line in splitter.end()]
    except ValueError as error:
        raise click.ClickException(str(error)) from None


async def _whole(stream: IO[bytes]) -> AsyncIterator[Sequence[tuple[None, bytes]]]:
    from asyncio import to_thread

    data = await to_thread(stream.read, LINE_BYTES_MAX + 1)
    if len(data) > LINE_BYTES_MAX:
        raise click.ClickException(f"the input has more than {LINE_BYTES_MAX} bytes")
    yield [(None, data)]


def _checked_group(ctx: click.Context, param: click.Parameter, group: str | None) -> str | None:
    if group == "":
        raise click.BadParameter("it is empty", ctx, param)
    return group


@click.command()
@topic_name
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the oldest records, and stop at the end."
)
@click.option(
    "--offset",
    type=START_OFFSET,
    help="Begin with: earliest, latest, an offset, -N for the last N records of each partition, or "
    "s@TIME (2026-01-01T00:00:00Z, or milliseconds since 1970); and stop at the end.",
)
@click.option(
    "--follow", is_flag=True, help="With --from-beginning or --offset: wait for new records."
)
@click.option(
    "--group",
    callback=_checked_group,
    help="Read as a member of this consumer group and commit; --from-beginning is for partitions "
    "without a committed offset.",
)
@click.option("--max-records", type=WholeNumber(1), help="Stop after so many records.")
@click.option("--partition", type=WholeNumber(0), help="Read this partition only.")
@click.option(
    "--key-separator",
    type=SEPARATOR,
    help="Print the key, and this text, before the value; \\t is a tab.",
)
@click.option(
    "--print-headers", is_flag=True, help="Print the headers, and a tab, before the record."
)
@click.option("--raw", is_flag=True, help="Print the values and nothing between them.")
@click.option("--file", type=click.Path(path_type=Path), help="Write this file instead of stdout.")
@with_target
async def consume(
    target: Target,
    topic: str,
    from_beginning: bool,
    offset: StartOffset | None,
    follow: bool,
    group: str | None,
    max_records: int | None,
    partition: int | None,
    key_separator: bytes | None,
    print_headers: bool,
    raw: bool,
    file: Path | None,
) -> None:
    """Print the records of TOPIC, each in a line.

    Without --from-beginning or --offset, print new records until interrupted. With --group, begin
    where the group stands.
    """
    servers = target.brokers("records are read from brokers: give --bootstrap-server")
    if raw and (key_separator is not None or print_headers):
        other = "--print-headers" if print_headers else "--key-separator"
        raise click.UsageError(f"--raw cannot be combined with {other}")
    start = _start(from_beginning, offset)
    to_end = start.kind is not Kind.LATEST and not follow
    if group is None:
        chunks = _from_partitions(target, servers, topic, partition, start, max_records, to_end)
    else:
        if partition is not None or offset is not None:
            other = "--offset" if partition is None else "--partition"
            raise click.UsageError(f"--group cannot be combined with {other}")
        chunks = _from_group(target, servers, topic, group, from_beginning, max_records, to_end)
    count = 0
    is_endless = not to_end and max_records is None
    with _output(file) as out, until_interrupted() if is_endless else nullcontext():
        async with aclosing(chunks):
            async for records in chunks:
                for each in records:
                    headers = each.headers if print_headers else None
                    line = render(each.key, each.value, key_separator, headers)
                    out.write(each.value or b"" if raw else line)
                out.flush()
                count += len(records)
    say(f"{count} records were read from {topic}")


def _start(from_beginning: bool, offset: StartOffset | None) -> StartOffset:
    """The offset to begin with; a usage error if it is given twice."""
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning is --offset earliest: give one of them")
    return offset or StartOffset(Kind.EARLIEST if from_beginning else Kind.LATEST)


async def _from_partitions(
    target: Target,
    servers: "Sequence[Address]",
    topic: str,
    partition: int | None,
    start: StartOffset,
    records_max: int | None,
    to_end: bool,
) -> AsyncGenerator["Sequence[ReadRecord]", None]:
    from admin.client.consumer import Consumer

    reading = Consumer(servers, topic, timeout_ms=target.timeout_ms, config=target.config)
    async with reading as reader:
        begin, end = await _span(reader, partition, start, to_end=to_end)
        left = records_max
        async with aclosing(reader.read(begin, end)) as chunks:
            async for chunk in chunks:
                records = chunk[:left]
                yield records
                left = None if left is None else left - len(records)
                if left == 0:
                    return


async def _from_group(
    target: Target,
    servers: "Sequence[Address]",
    topic: str,
    group: str,
    from_beginning: bool,
    records_max: int | None,
    to_end: bool,
) -> AsyncGenerator["Sequence[ReadRecord]", None]:
    from admin.client.group_reader import GroupReader

    member = GroupReader(
        servers,
        topic,
        group,
        from_beginning=from_beginning,
        timeout_ms=target.timeout_ms,
        config=target.config,
    )
    async with member as reader, aclosing(reader.read(records_max, to_end=to_end)) as chunks:
        async for records in chunks:
            yield records


@contextmanager
def _output(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None:
        yield sys.stdout.buffer
        return
    try:
        out = file.open("wb")
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}") from None
    with out:
        yield out


async def _span(
    reader: "Consumer", partition: int | None, start: StartOffset, *, to_end: bool
) -> tuple[Mapping[int, int], Mapping[int, int] | None]:
    """Return the offsets to read from and to; no end means for ever."""
    spans = await reader.spans(None if partition is None else [partition])
    latest = {number: span.latest for number, span in spans.items()}
    end = latest if to_end else None
    if start.kind is Kind.LATEST:
        say(f"waiting for new records of {reader.topic}; Ctrl-C ends")
    if start.kind is Kind.TIME:
        found = {number: await reader.offset_at(number, start.number) for number in spans}
        return {n: latest[n] if offset is None else offset for n, offset in found.items()}, end
    begin = {number: offset_in(start, *span) for number, span in spans.items()}
    if start.kind is Kind.OFFSET:
        for number, (earliest, last) in spans.items():
            if begin[number] != start.number:
                held = f"holds offsets from {earliest} up to {last}"
                say(f"{reader.topic}-{number} {held}: reading begins at {begin[number]}")
    return begin, end
