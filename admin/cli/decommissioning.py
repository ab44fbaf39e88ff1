"""`metaquorum brokers decommission` and `recommission`: emptying brokers, and going back.

What is begun is a move in the cluster: it goes on when this command has ended. Each call does what
can be done now, and says what is left; nothing is remembered here between the calls.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from admin.capabilities.brokers import CordonBrokers, UncordonBrokers
from admin.cli import brokers_text as text
from admin.cli import emptying_text, throttled
from admin.cli.common import Exit, Target, say, write, write_data
from admin.cli.moves import copies_text
from admin.cli.moves import text as moves_text
from admin.cli.planned import with_key_told
from admin.client.log_sizes import BytesMoved, bytes_of
from admin.model import PartitionId
from admin.plans import PlanRequest, PlanResult
from admin.plans_data import begun_data, emptying_data, plan_data

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient

WAIT_SECONDS: Final = 1.0
"""Between two looks of a command that waits."""


async def decommission(whom: Target, request: PlanRequest, output: str, *, wait: bool) -> Exit:
    """Cordon the brokers, move away what they have, and in the end forget them if wanted."""
    tell = write if output == "table" else _untold
    brokers, unregister = request.brokers or (), request.unregister
    async with whom.client() as client:
        found = await with_key_told(client, request)
        if request.dry_run and found.reason is None:
            _foretell(brokers, found, await bytes_of(client, found), output)
            return Exit.DONE
        exit_code = _told(brokers, found, tell, unregister=unregister)
        if output == "table":
            await throttled.tell(client, found.moves, request.throttle_bytes_per_s)
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
            found = await client.plan_moves(request)
            exit_code = _told(brokers, found, tell, unregister=unregister, again=True)
    if output != "table":
        write_data({**emptying_data(found), **begun_data(found)}, output)
    return exit_code


def _foretell(brokers: Sequence[int], found: PlanResult, moved: BytesMoved, output: str) -> None:
    """Say what would be begun."""
    if output != "table":
        write_data({**emptying_data(found), **plan_data(found, moved)}, output)
        return
    write(emptying_text.progress(brokers, found))
    foreseen = emptying_text.foreseen(found, moved.size_bytes, of_all=True)
    write(foreseen if found.planned else "Nothing is to be moved.")


def _untold(sentence: str) -> None:
    """Who wants data gets it in the end, and no sentences."""


async def _progress(client: "AdminClient", moves: Sequence[int]) -> str:
    """Where the moves that still run are, and what is left to copy."""
    if not moves:
        return ""
    return "\n".join(
        f"Move {move.id}: {move.completed} of {move.partition_count} partition(s) done."
        f" {copies_text.summary(move)}"
        for move in (await client.move_standings(moves)).moves
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
        tell(text.altered(emptying.cordoned, CordonBrokers))
    if found.reason is not None:
        say(f"Error: {found.reason}")
        return Exit.FAILED
    if not emptying.held:
        return _emptied(brokers, found, tell, unregister=unregister)
    if found.accepted:
        tell(emptying_text.begun(found))
    if found.accepted or not again:
        tell(emptying_text.progress(brokers, found))
    if found.refused_count:
        say(emptying_text.refused(found))
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


async def recommission(whom: Target, request: PlanRequest) -> Exit:
    """Let the brokers get replicas again, and cancel the moves that are emptying them."""
    async with whom.client() as client:
        found = await with_key_told(client, request)
    if request.dry_run:
        write(emptying_text.taken_back(request.brokers or (), found))
    if found.emptying.cordoned:
        write(text.altered(found.emptying.cordoned, UncordonBrokers))
    if found.accepted and not request.dry_run:
        write(moves_text.cancelled([PartitionId(*each.id) for each in found.partitions]))
        say(emptying_text.has_now(found))
        if found.moves:
            say(emptying_text.way_back(found.moves))
    if found.refused_count:
        say(emptying_text.refused(found))
    if found.emptying.strange:
        say(text.strange(found.emptying.strange))
    return Exit.FAILED if found.refused_count or found.emptying.strange else Exit.DONE
