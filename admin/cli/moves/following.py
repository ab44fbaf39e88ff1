"""`--verify` and `--list`: how far moves are. It changes nothing."""

import asyncio
from collections.abc import Sequence
from typing import Final

from admin.cli.common import Exit, Target, write, write_data
from admin.cli.moves import text
from admin.cli.moves.planned import replicas_of, topics_of
from admin.model import Assignment

VERIFY_ATTEMPTS: Final = 4
VERIFY_PAUSE_SECONDS: Final = 0.25


async def verify(whom: Target, plan: Sequence[Assignment], output: str) -> Exit:
    """Tell how far the plan is."""
    async with whom.client() as client:
        for attempt in range(1, VERIFY_ATTEMPTS + 1):
            active = {one.id: one for one in await client.list_reassignments()}
            topics = await client.describe_topics(topics_of(plan))
            states = text.move_states(plan, active, replicas_of(topics, plan))
            statuses = {state.status for state in states}
            if text.MoveStatus.NOT_AS_PLANNED not in statuses or attempt == VERIFY_ATTEMPTS:
                break
            # The broker that described the topics may be a moment behind the controller.
            await asyncio.sleep(VERIFY_PAUSE_SECONDS)
    if output == "table":
        write(text.verified(states))
    else:
        write_data(text.verified_data(states), output)
    if text.MoveStatus.NOT_AS_PLANNED in statuses:
        return Exit.FAILED
    return Exit.NOT_FINISHED if text.MoveStatus.IN_PROGRESS in statuses else Exit.DONE


async def show(whom: Target, output: str, *, stale: bool) -> Exit:
    """List all moves that are under way."""
    async with whom.client() as client:
        active = await client.reassignments(stale=stale)
    if output == "table":
        write(text.listed(active.moves))
    else:
        write_data(text.listed_data(active), output)
    return Exit.DONE
