"""The service of one controller node for its listeners: commands, queries, and the quorum itself.

A method answers on the active controller and raises `NotActive` on any other node; `Router` decides
who answers then. A command that is too large raises `RequestRefused` (POLICY_VIOLATION). A query is
never stale unless the client allows it: then any node answers from what it has. Every answer about
state has its offset.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from controller.audited_actions import AuditedRequest, outcomes
from controller.authorization import NEEDS, ControllerAuthorization
from controller.ports import UNPROVED, Unavailable
from controller.quorum_controller import QuorumController
from controller.quorum_description import (
    UNKNOWN,
    LeadTransfer,
    QuorumDescription,
    ReplicaInfo,
)
from controller.shared_reads import SharedReads
from quorum.clocks import wall_ms
from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import ReadRefusal
from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    ChangeResponse,
    Error,
    TransferRequest,
    VoterRequest,
)
from quorum.core.replica_progress import ReplicaProgress
from quorum.core.vocabulary import NOT_DONE, Epoch, ReplicaId, Snapshot
from quorum.core.voter_set import Voter, VoterSet
from quorum.discovery.address_book import AddressBook
from quorum.driver import Quorum
from quorum.persistent_state import LISTENER_NAME
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode, RequestRefused
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.address import Address
from quorum.transport.audit_log import Action, AuditLog, Requester
from quorum.transport.long_responses import LongResponses
from quorum.transport.security.token_hmacs import (
    NO_TOKENS,
    DelegationTokenConfig,
    DelegationTokens,
)
from statemachine.commands import Command, Done, MutationsAnswered
from statemachine.features.features import levels_refusal
from statemachine.image.image import Image
from statemachine.security.authorization import Authorization
from statemachine.security.authorizer import CLUSTER_NAME, Rule
from statemachine.security.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER, NOTHING
from statemachine.slices import Slices
from statemachine.vocabulary import NO_LEADER

_OF_ACLS: Final = frozenset({ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS})
NO_AUTHORIZER: Final = (
    ErrorCode.SECURITY_DISABLED,
    "No Authorizer is configured: set authorizer.class.name on every controller and broker",
)
"""The refusal of every request about ACLs where nobody would enforce them, as in Kafka."""

_MAY_BE_DONE: Final = (Error.REQUEST_TIMED_OUT, Error.NOT_LEADER_OR_FOLLOWER)
"""The errors of the quorum after which a change may have taken effect all the same."""

REGISTRATION_POLL_SECONDS: Final = 0.05
"""The pause between two looks whether a new voter has registered."""
NEXT_LEADER_SECONDS_MAX: Final = 5.0
"""Time to wait for the new leader after a transfer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Defaults of a new topic."""

    num_partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class AsOf(Generic[T]):
    """A value read from a state that contains all records below `offset` and no others."""

    value: T
    offset: int


class NotActive(Exception):
    """This node cannot answer now: another one leads, none does, or it is overloaded."""

    def __init__(self, reason: Unavailable, leader_id: int | None, progress: str = "") -> None:
        """`progress` describes the replay of this node, which can answer after it."""
        known = "no active controller is known" if leader_id is None else f"ask node {leader_id}"
        super().__init__(f"{reason}{progress}; {known}")
        self.reason = reason
        self.leader_id = leader_id


class CapabilityHandler(Protocol):
    """Carries out a capability of `admin`, whose request and answer are opaque here."""

    async def __call__(
        self,
        service: "Service",
        name: str,
        body: bytes,
        *,
        requester: Requester,
        principal: KafkaPrincipal,
        client_id: str,
        stale: bool,
        timeout_ms: int,
    ) -> bytes:
        """Return the bytes of the answer; raises `RequestRefused` or `NotActive`."""
        ...


async def _no_log() -> tuple[str, ...]:
    return ()


@dataclass(slots=True, kw_only=True)
class Host:
    """The process around a node, as its owner describes it for a bug report."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings as they were given, without secrets."""
    scrub: Callable[[str], str] = str
    """Returns a text without the secrets of this node."""
    metrics: Callable[[], Awaitable[bytes]] | None = None
    """Returns the metrics as text; None where nobody can scrape them."""
    log: Callable[[], Awaitable[tuple[str, ...]]] = _no_log
    """Returns the newest lines of the log, without secrets."""


