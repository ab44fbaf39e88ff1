"""`metaquorum chaos`: the commands of a package above this one, found by name once one is asked for.

The simulation runs the whole product, so it stands above `admin`, which imports nothing from it.
"""

import importlib

import click

from admin.own_code import beside

command: click.Group = importlib.import_module(beside("chaos", "cli")).main
