"""Plans that the controller makes: decommission, recommission, replication factor.

A plan becomes a move, which continues in the cluster after the command has returned. The command
keeps no state: called again, it does what is possible now and reports what is left.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from admin.capabilities.decommission import DecommissionBrokers, RecommissionBrokers
from admin.capabilities.moves import DescribeMove, NewMove
from admin.capabilities.plan_steps import (
    BytesMoved,
    PlanResult,
    begun_data,
    emptying_data,
    plan_data,
)
from admin.capabilities.plans import ChangeReplicationFactor
from admin.capabilities.schema import Request, with_key
from admin.cli import moves_text, reassign_text
from admin.cli.options import Exit, Target, say, write, write_data
from admin.cli.output import columns
from admin.cli.reassign_text import REPEATED
from admin.client.admin_client import AdminClient, Unreachable
from admin.client.log_sizes import bytes_of
from admin.model import PartitionId
from admin.units import show_size

WAIT_SECONDS: Final = 1.0
"""The polling interval of a command that waits."""


async def decommission(
    whom: Target, request: DecommissionBrokers, output: str, *, wait: bool
) -> Exit:
    """Cordon the brokers, move their replicas away, and unregister them if requested."""
    tell = write if output == "table" else _untold
    brokers, unregister = request.broker_ids, request.unregister
    async with whom.client() as client:
        found = await with_key_told(client, request)
        if request.dry_run and found.reason is None:
            _foretell(brokers, found, await bytes_of(client, found), output)
            return Exit.DONE
        exit_code = _told(brokers, found, tell, unregister=unregister)
        if output == "table":
            await tell_throttle(client, found.moves, request)
        # The keyed request is carried out; the following ones ask for the progress.
        request, said = replace(request, key=""), ""
        while wait and exit_code is Exit.NOT_FINISHED and not found.emptying.leaderless:
            if not found.emptying.held:
                break
            await asyncio.sleep(WAIT_SECONDS)
            now = await _progress(client, found.moves)
            if now not in ("", said):
                said = now
                say(said)
            found = await client.ask(request)
            exit_code = _told(brokers, found, tell, unregister=unregister, again=True)
    if output != "table":
        write_data({**emptying_data(found), **begun_data(found)}, output)
    return exit_code


def _foretell(brokers: Sequence[int], found: PlanResult, moved: BytesMoved, output: str) -> None:
    """Show the plan of a dry run."""
    if output != "table":
        write_data({**emptying_data(found), **plan_data(found, moved)}, output)
        return
    write(progress(brokers, found))
    foretold = foreseen(found, moved.bytes_moved, of_all=True)
    write(foretold if found.planned else "Nothing to move.")


def _untold(sentence: str) -> None:
    """Print nothing: with `-o json` the data follows at the end."""


async def _progress(client: "AdminClient", moves: Sequence[int]) -> str:
    """The progress of the running moves."""
    if not moves:
        return ""
    found = [await client.ask(DescribeMove(move_id=each)) for each in moves]
    return "\n".join(
        f"Move {move.move_id}: {move.completed} of {move.partitions_total} partition(s) done."
        f" {moves_text.summary(move)}"
        for move in found
        if not move.ended
    )


def _told(
    brokers: Sequence[int],
    found: PlanResult,
    tell: Callable[[str], None],
    *,
    unregister: bool,
    again: bool = False,
) -> Exit:
    """Print the result; return the exit code if the command ends here."""
    emptying = found.emptying
    if emptying.cordoned:
        tell(f"{_cordoned(emptying.cordoned)} no new replicas.")
    if found.reason is not None:
        say(f"Error: {found.reason}")
        return Exit.FAILED
    if not emptying.held:
        return _emptied(brokers, found, tell, unregister=unregister)
    if found.accepted:
        tell(begun(found))
    if found.accepted or not again:
        tell(progress(brokers, found))
    if found.refused_count:
        say(refused(found))
    return Exit.FAILED if found.refused_count or emptying.leaderless else Exit.NOT_FINISHED


def _emptied(
    brokers: Sequence[int], found: PlanResult, tell: Callable[[str], None], *, unregister: bool
) -> Exit:
    tell(emptied(brokers))
    if found.emptying.strange:
        tell(not_registered(found.emptying.strange))
    if not unregister or not found.emptying.alive:
        return Exit.DONE
    say(still_alive(found.emptying.alive))
    return Exit.NOT_FINISHED


async def recommission(whom: Target, request: RecommissionBrokers) -> Exit:
    """Uncordon the brokers and cancel the moves that empty them."""
    async with whom.client() as client:
        found = await with_key_told(client, request)
    if request.dry_run:
        write(taken_back(request.broker_ids, found))
    if found.emptying.cordoned:
        write(f"{_cordoned(found.emptying.cordoned)} new replicas again.")
    if found.accepted and not request.dry_run:
        write(reassign_text.cancelled([PartitionId(*each.id) for each in found.partitions]))
        say(has_now(found))
        if found.moves:
            say(way_back(found.moves))
    if found.refused_count:
        say(refused(found))
    if found.emptying.strange:
        say(strange(found.emptying.strange))
    return Exit.FAILED if found.refused_count or found.emptying.strange else Exit.DONE


NAMED_MAX: Final = 20
"""Partitions that a message names one by one."""


def progress(brokers: Sequence[int], found: PlanResult) -> str:
    """The progress of a decommission."""
    emptying = found.emptying
    if not emptying.held:
        return f"{named(brokers)}: no replicas left."
    lines = [
        f"{named(brokers)}: {emptying.held} partition(s) left, {emptying.leaving} already moving,"
        f" {found.planned} planned now."
    ]
    if emptying.busy:
        lines.append(
            f"Moving elsewhere now, repeat the command later: {_partitions(emptying.busy)}"
        )
    if emptying.leaderless:
        unled = _partitions(emptying.leaderless)
        lines.append(f"Without a leader, cannot be copied: {unled}")
    if emptying.to_be_unregistered:
        then = "will be unregistered once empty and stopped"
        lines.append(f"{named(emptying.to_be_unregistered)}: {then}.")
    return "\n".join(lines)


def begun(found: PlanResult) -> str:
    """The message about the moves that were started."""
    ids = ", ".join(map(str, found.moves))
    goes_on = (
        f"Moves {ids} continue in the cluster"
        if len(found.moves) > 1
        else f"Move {ids} continues in the cluster"
    )
    return (
        f"{goes_on}: {found.accepted} more partition(s)."
        f" Progress: `metaquorum moves show {found.moves[-1]}`."
    )


def foreseen(found: PlanResult, size_bytes: int | None = None, *, of_all: bool = False) -> str:
    """The effects of a plan; `of_all` if the shares are of the whole cluster."""
    told = found.foreseen
    size = "size unknown" if size_bytes is None else show_size(size_bytes)
    lines = [
        f"This plan would change {found.planned} partition(s): {told.replicas_added} replica(s)"
        f" copied ({size}), {told.replicas_removed} removed, {told.leaders_moved} preferred"
        " leader(s) moved."
    ]
    if told.crowded_before is not None:
        lines.append(
            f"Partitions with avoidable rack sharing: {told.crowded_before} now,"
            f" {told.crowded_after} afterwards."
        )
    of_what, leads = ("all", "Leaders") if of_all else ("these", "Preferred")
    lines.append(f"Replicas of {of_what} partitions on each broker, now and afterwards:")
    rows = [
        (
            each.broker,
            f"{each.replicas_before} -> {each.replicas_after}",
            f"{each.leaders_before} -> {each.leaders_after}",
        )
        for each in told.shares
    ]
    return "\n".join([*lines, columns(("Broker", "Replicas", leads), rows)])


def taken_back(brokers: Sequence[int], found: PlanResult) -> str:
    """The effects of a recommission."""
    known = [each for each in brokers if each not in found.emptying.strange]
    lines = [f"{named(known)} would be uncordoned."] if known else []
    if not found.accepted:
        return "\n".join([*lines, "Nothing would be cancelled."])
    would = f"{found.accepted} partition(s) would be cancelled, with these replicas:"
    return "\n".join([*lines, would, *_replicas(found)])


def has_now(found: PlanResult) -> str:
    """The replicas of the cancelled partitions."""
    return "\n".join(["Replicas now:", *_replicas(found)])


def way_back(moves: Sequence[int]) -> str:
    """The commands that restore replicas moved before the cancellation."""
    commands = ", ".join(f"`metaquorum moves rollback {id}`" for id in moves)
    return f"To restore replicas that had already moved: {commands}."


def _replicas(found: PlanResult) -> list[str]:
    some = found.partitions[:NAMED_MAX]
    lines = [f"{each.id}: {','.join(map(str, each.replicas))}" for each in some]
    more = found.accepted - len(lines)
    return [*lines, *([f"and {more} more"] if more else [])]


def refused(found: PlanResult) -> str:
    """The partitions that were refused, one per line."""
    lines = [f"Error: {each.id}: {each.message or each.kafka_error}" for each in found.refused]
    more = found.refused_count - len(found.refused)
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def emptied(brokers: Sequence[int]) -> str:
    """The message that brokers have no replicas."""
    return f"{named(brokers)}: no replicas left."


def not_registered(brokers: Sequence[int]) -> str:
    """The message that brokers are not registered."""
    return f"{named(brokers)}: not registered."


def strange(brokers: Sequence[int]) -> str:
    """The error about unknown brokers."""
    return "\n".join(f"Error: Broker ID {each} is not currently registered" for each in brokers)


def still_alive(alive: Sequence[int]) -> str:
    """The message that live brokers stay registered."""
    return f"{named(alive)} not unregistered: stop them first, and it is done then"


def _cordoned(brokers: Sequence[int]) -> str:
    """The subject and verb of a sentence about a cordon."""
    return f"{named(brokers)} {'gets' if len(brokers) == 1 else 'get'}"


def named(brokers: Sequence[int]) -> str:
    """The subject of a sentence about brokers."""
    several = "Brokers" if len(brokers) > 1 else "Broker"
    return f"{several} {', '.join(map(str, brokers))}"


def _partitions(ids: Sequence[PartitionId]) -> str:
    more = len(ids) - NAMED_MAX
    words = ", ".join(map(str, ids[:NAMED_MAX]))
    return f"{words} and {more} more" if more > 0 else words


async def tell_throttle(client: AdminClient, moves: Sequence[int], asked: NewMove[Any]) -> None:
    """Print the throttle of each running move, if one was requested."""
    for move_id in moves if asked.is_throttled else ():
        move = await client.ask(DescribeMove(move_id=move_id))
        if not move.ended:
            write(moves_text.throttled(move, asked))


async def with_key_told(client: AdminClient, request: Request[PlanResult]) -> PlanResult:
    """Ask with an idempotency key; if the outcome is unknown, print the key for a retry.

    Raises the errors of the client.
    """
    known = with_key(request)
    try:
        found = await client.ask(known)
    except Unreachable as error:
        key = getattr(known, "key", "")
        if error.may_be_done and key:
            say(f"To retry safely, add: --key {key}")
        raise
    if found.repeated:
        say(REPEATED)
    return found


async def change_factor(whom: Target, request: ChangeReplicationFactor) -> Exit:
    """Change the replication factor by a move, or show its plan."""
    dry_run = request.dry_run
    size_bytes = None
    async with whom.client() as client:
        found = await with_key_told(client, request)
        if dry_run and found.reason is None:
            size_bytes = (await bytes_of(client, found)).bytes_moved
        if found.accepted:
            write(begun(found))
            await tell_throttle(client, found.moves, request)
    if found.reason is not None:
        say(f"Error: {found.reason}")
        return Exit.FAILED
    if dry_run:
        write(foreseen(found, size_bytes))
        return Exit.DONE
    if found.refused_count:
        say(refused(found))
    return Exit.FAILED if found.refused_count else Exit.DONE
