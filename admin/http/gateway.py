"""Requests of the HTTP listener, answered by the same router as those of the Kafka listener."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from admin.capabilities import schema
from admin.capabilities.configs import BrokerConfigs
from admin.capabilities.moves import PartitionError
from admin.capabilities.plan_steps import PARTITIONS_LISTED_MAX, BytesMoved, PlanResult
from admin.capabilities.schema import Request, prepared
from admin.client.broker_configs import with_file
from admin.client.log_sizes import bytes_at, copied, copies_of, stored_at
from admin.faults import Refused
from admin.http.caller import LISTENER, Caller
from admin.model import PartitionId
from controller.apis.request import KafkaRequest
from controller.apis.router import ControllerUnreachable, Router
from controller.service import NotActive, Service
from quorum.clocks import monotonic_ms
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import build, decode_response, request_schema
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import Origin
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from statemachine.image.image import Image
from statemachine.security.rights import Access
from statemachine.vocabulary import Replicas

WAIT_SECONDS_MAX: Final = 10.0
"""The longest wait of a request for an active controller."""
_PIECE: Final = 1_000
"""Partitions that are looked up at once."""
_VERSION: Final = 0
SIZES_KEPT_MS: Final = 15_000
"""How long the bytes of a broker's logs are not asked for again, whoever wants to know."""
REPLICAS_ASKED_MAX: Final = 10_000
"""Replicas of a broker up to which it is asked for their sizes: an answer of half a megabyte."""
_NEVER: Final = (-SIZES_KEPT_MS, "it is not alive, or has no listener of the protocol of this node")

A = TypeVar("A")


class NoAnswer(Exception):
    """No controller answered in time; `may_be_done` unless the request certainly was not done."""

    def __init__(self, reason: str, leader_id: int | None, *, may_be_done: bool) -> None:
        """`leader_id` is the last known leader."""
        super().__init__(reason)
        self.leader_id = leader_id
        self.may_be_done = may_be_done


