"""`metaquorum chaos`: the commands of a package above this one, imported by name when one runs.

The simulation runs the whole product, so it stands above `admin`, which imports nothing from it.
"""

import importlib

import click

from admin.own_code import sibling

command: click.Group = importlib.import_module(sibling("chaos", "cli")).main
