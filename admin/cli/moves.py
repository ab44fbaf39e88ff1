"""`metaquorum moves`: list, pause, prioritise, throttle, cancel and roll back moves."""

from typing import TYPE_CHECKING, Final

import click

from admin.cli.moves_text import (
    altered,
    cancelled,
    listed,
    move_details,
    outcomes,
    refused,
    rolled_back,
    wait_for,
)
from admin.cli.options import (
    MOVE_ID,
    PARTITION,
    PRIORITY,
    RATE_OR_NONE,
    Exit,
    Target,
    finish,
    output_option,
    say,
    show,
    stale_option,
    with_target,
    write,
)

if TYPE_CHECKING:
    from admin.model import PartitionId


_ids = click.argument("moves", type=MOVE_ID, nargs=-1, metavar="[ID]...")
_id = click.argument("id", type=MOVE_ID, metavar="ID")
_NUMBERS: Final = {"ignore_unknown_options": True}
"""For commands with a numeric argument: a negative number is not an option."""


@click.group()
def command() -> None:
    """List moves; pause, resume, prioritise, throttle, cancel and roll them back."""


@command.command("list")
@click.option("--running", is_flag=True, help="Omit moves that have ended.")
@with_target
@stale_option
@output_option
async def list_(target: Target, running: bool, stale: bool, output: str) -> None:
    """List running moves, and ended ones that the controller still remembers."""
    from msgspec.structs import replace

    from admin.capabilities.moves import ListMoves

    found = await target.ask(ListMoves(), stale=stale)
    kept = tuple(each for each in found.moves if not (running and each.ended))
    show(replace(found, moves=kept), output, lambda found: listed(found, running=running))


@command.command("show")
@_id
@click.option("--all", "everything", is_flag=True, help="All partitions, not only the first 200.")
@with_target
@stale_option
@output_option
async def show_one(target: Target, id: int, everything: bool, stale: bool, output: str) -> None:
    """Show a move and its partitions: step, state, bytes left, reason to wait."""
    from msgspec.structs import replace

    from admin.capabilities.moves import DescribeMove, every_partition

    async with target.client() as client:
        move = await client.ask(DescribeMove(move_id=id), stale=stale)
        if everything and move.partitions_not_shown:
            partitions = await every_partition(lambda page: client.ask(page, stale=stale), id)
            more = max(0, move.waiting + move.stepping - len(partitions))
            move = replace(move, partitions=partitions, partitions_not_shown=more)
    show(move, output, move_details)


@command.command()
@_ids
@click.option(
    "--all", "everything", is_flag=True, help="Pause all moves, also those that begin later."
)
@with_target
async def pause(target: Target, moves: tuple[int, ...], everything: bool) -> Exit:
    """Pause moves: start no further steps. A step in progress completes."""
    _check_named(moves, everything=everything)
    from admin.capabilities.moves import PauseMoves

    found = await target.ask(PauseMoves(moves=moves, everything=everything))
    return finish(
        "All moves are paused." if everything else altered(found, "paused"), refused(found)
    )


@command.command()
@_ids
@click.option("--all", "everything", is_flag=True, help="End a pause of all moves.")
@with_target
async def resume(target: Target, moves: tuple[int, ...], everything: bool) -> Exit:
    """Resume paused moves. A move paused by its id is resumed by its id."""
    _check_named(moves, everything=everything)
    from admin.capabilities.moves import ResumeMoves

    found = await target.ask(ResumeMoves(moves=moves, everything=everything))
    return finish(
        "All moves are resumed." if everything else altered(found, "resumed"), refused(found)
    )


