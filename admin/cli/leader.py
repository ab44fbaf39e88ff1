"""`metaquorum leader transfer`: let another controller be the active one."""

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
    """Say who is to lead the metadata quorum."""


@command.command("transfer")
@click.option(
    "--to",
    type=click.IntRange(min=0, max=2**31 - 1),
    metavar="ID",
    help="The voter that is to lead; without it whichever has come furthest.",
)
@target_options
@output_option
def transfer(to: int | None, output: str, **whom: Any) -> None:
    """Hand the lead over to another voter, without an election time-out.

    The leader takes no records meanwhile; what it has taken is committed before it gives up.
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
    """Who leads now, in one sentence."""
    from admin.model import NO_LEADER

    if found.leader_id == NO_LEADER:
        return f"The lead was given up, and nobody is known to lead after {found.duration_ms} ms."
    return (
        f"Controller {found.leader_id} leads in epoch {found.leader_epoch}, "
        f"{found.duration_ms} ms after the request."
    )


async def _transfer(whom: Target, to: int | None) -> "LeadTransfer":
    from admin.capabilities.quorum import TransferLead

    async with whom.client() as client:
        return await client.ask(TransferLead(to=to))


def _end(found: "LeadTransfer", to: int | None) -> None:
    """Exit otherwise than done where it is not as was wanted."""
    from admin.model import NO_LEADER

    if found.leader_id == NO_LEADER:
        raise SystemExit(Exit.NOT_FINISHED)
    if to is not None and found.leader_id != to:
        say(f"Error: controller {found.leader_id} was elected instead of {to}; ask again")
        raise SystemExit(Exit.FAILED)
