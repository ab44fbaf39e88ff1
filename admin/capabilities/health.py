"""The health of the cluster: what is wrong, what mends it, and how many voters may be lost."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.quorum import (
    FailureTolerance,
    Reachable,
    failure_tolerance,
    members_of,
)
from admin.capabilities.schema import Answer, AsOfOffset, Context, Request, Route
from admin.monitoring.health_rules import Facts, Reason, is_healthy, reasons
from admin.tools.local_plan import local_folder, takes_commands
from controller.quorum_description import QuorumDescription
from controller.service import Service
from quorum.transport.security.validity import WARNINGS
from statemachine.image.image import Image
from statemachine.partitions.partition_health import PartitionHealth, partition_health
from statemachine.vocabulary import NO_LEADER


class Server(Answer, frozen=True, kw_only=True):
    """A replica of the metadata log, as the answering node knows it; null is unknown."""

    id: int
    voter: Annotated[bool, Meta(description="False for an observer")]
    leader: bool
    reachable: Reachable
    last_fetch_ms: Annotated[int | None, Meta(description="Milliseconds since its last fetch")]
    lag: Annotated[int | None, Meta(description="Records behind the leader")]
    lag_time_ms: int | None


class Health(Answer, frozen=True, kw_only=True):
    """The health of the cluster."""

    healthy: Annotated[bool, Meta(description="True if no reason is an error")]
    reasons: tuple[Reason, ...]
    failure_tolerance: FailureTolerance
    leader_id: Annotated[int, Meta(description="-1: unknown")]
    servers: Annotated[tuple[Server, ...], Meta(description="The voters first")]
    partitions: Annotated[
        PartitionHealth | None, Meta(description="null while the answering node still starts")
    ]
    as_of_offset: AsOfOffset


class DescribeHealth(Request[Health], frozen=True, kw_only=True):
    """Describe what is wrong with the cluster, by fixed rules.

    While there is no leader, the node that is asked answers with what it knows itself.
    """

    NAME = "quorum.health"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/quorum/health"),)
    ASKS_WHO_LEADS = True
    STALE_WITHOUT_LEADER = True
    FAILING = "the health cannot be described"

    async def answer(self, context: Context) -> Health:
        service = context.service
        quorum = await service.describe_quorum(stale=context.stale)
        fenced: tuple[int, ...] = ()
        partitions, offset = None, 0
        if service.controller.is_ready:
            report_of = service.controller.reported_copies()
            found = await service.read_long(
                partial(partition_health, report_of=report_of), stale=context.stale
            )
            partitions, offset = found.value, found.offset
            fenced = (await service.read(fenced_brokers, stale=context.stale)).value
        local = await asyncio.to_thread(_running_local_folder, service.folder)
        return _health(facts_of(service, quorum, partitions, fenced, local), partitions, offset)


def _running_local_folder(data: Path) -> str | None:
    """The folder of the `metaquorum local` that runs the node of a data folder, if one does."""
    folder = local_folder(data)
    return None if folder is None or not takes_commands(folder) else str(folder)


def fenced_brokers(image: Image) -> tuple[int, ...]:
    """The fenced brokers that have replicas."""
    index = image.index
    return tuple(
        [
            broker_id
            for broker_id, broker in sorted(image.brokers.items())
            if broker.fenced and index.count(index.replicas_of, broker_id)
        ]
    )


def facts_of(
    service: Service,
    quorum: QuorumDescription,
    partitions: PartitionHealth | None,
    fenced: tuple[int, ...],
    local_folder: str | None,
) -> Facts:
    """Return the facts that the rules judge."""
    known = partitions or PartitionHealth()
    return Facts(
        leader_id=None if quorum.leader_id == NO_LEADER else quorum.leader_id,
        leaderless_ms=service.quorum.leaderless_ms,
        members=members_of(quorum),
        target_voters=quorum.target_voters,
        waits_for=quorum.waits_for,
        full_disks=quorum.full_disks,
        fenced_brokers=fenced,
        without_leader=known.without_leader,
        under_min_isr=known.under_min_isr,
        stalled=known.stalled,
        stalled_moves=known.stalled_moves,
        local_folder=local_folder,
        certificates_end_s=WARNINGS.first_end_s,
        now_s=service.quorum.now_wall_ms / 1_000,
    )


def _health(facts: Facts, partitions: PartitionHealth | None, offset: int) -> Health:
    found = reasons(facts)
    left = failure_tolerance(facts.members)
    return Health(
        healthy=is_healthy(found),
        reasons=tuple(found),
        failure_tolerance=left,
        leader_id=NO_LEADER if facts.leader_id is None else facts.leader_id,
        servers=tuple(
            [
                Server(
                    id=each.id,
                    voter=each.is_voter,
                    leader=each.is_leader or each.id == facts.leader_id,
                    reachable=None if left is None else each.is_reachable,
                    last_fetch_ms=each.fetched_ms_ago,
                    lag=each.lag,
                    lag_time_ms=each.lag_ms,
                )
                for each in facts.members
            ]
        ),
        partitions=partitions,
        as_of_offset=offset,
    )
