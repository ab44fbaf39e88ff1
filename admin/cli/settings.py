"""`metaquorum settings`: the table of all settings of a node."""

import click

from admin.cli.common import write


@click.command()
def command() -> None:
    """List every setting of a node, as Markdown."""
    from admin.settings import as_markdown

    write(as_markdown().rstrip("\n"))
