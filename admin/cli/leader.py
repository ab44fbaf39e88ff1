"""`metaquorum leader transfer`: make another controller the active one."""

from typing import TYPE_CHECKING

import click

from admin.cli.options import ID_MAX, Exit, Target, output_option, say, show, with_target

if TYPE_CHECKING:
    from admin.capabilities.quorum import LeadTransfer


@click.group()
def command() -> None:
    """Transfer the leadership of the metadata quorum."""


@command.command("transfer")
@click.option(
    "--to",
    type=click.IntRange(min=0, max=ID_MAX),
    metavar="ID",
    help="The new leader. [default: the most advanced voter]",
)
@with_target
@output_option
async def transfer(target: Target, to: int | None, output: str) -> Exit:
    """Transfer the leadership to another voter, without an election time-out.

    Meanwhile the leader accepts no records; it commits those it has accepted before it resigns.
    """
    from admin.capabilities.quorum import TransferLead
    from admin.model import NO_LEADER

    found = await target.ask(TransferLead(to=to))
    show(found, output, described)
    if found.leader_id == NO_LEADER:
        return Exit.NOT_FINISHED
    if to is not None and found.leader_id != to:
        say(f"Error: controller {found.leader_id} was elected instead of {to}; ask again")
        return Exit.FAILED
    return Exit.DONE


def described(found: "LeadTransfer") -> str:
    """One sentence about the leader after the transfer."""
    from admin.model import NO_LEADER

    if found.leader_id == NO_LEADER:
        return f"The leader resigned, and no new leader is known after {found.duration_ms} ms."
    return (
        f"Controller {found.leader_id} leads in epoch {found.leader_epoch}, "
        f"{found.duration_ms} ms after the request."
    )