class Gateway:
    """Asks for capabilities through the router of a node, as its Kafka listener does."""

    def __init__(
        self,
        service: Service,
        router: Router,
        *,
        wait_seconds: float = WAIT_SECONDS_MAX,
        security: ClientSecurity = PLAIN_CLIENT,
    ) -> None:
        """`security` is that of connections to brokers."""
        self.service = service
        self._security = security
        self._router = router
        self._wait_seconds = wait_seconds
        self._asking_sizes = asyncio.Lock()
        self._stored: dict[int, tuple[int, int | str]] = {}
        """By broker, when it was asked for the bytes of its logs, and the answer."""

    async def ask(self, request: Request[A], caller: Caller, *, stale: bool = False) -> A:
        """Return the answer of the active controller, or of this node if it may be `stale`.

        Raises `NotAllowed`, `Refused` or `NoAnswer`. A request with a key is retried until the time
        is up.

        The node that answers looks at the right of the caller first, and then at the request. For
        one with a password this node does both before: to salt it takes a while.
        """
        caller.check(request.NAME, request.needs(), request.wanted)
        if request.HAS_PASSWORD:
            self.check(request, caller)
            schema.check(request)
        request = await prepared(request)
        try:
            response = await self._router.answer(
                self._wrapped(request, caller, stale=stale or request.LOCAL)
            )
        except ControllerUnreachable as error:
            if request.STALE_WITHOUT_LEADER and not stale:
                return await self.ask(request, caller, stale=True)
            is_lost = error.error == ErrorCode.REQUEST_TIMED_OUT and not request.only_reads()
            reason = f"{error}; an earlier attempt may have succeeded" if is_lost else str(error)
            leader = self.service.quorum.leader
            raise NoAnswer(reason, leader, may_be_done=is_lost) from error
        if isinstance(response, bytes):
            response = decode_response(ApiKey.CAPABILITY, _VERSION, response)
        code = int(response.error_code)
        if code:
            throttle_ms = response.throttle_time // timedelta(milliseconds=1)
            raise Refused(request.failing(), code, response.error_message, throttle_ms=throttle_ms)
        return schema.decode_answer(type(request), response.body)

    def may(self, request: Request[Any], caller: Caller) -> bool:
        """True if the caller has the right to this request by the ACLs of this node.

        Those of the node that answers may be newer.
        """
        needs = request.needs()
        if caller.role is not None and not caller.role.includes(needs.role):
            return False
        return needs.are_met(self._access(type(request), caller))

    def _access(self, kind: type[Request[Any]], caller: Caller) -> Access:
        return self.service.authorization.access(caller.requester(kind.NAME))

    def check_any(self, kind: type[Request[Any]], caller: Caller) -> None:
        """Raise what `ask` would raise for a caller who may ask nothing of this kind.

        The ACLs are those of this node, which refuses nobody until it has them. Only a request
        names the topic that it needs a right on: by ACLs of topics nobody is refused here.
        """
        possible, access = kind.possible_needs(), self._access(kind, caller)
        caller.check(kind.NAME, min(possible, key=attrgetter("role.rank")))
        is_known = self.service.authorization.is_loaded
        if not is_known or any(not each.is_on_cluster or each.are_met(access) for each in possible):
            return
        reason = kind.NEEDS.refusal(access)
        raise Refused(f"{kind.NAME} is not allowed", kind.NEEDS.right.error.code, reason)

    def check(self, request: Request[Any], caller: Caller) -> None:
        """Raise what `ask` would raise for a caller who may not ask this of this node."""
        caller.check(request.NAME, request.needs(), request.wanted)
        requester = caller.requester(request.NAME, request.wanted)
        try:
            refusal = self.service.refusal(ApiKey.CAPABILITY, requester)
        except NotActive as error:
            raise NoAnswer(str(error), error.leader_id, may_be_done=False) from error
        if refusal is not None:
            raise Refused(request.failing(), *refusal)
        needs = request.needs()
        reason = needs.refusal(self.service.authorization.access(requester))
        if reason is not None:
            raise Refused(request.failing(), needs.right.error.code, reason)

    def _wrapped(self, request: Request[Any], caller: Caller, *, stale: bool) -> KafkaRequest:
        message = build(
            request_schema(ApiKey.CAPABILITY, _VERSION),
            {
                "timeout": timedelta(seconds=self._wait_seconds),
                "name": request.NAME,
                "stale": stale,
                # A client of HTTP is told at once, whatever it asks for, and has done nothing.
                "asks_who_leads": True,
                "body": schema.encode(request),
            },
        )
        return KafkaRequest(
            api_key=ApiKey.CAPABILITY,
            version=_VERSION,
            client_id="http",
            principal=caller.principal,
            door=Origin.HTTP,
            host=caller.host,
            listener=LISTENER,
            message=message,
            has_key=bool(getattr(request, "key", "")),
        )

    async def bytes_of_plan(self, found: PlanResult) -> BytesMoved:
        """The bytes that the plan would copy, as live brokers report the sizes of their logs."""
        return await self._bytes(copies_of(found))

    async def bytes_of_move(
        self, plan: Mapping[PartitionId, Sequence[int]], refused: Sequence[PartitionError]
    ) -> BytesMoved:
        """The bytes that a move to these replicas would copy, without the partitions refused."""
        if len(plan) > PARTITIONS_LISTED_MAX:
            return await self._bytes(None)
        left_out = {each.id for each in refused}
        wanted = {each: replicas for each, replicas in plan.items() if each not in left_out}
        current: dict[PartitionId, Replicas] = {}
        ids = list(wanted)
        for start in range(0, len(ids), _PIECE):
            reading = partial(_replicas, ids=ids[start : start + _PIECE])
            current.update((await self.service.read(reading, stale=True)).value)
        return await self._bytes(copied(current, {each: wanted[each] for each in current}))

    async def with_file(self, found: BrokerConfigs) -> BrokerConfigs:
        """The configurations of a broker as it describes them itself, if it is alive."""
        lookup = partial(_live_broker, broker_id=found.broker_id, protocol=self._security.protocol)
        address = (await self.service.read(lookup, stale=True)).value
        if address is None:
            reason = f"broker {found.broker_id} is not alive, or has no address for controllers"
            return msgspec.structs.replace(found, without_file=reason)
        return await with_file(found, address, self._security)

    async def _bytes(self, copies: Mapping[PartitionId, int] | None) -> BytesMoved:
        """The bytes of so many copies of each partition; None is more than can be listed.

        The live brokers are those of this node's image, which may be a little behind.
        """
        try:
            brokers = await self._live()
        except NotActive as error:
            return BytesMoved(None, str(error))
        return await bytes_at([*brokers.values()], copies, self._security)

    async def _live(self) -> dict[int, Address]:
        live = partial(_live_brokers, protocol=self._security.protocol)
        return (await self.service.read(live, stale=True)).value

    async def stored_bytes(self, ids: Sequence[int]) -> dict[int, int | str]:
        """The bytes of the logs of each broker, or why they are unknown; asked seldom.

        One request asks the brokers, and those that come meanwhile wait for its answer. Raises
        `NoAnswer` while this node cannot be read.
        """
        try:
            counts = (await self.service.read(partial(_replica_counts, ids=ids), stale=True)).value
            live = await self._live()
        except NotActive as error:
            raise NoAnswer(str(error), error.leader_id, may_be_done=False) from error
        async with self._asking_sizes:
            now = monotonic_ms()
            due = {
                each: live[each]
                for each, count in counts.items()
                if each in live
                and count <= REPLICAS_ASKED_MAX
                and now - self._stored.get(each, _NEVER)[0] >= SIZES_KEPT_MS
            }
            found = await stored_at(due.values(), self._security)
            for each, address in due.items():
                self._stored[each] = now, found[address]
            for each in self._stored.keys() - live.keys():
                del self._stored[each]
        stored: dict[int, int | str] = {}
        for each in ids:
            if each not in counts:
                stored[each] = "it is not registered"
            elif counts[each] > REPLICAS_ASKED_MAX:
                stored[each] = f"it has more than {REPLICAS_ASKED_MAX:,} replicas"
            else:
                stored[each] = self._stored.get(each, _NEVER)[1]
        return stored


def _live_brokers(image: Image, protocol: int) -> dict[int, Address]:
    """Return where the live brokers take connections of this security protocol."""
    found = {each: _live_broker(image, each, protocol) for each in sorted(image.brokers)}
    return {broker_id: address for broker_id, address in found.items() if address is not None}


def _live_broker(image: Image, broker_id: int, protocol: int) -> Address | None:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return None
    places = (each for each in broker.endpoints if each.security_protocol == protocol)
    return next((Address(each.host, each.port) for each in places), None)


def _replica_counts(image: Image, ids: Sequence[int]) -> dict[int, int]:
    index = image.index
    return {
        each: index.count(index.replicas_of, each) for each in sorted(ids) if each in image.brokers
    }


def _replicas(image: Image, ids: Sequence[PartitionId]) -> dict[PartitionId, Replicas]:
    found: dict[PartitionId, Replicas] = {}
    for each in ids:
        topic = image.topic_named(each.topic)
        partition = None if topic is None else topic.partition(each.partition)
        if partition is not None:
            found[each] = partition.replicas
    return found
