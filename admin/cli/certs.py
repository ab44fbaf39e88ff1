"""`metaquorum certs`: a small authority and certificates for a first installation."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import BadInput, WholeNumber, add_options, say, write

if TYPE_CHECKING:
    from admin.tools.certificates import Authority, Issued

AUTHORITY_DAYS: Final = 3_650
DAYS: Final = 397
"""A year and a month, so that a yearly rotation is never late."""
DAYS_MAX: Final = 10_000

_folder: Final = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder of the authority.",
)


def _days(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--days",
        type=WholeNumber(1, DAYS_MAX),
        default=default,
        show_default=True,
        help="How long the certificate is valid.",
    )


_issuing: Final = add_options(
    _folder,
    click.option("--name", required=True, help="The common name: the principal is User:CN=NAME."),
    click.option(
        "--file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write this file.  [default: DIR/NAME.pem]",
    ),
    _days(DAYS),
)


@click.group()
def command() -> None:
    """Create a small authority, and certificates that it signs.

    Files are PEM, keys are readable by their owner only, and nothing is overwritten. The key of the
    authority (DIR/ca.key) is needed for further certificates only: keep it off the nodes.
    """


@command.command("create-authority")
@_folder
@click.option(
    "--name", default="metaquorum-ca", show_default=True, help="The authority's common name."
)
@_days(AUTHORITY_DAYS)
def create_authority(folder: Path, name: str, days: int) -> None:
    """Create an authority: DIR/ca.pem, which everybody trusts, and DIR/ca.key."""
    from admin.tools import certificates

    try:
        authority = certificates.Authority.new(name, days=days, now=_now())
        certificates.write_authority(folder, authority)
    except (certificates.CertificateError, OSError) as error:
        raise BadInput(str(error)) from None
    path = folder.absolute() / certificates.AUTHORITY_FILE
    say(f"The authority {name} is valid until {authority.valid_until:%Y-%m-%d}.")
    write(f"ssl.truststore.location={path}")


@command.command("create-node")
@_issuing
@click.option(
    "--host",
    "hosts",
    multiple=True,
    required=True,
    help="A host name or IP address by which others reach the node; repeat it for several.",
)
def create_node(
    folder: Path, name: str, file: Path | None, days: int, hosts: Sequence[str]
) -> None:
    """Create the certificate of a controller or a broker."""
    _issue(
        folder,
        name,
        file,
        lambda authority: authority.issue_node(name, hosts, days=days, now=_now()),
    )


@command.command("create-client")
@_issuing
def create_client(folder: Path, name: str, file: Path | None, days: int) -> None:
    """Create the certificate of a client, which no node can be run with."""
    _issue(
        folder, name, file, lambda authority: authority.issue_client(name, days=days, now=_now())
    )


def _issue(
    folder: Path, name: str, file: Path | None, issue: "Callable[[Authority], Issued]"
) -> None:
    """Let the authority of `folder` issue a certificate, and print the settings that name it."""
    from admin.tools import certificates

    if file is None:
        file = folder / f"{name}.pem"
    try:
        issued = issue(certificates.Authority.load(folder))
        certificates.write_issued(file, issued)
    except certificates.CertificateError as error:
        raise BadInput(str(error)) from None
    say(f"The certificate of {name} is valid until {issued.valid_until:%Y-%m-%d}.")
    write(f"ssl.keystore.location={file.absolute()}")
    write(f"ssl.truststore.location={folder.absolute() / certificates.AUTHORITY_FILE}")


def _now() -> datetime:
    from datetime import UTC

    from quorum.clocks import wall_ms

    return datetime.fromtimestamp(wall_ms() // 1_000, UTC)
