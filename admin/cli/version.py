"""The option `--version` of the three programs, apart from `options`: `main` imports little."""

import click

version_option = click.version_option(
    package_name="metaquorum", prog_name="metaquorum", message="%(prog)s %(version)s"
)
