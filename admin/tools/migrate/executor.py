"""Carry out a migration: look, take one step, look again.

Every step is a change of the voters or of the lead that the quorum itself records, and the next one
follows from what is seen then. An interruption at any point loses nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, assert_never

from admin.faults import AdminError, Refused, Unreachable
from admin.tools.migrate.observation import Cluster
from admin.tools.migrate.planner import (
    Retirement,
    is_settled,
    next_of_change,
    next_of_retirement,
)
from admin.tools.migrate.state import (
    AddVoter,
    Done,
    Finding,
    Kind,
    QuorumState,
    RemoveVoter,
    Step,
    TransferLead,
    Wait,
)
from quorum.clocks import monotonic_ms
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.protocol.errors import ErrorCode
from quorum.transport.address import Address

LOOK_AGAIN_SECONDS: Final = 0.2
SAY_AFTER_MS: Final = 1_000
"""A wait is said when it has lasted so long: right after an election, say, the new leader has not
heard of every voter yet."""
SETTLE_MS: Final = 10_000
"""An election takes no longer as a rule, with the first fetches from the new leader."""
_OVERTAKEN: Final = frozenset(
    {ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND, ErrorCode.ELECTION_NOT_NEEDED}
)
"""Refusals of a step that has been done meanwhile, by an earlier attempt or somebody else."""
_NOT_YET: Final = frozenset({ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})
"""Refusals of a step that may succeed soon: under load a voter may be a moment too far behind to
take the lead."""

UNANSWERED: Final = Wait(reason="the cluster has not answered in the time that was left")

Say = Callable[[str], None]


def until(deadline_ms: int) -> asyncio.Timeout:
    """The time that is left for a look; `TimeoutError` when it is up."""
    return asyncio.timeout(max(0, deadline_ms - monotonic_ms()) / 1000)


async def until_settled(cluster: Cluster) -> None:
    """Return when a majority follows the leader, or it had the time to.

    Right after an election the new leader has not heard of every voter yet.
    """
    deadline_ms = monotonic_ms() + SETTLE_MS
    while True:
        if is_settled(await cluster.quorum()) or monotonic_ms() >= deadline_ms:
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def change_voters(
    cluster: Cluster,
    wanted: Mapping[int, Address],
    *,
    obstacle: Callable[[int], Awaitable[Finding | None]],
    confirmed: frozenset[int],
    deadline_ms: int,
    say: Say,
) -> Step:
    """Change the voters to `wanted`; return `Done`, or what it waits for when time is up.

    Before one is added, `obstacle` looks by its id for what keeps it from voting.
    """

    async def look() -> Step:
        quorum = await cluster.quorum()
        settings = await cluster.settings(await cluster.brokers(quorum), confirmed)
        step = next_of_change(quorum, wanted, settings)
        if isinstance(step, AddVoter):
            found = await obstacle(step.controller.id)
            if found is not None:
                return Wait(reason=found.sentence, remedy=found.remedy)
        return step

    return await _go_on(cluster, look, deadline_ms=deadline_ms, say=say)


async def retire(
    cluster: Cluster,
    stays: Kind,
    *,
    confirmed: frozenset[int],
    session_ms: int,
    deadline_ms: int,
    say: Say,
) -> Step:
    """Wait until the controllers that have no vote are stopped and nobody misses them.

    Returns `Done`, or what it waits for when time is up.
    """
    watch = _Watch(cluster, stays, confirmed, session_ms)
    return await _go_on(cluster, watch.look, deadline_ms=deadline_ms, say=say)


class _Watch:
    """Looks again and again at what the end of a migration depends on."""

    def __init__(
        self, cluster: Cluster, stays: Kind, confirmed: frozenset[int], session_ms: int
    ) -> None:
        self._cluster = cluster
        self._stays = stays
        self._confirmed = confirmed
        self._session_ms = session_ms
        self._answering: frozenset[int] | None = None
        self._quiet_since_ms = monotonic_ms()

    async def look(self) -> Step:
        """Return what it waits for now."""
        cluster = self._cluster
        quorum = await cluster.quorum()
        brokers = await cluster.brokers(quorum)
        settings = await cluster.settings(brokers, self._confirmed)
        retired = {
            each.id: each.address
            for each in quorum.controllers
            if each.kind is not self._stays and each.address is not None
        }
        probes = await asyncio.gather(*map(cluster.probe, retired.values()))
        answering = frozenset(
            id for id, probe in zip(retired, probes, strict=True) if probe.kind is not None
        )
        if answering != self._answering or any(each.fenced for each in brokers):
            self._answering = answering
            self._quiet_since_ms = monotonic_ms()
        return next_of_retirement(
            Retirement(
                stays=self._stays,
                quorum=quorum,
                settings=settings,
                answering=answering,
                quiet_ms=monotonic_ms() - self._quiet_since_ms,
                session_ms=self._session_ms,
            )
        )


async def _go_on(
    cluster: Cluster, look: Callable[[], Awaitable[Step]], *, deadline_ms: int, say: Say
) -> Step:
    """Take steps until nothing is left to do, or the time is up."""
    step: Step = UNANSWERED
    said = text = ""
    since_ms = monotonic_ms()
    while True:
        before, step = step, await _step(cluster, look, deadline_ms)
        if isinstance(step, Done):
            return step
        if step is UNANSWERED:
            return before if isinstance(before, Wait) else step
        now_ms = monotonic_ms()
        if str(step) != text:
            text, since_ms = str(step), now_ms
        is_steady = not isinstance(step, Wait) or now_ms >= since_ms + SAY_AFTER_MS
        if is_steady and text != said:
            said = text
            say(said)
        if now_ms >= deadline_ms:
            return step
        if isinstance(step, Wait):
            await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def _step(cluster: Cluster, look: Callable[[], Awaitable[Step]], deadline_ms: int) -> Step:
    """Look, and carry out what is due; raises `AdminError` if it is refused.

    A change that has been requested is waited for: nobody would know its outcome.
    """
    try:
        async with until(deadline_ms):
            step = await look()
        if not isinstance(step, Wait | Done):
            await carry_out(cluster, step)
    except Refused as error:
        if error.code in _NOT_YET:
            return Wait(reason=str(error))
        if error.code not in _OVERTAKEN:
            raise
        return Wait(reason="it was done meanwhile")
    except Unreachable as error:
        return Wait(reason=str(error))
    except TimeoutError:
        return UNANSWERED
    return step


async def carry_out(cluster: Cluster, step: AddVoter | RemoveVoter | TransferLead) -> None:
    """Carry out one step; raises `AdminError`."""
    match step:
        case AddVoter(controller=added):
            assert added.address is not None, "the planner adds only controllers with an address"
            key = ReplicaKey(ReplicaId(added.id), added.directory_id)
            await cluster.client.add_voter(key, [(added.listener, added.address)])
        case RemoveVoter(controller=removed):
            key = ReplicaKey(ReplicaId(removed.id), removed.directory_id)
            await cluster.client.remove_voter(key)
        case TransferLead(leader=leader, to=heir):
            await cluster.transfer_lead(leader, heir)
        case _:
            assert_never(step)


def wanted_of(quorum: QuorumState, addresses: tuple[Address, ...]) -> dict[int, Address]:
    """The controllers of Kafka at these addresses, by id; raises `AdminError` for a stranger."""
    known = {each.address: each.id for each in quorum.of(Kind.KAFKA)}
    strangers = [each for each in addresses if each not in known]
    if strangers:
        places = ", ".join(f"{id} at {address}" for address, id in known.items()) or "none"
        raise AdminError(
            f"no controller of Kafka's is registered at {', '.join(map(str, strangers))}; known "
            f"are {places}: start it, and write --from as it is registered"
        )
    return {known[each]: each for each in addresses}
