"""`metaquorum chaos`: the commands of a package above this one, imported by name when one runs.

The simulation runs the whole product, so it stands above `admin`, which imports nothing from it.
"""

import importlib
from typing import Final

import click

from admin.cli.examples import attach
from admin.own_code import sibling

PROCESSES: Final = {"run": "command", "report": "report_command"}
"""The commands that break real processes, by their names in the module that has them."""


class _Commands(click.Group):
    """Imports what breaks real processes once it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *PROCESSES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PROCESSES:
            return super().get_command(ctx, cmd_name)
        found = importlib.import_module(sibling("chaos", "processes", "command"))
        command: click.Command = getattr(found, PROCESSES[cmd_name])
        attach(command, f"chaos {cmd_name}")
        return command


_simulated: Final[click.Group] = importlib.import_module(sibling("chaos", "cli")).main
command: Final = _Commands("chaos", help=_simulated.help, commands=_simulated.commands)
