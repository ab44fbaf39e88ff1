"""The questions to the leader, once for all streams of a node: lag, and what is left to copy.

The node asks in the name of a watcher, who may read it. While the leader does not answer, nothing
is known, and streams go on with what this node has itself.
"""

import asyncio
import logging
from typing import Final

from admin.capabilities.copy_progress import MOVES_MAX, DescribeCopies
from admin.capabilities.quorum import DescribeQuorum
from admin.faults import Refused
from admin.http.caller import Caller, NotAllowed
from admin.http.events.resources import NO_NEWS, LeaderNews
from admin.http.gateway import Gateway, NoAnswer
from controller.service import NotActive
from statemachine.reassignment.move_queries import recent_moves

logger = logging.getLogger("http")

ANSWER_SECONDS_MAX: Final = 3.0
"""The leader knows nothing that is worth a longer wait."""


async def ask_leader(gateway: Gateway, caller: Caller) -> LeaderNews:
    """Ask the leader, which may be this node, what it knows."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            quorum = await gateway.ask(DescribeQuorum(), caller)
            moves = await gateway.service.read_long(
                lambda image: recent_moves(image, MOVES_MAX, 0), stale=True
            )
            if not moves.value:
                return LeaderNews(quorum)
            left = await gateway.ask(DescribeCopies(moves=tuple(moves.value)), caller)
    except (TimeoutError, NoAnswer, NotActive, Refused, NotAllowed) as error:
        logger.debug("the leader did not say what it knows: %s", error)
        return NO_NEWS
    return LeaderNews(quorum, {each.move_id: each for each in left.moves})
