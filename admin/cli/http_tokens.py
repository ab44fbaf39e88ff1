"""`metaquorum http-tokens`: the bearer tokens of the HTTP listener."""

from pathlib import Path

import click

from admin.cli.options import BadInput, say, write


@click.group()
def command() -> None:
    """Create bearer tokens for the HTTP listener.

    To revoke a token, delete its line of the file (`http.tokens.file`). A node reads the file again
    when it changes.
    """


@command.command()
@click.option("--name", required=True, help="The name of the token in the file and in messages.")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "admin"]),
    required=True,
    help="viewer reads; operator also moves partitions, transfers the lead and maintains brokers; "
    "admin does everything.",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file that the hash of the token is appended to; created if missing.",
)
@click.option(
    "--principal", help="The principal in the audit log and for ACLs.  [default: User:NAME]"
)
def create(name: str, role: str, file: Path, principal: str | None) -> None:
    """Create a token, print it once, and append its hash to a file.

    Where the nodes have an authorizer, the principal needs ACLs as well: DESCRIBE on the cluster to
    read, ALTER to change.
    """
    from admin.capabilities.needs import Role
    from admin.http import tokens

    try:
        secret = tokens.create(file, name, Role(role), principal or f"User:{name}")
    except tokens.InvalidTokens as error:
        raise BadInput(str(error)) from None
    whom = principal or f"User:{name}"
    say(f"The token {name} is valid for nodes with this {file}; it cannot be shown again:")
    write(secret)
    say(
        f"With an authorizer (authorizer.class.name), {whom} needs ACLs as well: acls add "
        f"--allow-principal {whom} --operation describe --cluster, and alter to change"
    )
