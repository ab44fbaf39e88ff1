"""The sizes of partitions and of brokers' logs, as live brokers report them.

The sizes that only a silent broker knows are unknown, and the reason names that broker.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

from admin.capabilities.plan_steps import BytesMoved, PlanResult
from admin.client.admin_client import AdminClient
from admin.client.log_dirs import LogDir, describe_log_dirs
from admin.model import PartitionId
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

NAMED_MAX: Final = 3
"""Brokers and partitions that a reason names."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    largest: Mapping[PartitionId, int]
    """Bytes of the largest log of each partition of which any is known."""
    silent: Sequence[str]
    """The reasons of brokers that did not answer, as they came."""


async def bytes_of(client: AdminClient, found: PlanResult) -> BytesMoved:
    """Return the bytes that the plan would copy."""
    brokers = [each.address for each in await client.brokers()]
    return await bytes_at(brokers, copies_of(found), client.security)


def copies_of(found: PlanResult) -> Mapping[PartitionId, int] | None:
    """Return the number of copies of each partition of the plan; None if it lists not all."""
    if len(found.partitions) < found.planned:
        return None
    return copied(
        {each.id: each.replicas for each in found.partitions},
        {each.id: each.target for each in found.partitions},
    )


def copied(
    current: Mapping[PartitionId, Sequence[int]], plan: Mapping[PartitionId, Sequence[int]]
) -> Mapping[PartitionId, int]:
    """Return the number of copies of each partition that a plan copies."""
    added = {place: len(set(wanted) - set(current[place])) for place, wanted in plan.items()}
    return {place: count for place, count in added.items() if count}


async def bytes_at(
    brokers: Sequence[Address],
    copies: Mapping[PartitionId, int] | None,
    security: ClientSecurity = PLAIN_CLIENT,
) -> BytesMoved:
    """Return the bytes of these copies of partitions; None: the plan does not list all."""
    if copies is None:
        return BytesMoved(None, "the plan has more partitions than are listed")
    if not copies:
        return BytesMoved(0)
    sizes = await _sizes(brokers, copies, security)
    lacking = [place for place in copies if place not in sizes.largest]
    if lacking:
        return BytesMoved(None, _unknown(lacking, sizes.silent))
    return BytesMoved(sum(sizes.largest[place] * count for place, count in copies.items()))


def _unknown(lacking: Sequence[PartitionId], silent: Sequence[str]) -> str:
    partitions = _first([*map(str, lacking)])
    words = f"no live broker reports the size of {partitions}"
    return f"{words}; {_first(silent)}" if silent else words


def _first(words: Sequence[str]) -> str:
    more = len(words) - NAMED_MAX
    return ", ".join(words[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


async def stored_at(
    brokers: Collection[Address], security: ClientSecurity = PLAIN_CLIENT
) -> dict[Address, int | str]:
    """Return the bytes of all logs of each broker, or the reason why they are unknown."""
    answered = await describe_log_dirs(brokers, security=security)
    known = {address: _stored(each) for address, each in answered.of_brokers.items()}
    return {**answered.silent, **known}


def _stored(directories: Sequence[LogDir]) -> int | str:
    """The bytes of all logs, those included that will take the place of others."""
    offline = [each for each in directories if each.error is not None]
    if offline:
        return f"its log directory {offline[0].path} cannot be read: {offline[0].error}"
    return sum(log.size_bytes for directory in directories for log in directory.logs)


async def _sizes(
    brokers: Sequence[Address], wanted: Collection[PartitionId], security: ClientSecurity
) -> _Sizes:
    partitions = {
        topic: [number for _, number in found]
        for topic, found in groupby(sorted(wanted), key=itemgetter(0))
    }
    answered = await describe_log_dirs(brokers, partitions, security)
    largest: dict[PartitionId, int] = {}
    for directories in answered.of_brokers.values():
        for log in (each for directory in directories for each in directory.logs):
            # A log that will take the place of another one is not a second copy.
            if not log.is_future:
                place = PartitionId(log.topic, log.partition)
                largest[place] = max(log.size_bytes, largest.get(place, 0))
    return _Sizes(largest, [*answered.silent.values()])
