"""`metaquorum dump-log` and `metaquorum adopt`: metadata logs on disk."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from admin.cli.options import ADDRESSED_VOTERS, BadInput, Exit, command_line, say, write

if TYPE_CHECKING:
    from quorum.core.vocabulary import ReplicaId
    from quorum.transport.address import Address


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format; json is one object a line.",
)
@click.pass_context
def dump_log(ctx: click.Context, files: Sequence[Path], output: str) -> None:
    """Print the records of metadata log segments (.log) and checkpoints (.checkpoint), or when
    they were appended on that node (.appendtime).

    Kafka's files and ours have the same format. Names of types and fields are Kafka's; fields that
    a record's version lacks are omitted. A record that is not understood is printed as bytes; a
    damaged batch ends its file. Either makes the exit code 1.
    """
    for file in files:
        if not file.is_file():
            raise BadInput(
                f"{file} cannot be read: it is {'a folder' if file.is_dir() else 'not there'}"
            )
    sound = [_dump_file(file, output, titled=len(files) > 1) for file in files]
    ctx.exit(Exit.DONE if all(sound) else Exit.FAILED)


def _dump_file(file: Path, output: str, *, titled: bool) -> bool:
    """Print one file; return True if all of it was understood."""
    from admin.tools.dump import Undumpable, lines, titles

    is_table, is_sound = output == "table", True
    if is_table:
        write(f"{file}\n{titles(file)}" if titled else titles(file))
    try:
        for line, problem in lines(file, as_json=not is_table):
            write(line)
            if problem is not None:
                is_sound = False
                say(f"{file}: {problem}")
    except Undumpable as error:
        say(f"Error: {error}")
        return False
    return is_sound


@click.command()
@click.argument(
    "sources", nargs=-1, required=True, metavar="SOURCE...", type=click.Path(path_type=Path)
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder for the folders of the new controllers: new or empty.",
)
@click.option(
    "--voters",
    type=ADDRESSED_VOTERS,
    help="The voters, if the log does not name them; or new addresses of its voters.",
)
def adopt(
    sources: Sequence[Path], folder: Path, voters: "Mapping[ReplicaId, Address] | None"
) -> None:
    """Take over the metadata of a stopped KRaft controller set.

    Each SOURCE is the metadata folder of one controller, with its meta.properties; together they
    must be a majority of the voters. They are read and never changed. The command checks and
    reports their contents, makes a folder for each controller in DIR, and prints the commands to
    start them. A log with unsupported contents, records of unknown types for example, is refused.
    """
    from admin.tools.adopt.plan import make_plan
    from admin.tools.adopt.report import commands, report
    from admin.tools.adopt.source import AdoptError, take
    from admin.tools.adopt.writer import settings_file, work_in
    from admin.tools.adopt.writer import write as write_folders
    from admin.tools.founding import given_to_owner
    from quorum.clocks import wall_ms

    try:
        with given_to_owner(folder), work_in(folder, tuple(sources)) as work:
            found = [take(path, work / f"source-{place}") for place, path in enumerate(sources)]
            plan = make_plan(found, voters)
            text = report(plan, found)
            write_folders(plan, folder, work, now_ms=wall_ms())
    except AdoptError as error:
        raise click.ClickException(str(error)) from None
    write(text)
    write("")
    write(commands(command_line(), [settings_file(folder, new) for new in plan.new_controllers]))
