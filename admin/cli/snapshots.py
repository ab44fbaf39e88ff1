"""`metaquorum snapshots`: list the snapshots of the metadata log, and take one."""

from typing import TYPE_CHECKING, Final

import click

from admin.cli.options import Target, output_option, say, show, with_target
from admin.cli.output import columns

if TYPE_CHECKING:
    from admin.capabilities.snapshots import Snapshot, Snapshots, TakenSnapshot
    from admin.cli.output import Columns


@click.group()
def command() -> None:
    """List the snapshots of a node's metadata log, and take one now.

    Each node has its own: ask it by --bootstrap-controller. Through a broker, the active controller
    answers.
    """


@command.command("list")
@with_target
@output_option
async def list_(target: Target, output: str) -> None:
    """List the snapshots of the node that is asked."""
    from admin.capabilities.snapshots import ListSnapshots

    found = await target.ask(ListSnapshots())
    show(found, output, _listed, none=f"Node {found.node_id} has no snapshots.")
    if output == "table":
        start, end = found.log_start_offset, found.log_end_offset
        say(f"Node {found.node_id} has the log from offset {start} to {end}.")


@command.command()
@with_target
@output_option
async def take(target: Target, output: str) -> None:
    """Take a snapshot now on the node that is asked, and wait until it is durable."""
    from admin.capabilities.snapshots import TakeSnapshot

    show(await target.ask(TakeSnapshot()), output, _taken)


def _listed(found: "Snapshots") -> str:
    return columns(found.snapshots, _SNAPSHOTS) if found.snapshots else ""


def _taken(found: "TakenSnapshot") -> str:
    return (
        f"Node {found.node_id} has a snapshot of everything below offset {found.end_offset}, "
        f"{found.size_bytes} bytes."
    )


_SNAPSHOTS: Final["Columns[Snapshot]"] = {
    "EndOffset": lambda each: each.end_offset,
    "Epoch": lambda each: each.epoch,
    "Bytes": lambda each: each.size_bytes,
}
