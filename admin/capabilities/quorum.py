"""The quorum of controllers: describe it, choose its voters, transfer its lead."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from admin.capabilities.needs import ALTER_CLUSTER, ALTER_VOTERS, DESCRIBE_CLUSTER
from admin.capabilities.paging import Page, PageRequest
from admin.capabilities.schema import Answer, AsOfOffset, Context, Request, Route, refused
from admin.monitoring.health_rules import Member, tolerance
from controller.quorum_description import (
    UNKNOWN,
    LeadTransfer,
    QuorumDescription,
    ReplicaInfo,
    lag,
    lag_time_ms,
)
from quorum.core.limits import VOTERS_MAX
from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, ReplicaKey, uuid_from_text, uuid_to_text
from quorum.protocol.errors import ErrorCode, RequestRefused
from quorum.transport.address import Address
from quorum.version import VERSION
from statemachine.errors import Error
from statemachine.slices import whole

STATUS: Final = "metaquorum metadata-quorum describe --status"

ReplicaNumber = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Id of a controller")]
Reachable = Annotated[
    bool | None,
    Meta(description="True if it leads, or has fetched lately from the leader; null: unknown"),
]
FailureTolerance = Annotated[
    int | None,
    Meta(description="Voters that may be lost before the quorum stops; null without a leader"),
]


ReplicaStatus = Literal["leader", "follower", "observer"]


class Endpoint(Answer, frozen=True, kw_only=True):
    """An address at which a replica or a broker listens."""

    name: Annotated[str, Meta(description="Name of the listener")]
    host: str
    port: int


class Replica(Answer, frozen=True, kw_only=True):
    """A replica of the metadata log, as the leader last heard of it; -1 is unknown."""

    replica_id: int
    directory_id: str
    status: ReplicaStatus
    log_end_offset: int
    lag: Annotated[int, Meta(description="Records behind the leader")]
    lag_time_ms: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    reachable: Reachable
    endpoints: tuple[Endpoint, ...]


class Quorum(Answer, frozen=True, kw_only=True):
    """The quorum as its leader sees it; -1 is unknown."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    as_of_offset: AsOfOffset
    max_follower_lag: int
    max_follower_lag_time_ms: int
    failure_tolerance: FailureTolerance
    current_voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    target_voters: Annotated[
        tuple[int, ...] | None, Meta(description="The voters after the change under way")
    ]
    waits_for: Annotated[str | None, Meta(description="What a change of the voters waits for")]
    full_disks: Annotated[
        tuple[int, ...], Meta(description="Nodes without disk space; each knows of itself alone")
    ]
    leaderless_since_ms: Annotated[
        int | None,
        Meta(
            description="Since when the node that answers knows no leader; null while it knows one"
        ),
    ] = None


class Replicas(Page, frozen=True, kw_only=True):
    """Voters and observers in order of id."""

    replicas: tuple[Replica, ...]


class Voters(Answer, frozen=True, kw_only=True):
    """The voters, and the change of them that is under way."""

    current_voters: tuple[int, ...]
    target_voters: tuple[int, ...] | None
    waits_for: str | None
    as_of_offset: AsOfOffset

    @property
    def is_at_rest(self) -> bool:
        """True if no change is under way."""
        return not self.target_voters and self.waits_for is None


class NodeAddress(Answer, frozen=True, kw_only=True):
    """The address that a node has announced."""

    replica_id: int
    directory_id: str
    boot_timestamp: int
    host: str
    port: int
    software_version: Annotated[
        str, Meta(description="The release that it runs; empty if it does not say")
    ] = ""

    @property
    def address(self) -> Address:
        """The address as one value."""
        return Address(self.host, self.port)


class Nodes(Answer, frozen=True, kw_only=True):
    """The nodes that one node has heard of, as DiscoverBrokers lists them (KIP-595)."""

    cluster_id: str | None
    leader_id: Annotated[int, Meta(description="-1: unknown")]
    leader_epoch: int
    brokers: tuple[NodeAddress, ...]
    software_version: Annotated[
        str, Meta(description="The release of the node that answers; empty if it does not say")
    ] = ""


