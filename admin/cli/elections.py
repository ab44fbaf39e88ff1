"""`metaquorum topics elect-leaders`: the options and sentences of kafka-leader-election.sh."""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    ID_MAX,
    Exit,
    Target,
    WholeNumber,
    finish,
    output_option,
    read_file,
    with_target,
    write,
    write_data,
    yes_option,
)

if TYPE_CHECKING:
    from admin.capabilities.moves import PartitionError

UNCLEAN: Final = "unclean"


@click.command("elect-leaders")
@click.option(
    "--election-type",
    type=click.Choice(["preferred", UNCLEAN], case_sensitive=False),
    help="The preferred leader, or for partitions without a leader any replica that is alive.  "
    "[required]",
)
@click.option("--all-topic-partitions", is_flag=True, help="All partitions that need it.")
@click.option("--topic", help="The topic of one partition.")
@click.option("--partition", type=WholeNumber(0, ID_MAX), help="The partition of --topic.")
@click.option(
    "--path-to-json-file",
    "file",
    type=click.Path(path_type=Path),
    help="The partitions: {partitions: [{topic, partition}]}; - for stdin.",
)
@yes_option
@with_target
@output_option
def elect_leaders(
    target: Target,
    election_type: str | None,
    all_topic_partitions: bool,
    topic: str | None,
    partition: int | None,
    file: Path | None,
    yes: bool,
    output: str,
) -> Coroutine[Any, Any, Exit]:
    """Elect the preferred leaders of partitions, or leaders for partitions that have none.

    An unclean election may lose records: it takes a replica that is not in sync.
    """
    wanted = [] if election_type else ["--election-type preferred or unclean"]
    if (topic is not None) + all_topic_partitions + (file is not None) != 1:
        wanted.append(
            "one of --topic with --partition, --all-topic-partitions and --path-to-json-file"
        )
    if wanted or election_type is None:
        raise click.UsageError(f"give {', and '.join(wanted)}")
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition name one partition together")
    partitions: Mapping[str, Sequence[int]] | None = None
    if topic is not None and partition is not None:
        partitions = {topic: [partition]}
    elif file is not None:
        partitions = _partitions_in(file)
    if election_type == UNCLEAN:
        question = "Elect replicas that are not in sync, and lose the records that they lack?"
        target.confirm(question, yes=yes)
    return _elect(target, election_type, partitions, output)


def _partitions_in(file: Path) -> Mapping[str, Sequence[int]]:
    from admin.http.limits import PLAN_BYTES_MAX
    from admin.plan_file import parse_partitions

    found = sorted(read_file(file, PLAN_BYTES_MAX, parse_partitions))
    return {
        topic: [each.partition for each in each_topic]
        for topic, each_topic in groupby(found, key=lambda each: each.topic)
    }


async def _elect(
    target: Target, election_type: str, partitions: Mapping[str, Sequence[int]] | None, output: str
) -> Exit:
    from admin.capabilities.schema import json_of
    from admin.client import elections
    from statemachine.commands import ElectionType

    election = ElectionType[election_type.upper()]
    async with target.client() as client:
        call = elections.elect_leaders(election, partitions)
        found = elections.read_elected(await client.carry_out(call))
    if output == "table":
        for line in elected(election_type, found):
            write(line)
    else:
        data = {"election_type": election_type, "partitions": [json_of(each) for each in found]}
        write_data(data, output)
    return finish(errors=not_elected(election_type, found))


def elected(election_type: str, found: "Sequence[PartitionError]") -> Iterator[str]:
    """The sentences of Kafka's script about the partitions that have such a leader now."""
    from quorum.protocol.errors import ErrorCode

    done = [str(each.id) for each in found if not each.kafka_error_code]
    needless = [
        str(each.id) for each in found if each.kafka_error_code == ErrorCode.ELECTION_NOT_NEEDED
    ]
    if done:
        kind = election_type.upper()
        names = ", ".join(done)
        yield f"Successfully completed leader election ({kind}) for partitions {names}"
    if needless:
        yield f"Valid replica already elected for partitions {', '.join(needless)}"
    if not found:
        yield "No partition needs an election."


def not_elected(election_type: str, found: "Sequence[PartitionError]") -> Iterator[str]:
    """The errors of the other partitions."""
    from quorum.protocol.errors import ErrorCode

    for each in found:
        if each.kafka_error_code not in (0, ErrorCode.ELECTION_NOT_NEEDED):
            reason = each.message or each.kafka_error
            kind = election_type.upper()
            yield f"Error completing leader election ({kind}) for partition: {each.id}: {reason}"
