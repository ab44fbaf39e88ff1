"""What can be asked of a cluster: one method for each capability, the same for every door.

The doors (Kafka protocol, HTTP) translate; here is what they translate to. A method answers on the
active controller and raises `NotActive` on any other node: to whom a request is passed on then, and
for how long one waits for an election, is decided by the doors, which know how. What is too large
to be carried out in one piece raises `RequestRefused` (Kafka has POLICY_VIOLATION for it).

What is read is never stale, unless the asker says that it may be: then any node answers, from what
it has. Every answer about state says the offset that it is as of.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from admin.model import (
    NO_LEADER,
    UNKNOWN,
    LeadTransfer,
    QuorumDescription,
    ReplicaInfo,
)
from admin.whereabouts import Whereabouts, nodes_of
from controller import audit
from controller.ports import UNPROVED, Unavailable
from controller.quorum_controller import QuorumController
from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import ReadRefusal
from quorum.core.messages import Error, TransferResponse, VoterRequest, VotersResponse
from quorum.core.replica_progress import ReplicaStatus
from quorum.core.vocabulary import Epoch, ReplicaId
from quorum.core.voter_set import Voter
from quorum.discovery.address_book import AddressBook
from quorum.driver import Quorum
from quorum.persistent_state import LISTENER_NAME
from quorum.protocol.errors import ErrorCode, RequestRefused
from quorum.transport.address import Address
from statemachine.commands import (
    AlterClientQuotas,
    AlterConfigs,
    Answer,
    BrokersCordoned,
    ClientQuotasAltered,
    Command,
    ConfigsAltered,
    CordonBrokers,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Done,
    ElectLeaders,
    FeaturesUpdated,
    FeatureUpdate,
    IncrementalAlterConfigs,
    LeadersElected,
    PartitionsCreated,
    TopicsCreated,
    TopicsDeleted,
    UnregisterBroker,
    UpdateFeatures,
)
from statemachine.configs.resources import without_secrets
from statemachine.image.image import Image
from statemachine.slices import Slices

if TYPE_CHECKING:
    from controller.apis.capability import CapabilityHandler

NEXT_LEADER_SECONDS_MAX: Final = 5.0
"""How long to wait, once the lead is handed over, until it is known who has it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What a topic gets that is created without saying so."""

    num_partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class AsOf(Generic[T]):
    """What was read of a state, and which: all records below `offset` are in it, and no others."""

    value: T
    offset: int


class NotActive(Exception):
    """This node cannot answer now: another one leads, or nobody does, or it has too much to do."""

    def __init__(self, reason: Unavailable, leader_id: int | None, progress: str = "") -> None:
        """`progress` is how far this node has come that will be able to answer."""
        known = "no active controller is known" if leader_id is None else f"ask node {leader_id}"
        super().__init__(f"{reason}{progress}; {known}")
        self.reason = reason
        self.leader_id = leader_id


class Service:
    """The capabilities of one controller node."""

    def __init__(
        self,
        controller: QuorumController,
        quorum: Quorum,
        *,
        cluster: ClusterIdentity,
        addresses: AddressBook,
        defaults: TopicDefaults,
        capability_handler: "CapabilityHandler",
    ) -> None:
        self.controller = controller
        self.quorum = quorum
        self._cluster = cluster
        self.addresses = addresses
        """Where the controllers listen for the Kafka protocol."""
        self.defaults = defaults
        self.capability_handler = capability_handler
        self.planning = asyncio.Lock()
        """Held by whoever makes a plan: one at a time, for it takes long."""

    @property
    def is_active(self) -> bool:
        """True while this node is the active controller."""
        return self.controller.is_active

    @property
    def cluster_id(self) -> str | None:
        """None until this node has learned of it."""
        return self._cluster.id

    def address_of(self, replica: int) -> Address | None:
        """Where a controller listens for the Kafka protocol, if that is known."""
        found = self.addresses.address_of(ReplicaId(replica))
        return None if found is None else Address(*found)

    @property
    def voter_addresses(self) -> dict[int, Address]:
        """Where the voters listen, those of whom that is known."""
        found = {int(each): self.address_of(each) for each in self.quorum.node.voters.sorted()}
        return {each: address for each, address in found.items() if address is not None}

    async def create_topics(self, who: str, command: CreateTopics) -> TopicsCreated:
        """Create topics, or say what would become of it."""
        return await self._carry_out(who, command, TopicsCreated)

    async def create_partitions(self, who: str, command: CreatePartitions) -> PartitionsCreated:
        """Give topics more partitions, or say what would become of it."""
        return await self._carry_out(who, command, PartitionsCreated)

    async def delete_topics(self, who: str, command: DeleteTopics) -> TopicsDeleted:
        """Delete topics by name or id."""
        return await self._carry_out(who, command, TopicsDeleted)

    async def elect_leaders(self, who: str, command: ElectLeaders) -> LeadersElected:
        """Elect the preferred leader, or any, of partitions."""
        return await self._carry_out(who, command, LeadersElected)

    async def unregister_broker(self, who: str, command: UnregisterBroker) -> Done:
        """Forget a broker that will not come back."""
        return await self._carry_out(who, command, Done)

    async def cordon_brokers(self, who: str, command: CordonBrokers) -> BrokersCordoned:
        """Let brokers get no new replicas, or again."""
        return await self._carry_out(who, command, BrokersCordoned)

    async def update_features(
        self, who: str, updates: tuple[FeatureUpdate, ...], *, validate_only: bool
    ) -> FeaturesUpdated:
        """Put features in force at other levels, or say why none of it can be."""
        command = UpdateFeatures(
            updates=updates,
            validate_only=validate_only,
            controller_id=self.quorum.node.me.id,
            voters=tuple(map(int, self.quorum.node.voters.sorted())),
            kraft_version=self.controller.kraft_version,
            default_min_isr=self.controller.default_min_isr,
        )
        return await self._carry_out(who, command, FeaturesUpdated)

    async def alter_configs(
        self, who: str, command: IncrementalAlterConfigs | AlterConfigs
    ) -> ConfigsAltered:
        """Change configurations of topics, brokers, groups and client metrics."""
        return await self._carry_out(who, command, ConfigsAltered, shown=without_secrets(command))

    async def alter_client_quotas(
        self, who: str, command: AlterClientQuotas
    ) -> ClientQuotasAltered:
        """Change how much users, clients and hosts may do (KIP-546)."""
        return await self._carry_out(who, command, ClientQuotasAltered)

    async def describe_quorum(self, *, stale: bool = False) -> QuorumDescription:
        """Leader, epoch, high watermark, and how far every replica has come.

        A node that does not lead knows, for a `stale` answer, who votes and how far it is itself.
        """
        if not stale:
            await self._prove_lead()
        node = self.quorum.node
        replicas, change = node.replicas(), node.voter_change()
        voters = [self._replica(each) for each in replicas if each.is_voter]
        return QuorumDescription(
            cluster_id=self.cluster_id or "",
            leader_id=NO_LEADER if node.leader is None else node.leader,
            leader_epoch=node.epoch,
            high_watermark=node.high_watermark or 0,
            voters=voters or [self._unheard(each) for each in node.voters],
            observers=[self._replica(each) for each in replicas if not each.is_voter],
            addresses=self._listeners(),
            target_voters=None if change.target is None else [each.id for each in change.target],
            waits_for=None if change.wait is None else str(change.wait),
            full_disks=() if self.quorum.has_room else (node.me.id,),
        )

    def whereabouts(self) -> Whereabouts:
        """Where every node is, as this one has heard it; any node answers, without a leader."""
        leader = self.quorum.leader
        return Whereabouts(
            cluster_id=self.cluster_id,
            leader_id=NO_LEADER if leader is None else leader,
            leader_epoch=self.quorum.node.epoch,
            nodes=nodes_of(self.addresses.gossip.sightings),
        )

    def _listeners(self) -> dict[int, tuple[tuple[str, Address], ...]]:
        """Where the voters listen: where they are reached now, by the names in the log."""
        found: dict[int, tuple[tuple[str, Address], ...]] = {}
        for voter in self.quorum.node.voters:
            known = [(each.name, Address(each.host, each.port)) for each in voter.endpoints]
            address = self.address_of(voter.id)
            if address is not None:
                known[:1] = [(known[0][0] if known else LISTENER_NAME, address)]
            if known:
                found[voter.id] = tuple(known)
        return found

    async def want_voters(self, who: str, request: VoterRequest) -> VotersResponse:
        """Change who votes, or say why not; without an error it is committed (KIP-595, KIP-853)."""
        self._need_lead()
        response = await self.quorum.want_voters(request)
        audit.note(who, request, response)
        if response.error is Error.NOT_LEADER_OR_FOLLOWER:
            raise NotActive(Unavailable.LEAD_LOST, self.quorum.leader)
        return response

    async def transfer_leadership(
        self, who: str, to: ReplicaId | None
    ) -> LeadTransfer | TransferResponse:
        """Let `to` lead, or whoever suits best, and tell who does then; or why it will not be."""
        self._need_lead()
        now = asyncio.get_running_loop().time
        began = now()
        response = await self.quorum.transfer_leadership(to)
        audit.note(who, f"leader {'any' if to is None else to}", response)
        if response.error is Error.NOT_LEADER_OR_FOLLOWER:
            raise NotActive(Unavailable.NOT_ACTIVE, self.quorum.leader)
        if response.error:
            return response
        await self._next_leader(response.epoch)
        leader, epoch = self.quorum.leader, self.quorum.node.epoch
        is_known = leader is not None and epoch > response.epoch
        return LeadTransfer(
            leader_id=leader if leader is not None and is_known else NO_LEADER,
            leader_epoch=epoch,
            duration_ms=round((now() - began) * 1_000),
        )

    async def _next_leader(self, epoch: Epoch) -> None:
        """Return when somebody is known to lead an epoch after this one, or when time is up."""
        now = asyncio.get_running_loop().time
        deadline = now() + NEXT_LEADER_SECONDS_MAX
        while self.quorum.leader is None or self.quorum.node.epoch <= epoch:
            if now() >= deadline:
                return
            await self.quorum.leader_changed(within_seconds=deadline - now())

    async def read(self, read: Callable[[Image], T], *, stale: bool = False) -> AsOf[T]:
        """What `read` finds: in the active controller's image, or, if `stale`, in this node's."""
        future: asyncio.Future[AsOf[T] | Unavailable] = asyncio.get_running_loop().create_future()
        self.controller.query(
            lambda image: AsOf(read(image), image.end_offset),
            lambda found: _resolve(future, found),
            stale=stale,
        )
        return await self._seen(future)

    async def read_long(
        self, reading: Callable[[Image], Slices[T]], *, stale: bool = False
    ) -> AsOf[T]:
        """As `read`, of what takes long: the active controller finds it in slices."""
        future: asyncio.Future[AsOf[T] | Unavailable] = asyncio.get_running_loop().create_future()

        def as_of(image: Image) -> Slices[AsOf[T]]:
            return AsOf((yield from reading(image)), image.end_offset)

        self.controller.query_long(as_of, lambda found: _resolve(future, found), stale=stale)
        return await self._seen(future)

    async def _seen(self, future: "asyncio.Future[AsOf[T] | Unavailable]") -> AsOf[T]:
        found = await future
        if isinstance(found, Unavailable):
            raise NotActive(found, self.quorum.leader, self.controller.progress)
        return found

    async def read_if_ready(self, read: Callable[[Image | None], T]) -> AsOf[T]:
        """As a stale `read`; of a node that is not ready yet, what it makes of no image."""
        if not self.controller.is_ready:
            return AsOf(read(None), 0)
        return await self.read(read, stale=True)

    async def _carry_out(
        self, who: str, command: Command, kind: type[T], *, shown: Command | None = None
    ) -> T:
        answer = await self.carry_out(who, command, shown=shown)
        assert isinstance(answer, kind), f"{answer} answers {command}"
        return answer

    async def carry_out(
        self, who: str, command: Command, *, shown: Command | None = None
    ) -> Answer:
        """The answer to a command; `shown` is what is said of it if it must not all be said."""
        future: asyncio.Future[Answer | Unavailable] = asyncio.get_running_loop().create_future()
        self.controller.submit(command, lambda answer: _resolve(future, answer), proved=True)
        answer = await future
        audit.note(who, shown or command, answer)
        if answer is Unavailable.TOO_LARGE:
            raise RequestRefused(
                ErrorCode.POLICY_VIOLATION, answer, failing="the request is too large"
            )
        if isinstance(answer, Unavailable):
            raise NotActive(answer, self.quorum.leader, self.controller.progress)
        return answer

    def _need_lead(self) -> None:
        if not self.controller.is_active:
            raise NotActive(Unavailable.NOT_ACTIVE, self.quorum.leader, self.controller.progress)

    async def _prove_lead(self) -> None:
        self._need_lead()
        outcome = await self.quorum.await_read_index()
        if isinstance(outcome, ReadRefusal):
            raise NotActive(UNPROVED[outcome], self.quorum.leader)

    def _unheard(self, voter: Voter) -> ReplicaInfo:
        """A voter as a node sees it that does not lead: by the log, unless it is this node."""
        me = self.quorum.node
        key, log_end = voter.key, UNKNOWN
        if voter.id == me.me.id:
            key, log_end = me.me, me.log_end.offset
        return ReplicaInfo(id=voter.id, directory_id=key.directory_id, log_end_offset=log_end)

    def _replica(self, status: ReplicaStatus) -> ReplicaInfo:
        to_wall_ms = self.quorum.to_wall_ms
        now_ms = self.quorum.now_wall_ms
        return ReplicaInfo(
            id=status.replica.id,
            directory_id=status.replica.directory_id,
            log_end_offset=-1 if status.log_end is None else status.log_end,
            last_fetch_ms=now_ms if status.is_leader else to_wall_ms(status.last_fetch_ms),
            last_caught_up_ms=now_ms if status.is_leader else to_wall_ms(status.last_caught_up_ms),
        )


def _resolve(future: "asyncio.Future[T]", value: T) -> None:
    # The asker may have given up and cancelled it meanwhile.
    if not future.done():
        future.set_result(value)