class Voter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A voter with the directory of its log."""

    id: ReplicaNumber
    directory_id: str


class DescribeQuorum(Request[Quorum], frozen=True, kw_only=True):
    """Describe the leader, the voters and the progress of every replica."""

    NAME = "quorum.describe"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/quorum"),)
    ASKS_WHO_LEADS = True
    FAILING = "the quorum cannot be described"

    async def answer(self, context: Context) -> Quorum:
        return await _quorum(context)


class ListReplicas(PageRequest[Replicas], frozen=True, kw_only=True):
    """List the voters and observers and their progress."""

    status: Annotated[
        tuple[ReplicaStatus, ...], Meta(description="With any of these; empty: all")
    ] = ()

    NAME = "quorum.replicas"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/quorum/replicas"),)
    ASKS_WHO_LEADS = True
    FAILING = "the replicas cannot be listed"
    ITEMS = "replicas"

    async def answer(self, context: Context) -> Replicas:
        found = await _quorum(context)
        replicas = {
            each.replica_id: each
            for each in (*found.current_voters, *found.observers)
            if not self.status or each.status in self.status
        }
        # They are bounded by the observers of a leader (`OBSERVERS_MAX`).
        cut = whole(self.cut(replicas))
        return Replicas(
            as_of_offset=found.as_of_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            replicas=tuple([replicas[each] for each in cut.shown]),
        )


class DescribeVoters(Request[Voters], frozen=True, kw_only=True):
    """Describe the voters and the change of them that is under way."""

    NAME = "quorum.voters"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/quorum/voters"),)
    ASKS_WHO_LEADS = True
    FAILING = "the quorum cannot be described"

    async def answer(self, context: Context) -> Voters:
        return _voters(await context.service.describe_quorum(stale=context.stale))


class DescribeNodes(Request[Nodes], frozen=True, kw_only=True):
    """List the nodes that the answering node has heard of; it needs no leader."""

    NAME = "quorum.nodes"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/quorum/brokers"),)
    STALE = False
    LOCAL = True
    FAILING = "the nodes cannot be listed"

    async def answer(self, context: Context) -> Nodes:
        service = context.service
        return Nodes(
            cluster_id=service.cluster_id,
            leader_id=service.leader_id,
            leader_epoch=service.quorum.node.epoch,
            software_version=VERSION,
            brokers=tuple(
                NodeAddress(
                    replica_id=node.id,
                    directory_id=uuid_to_text(node.directory_id),
                    boot_timestamp=node.boot_timestamp,
                    host=node.address[0],
                    port=node.address[1],
                    software_version=node.software_version,
                )
                for node in service.addresses.gossip.advertisements
            ),
        )


class AlterVoters(Request[Voters], frozen=True, kw_only=True):
    """Set the target voters, reached one at a time; null cancels the change under way.

    The answer comes once the target is committed; `quorum.voters` shows the progress.
    """

    target_voters: Annotated[
        Annotated[tuple[ReplicaNumber | Voter, ...], Meta(min_length=1, max_length=VOTERS_MAX)]
        | None,
        Meta(description="Ids, or ids with directory ids; null: cancel"),
    ]

    NAME = "quorum.alter-voters"
    NEEDS = ALTER_VOTERS
    ROUTES = (
        Route("PUT", "/v1/quorum/voters"),
        Route("DELETE", "/v1/quorum/voters/target", fixed={"target_voters": None}),
    )
    CHANGES = True
    STATUS_COMMAND = STATUS
    ERRORS = (ErrorCode.UNSUPPORTED_VERSION,)
    FAILING = "the voters cannot be changed"

    async def answer(self, context: Context) -> Voters:
        target = None
        if self.target_voters is not None:
            target = tuple(map(_key, self.target_voters))
            ids = [each.id for each in target]
            repeated = next((each for each in ids if ids.count(each) > 1), None)
            if repeated is not None:
                raise refused(Error.INVALID_REQUEST, f"target_voters names {repeated} twice")
        # Only a node answers, and clients would wait for what it imports.
        from quorum.core.messages import AlterQuorumRequest

        response = await context.service.want_voters(
            context.who, AlterQuorumRequest(target=target, timeout_ms=context.timeout_ms)
        )
        if response.error:
            raise RequestRefused(response.error, response.text)
        return _voters(await context.service.describe_quorum())


class TransferLead(Request[LeadTransfer], frozen=True, kw_only=True):
    """Make another controller the active one, and answer when it is, or if it is already."""

    to: Annotated[
        ReplicaNumber | None, Meta(description="null: the voter that has caught up furthest")
    ] = None

    NAME = "quorum.transfer-lead"
    NEEDS = ALTER_CLUSTER
    ROUTES = (Route("POST", "/v1/quorum/leader:transfer"),)
    CHANGES = True
    STATUS_COMMAND = STATUS
    ERRORS = (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, ErrorCode.VOTER_NOT_FOUND)

    def failing(self) -> str:
        return f"the lead cannot be transferred{'' if self.to is None else f' to {self.to}'}"

    async def answer(self, context: Context) -> LeadTransfer:
        to = None if self.to is None else ReplicaId(self.to)
        found = await context.service.transfer_leadership(context.who, to)
        if not isinstance(found, LeadTransfer):
            raise RequestRefused(found.error, found.text)
        return found


def members_of(found: QuorumDescription) -> list[Member]:
    """The voters and observers as the rules of health judge them.

    Only the leader knows the others: it is in touch with itself at the time of its description.
    """
    leader = found.leader
    now_ms = UNKNOWN if leader is None else leader.last_caught_up_ms
    return [
        *(_member(found, each, now_ms, is_voter=True) for each in found.voters),
        *(_member(found, each, now_ms, is_voter=False) for each in found.observers),
    ]


def _member(
    found: QuorumDescription, replica: ReplicaInfo, now_ms: int, *, is_voter: bool
) -> Member:
    behind, behind_ms = lag(replica, found.leader), lag_time_ms(replica, found.leader)
    fetched_ms, is_led = replica.last_fetch_ms, now_ms != UNKNOWN
    return Member(
        id=replica.id,
        is_voter=is_voter,
        is_leader=is_led and replica.id == found.leader_id,
        fetched_ms_ago=max(0, now_ms - fetched_ms) if is_led and fetched_ms != UNKNOWN else None,
        lag=behind if is_led and replica.log_end_offset != UNKNOWN else None,
        lag_ms=behind_ms if is_led and behind_ms != UNKNOWN else None,
    )


def failure_tolerance(members: Sequence[Member]) -> int | None:
    """The number of voters that may be lost; None unless the leader describes them."""
    is_led = any(each.is_leader for each in members)
    return tolerance([each for each in members if each.is_voter]) if is_led else None


async def _quorum(context: Context) -> Quorum:
    """Describe the quorum, once for all who ask at the same time."""
    service, stale = context.service, context.stale

    async def describe() -> Quorum:
        return quorum_of(await service.describe_quorum(stale=stale))

    return await service.shared_reads.read((DescribeQuorum.NAME, stale), describe)


def quorum_of(found: QuorumDescription) -> Quorum:
    """The answer that describes a quorum."""
    members = members_of(found)
    left = failure_tolerance(members)
    reachable = {each.id: None if left is None else each.is_reachable for each in members}
    voters = _replicas(found, found.voters, "follower", reachable)
    # The first of several, as in Kafka's tool.
    slowest = min(voters, key=lambda voter: voter.log_end_offset, default=None)
    return Quorum(
        cluster_id=found.cluster_id,
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        as_of_offset=found.high_watermark,
        max_follower_lag=UNKNOWN if slowest is None else slowest.lag,
        max_follower_lag_time_ms=UNKNOWN if slowest is None else slowest.lag_time_ms,
        failure_tolerance=left,
        current_voters=voters,
        observers=_replicas(found, found.observers, "observer", reachable),
        target_voters=None if found.target_voters is None else tuple(found.target_voters),
        waits_for=found.waits_for,
        full_disks=tuple(found.full_disks),
        leaderless_since_ms=found.leaderless_since_ms,
    )


def _replicas(
    found: QuorumDescription,
    replicas: Sequence[ReplicaInfo],
    status: ReplicaStatus,
    reachable: Mapping[int, bool | None],
) -> tuple[Replica, ...]:
    leader = found.leader
    return tuple(
        Replica(
            replica_id=each.id,
            directory_id=uuid_to_text(each.directory_id),
            status="leader" if each.id == found.leader_id else status,
            log_end_offset=each.log_end_offset,
            lag=lag(each, leader),
            lag_time_ms=lag_time_ms(each, leader),
            last_fetch_timestamp=each.last_fetch_ms,
            last_caught_up_timestamp=each.last_caught_up_ms,
            reachable=reachable[each.id],
            endpoints=tuple(
                Endpoint(name=name, host=address.host, port=address.port)
                for name, address in found.addresses.get(each.id, ())
            ),
        )
        for each in replicas
    )


def _voters(found: QuorumDescription) -> Voters:
    return Voters(
        current_voters=tuple(sorted(each.id for each in found.voters)),
        target_voters=None if found.target_voters is None else tuple(found.target_voters),
        waits_for=found.waits_for,
        as_of_offset=found.high_watermark,
    )


def _key(voter: int | Voter) -> ReplicaKey:
    if isinstance(voter, int):
        return ReplicaKey(ReplicaId(voter), NO_DIRECTORY)
    try:
        return ReplicaKey(ReplicaId(voter.id), uuid_from_text(voter.directory_id))
    except ValueError as error:
        raise refused(Error.INVALID_REQUEST, f"directory_id: {error}") from error
