"""`metaquorum users`: the users that authenticate with SCRAM, in the metadata log."""

import sys
from collections.abc import Coroutine, Sequence
from io import TextIOBase
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    BadInput,
    Target,
    WholeNumber,
    output_option,
    show,
    show_done,
    with_target,
    yes_option,
)
from admin.cli.output import columns

if TYPE_CHECKING:
    from admin.client.security import User

ITERATIONS: Final = 4_096
ITERATIONS_MAX: Final = 16_384
PASSWORD_BYTES_MAX: Final = 1_024

_mechanism = click.option(
    "--mechanism",
    type=click.Choice(["SCRAM-SHA-256", "SCRAM-SHA-512"], case_sensitive=False),
    default="SCRAM-SHA-512",
    show_default=True,
    help="The SASL mechanism.",
)


@click.group()
def command() -> None:
    """Add, remove and list users that authenticate with SCRAM.

    They are in the metadata log. A user has one password for each mechanism.
    """


@command.command("add")
@click.argument("name")
@_mechanism
@click.option(
    "--password-file",
    type=click.File("r", lazy=False),
    help="Read the password from the first line of this file, or - for stdin.  [default: prompt]",
)
@click.option(
    "--iterations",
    type=WholeNumber(ITERATIONS, ITERATIONS_MAX),
    default=ITERATIONS,
    show_default=True,
    help="The rounds that a guess of the password costs.",
)
@with_target
@output_option
async def add(
    target: Target,
    name: str,
    mechanism: str,
    password_file: TextIOBase | None,
    iterations: int,
    output: str,
) -> None:
    """Add the user NAME, or change its password."""
    import asyncio

    from admin.client import security
    from quorum.transport.security.scram import MECHANISMS

    password = _password(password_file)
    call = await asyncio.to_thread(
        security.set_user, name, MECHANISMS[mechanism], password, iterations
    )
    async with target.client() as client:
        await client.carry_out(call)
    show_done(f"User {name} has a password for {mechanism}.", output, user=name, added=[mechanism])


def _password(file: TextIOBase | None) -> str:
    if file is None and not sys.stdin.isatty():
        raise BadInput("there is no terminal to ask for the password: give --password-file")
    if file is None:
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    try:
        line = file.readline(PASSWORD_BYTES_MAX + 1).rstrip("\r\n")
    except UnicodeDecodeError:
        raise BadInput("--password-file: it is not UTF-8 text") from None
    if not line or len(line) > PASSWORD_BYTES_MAX:
        what = "empty" if not line else f"longer than {PASSWORD_BYTES_MAX} characters"
        raise BadInput(f"--password-file: the password is {what}")
    return line


@command.command("remove")
@click.argument("name")
@_mechanism
@yes_option
@with_target
@output_option
def remove(
    target: Target, name: str, mechanism: str, yes: bool, output: str
) -> Coroutine[Any, Any, None]:
    """Remove the password of the user NAME for a mechanism. Open connections stay open."""
    target.confirm(f"Remove the password of user {name} for {mechanism}?", yes=yes)
    return _remove(target, name, mechanism, output)


async def _remove(target: Target, name: str, mechanism: str, output: str) -> None:
    from admin.client import security
    from quorum.transport.security.scram import MECHANISMS

    async with target.client() as client:
        await client.carry_out(security.remove_user(name, MECHANISMS[mechanism]))
    done = f"User {name} has no password for {mechanism} any more."
    show_done(done, output, user=name, removed=[mechanism])


@command.command("list")
@output_option
@with_target
async def list_users(target: Target, output: str) -> None:
    """List the users."""
    from dataclasses import asdict

    from admin.client import security

    async with target.client() as client:
        found = security.read_users(await client.carry_out(security.describe_users()))
    data = {"users": [asdict(each) for each in found]}
    show(found, output, _table, lambda _: data, none="There are no users.")


def _table(users: "Sequence[User]") -> str:
    return columns(
        users,
        {
            "User": lambda each: each.name,
            "Mechanism": lambda each: each.mechanism,
            "Iterations": lambda each: each.iterations,
        },
    )