class Service:
    """Commands and queries of one controller node."""

    def __init__(
        self,
        controller: QuorumController,
        quorum: Quorum,
        *,
        cluster: ClusterIdentity,
        addresses: AddressBook,
        defaults: TopicDefaults,
        folder: Path,
        capability_handler: CapabilityHandler,
        tokens: DelegationTokenConfig = NO_TOKENS,
        authorization: ControllerAuthorization | None = None,
        audit_log: AuditLog | None = None,
        host: Host | None = None,
    ) -> None:
        """Without `authorization` everybody may do everything."""
        self.host = host or Host()
        self.controller = controller
        self.quorum = quorum
        self._cluster = cluster
        self.addresses = addresses
        """Kafka listeners of the controllers."""
        self.defaults = defaults
        self.folder = folder
        """The data folder of this node."""
        self.capability_handler = capability_handler
        self.tokens = DelegationTokens(tokens)
        self.audit_log = audit_log or AuditLog(wall_ms)
        self.authorization = authorization or Authorization(None, self.audit_log.denied)
        self.long_responses = LongResponses()
        self.shared_reads = SharedReads()
        self.planning = asyncio.Lock()
        """Held while a plan is made: it takes long, so one at a time."""

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None until this node has heard it."""
        return self._cluster.id

    @property
    def leader_id(self) -> int:
        """The active controller, or NO_LEADER."""
        leader = self.quorum.leader
        return NO_LEADER if leader is None else leader

    def address_of(self, replica: int) -> Address | None:
        """Return the Kafka listener of a controller, if known."""
        found = self.addresses.address_of(ReplicaId(replica))
        return None if found is None else Address(*found)

    @property
    def voter_addresses(self) -> dict[int, Address]:
        """The known Kafka listeners of the voters."""
        found = {int(each): self.address_of(each) for each in self.quorum.node.voters.sorted()}
        return {each: address for each, address in found.items() if address is not None}

    async def describe_quorum(self, *, stale: bool = False) -> QuorumDescription:
        """Describe leader, epoch, high watermark and the progress of every replica.

        In a `stale` answer, a node that does not lead knows the voters and its own progress.
        """
        if not stale:
            outcome = await self.quorum.read_index()
            if isinstance(outcome, ReadRefusal):
                raise self._not_active(UNPROVED[outcome])
            if self.leader_id != self.quorum.node.me.id:
                # It lost the lead after the read was confirmed, before this task had its turn.
                raise self._not_active(Unavailable.NOT_ACTIVE)
        node = self.quorum.node
        replicas, target = node.replicas(), node.target_voters
        voters = self._replicas(each for each in replicas if each.voter)
        return QuorumDescription(
            cluster_id=self.cluster_id or "",
            leader_id=self.leader_id,
            leader_epoch=node.epoch,
            high_watermark=node.high_watermark or 0,
            voters=voters or tuple([self._unheard(each) for each in node.voters]),
            observers=self._replicas(each for each in replicas if not each.voter),
            addresses=self._listeners(),
            target_voters=None if target is None else tuple([each.id for each in target]),
            waits_for=None if node.voter_change_wait is None else str(node.voter_change_wait),
            full_disks=() if self.quorum.replica.has_room else (node.me.id,),
            leaderless_since_ms=self.quorum.leaderless_since_ms,
        )

    def _listeners(self) -> dict[int, tuple[tuple[str, Address], ...]]:
        """Return the listeners of the voters: current addresses under the names in the log."""
        found: dict[int, tuple[tuple[str, Address], ...]] = {}
        for voter in self.quorum.node.voters:
            known = [(each.name, Address(each.host, each.port)) for each in voter.endpoints]
            address = self.address_of(voter.id)
            if address is not None:
                known[:1] = [(known[0][0] if known else LISTENER_NAME, address)]
            if known:
                found[voter.id] = tuple(known)
        return found

    def refusal(self, api_key: int, requester: Requester) -> tuple[ErrorCode, str] | None:
        """Return why a request as a whole is not allowed, or None.

        Raises `NotActive` as long as the ACLs are not loaded: another node may know them.
        """
        needs = NEEDS[api_key]
        if not self.authorization.is_limited:
            return NO_AUTHORIZER if api_key in _OF_ACLS else None
        if needs is NOTHING:
            return None
        access, needed = self.authorization.access(requester), needs.whole
        if access.decide(needed or DESCRIBE_CLUSTER).rule is Rule.NOT_READY:
            raise self._not_active(Unavailable.NOT_READY)
        if needed is None or access.may(needed):
            return None
        return ErrorCode(needed.error.code), access.refusal(needed)

    async def want_voters(self, who: str, request: VoterRequest) -> ChangeResponse:
        """Change the voters (KIP-595, KIP-853); a response without an error is committed."""
        if isinstance(request, AddVoterRequest):
            await self._registered(request)
        if not self.controller.is_active:
            raise self._not_active(Unavailable.NOT_ACTIVE)
        node = self.quorum.node
        refusal = self._newcomer_refusal(request)
        if refusal is not None:
            error, text = refusal
            response = ChangeResponse(epoch=node.epoch, error=error, text=text)
            self._audit(who, request, response, None)
            return response
        before = node.voters, node.target_voters
        response = await self.quorum.change(request)
        is_changed = response.error in _MAY_BE_DONE or before != (node.voters, node.target_voters)
        self._audit(who, request, response, self.controller.committed if is_changed else None)
        if response.error is Error.NOT_LEADER_OR_FOLLOWER:
            raise self._not_active(Unavailable.LEAD_LOST)
        return response

    async def _registered(self, request: AddVoterRequest) -> None:
        """Return once the new voter has registered, this node leads no more, or time is up."""
        now = asyncio.get_running_loop().time
        deadline = now() + request.timeout_ms / 1_000
        while (
            _newcomers(request, self.quorum.node.voters) - self.controller.image.controllers.keys()
            and self.controller.is_active
            and now() < deadline
        ):
            await self.quorum.leader_changed(within_seconds=REGISTRATION_POLL_SECONDS)

    def _newcomer_refusal(self, request: VoterRequest) -> tuple[Error, str] | None:
        """Return the reason why a new voter may not be able to follow the log, or None.

        A controller registers with the levels that it supports once it follows the log (KIP-919).
        AddRaftVoter names one that is to vote at once, so it is refused before. A target may name
        one that is not started yet. It is judged later: of Kafka's controllers the quorum learns
        the address only if they support the levels (`QuorumController.locate`), and ours end when
        they read a level that they do not.
        """
        levels = self.controller.finalized_features
        for voter in sorted(_newcomers(request, self.quorum.node.voters)):
            known = self.controller.image.controllers.get(voter)
            if known is not None:
                reason = levels_refusal(f"controller {voter}", known.features, levels)
                if reason is not None:
                    remedy = "so it could not follow the log; start a release there that can"
                    return Error.INVALID_REQUEST, f"{reason}, {remedy}"
            elif isinstance(request, AddVoterRequest):
                return Error.REQUEST_TIMED_OUT, (
                    f"{NOT_DONE} in time: controller {voter} has not registered the levels that it "
                    "supports, as a controller does once it follows the log; start it, or see its "
                    "log"
                )
        return None

    async def transfer_leadership(
        self, who: str, to: ReplicaId | None
    ) -> LeadTransfer | ChangeResponse:
        """Hand the lead to `to`, or to the best voter, and wait until the new leader is known.

        If `to` leads already, and a majority knows it, that is the answer.
        """
        now = asyncio.get_running_loop().time
        began = now()
        asked = TransferRequest(to)
        response = await self.quorum.change(asked)
        is_changed = not response.error or response.error in _MAY_BE_DONE
        self._audit(who, asked, response, self.controller.committed if is_changed else None)
        if response.error is Error.NOT_LEADER_OR_FOLLOWER:
            raise self._not_active(Unavailable.NOT_ACTIVE)
        if response.error is Error.ELECTION_NOT_NEEDED:
            # A leader that a majority has left does not know it yet.
            await self.read(lambda _: None)
            return LeadTransfer(
                leader_id=self.quorum.node.me.id,
                leader_epoch=self.quorum.node.epoch,
                duration_ms=round((now() - began) * 1_000),
                led_already=True,
            )
        if response.error:
            return response
        await self._next_leader(response.epoch)
        leader, epoch = self.quorum.leader, self.quorum.node.epoch
        return LeadTransfer(
            leader_id=leader if leader is not None and epoch > response.epoch else NO_LEADER,
            leader_epoch=epoch,
            duration_ms=round((now() - began) * 1_000),
        )

    async def take_snapshot(self, who: str) -> Snapshot:
        """Take a snapshot of this node's log now; raises `RequestRefused`."""
        found = await self.quorum.take_snapshot()
        kind, node_id = "TakeSnapshot", self.quorum.node.me.id
        action = Action.of(ALTER_CLUSTER, CLUSTER_NAME, f"take a snapshot of node {node_id}")
        if isinstance(found, str):
            error = ErrorCode.KAFKA_STORAGE_ERROR
            self.audit_log.without_effect(who, kind, [action], error.name, reason=found)
            raise RequestRefused(error, found)
        self.audit_log.carried_out(who, kind, [action], ErrorCode.NONE.name, None)
        return found

    async def _next_leader(self, epoch: Epoch) -> None:
        """Wait until the leader of a later epoch is known, for a bounded time."""
        now = asyncio.get_running_loop().time
        deadline = now() + NEXT_LEADER_SECONDS_MAX
        while self.quorum.leader is None or self.quorum.node.epoch <= epoch:
            if now() >= deadline:
                return
            await self.quorum.leader_changed(within_seconds=deadline - now())

    async def read(self, read: Callable[[Image], T], *, stale: bool = False) -> AsOf[T]:
        """Read the active controller's image or, if `stale`, this node's."""

        def as_of(image: Image) -> AsOf[T]:
            return AsOf(read(image), image.end_offset)

        return self._given(await _result(partial(self.controller.query, as_of, stale=stale)))

    async def read_long(
        self, reading: Callable[[Image], Slices[T]], *, stale: bool = False
    ) -> AsOf[T]:
        """Read what takes long, in slices."""

        def as_of(image: Image) -> Slices[AsOf[T]]:
            return AsOf((yield from reading(image)), image.end_offset)

        return self._given(await _result(partial(self.controller.query_long, as_of, stale=stale)))

    async def read_if_ready(self, read: Callable[[Image | None], T]) -> AsOf[T]:
        """Read this node's image, or None while the node is not ready."""
        if not self.controller.is_ready:
            return AsOf(read(None), 0)
        return await self.read(read, stale=True)

    async def carry_out(self, command: Command, kind: type[T], *, who: str) -> T:
        """Carry out a command and return its answer, which is of this kind.

        An idempotency key that belongs to another request raises `RequestRefused`.
        """
        # None: without effect; else the end of its records, 0 until they are appended.
        end: int | None = None

        def on_append(appended: int) -> None:
            nonlocal end
            end = appended

        submit = partial(self.controller.submit, command, proved=True, on_append=on_append)
        # What is noted if the wait for the answer is cancelled.
        answer: object = Unavailable.LEAD_LOST
        try:
            answer = await _result(submit)
        finally:
            self._audit(who, command, answer, end)
        if answer is Unavailable.TOO_LARGE:
            raise RequestRefused(
                ErrorCode.POLICY_VIOLATION, answer, failing="the request is too large"
            )
        given = self._given(answer)
        if isinstance(given, Done) and kind is not Done:
            raise RequestRefused(
                given.error.code, given.message, failing="the request was not carried out"
            )
        assert isinstance(given, kind), f"{given} answers {command}"
        return given

    def throttle_time(self, answer: MutationsAnswered) -> timedelta:
        """Return how long the client is to wait for its quota of controller mutations."""
        return timedelta(milliseconds=self.controller.ms_until(answer.throttled_until_ms))

    def _audit(self, who: str, request: AuditedRequest, answer: object, end: int | None) -> None:
        """Log a request of `who` and its answer.

        `end` is the end of the change in the log, None if there is none.
        """
        kind = type(request).__name__
        for each in outcomes(request, answer):
            note: Callable[..., None] = self.audit_log.without_effect
            if end is not None:
                is_done = not isinstance(answer, Unavailable) and each.error == "NONE"
                offset = end - 1 if is_done else None
                note = partial(self.audit_log.carried_out, offset=offset)
            more = each.count - len(each.actions)
            note(who, kind, each.actions, each.error, reason=each.reason, more=more)

    def _given(self, outcome: T | Unavailable) -> T:
        if isinstance(outcome, Unavailable):
            raise self._not_active(outcome)
        return outcome

    def _not_active(self, reason: Unavailable) -> NotActive:
        return NotActive(reason, self.quorum.leader, self.controller.progress)

    def _unheard(self, voter: Voter) -> ReplicaInfo:
        """Describe a voter on a node that does not lead, from the log or as this node."""
        me = self.quorum.node
        key, log_end = voter.key, UNKNOWN
        if voter.id == me.me.id:
            key, log_end = me.me, me.log_end.offset
        return ReplicaInfo(id=voter.id, directory_id=key.directory_id, log_end_offset=log_end)

    def _replicas(self, progresses: Iterable[ReplicaProgress]) -> tuple[ReplicaInfo, ...]:
        """Describe replicas by the progress that this node, the leader, knows of them."""
        me, now_ms, shift_ms = self.quorum.node.me, self.quorum.now_ms, self.quorum.wall_shift_ms

        def wall_ms(progress: ReplicaProgress, last_ms: int | None) -> int:
            if progress.replica == me:
                return now_ms + shift_ms
            return UNKNOWN if last_ms is None else last_ms + shift_ms

        return tuple(
            [
                ReplicaInfo(
                    id=each.replica.id,
                    directory_id=each.replica.directory_id,
                    log_end_offset=UNKNOWN if each.log_end is None else each.log_end,
                    last_fetch_ms=wall_ms(each, each.last_fetch_ms),
                    last_caught_up_ms=wall_ms(each, each.last_caught_up_ms),
                )
                for each in progresses
            ]
        )


async def _result(start: Callable[[Callable[[T | Unavailable], None]], None]) -> T | Unavailable:
    """Await the result that `start` hands to its callback."""
    future: asyncio.Future[T | Unavailable] = asyncio.get_running_loop().create_future()

    def resolve(result: T | Unavailable) -> None:
        # The request may have been cancelled meanwhile.
        if not future.done():
            future.set_result(result)

    start(resolve)
    return await future


def _newcomers(request: VoterRequest, voters: VoterSet) -> set[ReplicaId]:
    """Return the ids that the request makes voters, and that are none yet."""
    match request:
        case AddVoterRequest(voter=voter):
            return {voter.id} - voters.ids
        case AlterQuorumRequest(target=target):
            return {each.id for each in target or ()} - voters.ids
        case _:
            return set()
