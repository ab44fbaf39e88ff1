"""`metaquorum profile`: named clusters, so that commands need no addresses.

A profile holds default values of options. An option on the command line wins over the environment,
the environment over the profile, and the profile over the file that --command-config names.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from admin.cli.options import (
    ADDRESSES,
    DURATION,
    OUTPUTS,
    BadInput,
    say,
    write,
    write_data,
)
from admin.cli.output import columns
from admin.cli.profile_file import PROFILE_OPTIONS, Profile, Profiles, profiles_file


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BadInput(str(error)) from None


def _profiles() -> Profiles:
    with _usage_errors():
        return Profiles(profiles_file())


@click.group()
def command() -> None:
    """Name clusters, and choose the one that commands connect to.

    An option wins over the environment, the environment over the profile, the profile over the file
    of --command-config. METAQUORUM_PROFILE=prod or --profile prod chooses another one for a while.
    """


@command.command("set")
@click.argument("name")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Connect to these brokers.")
@click.option(
    "--bootstrap-controller", metavar="HOST:PORT,...", help="Connect to these controllers."
)
@click.option("--command-config", metavar="PATH", help="Kafka's client.properties.")
@click.option("--timeout", metavar="DURATION", help="Give up after this time.")
@click.option("--output", type=click.Choice(OUTPUTS), help="Output format.")
def set_(name: str, **given: str | None) -> None:
    """Add profile NAME, or replace it."""
    profile = {option.replace("_", "-"): value for option, value in given.items() if value}
    if ("bootstrap-server" in profile) == ("bootstrap-controller" in profile):
        raise click.UsageError("give one of --bootstrap-server and --bootstrap-controller")
    for option, kind in (
        ("bootstrap-server", ADDRESSES),
        ("bootstrap-controller", ADDRESSES),
        ("timeout", DURATION),
    ):
        kind.convert(profile.get(option), None, None)
    if file := profile.get("command-config"):
        # Commands run in any folder.
        profile["command-config"] = str(Path(file).absolute())
    profiles = _profiles()
    profiles.by_name[name] = profile
    profiles.save()
    say(f"Profile {name} is in {profiles.path}; `metaquorum profile use {name}` uses it.")


@command.command("use")
@click.argument("name", required=False)
@click.option("--none", "nothing", is_flag=True, help="Use no profile.")
def use(name: str | None, nothing: bool) -> None:
    """Let all commands connect as profile NAME says."""
    if (name is None) != nothing:
        raise click.UsageError("give the name of a profile, or --none")
    profiles = _profiles()
    if name is not None:
        with _usage_errors():
            profiles.get(name)
    profiles.current = name
    profiles.save()
    say("No profile is in use." if name is None else f"Profile {name} is in use.")


@command.command("list")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True)
def list_(output: str) -> None:
    """List the profiles; * marks the one in use."""
    profiles = _profiles()
    rows = sorted(profiles.by_name.items())
    if output != "table":
        data = [{"name": name, "current": name == profiles.current, **each} for name, each in rows]
        write_data({"profiles": data}, output)
    elif rows:
        titles = {option: _cell(option) for option in PROFILE_OPTIONS}
        write(columns(rows, {"profile": lambda row: _marked(row[0], profiles.current), **titles}))
    else:
        say("There are no profiles.")


def _marked(name: str, current: str | None) -> str:
    return f"{name} *" if name == current else name


def _cell(option: str) -> Callable[[tuple[str, Profile]], str]:
    return lambda row: row[1].get(option, "-")


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove profile NAME."""
    profiles = _profiles()
    with _usage_errors():
        profiles.get(name)
    del profiles.by_name[name]
    profiles.current = None if profiles.current == name else profiles.current
    profiles.save()
    say(f"Removed profile {name}.")
