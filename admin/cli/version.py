"""The option `--version` of the three programs."""

import click


def _show_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("metaquorum")
    except PackageNotFoundError:
        found = "(not installed)"
    click.echo(f"metaquorum {found}")
    ctx.exit()


version_option = click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
