"""The option `--version` of the three programs, apart from `options`: `main` imports little."""

import platform
from importlib.machinery import EXTENSION_SUFFIXES

import click

from quorum.version import VERSION


def build() -> str:
    """The version of this code, whether its hot modules are machine code, and the Python below."""
    # Any module that pyproject.toml lists for the compiler tells; this one imports nothing else.
    from quorum import clocks

    how = "compiled" if str(clocks.__file__).endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
    return f"{VERSION} ({how}, Python {platform.python_version()})"


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        click.echo(f"metaquorum {build()}")
        ctx.exit()


version_option = click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and how it was built, and exit.",
)
