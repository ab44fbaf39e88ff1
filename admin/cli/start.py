"""`metaquorum start`: one node, from its configuration to its exit code, in the foreground."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from admin.cli.options import BadInput, write


@click.command()
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="A .toml or .properties file."
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that wins over the environment (METAQUORUM_NODE_ID=1) and the file.",
)
@click.pass_context
def command(ctx: click.Context, file: Path | None, overrides: Sequence[str]) -> None:
    """Run one node, a controller or a broker, until it is told to stop (SIGTERM).

    `metaquorum settings` lists what can be set.
    """
    _do_without_hypothesis()
    from admin.config import Config, load
    from admin.settings import InvalidSetting

    try:
        config = load(file, os.environ, overrides)
    except InvalidSetting as error:
        raise BadInput(str(error)) from None
    if isinstance(config, Config):
        from admin.daemon import main as run_controller

        ctx.exit(run_controller(config))
    from broker.broker_server import main as run_broker

    ctx.exit(run_broker(config))


def _do_without_hypothesis() -> None:
    """Hide hypothesis from kio, which otherwise builds a strategy for each protocol type.

    With the test dependencies installed, that would block the node for a second at its first
    message."""
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]


@click.command()
def settings() -> None:
    """List every setting of a node, as Markdown."""
    from admin.settings import as_markdown

    write(as_markdown().rstrip("\n"))
