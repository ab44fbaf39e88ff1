"""Offsets of partitions: `topics get-offsets` (kafka-get-offsets.sh) and `topics delete-records`.

The brokers that lead the partitions are asked.
"""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    ID_MAX,
    Exit,
    Parsed,
    Target,
    WholeNumber,
    finish,
    output_option,
    read_file,
    show,
    with_target,
    yes_option,
)
from admin.cli.topic_patterns import check_found, find_topics
from admin.units import parse_time_ms

if TYPE_CHECKING:
    from admin.client.routed_admin import Failed
    from admin.model import PartitionId, TopicDescription

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
_SPECIAL: Final[Mapping[str, int]] = MappingProxyType(
    {"latest": -1, "earliest": -2, "max-timestamp": -3, "-1": -1, "-2": -2, "-3": -3}
)


def _time(text: str) -> int:
    if text in _SPECIAL:
        return _SPECIAL[text]
    try:
        return parse_time_ms(text)
    except ValueError as error:
        raise ValueError(f"{error}, or latest, earliest, max-timestamp") from None


TIME: Final = Parsed("time", _time)


@click.command("get-offsets")
@click.argument("topics", nargs=-1)
@click.option("--topic", "named", multiple=True, metavar="TOPIC", help="Same as an argument.")
@click.option(
    "--partition", "numbers", type=WholeNumber(0, ID_MAX), multiple=True, help="Only this one."
)
@click.option(
    "--time",
    "time",
    type=TIME,
    default="latest",
    show_default=True,
    help="latest, earliest, max-timestamp, or the first record of a time or later: "
    "2026-01-01T00:00:00Z, or milliseconds since 1970.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Without __consumer_offsets etc.")
@with_target
@output_option
async def get_offsets(
    target: Target,
    topics: Sequence[str],
    named: Sequence[str],
    numbers: Sequence[int],
    time: int,
    exclude_internal_topics: bool,
    output: str,
) -> Exit:
    """Print offsets of TOPICS, or of all topics, as topic:partition:offset.

    TOPICS may be glob patterns. The offset is empty where no record is as late as --time.
    """
    servers = target.brokers("offsets are asked of brokers: give --bootstrap-server")
    from admin.client.routed_admin import Failed, RoutedAdmin

    async with target.client() as client:
        wanted = (*topics, *named)
        described = (await find_topics(client, wanted)).value
        check_found(described, wanted)
    hidden = INTERNAL_TOPICS if exclude_internal_topics else frozenset[str]()
    asked = _partitions({n: each for n, each in described.items() if n not in hidden}, numbers)
    admin = RoutedAdmin(servers, timeout_ms=target.timeout_ms, config=target.config)
    found = await admin.list_offsets(asked, time)
    known = {id: each for id, each in found.items() if not isinstance(each, Failed)}
    none = "" if found else "There are no topics."
    show(dict(sorted(known.items())), output, _lines, _offsets_data, none=none)
    return finish(errors=_failures(found))


def _partitions(
    topics: "Mapping[str, TopicDescription]", numbers: Sequence[int]
) -> "list[PartitionId]":
    """The partitions of these numbers, or all, of topics."""
    from admin.model import PartitionId

    ids = (
        PartitionId(n, each.partition) for n, topic in topics.items() for each in topic.partitions
    )
    found = [each for each in ids if not numbers or each.partition in numbers]
    if absent := sorted({*numbers} - {each.partition for each in found}):
        raise click.ClickException(f"no topic has partition {', '.join(map(str, absent))}")
    return found


def _lines(offsets: "Mapping[PartitionId, int | None]") -> str:
    return "\n".join(
        f"{id.topic}:{id.partition}:{'' if offset is None else offset}"
        for id, offset in offsets.items()
    )


def _offsets_data(offsets: "Mapping[PartitionId, int | None]") -> dict[str, Any]:
    return {"partitions": [{**id._asdict(), "offset": each} for id, each in offsets.items()]}


def _failures(found: "Mapping[PartitionId, int | Failed | None]") -> Iterator[str]:
    from admin.client.routed_admin import Failed

    for id, each in sorted(found.items(), key=lambda item: item[0]):
        if isinstance(each, Failed):
            yield f"Error: {id}: {each.reason}"


@click.command("delete-records")
@click.option(
    "--offset-json-file",
    "file",
    type=click.Path(path_type=Path),
    required=True,
    help="The first offsets to keep: {version: 1, partitions: [{topic, partition, offset}]}; an "
    "offset of -1 keeps nothing; - for stdin.",
)
@yes_option
@with_target
@output_option
def delete_records(target: Target, file: Path, yes: bool, output: str) -> Coroutine[Any, Any, Exit]:
    """Delete the records of partitions before given offsets.

    Kafka's brokers do so; the embedded brokers refuse it.
    """
    servers = target.brokers("records are deleted by brokers: give --bootstrap-server")
    from admin.http.limits import PLAN_BYTES_MAX
    from admin.plan_file import parse_offsets

    offsets = read_file(file, PLAN_BYTES_MAX, parse_offsets)
    target.confirm(f"Delete records of {len(offsets)} partition(s)?", yes=yes)

    async def work() -> Exit:
        from admin.client.kafka_only import KafkaOnly, check_offered
        from admin.client.routed_admin import Failed, RoutedAdmin

        async with target.client() as client:
            await check_offered(client.carry_out, KafkaOnly.DELETE_RECORDS)
        admin = RoutedAdmin(servers, timeout_ms=target.timeout_ms, config=target.config)
        found = await admin.delete_records(offsets)
        done = {id: each for id, each in sorted(found.items()) if not isinstance(each, Failed)}
        show(done, output, _deleted, _deleted_data)
        return finish(errors=_failures(found))

    return work()


def _deleted(marks: "Mapping[PartitionId, int]") -> str:
    return "\n".join(f"partition: {id}\tlow_watermark: {each}" for id, each in marks.items())


def _deleted_data(marks: "Mapping[PartitionId, int]") -> dict[str, Any]:
    return {"partitions": [{**id._asdict(), "low_watermark": each} for id, each in marks.items()]}
