"""`metaquorum topics alter --replication-factor`: another number of replicas, by a move."""

from admin.cli import emptying_text, throttled
from admin.cli.common import Exit, Target, say, write
from admin.cli.planned import with_key_told
from admin.client.log_sizes import bytes_of
from admin.plans import PlanRequest


async def change_factor(whom: Target, request: PlanRequest) -> Exit:
    """Begin a move that gives partitions of topics so many replicas, or tell of it."""
    dry_run = request.dry_run
    size_bytes = None
    async with whom.client() as client:
        found = await with_key_told(client, request)
        if dry_run and found.reason is None:
            size_bytes = (await bytes_of(client, found)).size_bytes
        if found.accepted:
            write(emptying_text.begun(found))
            await throttled.tell(client, found.moves, request.throttle_bytes_per_s)
    if found.reason is not None:
        say(f"Error: {found.reason}")
        return Exit.FAILED
    if dry_run:
        write(emptying_text.foreseen(found, size_bytes))
        return Exit.DONE
    if found.refused_count:
        say(emptying_text.refused(found))
    return Exit.FAILED if found.refused_count else Exit.DONE
