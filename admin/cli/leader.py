"""`metaquorum leader transfer`: make another controller the active one."""

from typing import TYPE_CHECKING, Any

import click

from admin.cli.options import (
    Exit,
    Target,
    output_option,
    run,
    say,
    target,
    target_options,
    write,
    write_data,
)

if TYPE_CHECKING:
    from admin.capabilities.quorum import LeadTransfer


@click.group()
def command() -> None:
    """Transfer the leadership of the metadata quorum."""


@command.command("transfer")
@click.option(
    "--to",
    type=click.IntRange(min=0, max=2**31 - 1),
    metavar="ID",
    help="The new leader. [default: the most advanced voter]",
)
@target_options
@output_option
def transfer(to: int | None, output: str, **whom: Any) -> None:
    """Transfer the leadership to another voter, without an election time-out.

    Meanwhile the leader accepts no records; it commits those it has accepted before it resigns.
    """
    found = run(_transfer(target(**whom), to))
    if output == "table":
        write(described(found))
    else:
        data = {
            "leader_id": found.leader_id,
            "leader_epoch": found.leader_epoch,
            "duration_ms": found.duration_ms,
        }
        write_data(data, output)
    _end(found, to)


def described(found: "LeadTransfer") -> str:
    """One sentence about the leader after the transfer."""
    from admin.model import NO_LEADER

    if found.leader_id == NO_LEADER:
        return f"The leader resigned, and no new leader is known after {found.duration_ms} ms."
    return (
        f"Controller {found.leader_id} leads in epoch {found.leader_epoch}, "
        f"{found.duration_ms} ms after the request."
    )


async def _transfer(whom: Target, to: int | None) -> "LeadTransfer":
    from admin.capabilities.quorum import TransferLead

    async with whom.client() as client:
        return await client.ask(TransferLead(to=to))


def _end(found: "LeadTransfer", to: int | None) -> None:
    """Exit with another code if the wanted controller does not lead."""
    from admin.model import NO_LEADER

    if found.leader_id == NO_LEADER:
        raise SystemExit(Exit.NOT_FINISHED)
    if to is not None and found.leader_id != to:
        say(f"Error: controller {found.leader_id} was elected instead of {to}; ask again")
        raise SystemExit(Exit.FAILED)
