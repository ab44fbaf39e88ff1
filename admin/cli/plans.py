"""`metaquorum brokers decommission` and `recommission`: emptying brokers, and going back.

What is begun is a move in the cluster: it goes on when this command has ended. Each call does what
can be done now, and says what is left; nothing is remembered here between the calls.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from admin.capabilities.moves import DescribeMove
from admin.capabilities.plans import (
    BytesMoved,
    ChangeReplicationFactor,
    DecommissionBrokers,
    PlanResult,
    RecommissionBrokers,
    begun_data,
    emptying_data,
    plan_data,
)
from admin.capabilities.schema import Request, with_key
from admin.cli import brokers as text
from admin.cli import moves_text, reassign_text
from admin.cli.options import Exit, Target, say, write, write_data
from admin.cli.output import columns
from admin.cli.reassign_text import REPEATED
from admin.client.admin_client import AdminClient, Unreachable
from admin.client.log_sizes import bytes_of
from admin.model import PartitionId
from admin.units import show_size
from controller.quorum_description import UNKNOWN

if TYPE_CHECKING:
    from admin.capabilities.moves import Move

WAIT_SECONDS: Final = 1.0
"""Between two looks of a command that waits."""


async def decommission(
    whom: Target, request: DecommissionBrokers, output: str, *, wait: bool
) -> Exit:
    """Cordon the brokers, move away what they have, and in the end forget them if wanted."""
    tell = write if output == "table" else _untold
    brokers, unregister = request.broker_ids, request.unregister
    async with whom.client() as client:
        found = await with_key_told(client, request)
        if request.dry_run and found.reason is None:
            _foretell(brokers, found, await bytes_of(client, found), output)
            return Exit.DONE
        exit_code = _told(brokers, found, tell, unregister=unregister)
        if output == "table":
            await tell_throttle(client, found.moves, request.throttle_bytes_per_s)
        # What the key was for has been done; from here on it is asked how far it is.
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
    """Say what would be begun."""
    if output != "table":
        write_data({**emptying_data(found), **plan_data(found, moved)}, output)
        return
    write(progress(brokers, found))
    foretold = foreseen(found, moved.size_bytes, of_all=True)
    write(foretold if found.planned else "Nothing is to be moved.")


def _untold(sentence: str) -> None:
    """Who wants data gets it in the end, and no sentences."""


async def _progress(client: "AdminClient", moves: Sequence[int]) -> str:
    """Where the moves that still run are, and what is left to copy."""
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
    """Say what came of it, and how the command ends if it ends now."""
    emptying = found.emptying
    if emptying.cordoned:
        tell(text.altered(emptying.cordoned, text.CORDONED))
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
    tell(text.emptied(brokers))
    if found.emptying.strange:
        tell(text.not_registered(found.emptying.strange))
    if not unregister or not found.emptying.alive:
        return Exit.DONE
    say(text.still_alive(found.emptying.alive))
    return Exit.NOT_FINISHED


async def recommission(whom: Target, request: RecommissionBrokers) -> Exit:
    """Let the brokers get replicas again, and cancel the moves that are emptying them."""
    async with whom.client() as client:
        found = await with_key_told(client, request)
    if request.dry_run:
        write(taken_back(request.broker_ids, found))
    if found.emptying.cordoned:
        write(text.altered(found.emptying.cordoned, text.UNCORDONED))
    if found.accepted and not request.dry_run:
        write(reassign_text.cancelled([PartitionId(*each.id) for each in found.partitions]))
        say(has_now(found))
        if found.moves:
            say(way_back(found.moves))
    if found.refused_count:
        say(refused(found))
    if found.emptying.strange:
        say(text.strange(found.emptying.strange))
    return Exit.FAILED if found.refused_count or found.emptying.strange else Exit.DONE


NAMED_MAX: Final = 20
"""Partitions that a sentence names one by one."""


def progress(brokers: Sequence[int], found: PlanResult) -> str:
    """How far brokers are from having no replicas."""
    emptying = found.emptying
    if not emptying.held:
        return f"{named(brokers)}: no replicas left."
    lines = [
        f"{named(brokers)}: {emptying.held} partition(s) to be moved away, {emptying.leaving} on"
        f" their way before, {found.planned} planned now."
    ]
    if emptying.busy:
        lines.append(f"Moved elsewhere first, ask again then: {_partitions(emptying.busy)}")
    if emptying.leaderless:
        unled = _partitions(emptying.leaderless)
        lines.append(f"Without a leader, so that nothing can be copied: {unled}")
    if emptying.to_be_unregistered:
        then = "unregistered once nothing is left and it is stopped"
        lines.append(f"{named(emptying.to_be_unregistered)}: {then}.")
    return "\n".join(lines)


def begun(found: PlanResult) -> str:
    """Which moves have begun, and how to follow and undo them."""
    ids = ", ".join(map(str, found.moves))
    goes_on = (
        f"Moves {ids} go on by themselves"
        if len(found.moves) > 1
        else f"Move {ids} goes on by itself"
    )
    return (
        f"{goes_on}: {found.accepted} partition(s) more."
        f" `metaquorum moves show {found.moves[-1]}` follows it."
    )


def foreseen(found: PlanResult, size_bytes: int | None = None, *, of_all: bool = False) -> str:
    """What a plan would do; `of_all` where shares are of the whole cluster."""
    told = found.foreseen
    size = "size unknown" if size_bytes is None else show_size(size_bytes)
    lines = [
        f"This plan would change {found.planned} partition(s): {told.replicas_added} replica(s)"
        f" copied ({size}), {told.replicas_removed} removed, {told.leaders_moved} preferred"
        " leader(s) moved."
    ]
    if told.crowded_before != UNKNOWN:
        lines.append(
            f"Partitions that share racks needlessly: {told.crowded_before} now,"
            f" {told.crowded_after} then."
        )
    of_what, leads = ("all", "Leaders") if of_all else ("these", "Preferred")
    lines.append(f"What each broker has of {of_what} partitions, and would have:")
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
    """What a recommission would do."""
    known = [each for each in brokers if each not in found.emptying.strange]
    lines = [f"{named(known)} would get new replicas again."] if known else []
    if not found.accepted:
        return "\n".join([*lines, "Nothing would be cancelled."])
    would = f"{found.accepted} partition(s) would be cancelled; they would have:"
    return "\n".join([*lines, would, *_replicas(found)])


def has_now(found: PlanResult) -> str:
    """What the partitions have of which a recommission has cancelled the move."""
    return "\n".join(["Replicas now:", *_replicas(found)])


def way_back(moves: Sequence[int]) -> str:
    """How to get back what the cancelled moves had taken away before."""
    commands = ", ".join(f"`metaquorum moves rollback {id}`" for id in moves)
    return f"What had been moved away before comes back by {commands}."


def _replicas(found: PlanResult) -> list[str]:
    some = found.partitions[:NAMED_MAX]
    lines = [f"{each.id}: {','.join(map(str, each.replicas))}" for each in some]
    more = found.accepted - len(lines)
    return [*lines, *([f"and {more} more"] if more else [])]


def refused(found: PlanResult) -> str:
    """Every partition that could not be begun, or cancelled, a line each."""
    lines = [f"Error: {each.id}: {each.message or each.kafka_error}" for each in found.refused]
    more = found.refused_count - len(found.refused)
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def named(brokers: Sequence[int]) -> str:
    """Brokers at the beginning of a sentence."""
    several = "Brokers" if len(brokers) > 1 else "Broker"
    return f"{several} {', '.join(map(str, brokers))}"


def _partitions(ids: Sequence[PartitionId]) -> str:
    more = len(ids) - NAMED_MAX
    words = ", ".join(map(str, ids[:NAMED_MAX]))
    return f"{words} and {more} more" if more > 0 else words


async def tell_throttle(
    client: "AdminClient", moves: Sequence[int], wanted_bytes_per_s: int
) -> None:
    """Say at which rate each move goes that was begun now, or before; nothing if none is wanted.

    A move that was begun before keeps its own.
    """
    if not (wanted_bytes_per_s and moves):
        return
    for move_id in moves:
        move = await client.ask(DescribeMove(move_id=move_id))
        if not move.ended:
            write(_sentence(move, wanted_bytes_per_s))


def _sentence(move: "Move", wanted_bytes_per_s: int) -> str:
    rate = move.throttle_bytes_per_s
    if rate == wanted_bytes_per_s:
        return f"Move {move.move_id} copies at most {rate} bytes/s to each broker, and from each."
    now = f"is throttled to {rate} bytes/s" if rate else "is not throttled"
    return (
        f"Move {move.move_id} had begun before and {now};"
        f" `metaquorum moves throttle {move.move_id} {wanted_bytes_per_s}` changes that."
    )


async def with_key_told(client: AdminClient, request: Request[PlanResult]) -> PlanResult:
    """What came of it; where that is not known, with which key it is asked for again.

    Raises what the client does.
    """
    known = with_key(request)
    try:
        found = await client.ask(known)
    except Unreachable as error:
        key = getattr(known, "key", "")
        if error.may_be_done and key:
            say(f"To ask again and have it done once, add: --key {key}")
        raise
    if found.repeated:
        say(REPEATED)
    return found


async def change_factor(whom: Target, request: ChangeReplicationFactor) -> Exit:
    """Begin a move that gives partitions of topics so many replicas, or tell of it."""
    dry_run = request.dry_run
    size_bytes = None
    async with whom.client() as client:
        found = await with_key_told(client, request)
        if dry_run and found.reason is None:
            size_bytes = (await bytes_of(client, found)).size_bytes
        if found.accepted:
            write(begun(found))
            await tell_throttle(client, found.moves, request.throttle_bytes_per_s)
    if found.reason is not None:
        say(f"Error: {found.reason}")
        return Exit.FAILED
    if dry_run:
        write(foreseen(found, size_bytes))
        return Exit.DONE
    if found.refused_count:
        say(refused(found))
    return Exit.FAILED if found.refused_count else Exit.DONE