@command.command()
@_ids
@click.option("--topic", "topics", multiple=True, help="Cancel the reassignments of this topic.")
@click.option(
    "--partition",
    "partitions",
    type=PARTITION,
    multiple=True,
    help="Cancel the reassignment of this partition: orders-7.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Cancel all reassignments, also those outside of moves.",
)
@click.option("--dry-run", is_flag=True, help="Show the resulting replicas; change nothing.")
@with_target
async def cancel(
    target: Target,
    moves: tuple[int, ...],
    topics: tuple[str, ...],
    partitions: "tuple[PartitionId, ...]",
    everything: bool,
    dry_run: bool,
) -> Exit:
    """Cancel moves: revert the steps in progress and drop the steps that remain.

    Each partition returns to its replicas before the current step; `rollback` restores those
    before the move.
    """
    more = ", --topic NAME or --partition NAME-NUMBER"
    _check_named((*moves, *topics, *partitions), everything=everything, more=more)
    from admin.capabilities.moves import CancelMoves
    from admin.capabilities.schema import Partition

    request = CancelMoves(
        moves=moves,
        topics=topics,
        partitions=tuple(Partition(topic=topic, partition=number) for topic, number in partitions),
        everything=everything,
        dry_run=dry_run,
    )
    found = await target.ask(request)
    return finish(cancelled(found, dry_run=dry_run), refused(found))


@command.command()
@_id
@with_target
async def wait(target: Target, id: int) -> Exit:
    """Wait for a move to finish and show its progress.

    Exit code 0: completed; 1: ended otherwise.
    """
    async with target.client() as client:
        return await wait_for(client, id)


@command.command()
@_id
@click.option("--dry-run", is_flag=True, help="Show the resulting replicas; change nothing.")
@with_target
async def rollback(target: Target, id: int, dry_run: bool) -> Exit:
    """Undo a move: restore the previous replicas, by a new move."""
    from admin.capabilities.moves import RollBackMove
    from admin.cli.reassign_actions import foresee_rollback

    async with target.client() as client:
        found = await client.ask(RollBackMove(move_id=id, dry_run=dry_run))
        done = rolled_back(id, found)
        if dry_run and found.partitions_accepted:
            write(outcomes(found, "would be rolled back, to these replicas"))
            await foresee_rollback(client, id, found)
            done = ""
    return finish(done, refused(found))


@command.command("rollback-plan")
@_id
@with_target
async def rollback_plan(target: Target, id: int) -> None:
    """Print the plan that restores the previous replicas, for reassign-partitions."""
    from admin.capabilities.moves import whole_plan
    from admin.plan_file import render_plan

    async with target.client() as client:
        found = await whole_plan(client.ask, id)
    write(render_plan(found.originals))
    if found.gone:
        say(f"Omitted: {found.gone} partition(s) of deleted topics.")


@command.command(context_settings=_NUMBERS)
@_id
@click.argument("priority", type=PRIORITY)
@with_target
async def priority(target: Target, id: int, priority: int) -> Exit:
    """Set the priority of a move. Higher priorities go first; the default is 0."""
    from admin.capabilities.moves import AlterMove

    found = await target.ask(AlterMove(move_id=id, priority=priority))
    return finish(altered(found, f"has priority {priority}"), refused(found))


@command.command(context_settings=_NUMBERS)
@_id
@click.argument("bytes_per_s", type=RATE_OR_NONE, metavar="BYTES_PER_S")
@with_target
async def throttle(target: Target, id: int, bytes_per_s: int) -> Exit:
    """Limit the bytes per second copied to and from each broker; 0 removes the limit."""
    from admin.capabilities.moves import AlterMove

    found = await target.ask(AlterMove(move_id=id, throttle_bytes_per_s=bytes_per_s))
    done = f"is throttled to {bytes_per_s} bytes/s" if bytes_per_s else "is no longer throttled"
    return finish(altered(found, done), refused(found))


def _check_named(named: tuple[object, ...], *, everything: bool, more: str = "") -> None:
    if everything and named:
        raise click.UsageError("--all includes every move; omit the names")
    if not everything and not named:
        raise click.UsageError(f"name moves by ID{more}, or give --all")
