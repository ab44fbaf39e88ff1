"""How large partitions are: asked of every broker that is alive, for each knows its own logs only.

Each is asked once. Who does not answer is done without: what that one alone has is unknown then.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from admin.addresses import Address
from admin.channels import Channels, Unanswered
from admin.client import AdminClient, Incompatible
from admin.plans import PlanResult
from admin.size_questions import named, read_sizes
from quorum.wire.apis import ApiKey

PATIENCE_MS: Final = 3_000
"""How long each broker may take."""
ASKED_AT_ONCE_MAX: Final = 16


async def log_sizes(
    client: AdminClient, wanted: Collection[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Bytes of the largest log of each of these partitions, of those of which any is known."""
    largest: dict[tuple[str, int], int] = {}
    if not wanted:
        return largest
    channels, room = Channels("metaquorum-admin"), asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def asked(address: Address) -> Mapping[tuple[str, int], int]:
        async with room:
            return await _sizes_at(channels, address, wanted)

    try:
        brokers = await client.brokers()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asked(each.address)) for each in brokers]
    finally:
        await channels.close()
    for task in tasks:
        for place, size_bytes in task.result().items():
            largest[place] = max(size_bytes, largest.get(place, 0))
    return largest


async def _sizes_at(
    channels: Channels, address: Address, wanted: Collection[tuple[str, int]]
) -> Mapping[tuple[str, int], int]:
    try:
        response = await channels.ask(
            address, ApiKey.DESCRIBE_LOG_DIRS, named(wanted), timeout_ms=PATIENCE_MS
        )
    except (Unanswered, Incompatible):
        # It is no reason to refuse a plan: the size is told as unknown.
        return {}
    return read_sizes(response)


async def bytes_of(client: AdminClient, found: PlanResult) -> int | None:
    """Bytes that the plan would copy; None where the size of any partition is not known."""
    added = {
        (each.id.topic, each.id.partition): len(set(each.target) - set(each.replicas))
        for each in found.partitions
    }
    if len(added) < found.planned:
        return None
    copied = {place: count for place, count in added.items() if count}
    sizes = await log_sizes(client, copied)
    if not copied.keys() <= sizes.keys():
        return None
    return sum(sizes[place] * count for place, count in copied.items())
