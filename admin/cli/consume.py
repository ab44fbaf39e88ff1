"""`metaquorum consume`: the records of a topic as lines."""

import sys
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from admin.cli.common import BadInput, Target, run, say, target, target_options
from admin.cli.lines import render
from admin.cli.topic_name import topic_name

if TYPE_CHECKING:
    from admin.data.reader import Reader


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
def command(topic: str, file: Path | None, **options: Any) -> None:
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
    stream = _open(file)
    try:
        count = run(_consume(whom, topic, stream, **form))
    except click.ClickException:
        # The first failure is what is told; a full disk fails the closing as well.
        if file is not None:
            with suppress(OSError):
                stream.close()
        raise
    say(f"{count} records were read from {topic}")


def _open(file: Path | None) -> IO[bytes]:
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
    from admin.data.reader import Reader

    separator = None if key_separator is None else key_separator.encode()
    count = 0
    async with Reader(whom.addresses, topic, timeout_ms=whom.timeout_ms) as reader:
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
    reader: "Reader", partition: int | None, from_beginning: bool, follow: bool
) -> tuple[Mapping[int, int], Mapping[int, int] | None]:
    """From where to where to read; no end means for ever."""
    from admin.data.reader import Position

    partitions = await reader.partitions() if partition is None else [partition]
    latest = await reader.offsets(Position.LATEST, partitions)
    if not from_beginning:
        return latest, None
    earliest = await reader.offsets(Position.EARLIEST, partitions)
    return earliest, None if follow else latest
