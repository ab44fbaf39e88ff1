"""`metaquorum dump-log`: the records of metadata logs and checkpoints, one line each."""

from collections.abc import Sequence
from pathlib import Path

import click

from admin.cli.common import Exit, say, write


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
    """Print the records of metadata log segments (.log) and checkpoints (.checkpoint).

    Kafka's files and ours are alike. Names of types and fields are Kafka's, and a field that a
    record's version does not have is absent. A record that is not understood is printed as bytes;
    a damaged batch ends its file. Either makes the exit code 1.
    """
    sound = [_dump(file, output, titled=len(files) > 1) for file in files]
    ctx.exit(Exit.DONE if all(sound) else Exit.FAILED)


def _dump(file: Path, output: str, *, titled: bool) -> bool:
    """Print one file; whether all of it was understood."""
    from admin.dump.entries import TITLES, Undumpable, entries

    is_table = output == "table"
    if is_table:
        if titled:
            write(f"{file}")
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
