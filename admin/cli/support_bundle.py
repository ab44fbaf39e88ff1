"""`metaquorum support-bundle`: one archive for a bug report, without secrets."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from admin.cli.options import Exit, Target, say, with_target, write

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from admin.tools.support_bundle import Bundle
    from quorum.transport.address import Address


@click.command()
@click.option(
    "--dir",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of a local cluster, or of a node, running or stopped; repeatable.",
)
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new archive. [default: metaquorum-support-TIME.tar.gz here]",
)
@with_target
async def command(target: Target, folders: Sequence[Path], file: Path | None) -> Exit:
    """Write versions, settings, logs, quorum state, health and metrics into one archive.

    From a running cluster, from folders, or from both. Passwords, keys and tokens are replaced by
    [hidden]; keys, certificates and the records of the log are not in it. Look into it before you
    pass it on: names of hosts, users and topics stay. Exit code 3: something could not be had.
    """
    from admin.tools.support_bundle import Bundle, BundleError, add_folders

    asks = bool(target.servers or target.controllers) or not folders
    addresses = target.addresses if asks else ()
    bundle = Bundle()
    try:
        add_folders(bundle, folders)
    except BundleError as error:
        raise click.ClickException(str(error)) from None
    if asks:
        await _ask(target, bundle)
    if not bundle.files:
        raise click.ClickException(f"there is nothing to write: {'; '.join(bundle.missing)}")
    path = file or Path(time.strftime("metaquorum-support-%Y%m%dT%H%M%SZ.tar.gz", time.gmtime()))
    source = ", ".join(map(str, (*folders, *addresses)))
    try:
        bundle.write(path, source)
    except FileExistsError:
        raise click.ClickException(f"{path} exists: name a new file with --file") from None
    for each in bundle.missing:
        say(f"Missing: {each}")
    write(f"{path} has {len(bundle.files)} files, {path.stat().st_size} bytes.")
    return Exit.NOT_FINISHED if bundle.missing else Exit.DONE


async def _ask(target: Target, bundle: "Bundle") -> None:
    from admin.client.admin_client import AdminClient
    from admin.client.upgrade_facts import ASK_MS
    from admin.tools.support_bundle import add_cluster

    def connect(address: "Address", is_controller: bool) -> "AdminClient":
        return AdminClient(
            [address],
            is_controller=is_controller,
            timeout_ms=min(target.timeout_ms, ASK_MS),
            security=target.config.security,
        )

    async with target.client() as client:
        await add_cluster(bundle, client, connect)
