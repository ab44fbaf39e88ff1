"""`metaquorum dump-log`: the records of metadata logs and checkpoints, one line each."""

from collections.abc import Sequence
from pathlib import Path

import click

from admin.cli.options import Exit, say, write


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
    help="How to print; json is one object a line.",
)
@click.pass_context
def command(ctx: click.Context, files: Sequence[Path], output: str) -> None:
    """Print the records of metadata log segments (.log) and checkpoints (.checkpoint), or when
    they were appended on that node (.appendtime).

    Kafka's files and ours are alike. Names of types and fields are Kafka's, and a field that a
    record's version does not have is absent. A record that is not understood is printed as bytes;
    a damaged batch ends its file. Either makes the exit code 1.
    """
    sound = [_dump_file(file, output, titled=len(files) > 1) for file in files]
    ctx.exit(Exit.DONE if all(sound) else Exit.FAILED)


def _dump_file(file: Path, output: str, *, titled: bool) -> bool:
    """Print one file; whether all of it was understood."""
    from admin.tools.dump import is_index

    is_table = output == "table"
    if is_table and titled:
        write(f"{file}")
    return _dump_times(file, is_table) if is_index(file) else _dump_records(file, is_table)


def _dump_times(file: Path, is_table: bool) -> bool:
    from admin.tools.dump import TIME_TITLES, Undumpable, time_as_json, time_as_text, times

    if is_table:
        write(TIME_TITLES)
    try:
        for entry in times(file):
            write(time_as_text(entry) if is_table else time_as_json(entry, file))
    except Undumpable as error:
        say(f"Error: {error}")
        return False
    return True


def _dump_records(file: Path, is_table: bool) -> bool:
    from admin.tools.dump import TITLES, Undumpable, entries

    if is_table:
        write(TITLES)
    is_sound = True
    try:
        for entry in entries(file):
            write(entry.as_text() if is_table else entry.as_json(file))
            if entry.problem is not None:
                is_sound = False
                where = f"{file}: the record at offset {entry.offset}"
                say(f"{where} is shown as bytes: {entry.problem}")
    except Undumpable as error:
        say(f"Error: {error}")
        return False
    return is_sound
