"""`metaquorum moves`: list, pause, prioritise, throttle, cancel and roll back moves."""

from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    MOVE_ID,
    PRIORITY,
    RATE_OR_NONE,
    Exit,
    PartitionName,
    Target,
    output_option,
    run,
    say,
    stale_option,
    target,
    target_options,
    write,
    write_answer,
)

if TYPE_CHECKING:
    from admin.capabilities.moves import CancelMoves, MovesChanged
    from admin.capabilities.schema import Request
    from admin.model import PartitionId


_ids = click.argument("ids", type=MOVE_ID, nargs=-1, metavar="[ID]...")
_id = click.argument("id", type=MOVE_ID, metavar="ID")
_NUMBERS: Final = {"ignore_unknown_options": True}
"""For commands with a numeric argument: a negative number is not an option."""


@click.group()
def command() -> None:
    """List moves; pause, resume, prioritise, throttle, cancel and roll them back."""


@command.command("list")
@click.option("--running", is_flag=True, help="Omit moves that have ended.")
@target_options
@stale_option
@output_option
def show_all(running: bool, stale: bool, output: str, **whom: Any) -> None:
    """List running moves, and ended ones that the controller still remembers."""
    run(_list(target(**whom), output, running=running, stale=stale))


@command.command()
@_id
@click.option("--all", "everything", is_flag=True, help="All partitions, not only the first 200.")
@target_options
@stale_option
@output_option
def show(id: int, everything: bool, stale: bool, output: str, **whom: Any) -> None:
    """Show a move and its partitions: step, state, bytes left, reason to wait."""
    run(_show(target(**whom), id, output, everything=everything, stale=stale))


@command.command()
@_ids
@click.option(
    "--all", "everything", is_flag=True, help="Pause all moves, also those that begin later."
)
@target_options
@click.pass_context
def pause(ctx: click.Context, /, ids: tuple[int, ...], everything: bool, **whom: Any) -> None:
    """Pause moves: start no further steps. A step in progress completes."""
    _check_named(ids, everything=everything)
    ctx.exit(run(_hold(target(**whom), ids, everything=everything, paused=True)))


@command.command()
@_ids
@click.option("--all", "everything", is_flag=True, help="End a pause of all moves.")
@target_options
@click.pass_context
def resume(ctx: click.Context, /, ids: tuple[int, ...], everything: bool, **whom: Any) -> None:
    """Resume paused moves. A move paused by its id is resumed by its id."""
    _check_named(ids, everything=everything)
    ctx.exit(run(_hold(target(**whom), ids, everything=everything, paused=False)))


