"""The health of the cluster: what is wrong, what mends it, and how many voters may be lost."""

from functools import partial
from typing import Annotated

from msgspec import Meta

from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.schema import Answer, AsOfOffset, Context, Request, Route
from admin.monitoring.health_rules import Facts, Member, Reason, is_healthy, reasons, tolerance
from controller.quorum_description import (
    UNKNOWN,
    QuorumDescription,
    ReplicaInfo,
    lag,
    lag_time_ms,
)
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
    reachable: Annotated[
        bool | None, Meta(description="True if it leads, or has fetched lately from the leader")
    ]
    last_fetch_ms: Annotated[int | None, Meta(description="Milliseconds since its last fetch")]
    lag: Annotated[int | None, Meta(description="Records behind the leader")]
    lag_time_ms: int | None


class Health(Answer, frozen=True, kw_only=True):
    """The health of the cluster."""

    healthy: Annotated[bool, Meta(description="True if no reason is an error")]
    reasons: tuple[Reason, ...]
    failure_tolerance: Annotated[
        int | None,
        Meta(description="Voters that may be lost before the quorum stops; null without a leader"),
    ]
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
        return _health(facts_of(service, quorum, partitions, fenced), partitions, offset)


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
) -> Facts:
    """Return the facts that the rules judge."""
    known = partitions or PartitionHealth()
    now_ms = service.quorum.now_wall_ms
    leads = service.leader_id == service.quorum.node.me.id
    members = [
        *(_member(quorum, each, now_ms, leads=leads, is_voter=True) for each in quorum.voters),
        *(_member(quorum, each, now_ms, leads=leads, is_voter=False) for each in quorum.observers),
    ]
    return Facts(
        leader_id=None if quorum.leader_id == NO_LEADER else quorum.leader_id,
        leaderless_ms=service.quorum.leaderless_ms,
        # Only a leader hears from the others.
        members=members,
        target_voters=quorum.target_voters,
        waits_for=quorum.waits_for,
        full_disks=quorum.full_disks,
        fenced_brokers=fenced,
        without_leader=known.without_leader,
        under_min_isr=known.under_min_isr,
        stalled=known.stalled,
        stalled_moves=known.stalled_moves,
        certificates_end_s=WARNINGS.first_end_s,
        now_s=now_ms / 1_000,
    )


def _member(
    quorum: QuorumDescription, replica: ReplicaInfo, now_ms: int, *, leads: bool, is_voter: bool
) -> Member:
    behind, behind_ms = lag(replica, quorum.leader), lag_time_ms(replica, quorum.leader)
    fetched_ms = replica.last_fetch_ms
    return Member(
        id=replica.id,
        is_voter=is_voter,
        is_leader=leads and replica.id == quorum.leader_id,
        fetched_ms_ago=None if fetched_ms == UNKNOWN else max(0, now_ms - fetched_ms),
        lag=None if not leads or replica.log_end_offset == UNKNOWN else behind,
        lag_ms=None if not leads or behind_ms == UNKNOWN else behind_ms,
    )


def _health(facts: Facts, partitions: PartitionHealth | None, offset: int) -> Health:
    found = reasons(facts)
    is_led = any(each.is_leader for each in facts.members)
    return Health(
        healthy=is_healthy(found),
        reasons=tuple(found),
        failure_tolerance=tolerance(facts.voters) if is_led else None,
        leader_id=NO_LEADER if facts.leader_id is None else facts.leader_id,
        servers=tuple(
            [
                Server(
                    id=each.id,
                    voter=each.is_voter,
                    leader=each.is_leader or each.id == facts.leader_id,
                    reachable=each.is_reachable if is_led else None,
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
