"""Brokers: describe, cordon and unregister them, and ask whether they may stop."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER
from admin.capabilities.paging import Page, PageRequest
from admin.capabilities.quorum import Endpoint
from admin.capabilities.schema import (
    Answer,
    AsOfOffset,
    BrokerId,
    Context,
    Request,
    Result,
    Route,
    names_of,
    twice,
    unless_refused,
)
from controller.heartbeats import Liveness
from quorum.core.vocabulary import uuid_to_text
from statemachine.brokers.lifecycle import is_closed
from statemachine.brokers.safety import SafetyCheck, UnsafePartition, check_safety
from statemachine.commands import BrokersCordoned, Done, UnregisterBroker
from statemachine.commands import CordonBrokers as CordonCommand
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.records import kafka_records
from statemachine.slices import Slices

BROKER_US: Final = 20
"""The cost of the description of a broker."""

BrokerState = Literal["alive", "stopping", "fenced"]
Implementation = Literal["embedded", "kafka"]
BrokerIds = Annotated[tuple[BrokerId, ...], Meta(description="Ids of brokers, each once")]


class RegisteredLogDir(Answer, frozen=True, kw_only=True):
    """A log directory as a broker has registered it."""

    id: Annotated[str, Meta(description="The directory id, as in its meta.properties")]
    cordoned: Annotated[
        bool,
        Meta(
            description="True if the broker's setting cordoned.log.dirs names it: it gets no new"
            " replicas (KIP-1066)"
        ),
    ]


class Broker(Answer, frozen=True, kw_only=True):
    """A registered broker and its replicas."""

    broker_id: BrokerId
    broker_epoch: int
    implementation: Annotated[
        Implementation | None,
        Meta(
            description="embedded: a broker of metaquorum; kafka: any other; null: the node that "
            "answers does not say"
        ),
    ] = None
    state: BrokerState
    cordoned: Annotated[
        bool, Meta(description="True if an operator has cordoned it: it gets no new replicas")
    ]
    gets_new_replicas: Annotated[
        bool,
        Meta(description="False if it is cordoned, or all its log directories are"),
    ] = True
    log_dirs: Annotated[
        tuple[RegisteredLogDir, ...],
        Meta(description="Its log directories in use; none below metadata.version 17"),
    ] = ()
    to_be_unregistered: Annotated[
        bool, Meta(description="True if it is to be unregistered once empty and fenced")
    ]
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    replicas: int
    in_sync: int
    leaders: int


class Brokers(Page, frozen=True, kw_only=True):
    """Brokers in order of id."""

    brokers: tuple[Broker, ...]


class DescribedBroker(Broker, frozen=True, kw_only=True):
    """One broker, as of an offset."""

    as_of_offset: AsOfOffset


class ListBrokers(PageRequest[Brokers], frozen=True, kw_only=True):
    """List all registered brokers, alive or not."""

    state: Annotated[
        tuple[BrokerState, ...], Meta(description="In any of these states; empty: all")
    ] = ()
    cordoned: Annotated[bool | None, Meta(description="Those that are, or are not; null: all")] = (
        None
    )

    NAME = "brokers.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/brokers"),)
    FAILING = "the brokers cannot be described"
    ITEMS = "brokers"

    async def answer(self, context: Context) -> Brokers:
        return await context.read_long(self._page)

    def _page(self, image: Image) -> Slices[Brokers]:
        cut = yield from self.cut(
            each.broker_id if self._keeps(each) else None for each in image.brokers.values()
        )
        brokers = []
        for broker_id in cut.shown:
            brokers.append(broker_of(image, image.brokers[broker_id]))
            yield BROKER_US
        return Brokers(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            brokers=tuple(brokers),
        )

    def _keeps(self, broker: kafka_records.RegisterBroker) -> bool:
        is_in_state = not self.state or _state(broker) in self.state
        return is_in_state and self.cordoned in (None, broker.cordoned)


class DescribeBroker(Request[DescribedBroker], frozen=True, kw_only=True):
    """Describe one broker."""

    broker_id: BrokerId

    NAME = "brokers.describe"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/brokers/{id}", id="broker_id"),)
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED,)
    FAILING = "broker {0.broker_id} cannot be described"

    async def answer(self, context: Context) -> DescribedBroker:
        return await context.read(lambda image: _one(image, self.broker_id))


class BrokerResult(Result, frozen=True, kw_only=True):
    """The result for one broker."""

    broker_id: int


class BrokersAltered(Answer, frozen=True, kw_only=True):
    """One result for each broker that was named; one may fail and others succeed."""

    brokers: tuple[BrokerResult, ...]


class _AlterBrokers(Request[BrokersAltered], frozen=True, kw_only=True):
    broker_ids: Annotated[BrokerIds, Meta(min_length=1)]

    CHANGES = True
    STATUS_COMMAND = "metaquorum brokers list"
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED,)

    @property
    def named(self) -> str:
        """The brokers in a sentence."""
        return names_of("broker", self.broker_ids)


class CordonBrokers(_AlterBrokers, frozen=True, kw_only=True):
    """Assign no new replicas to brokers; existing replicas stay."""

    NAME = "brokers.cordon"
    NEEDS = ALTER_CLUSTER
    ROUTES = (Route("PUT", "/v1/brokers/{id}/cordon", id="broker_ids"),)
    FAILING = "{0.named} cannot be cordoned"

    async def answer(self, context: Context) -> BrokersAltered:
        return _altered(await cordon(context, self.broker_ids, cordoned=True))


class UncordonBrokers(_AlterBrokers, frozen=True, kw_only=True):
    """Assign new replicas to brokers again."""

    NAME = "brokers.uncordon"
    NEEDS = ALTER_CLUSTER
    ROUTES = (Route("DELETE", "/v1/brokers/{id}/cordon", id="broker_ids"),)
    FAILING = "{0.named} cannot be uncordoned"

    async def answer(self, context: Context) -> BrokersAltered:
        return _altered(await cordon(context, self.broker_ids, cordoned=False))


class UnregisterBrokers(_AlterBrokers, frozen=True, kw_only=True):
    """Unregister brokers that are stopped and have no replicas; the others are refused.

    Each is a decision of its own: if the lead is lost between them, some may be unregistered.
    """

    NAME = "brokers.unregister"
    NEEDS = ALTER_CLUSTER
    ROUTES = (Route("DELETE", "/v1/brokers/{id}", id="broker_ids"),)
    FAILING = "{0.named} cannot be unregistered"

    async def answer(self, context: Context) -> BrokersAltered:
        results = []
        for broker_id in self.broker_ids:
            command = UnregisterBroker(broker_id=broker_id, only_if_empty=True)
            done = await context.service.carry_out(command, Done, who=context.who)
            results.append(BrokerResult.of(done, broker_id=broker_id))
        return BrokersAltered(brokers=tuple(results))


class Safety(Answer, frozen=True, kw_only=True):
    """The result of a safe-to-stop check."""

    safe: bool
    as_of_offset: AsOfOffset
    partitions_looked_at: Annotated[
        int, Meta(description="Partitions that any of the brokers is in sync for")
    ]
    partitions_hurt: int
    hurt: Annotated[tuple[UnsafePartition, ...], Meta(description="The first of them, in order")]
    silent: Annotated[
        tuple[int, ...],
        Meta(description="Brokers in sync for these that are not counted: they missed heartbeats"),
    ] = ()
    oldest_heartbeat_ms: Annotated[
        int | None,
        Meta(description="Age of the oldest last one of the brokers that stay; null: unknown"),
    ] = None


class SafeToStop(Request[Safety], frozen=True, kw_only=True):
    """Check whether brokers may stop together, and list the partitions that prevent it.

    A broker whose last heartbeat is older than half of the session time-out (4.5 s by default) does
    not count as alive, nor one that a new leader has not heard yet. One that died since its last
    heartbeat counts. A stale answer knows of no heartbeats: brokers count until they are fenced.
    """

    broker_ids: BrokerIds

    NAME = "brokers.safe-to-stop"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (
        Route("GET", "/v1/brokers:safe-to-stop", ids="broker_ids"),
        Route("GET", "/v1/brokers/{id}/safe-to-stop", id="broker_ids"),
    )
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED,)

    def failing(self) -> str:
        return f"{names_of('broker', self.broker_ids)} cannot be checked"

    def contradiction(self) -> str | None:
        if not self.broker_ids:
            return "no broker is named; name at least one"
        return twice(self.broker_ids)

    async def answer(self, context: Context) -> Safety:
        controller = context.service.controller
        liveness: Liveness | None = None

        def judged(image: Image) -> Slices[SafetyCheck | Refusal]:
            nonlocal liveness
            liveness = controller.liveness(without=self.broker_ids)
            silent = frozenset[int]() if liveness is None else liveness.silent
            return _judged(image, self.broker_ids, silent)

        found = await context.service.read_long(judged, stale=context.stale)
        check = unless_refused(found.value)
        return Safety(
            safe=not check.unsafe_count,
            as_of_offset=found.offset,
            partitions_looked_at=check.looked_at,
            partitions_hurt=check.unsafe_count,
            hurt=check.unsafe,
            silent=check.silent,
            oldest_heartbeat_ms=None if liveness is None else liveness.oldest_ms,
        )


async def cordon(
    context: Context, brokers: Sequence[int], *, cordoned: bool, unregister: bool = False
) -> BrokersCordoned:
    """Cordon or uncordon brokers; `unregister` also unregisters them once they are empty."""
    command = CordonCommand(broker_ids=tuple(brokers), cordoned=cordoned, unregister=unregister)
    return await context.service.carry_out(command, BrokersCordoned, who=context.who)


def _altered(answer: BrokersCordoned) -> BrokersAltered:
    return BrokersAltered(
        brokers=tuple(BrokerResult.of(each, broker_id=each.broker_id) for each in answer.brokers)
    )


def broker_of(image: Image, broker: kafka_records.RegisterBroker) -> Broker:
    """The description of a registered broker."""
    return Broker(**_fields(image, broker))


def _fields(image: Image, broker: kafka_records.RegisterBroker) -> dict[str, Any]:
    index = image.index
    return {
        "broker_id": broker.broker_id,
        "broker_epoch": broker.broker_epoch,
        "implementation": "embedded" if broker.is_embedded else "kafka",
        "state": _state(broker),
        "cordoned": broker.cordoned,
        "gets_new_replicas": not is_closed(broker),
        "log_dirs": tuple(
            [
                RegisteredLogDir(
                    id=uuid_to_text(each), cordoned=each in (broker.cordoned_log_dirs or ())
                )
                for each in broker.log_dirs
            ]
        ),
        "to_be_unregistered": broker.leaving,
        "rack": broker.rack,
        "endpoints": tuple(
            [Endpoint(name=each.name, host=each.host, port=each.port) for each in broker.endpoints]
        ),
        "replicas": index.count(index.replicas_of, broker.broker_id),
        "in_sync": index.count(index.isr_of, broker.broker_id),
        "leaders": index.count(index.leader_of, broker.broker_id),
    }


def _state(broker: kafka_records.RegisterBroker) -> BrokerState:
    if broker.fenced:
        return "fenced"
    return "alive" if broker.stopping_at is None else "stopping"


def _one(image: Image, broker_id: int) -> DescribedBroker | Refusal:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return _unknown(broker_id)
    return DescribedBroker(as_of_offset=image.end_offset, **_fields(image, broker))


def _judged(
    image: Image, broker_ids: Sequence[int], silent: frozenset[int]
) -> Slices[SafetyCheck | Refusal]:
    """Judge the partitions of brokers; a broker that is not registered is never called safe."""
    for broker_id in broker_ids:
        if broker_id not in image.brokers:
            return _unknown(broker_id)
    return (yield from check_safety(image, broker_ids, silent))


def _unknown(broker_id: int) -> Refusal:
    return Refusal(Error.BROKER_ID_NOT_REGISTERED, not_registered([broker_id]))


def not_registered(brokers: Sequence[int]) -> str:
    """The reason to refuse a request for brokers that are not registered."""
    several = len(brokers) > 1
    words = f"Broker ID{'s' if several else ''} {', '.join(map(str, brokers))}"
    return f"{words} {'are' if several else 'is'} not currently registered"
