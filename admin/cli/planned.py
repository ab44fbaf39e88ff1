"""A plan is asked for by a command: with the key that whoever asks again is to give."""

from admin.cli.common import say
from admin.cli.moves.text import REPEATED
from admin.client.admin_client import AdminClient, Unreachable
from admin.plans import PlanRequest, PlanResult, with_key


async def with_key_told(client: AdminClient, request: PlanRequest) -> PlanResult:
    """What came of it; where that is not known, with which key it is asked for again.

    Raises what the client does.
    """
    known = with_key(request)
    try:
        found = await client.plan_moves(known)
    except Unreachable as error:
        if error.may_be_done and known.key:
            say(f"To ask again and have it done once, add: --key {known.key}")
        raise
    if found.is_repeated:
        say(REPEATED)
    return found
