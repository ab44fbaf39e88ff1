"""Plans that the controller makes: decommission, recommission, replication factor.

A plan becomes a move, which continues in the cluster after the command has returned. The command
keeps no state: called again, it does what is possible now and reports what is left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from math import inf
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from admin.capabilities.brokers import not_registered
from admin.capabilities.decommission import DecommissionBrokers, RecommissionBrokers
from admin.capabilities.moves import DescribeMove, NewMove
from admin.capabilities.plan_steps import (
    PlanResult,
    begun_data,
    drain_data,
    plan_data,
)
from admin.capabilities.plans import ChangeReplicationFactor
from admin.capabilities.schema import Request, with_key
from admin.cli import reassign_text
from admin.cli.move_progress import left_to_copy, throttled
from admin.cli.options import Exit, Target, finish, say, show, write, write_data
from admin.cli.output import Columns, and_more, columns, ids, named, refused_partitions
from admin.client.admin_client import AdminClient, Unreachable
from admin.client.log_sizes import bytes_of
from admin.model import PartitionId
from admin.units import show_duration, show_size
from statemachine.reassignment.planner.outcome import BrokerShare, Outcome

A = TypeVar("A")
AnyRequest = TypeVar("AnyRequest", bound=Request[Any])

POLL_SECONDS: Final = 1.0
"""The interval of a command that waits."""


async def decommission(
    target: Target, request: DecommissionBrokers, output: str, *, wait: bool
) -> Exit:
    """Cordon the brokers, move their replicas away, and unregister them if requested."""
    brokers, is_table = request.broker_ids, output == "table"
    async with target.client() as client:
        found = await ask_with_key(request, client.ask)
        if request.dry_run and found.reason is None:
            moved = await bytes_of(client, found)
            would = effects(found.planned, found.foreseen, moved.bytes_moved, of_all=True)
            would = would if found.planned else "Nothing to move."
            show(
                found,
                output,
                lambda found: f"{progress(brokers, found)}\n{would}",
                lambda found: {**drain_data(found), **plan_data(found, moved)},
            )
            return Exit.DONE
        exit_code = _report(request, found, is_table=is_table)
        if is_table:
            await _write_throttle(client, found.moves, request)
        # The keyed request is carried out; the following ones ask for the progress.
        request, said = replace(request, key=""), ""
        now = asyncio.get_running_loop().time
        deadline = inf if target.wait_ms is None else now() + target.wait_ms / 1_000
        while wait and exit_code is Exit.NOT_FINISHED and not found.drain.leaderless:
            if not found.drain.held:
                break
            if (left_seconds := deadline - now()) <= 0:
                say(f"Not finished within {show_duration(target.wait_ms or 0)}; the moves go on.")
                break
            await asyncio.sleep(min(POLL_SECONDS, left_seconds))
            progressed = await _moves_progress(client, found.moves)
            if progressed not in ("", said):
                said = progressed
                say(said)
            found = await client.ask(request)
            exit_code = _report(request, found, is_table=is_table, again=True)
    if not is_table:
        write_data({**drain_data(found), **begun_data(found)}, output)
    return exit_code


async def _moves_progress(client: AdminClient, ids: Sequence[int]) -> str:
    """The progress of the running moves."""
    found = [await client.ask(DescribeMove(move_id=each)) for each in ids]
    return "\n".join(
        f"Move {move.move_id}: {move.completed} of {move.partitions_total} partition(s) done."
        f" {left_to_copy(move)}"
        for move in found
        if not move.ended
    )


def _report(
    request: DecommissionBrokers, found: PlanResult, *, is_table: bool, again: bool = False
) -> Exit:
    """Print the result; return the exit code if the command ends here."""
    drain = found.drain
    if is_table:
        for line in _decommissioned(request.broker_ids, found, again=again):
            write(line)
    if found.reason is not None:
        return finish(errors=[f"Error: {found.reason}"])
    if not drain.held:
        if not request.unregister or not drain.alive:
            return Exit.DONE
        say(f"{named(drain.alive)} not unregistered: stop them first, and it is done then")
        return Exit.NOT_FINISHED
    has_failed = finish(errors=_refused(found)) is Exit.FAILED
    return Exit.FAILED if has_failed or drain.leaderless else Exit.NOT_FINISHED


def _decommissioned(brokers: Sequence[int], found: PlanResult, *, again: bool) -> Iterator[str]:
    """The output of `decommission`; `again` if it is the answer to a later look."""
    drain = found.drain
    if drain.cordoned:
        yield f"Cordoned: {ids(drain.cordoned)}."
    if found.reason is not None:
        return
    if not drain.held:
        yield progress(brokers, found)
        if drain.unregistered:
            yield f"{named(drain.unregistered)}: not registered."
        return
    if found.accepted:
        yield begun(found)
    if found.accepted or not again:
        yield progress(brokers, found)


async def recommission(target: Target, request: RecommissionBrokers, output: str) -> Exit:
    """Uncordon the brokers and cancel the moves that empty them."""
    async with target.client() as client:
        found = await ask_with_key(request, client.ask)
    unknown = (f"Error: {not_registered([each])}" for each in found.drain.unregistered)
    errors = [*_refused(found), *unknown]
    if output == "table":
        _write_recommissioned(request, found)
    else:
        cancelled = [{**each.id._asdict(), "replicas": each.replicas} for each in found.partitions]
        data = {"dry_run": request.dry_run, "uncordoned": found.drain.cordoned}
        write_data({**data, "partitions": cancelled, **begun_data(found)}, output)
    return finish(errors=errors)


def _write_recommissioned(request: RecommissionBrokers, found: PlanResult) -> None:
    drain = found.drain
    replicas = reassign_text.replicas(found.partitions, found.accepted)
    if request.dry_run:
        known = [each for each in request.broker_ids if each not in drain.unregistered]
        if known:
            write(f"{named(known)} would be uncordoned.")
        would = f"{found.accepted} partition(s) would be cancelled, with these replicas:"
        write(f"{would}\n{replicas}" if found.accepted else "Nothing would be cancelled.")
    if drain.cordoned:
        write(f"Uncordoned: {ids(drain.cordoned)}.")
    if found.accepted and not request.dry_run:
        write(reassign_text.cancelled([PartitionId(*each.id) for each in found.partitions]))
        say(f"Replicas now:\n{replicas}")
        if found.moves:
            commands = ", ".join(f"`metaquorum moves rollback {id}`" for id in found.moves)
            say(f"To restore replicas that had already moved: {commands}.")


async def change_factor(target: Target, request: ChangeReplicationFactor, output: str) -> Exit:
    """Change the replication factor by a move, or show its plan."""
    async with target.client() as client:
        found = await ask_with_key(request, client.ask)
        if found.reason is not None:
            return finish(errors=[f"Error: {found.reason}"])
        if request.dry_run:
            moved = await bytes_of(client, found)
            show(
                found,
                output,
                lambda found: effects(found.planned, found.foreseen, moved.bytes_moved),
                lambda found: plan_data(found, moved),
            )
            return Exit.DONE
        if output != "table":
            write_data(begun_data(found), output)
        elif found.accepted:
            write(begun(found))
            await _write_throttle(client, found.moves, request)
    return finish(errors=_refused(found))


async def ask_with_key(request: AnyRequest, ask: Callable[[AnyRequest], Awaitable[A]]) -> A:
    """Ask with an idempotency key; if the outcome is unknown, print the key for a retry.

    Raises the errors of the client.
    """
    request = with_key(request)
    try:
        found = await ask(request)
    except Unreachable as error:
        key = getattr(request, "key", "")
        if error.may_be_done and key:
            say(f"To retry safely, add: --key {key}")
        raise
    if getattr(found, "repeated", False):
        say("This key was used before: nothing was done a second time.")
    return found


async def _write_throttle(client: AdminClient, ids: Sequence[int], asked: NewMove[Any]) -> None:
    """Print the throttle of each running move, if one was requested."""
    for move_id in ids if asked.is_throttled else ():
        move = await client.ask(DescribeMove(move_id=move_id))
        if not move.ended:
            write(throttled(move, asked))


def progress(brokers: Sequence[int], found: PlanResult) -> str:
    """The progress of a decommission."""
    drain = found.drain
    if not drain.held:
        return f"{named(brokers)}: no replicas left."
    lines = [
        f"{named(brokers)}: {drain.held} partition(s) left, {drain.leaving} already moving,"
        f" {found.planned} planned now."
    ]
    if drain.busy:
        busy = _partitions(drain.busy)
        lines.append(f"Moving elsewhere now, repeat the command later: {busy}")
    if drain.leaderless:
        lines.append(f"Without a leader, cannot be copied: {_partitions(drain.leaderless)}")
    if drain.to_be_unregistered:
        later = named(drain.to_be_unregistered)
        lines.append(f"{later}: will be unregistered once empty and stopped.")
    return "\n".join(lines)


def begun(found: PlanResult) -> str:
    """The message about the moves that were started."""
    ids = ", ".join(map(str, found.moves))
    moves = f"Moves {ids} continue" if len(found.moves) > 1 else f"Move {ids} continues"
    return (
        f"{moves} in the cluster: {found.accepted} more partition(s)."
        f" Progress: `metaquorum moves show {found.moves[-1]}`."
    )


def effects(
    partitions: int, foreseen: Outcome, size_bytes: int | None, *, of_all: bool = False
) -> str:
    """The effects of a plan; `of_all` if the shares are of the whole cluster."""
    size = "size unknown" if size_bytes is None else show_size(size_bytes)
    lines = [
        f"This plan would change {partitions} partition(s): {foreseen.replicas_added} replica(s)"
        f" copied ({size}), {foreseen.replicas_removed} removed, {foreseen.leaders_moved} preferred"
        " leader(s) moved."
    ]
    if foreseen.crowded_before is not None:
        lines.append(
            f"Partitions with avoidable rack sharing: {foreseen.crowded_before} now,"
            f" {foreseen.crowded_after} afterwards."
        )
    of_what = "all partitions" if of_all else "these topics"
    lines.append(f"Replicas of {of_what} on each broker, now and afterwards:")
    cells: Columns[BrokerShare] = {
        "Broker": lambda each: each.broker,
        "Replicas": lambda each: f"{each.replicas_before} -> {each.replicas_after}",
        "Leaders" if of_all else "Preferred": lambda each: (
            f"{each.leaders_before} -> {each.leaders_after}"
        ),
    }
    return "\n".join([*lines, columns(foreseen.shares, cells)])


def _refused(found: PlanResult) -> Iterator[str]:
    return refused_partitions(found.refused, found.refused_count)


def _partitions(ids: Sequence[PartitionId]) -> str:
    words = ", ".join(map(str, ids[: reassign_text.NAMED_MAX]))
    return " ".join([words, *and_more(len(ids) - reassign_text.NAMED_MAX)])
