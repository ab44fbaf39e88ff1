"""`metaquorum moves`: list, pause, prioritise, throttle, cancel and roll back moves."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from admin.cli.move_progress import bytes_left, counts, known, left_to_copy, show_rate, wait_for
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
    watchable,
    with_target,
    write,
)
from admin.cli.output import Columns, and_more, columns, ids, refused_partitions, refused_parts
from admin.units import show_duration, show_size, show_time

if TYPE_CHECKING:
    from admin.capabilities.moves import DescribedMove, Move, Moves, MovesChanged, PartitionResult
    from admin.capabilities.schema import Request
    from admin.model import PartitionId
    from controller.move_requests import OngoingReassignment


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
@watchable
@stale_option
@output_option
async def list_(target: Target, running: bool, stale: bool, output: str) -> None:
    """List running moves, and ended ones that the controller still remembers."""
    from msgspec.structs import asdict, replace

    from admin.capabilities.copy_progress import MOVES_MAX, DescribeCopies
    from admin.capabilities.moves import RUNNING, ListMoves, MoveProgress
    from admin.capabilities.paging import PAGE_SIZE_MAX, every_page

    asked = ListMoves(page_size=PAGE_SIZE_MAX, state=RUNNING if running else ())
    async with target.client() as client:
        found = await every_page(lambda page: client.ask(page, stale=stale), asked)
        moving = tuple([each.move_id for each in found.moves if not each.ended][:MOVES_MAX])
        copies = DescribeCopies(moves=moving)
        left = (await client.ask(copies, stale=stale)).moves if moving else ()
    known_of = {each.move_id: asdict(each) for each in left}
    for each in known_of.values():
        del each["example"]
    moves = tuple(
        MoveProgress(**{**asdict(each), **known_of.get(each.move_id, {})}) for each in found.moves
    )
    show(replace(found, moves=moves), output, listed)
    if output == "table" and not moves:
        say("No moves are running." if running else "No moves are listed.")


@command.command("show")
@_id
@click.option("--all", "everything", is_flag=True, help="All partitions, not only the first 200.")
@with_target
@watchable
@stale_option
@output_option
async def show_one(target: Target, id: int, everything: bool, stale: bool, output: str) -> None:
    """Show a move and its partitions: step, state, bytes left, reason to wait."""
    from msgspec.structs import replace

    from admin.capabilities.moves import DescribeMove, DescribeMovePartitions
    from admin.capabilities.paging import every_page
    from controller.apis.reassignments import PARTITIONS_SHOWN_MAX

    async with target.client() as client:
        move = await client.ask(DescribeMove(move_id=id), stale=stale)
        if everything and move.partitions_not_shown:
            asked = DescribeMovePartitions(move_id=id, page_size=PARTITIONS_SHOWN_MAX)
            found = await every_page(lambda page: client.ask(page, stale=stale), asked)
            partitions = found.partitions
            more = max(0, move.waiting + move.stepping - len(partitions))
            move = replace(move, partitions=partitions, partitions_not_shown=more)
    show(move, output, move_details)


@command.command()
@_ids
@click.option(
    "--all", "everything", is_flag=True, help="Pause all moves, also those that begin later."
)
@click.option("--after-step", is_flag=True, help="Let steps in progress complete.")
@with_target
@output_option
async def pause(
    target: Target, moves: tuple[int, ...], everything: bool, after_step: bool, output: str
) -> Exit:
    """Pause moves: start no further steps, and stop copying.

    Copies that the pause does not stop are named, with exit code 1.
    """
    _check_named(moves, everything=everything)
    from admin.capabilities.moves import PauseMoves

    request = PauseMoves(moves=moves, everything=everything, after_step=after_step)
    how = "paused after the steps in progress" if after_step else "paused"
    return await _alter(target, request, how, output)


@command.command()
@_ids
@click.option("--all", "everything", is_flag=True, help="End a pause of all moves.")
@with_target
@output_option
async def resume(target: Target, moves: tuple[int, ...], everything: bool, output: str) -> Exit:
    """Resume paused moves. A move paused by its id is resumed by its id."""
    _check_named(moves, everything=everything)
    from admin.capabilities.moves import ResumeMoves

    request = ResumeMoves(moves=moves, everything=everything)
    return await _alter(target, request, "resumed", output)


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
@output_option
async def cancel(
    target: Target,
    moves: tuple[int, ...],
    topics: tuple[str, ...],
    partitions: "tuple[PartitionId, ...]",
    everything: bool,
    dry_run: bool,
    output: str,
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
    show(found, output, lambda found: cancelled(found, dry_run=dry_run))
    return finish(errors=refused(found))


@command.command()
@_id
@with_target
@output_option
async def wait(target: Target, id: int, output: str) -> Exit:
    """Wait for a move to finish and show its progress.

    It waits as long as that takes or, if --timeout is given, at most for that time. Exit code 0:
    completed; 1: ended otherwise; 3: not ended in that time.
    """
    async with target.client() as client:
        return await wait_for(client, id, within_ms=target.wait_ms, output=output)


@command.command()
@_id
@click.option("--dry-run", is_flag=True, help="Show the resulting replicas; change nothing.")
@with_target
@output_option
async def rollback(target: Target, id: int, dry_run: bool, output: str) -> Exit:
    """Undo a move: restore the previous replicas, by a new move."""
    from admin.capabilities.moves import RollBackMove
    from admin.cli.reassign_actions import foresee_rollback

    async with target.client() as client:
        found = await client.ask(RollBackMove(move_id=id, dry_run=dry_run))
        if output == "table" and dry_run and found.partitions_accepted:
            write(outcomes(found, "would be rolled back, to these replicas"))
            await foresee_rollback(client, id, found)
        else:
            show(found, output, lambda found: rolled_back(id, found))
    return finish(errors=refused(found))


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
@output_option
async def priority(target: Target, id: int, priority: int, output: str) -> Exit:
    """Set the priority of a move. Higher priorities go first; the default is 0."""
    from admin.capabilities.moves import AlterMove

    request = AlterMove(move_id=id, priority=priority)
    return await _alter(target, request, f"has priority {priority}", output)


@command.command(context_settings=_NUMBERS)
@_id
@click.argument("bytes_per_s", type=RATE_OR_NONE, metavar="BYTES_PER_S")
@with_target
@output_option
async def throttle(target: Target, id: int, bytes_per_s: int, output: str) -> Exit:
    """Limit the bytes per second copied to and from each broker; 0 removes the limit."""
    from admin.capabilities.moves import AlterMove

    done = f"is throttled to {bytes_per_s} bytes/s" if bytes_per_s else "is no longer throttled"
    request = AlterMove(move_id=id, throttle_bytes_per_s=bytes_per_s)
    return await _alter(target, request, done, output)


async def _alter(target: Target, request: "Request[MovesChanged]", done: str, output: str) -> Exit:
    found = await target.ask(request)
    everything = getattr(request, "everything", False)
    show(found, output, lambda _: f"All moves are {done}." if everything else altered(found, done))
    return finish(errors=[*refused(found), *not_stopped(found)])


def _check_named(named: tuple[object, ...], *, everything: bool, more: str = "") -> None:
    if everything and named:
        raise click.UsageError("--all includes every move; omit the names")
    if not everything and not named:
        raise click.UsageError(f"name moves by ID{more}, or give --all")


_MOVES: Final["Columns[Move]"] = {
    "Move": lambda move: move.move_id,
    "Name": lambda move: move.name or "-",
    "Kind": lambda move: move.kind,
    "State": lambda move: move.state,
    "Partitions": lambda move: move.partitions_total,
    "Done": lambda move: move.completed,
    "Stepping": lambda move: move.stepping,
    "Waiting": lambda move: move.waiting,
    "Left": lambda move: "-" if move.ended else bytes_left(move),
    "Priority": lambda move: move.priority,
    "Since": lambda move: _time(move.since_ms),
    "AskedBy": lambda move: move.asked_by or "-",
}
_PARTITIONS: Final["Columns[OngoingReassignment]"] = {
    "Partition": lambda each: each.id,
    "Step": lambda each: f"{each.step} of {each.step_count}",
    "State": lambda each: each.state,
    "Since": lambda each: _time(each.since_ms or 0),
    "Replicas": lambda each: ids(each.replicas),
    "Target": lambda each: ids(each.target or ()),
    "Left": lambda each: known(each.bytes_left, show_size),
    "Rate": lambda each: known(each.bytes_per_s, show_rate),
    "TimeLeft": lambda each: known(each.time_left_ms, show_duration),
    "Reason": lambda each: each.detail or each.reason or "-",
}
_OUTCOMES: Final["Columns[PartitionResult]"] = {
    "Partition": lambda each: each.id,
    "Replicas": lambda each: ids(each.replicas),
}


def listed(found: "Moves") -> str:
    """The output of `list`."""
    table = [columns(found.moves, _MOVES)] if found.moves else []
    return "\n".join([*_all_paused(found), *table])


def _all_paused(found: "Moves | DescribedMove") -> list[str]:
    """A line about a pause of all moves, if there is one."""
    if found.all_paused is None:
        return []
    user, since = found.all_paused.by or "an unknown user", _time(found.all_paused.since_ms)
    after = "" if found.all_paused.stops_copying else "; steps in progress complete"
    return [f"All moves are paused by {user} since {since}{after}."]


def move_details(move: "DescribedMove") -> str:
    """The output of `show`."""
    name = f" ({move.name})" if move.name else ""
    of = f" of move {move.rollback_of}" if move.rollback_of else ""
    by = f" by {move.changed_by}" if move.changed_by else ""
    if by and move.state == "running":
        by = f", resumed{by},"
    why = f": {move.detail}" if move.detail else ""
    if move.state == "paused" and not move.stops_copying:
        why = "; steps in progress complete"
    lines = [] if move.ended else _all_paused(move)
    lines += [
        f"Move {move.move_id}{name}: {move.kind}{of}, requested by"
        f" {move.asked_by or 'an unknown user'} at {_time(move.asked_at_ms)},"
        f" priority {move.priority}.",
        f"It is {move.state}{by} since {_time(move.since_ms)}{why}.",
        f"Of {move.partitions_total} partition(s) {counts(move)}.",
    ]
    if move.refused:
        lines.append(f"{move.refused} more partition(s) were requested and refused.")
    if move.throttle_bytes_per_s and not move.ended:
        rate = move.throttle_bytes_per_s
        lines.append(f"Throttle: {rate} bytes/s to and from each broker.")
    if move.throttle_lost:
        lost = ", ".join(move.throttle_lost)
        lines.append(f"Throttle configs changed by users since, and left alone: {lost}.")
    if not move.ended:
        lines.append(left_to_copy(move))
    if move.partitions:
        lines.append(columns(move.partitions, _PARTITIONS))
    return "\n".join([*lines, *and_more(move.waiting + move.stepping - len(move.partitions))])


def altered(found: "MovesChanged", done: str) -> str:
    """The output of `pause`, `resume`, `priority` and `throttle`."""
    accepted = [each for each in found.moves if not each.kafka_error_code]
    changed = [str(each.move_id) for each in accepted if each.message is None]
    lines = [f"{each.message[0].upper()}{each.message[1:]}." for each in accepted if each.message]
    if changed:
        what = "Moves" if len(changed) > 1 else "Move"
        lines.insert(0, f"{what} {', '.join(changed)} {done}.")
    return "\n".join(lines)


def cancelled(found: "MovesChanged", *, dry_run: bool) -> str:
    """The output of `cancel`."""
    if not found.partitions_accepted:
        return "Nothing would be cancelled." if dry_run else "Nothing was cancelled."
    done = "would be cancelled, with these replicas" if dry_run else "cancelled; replicas now"
    return outcomes(found, done)


def rolled_back(move_id: int, found: "MovesChanged") -> str:
    """The output of `rollback`."""
    if not found.begun_move_id:
        if found.partitions_refused:
            return ""
        return f"Move {move_id}: nothing to roll back; the partitions have their previous replicas."
    if not found.partitions_accepted:
        return f"Move {found.begun_move_id} is already rolling back move {move_id}."
    count = found.partitions_accepted
    return f"Move {found.begun_move_id} rolls back move {move_id}: {count} partition(s)."


def outcomes(found: "MovesChanged", done: str) -> str:
    """The accepted partitions with their replicas."""
    named = [each for each in found.partitions if not each.kafka_error_code]
    lines = [f"{found.partitions_accepted} partition(s) {done}:", columns(named, _OUTCOMES)]
    return "\n".join([*lines, *and_more(found.partitions_accepted - len(named))])


def refused(found: "MovesChanged") -> Iterator[str]:
    """The errors of a request, one per line."""
    yield from refused_parts(found.moves)
    partitions = [each for each in found.partitions if each.kafka_error_code]
    yield from refused_partitions(partitions, found.partitions_refused)


def not_stopped(found: "MovesChanged") -> Iterator[str]:
    """The copies that a pause does not stop, one sentence per line."""
    for each in found.not_stopped:
        yield f"Not stopped: {each.id} to broker {each.broker_id}: {each.reason}."
    yield from and_more(found.not_stopped_total - len(found.not_stopped))


def _time(at_ms: int) -> str:
    return show_time(at_ms) if at_ms else "-"