@command.command()
@_ids
@click.option("--topic", "topics", multiple=True, help="Cancel the reassignments of this topic.")
@click.option(
    "--partition",
    "partitions",
    type=PartitionName(),
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
@target_options
@click.pass_context
def cancel(
    ctx: click.Context,
    /,
    ids: tuple[int, ...],
    topics: tuple[str, ...],
    partitions: "tuple[PartitionId, ...]",
    everything: bool,
    dry_run: bool,
    **whom: Any,
) -> None:
    """Cancel moves: revert the steps in progress and drop the steps that remain.

    Each partition returns to its replicas before the current step; `rollback` restores those
    before the move.
    """
    more = ", --topic NAME or --partition NAME-NUMBER"
    _check_named((*ids, *topics, *partitions), everything=everything, more=more)
    from admin.capabilities.moves import CancelMoves
    from admin.capabilities.schema import Partition

    request = CancelMoves(
        moves=ids,
        topics=topics,
        partitions=tuple(Partition(topic=topic, partition=number) for topic, number in partitions),
        everything=everything,
        dry_run=dry_run,
    )
    ctx.exit(run(_cancel(target(**whom), request)))


@command.command()
@_id
@target_options
@click.pass_context
def wait(ctx: click.Context, /, id: int, **whom: Any) -> None:
    """Wait for a move to finish and show its progress.

    Exit code 0: completed; 1: ended otherwise.
    """
    ctx.exit(run(_wait(target(**whom), id)))


@command.command()
@_id
@click.option("--dry-run", is_flag=True, help="Show the resulting replicas; change nothing.")
@target_options
@click.pass_context
def rollback(ctx: click.Context, /, id: int, dry_run: bool, **whom: Any) -> None:
    """Undo a move: restore the previous replicas, by a new move."""
    if dry_run:
        from admin.cli.reassign_plan import foresee_rollback

        ctx.exit(run(foresee_rollback(target(**whom), id)))
    ctx.exit(run(_roll_back(target(**whom), id)))


@command.command("rollback-plan")
@_id
@target_options
def rollback_plan(id: int, **whom: Any) -> None:
    """Print the plan that restores the previous replicas, for reassign-partitions."""
    run(_rollback_plan(target(**whom), id))


@command.command(context_settings=_NUMBERS)
@_id
@click.argument("priority", type=PRIORITY)
@target_options
@click.pass_context
def priority(ctx: click.Context, /, id: int, priority: int, **whom: Any) -> None:
    """Set the priority of a move. Higher priorities go first; the default is 0."""
    ctx.exit(run(_order(target(**whom), id, priority)))


@command.command(context_settings=_NUMBERS)
@_id
@click.argument("bytes_per_s", type=RATE_OR_NONE, metavar="BYTES_PER_S")
@target_options
@click.pass_context
def throttle(ctx: click.Context, /, id: int, bytes_per_s: int, **whom: Any) -> None:
    """Limit the bytes per second copied to and from each broker; 0 removes the limit."""
    ctx.exit(run(_throttle(target(**whom), id, bytes_per_s)))


def _check_named(named: tuple[object, ...], *, everything: bool, more: str = "") -> None:
    if everything and named:
        raise click.UsageError("--all includes every move; omit the names")
    if not everything and not named:
        raise click.UsageError(f"name moves by ID{more}, or give --all")


async def _list(whom: Target, output: str, *, running: bool, stale: bool) -> None:
    from msgspec.structs import replace

    from admin.capabilities.moves import ListMoves
    from admin.cli import moves_text as text

    async with whom.client() as client:
        found = await client.ask(ListMoves(), stale=stale)
    if output == "table":
        write(text.listed(found, running=running))
        return
    kept = tuple(each for each in found.moves if not (running and each.ended))
    write_answer(replace(found, moves=kept), output)


async def _show(whom: Target, id: int, output: str, *, everything: bool, stale: bool) -> None:
    from msgspec.structs import replace

    from admin.capabilities.moves import DescribeMove, every_partition
    from admin.cli import moves_text as text

    async with whom.client() as client:
        move = await client.ask(DescribeMove(move_id=id), stale=stale)
        if everything and move.partitions_not_shown:
            partitions = await every_partition(lambda page: client.ask(page, stale=stale), id)
            more = max(0, move.waiting + move.stepping - len(partitions))
            move = replace(move, partitions=partitions, partitions_not_shown=more)
    if output == "table":
        paused = [] if move.ended else text.all_paused(move)
        write("\n".join([*paused, text.move_details(move)]))
    else:
        write_answer(move, output)


async def _wait(whom: Target, id: int) -> Exit:
    from admin.cli.move_progress import wait_for

    async with whom.client() as client:
        return await wait_for(client, id)


async def _hold(whom: Target, ids: tuple[int, ...], *, everything: bool, paused: bool) -> Exit:
    from admin.capabilities.moves import PauseMoves, ResumeMoves
    from admin.cli import moves_text as text

    kind = PauseMoves if paused else ResumeMoves
    found = await _changed(whom, kind(moves=ids, everything=everything))
    if everything:
        write("All moves are paused." if paused else "All moves are resumed.")
        return Exit.DONE
    return _told(found, text.altered(found, "paused" if paused else "resumed"))


async def _cancel(whom: Target, request: "CancelMoves") -> Exit:
    from admin.cli import moves_text as text

    found = await _changed(whom, request)
    return _told(found, text.cancelled(found, dry_run=request.dry_run))


async def _roll_back(whom: Target, id: int) -> Exit:
    from admin.capabilities.moves import RollBackMove
    from admin.cli import moves_text as text

    found = await _changed(whom, RollBackMove(move_id=id))
    return _told(found, text.rolled_back(id, found))


async def _rollback_plan(whom: Target, id: int) -> None:
    from admin.capabilities.moves import whole_plan
    from admin.plan_file import render_plan

    async with whom.client() as client:
        found = await whole_plan(client.ask, id)
    write(render_plan(found.originals))
    if found.gone:
        say(f"Omitted: {found.gone} partition(s) of deleted topics.")


async def _order(whom: Target, id: int, priority: int) -> Exit:
    from admin.capabilities.moves import AlterMove
    from admin.cli import moves_text as text

    found = await _changed(whom, AlterMove(move_id=id, priority=priority))
    return _told(found, text.altered(found, f"has priority {priority}"))


async def _throttle(whom: Target, id: int, bytes_per_s: int) -> Exit:
    from admin.capabilities.moves import AlterMove
    from admin.cli import moves_text as text

    found = await _changed(whom, AlterMove(move_id=id, throttle_bytes_per_s=bytes_per_s))
    done = f"is throttled to {bytes_per_s} bytes/s" if bytes_per_s else "is no longer throttled"
    return _told(found, text.altered(found, done))


async def _changed(whom: Target, request: "Request[MovesChanged]") -> "MovesChanged":
    async with whom.client() as client:
        return await client.ask(request)


def _told(found: "MovesChanged", done: str) -> Exit:
    from admin.cli import moves_text as text

    if done:
        write(done)
    if not found.has_refusals:
        return Exit.DONE
    say(text.refused(found))
    return Exit.FAILED
