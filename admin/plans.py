"""What is asked and told of plans, as values: spread topics, change factors, empty brokers.

Frozen values that every door, client and command shares; they know neither the wire nor the screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from admin.keys import new_key, wrong_key
from admin.model import UNKNOWN, PartitionId
from admin.moves import PartitionOutcome
from statemachine.reassignment.throttle import rate_refusal

FACTOR_MAX: Final = 32_767
PARTITIONS_TOLD_MAX: Final = 20_000
"""Partitions of a plan that an answer tells one by one: about a megabyte."""


class Operation(IntEnum):
    """What PlanMoves can be asked for."""

    SPREAD = 1
    """Topics evenly over brokers; it is only told, for whoever wants it to ask for it."""
    FACTOR = 2
    """Another number of replicas for the partitions of topics."""
    DRAIN = 3
    """No replicas on brokers any more: a decommission."""
    UNDRAIN = 4
    """An end to that: a recommission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What to plan for, and whether to begin it."""

    operation: Operation
    topics: tuple[str, ...] | None = None
    """None: all."""
    brokers: tuple[int, ...] | None = None
    """Where to, or those that are emptied; None: all that may get new replicas."""
    heeds_racks: bool = True
    factor: int = 0
    dry_run: bool = False
    unregister: bool = False
    """Of a drain: forget the brokers once they have nothing any more and are dead, now or later."""
    throttle_bytes_per_s: int = 0
    """Of the moves that are begun, to and from each broker; 0 is no limit."""
    key: str = ""
    """Asked again with it, it is not carried out again; a dry run needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """What a partition has, and is to have."""

    id: PartitionId
    replicas: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShare:
    """How many of the partitions that were planned for a broker has, and would have.

    Where brokers are emptied it is of all that there are, and what it leads.
    """

    broker: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    """Of how many it is the preferred leader; where brokers are emptied, how many it leads."""
    leaders_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a plan would do."""

    replicas_added: int = 0
    replicas_removed: int = 0
    leaders_moved: int = 0
    crowded_before: int = UNKNOWN
    """Partitions that share racks needlessly; `UNKNOWN` where racks are not known."""
    crowded_after: int = UNKNOWN
    shares: Sequence[BrokerShare] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptying:
    """How far brokers are from having no replicas."""

    held: int = 0
    """Partitions that have a replica on any of them."""
    leaving: int = 0
    """Those of them that were on their way elsewhere before."""
    leaderless: Sequence[PartitionId] = ()
    """Those that nobody leads: there is nobody to copy them from."""
    busy: Sequence[PartitionId] = ()
    """Those that are being moved, and keep a replica on the brokers."""
    cordoned: Sequence[int] = ()
    """Brokers that get no new replicas from now on, or again."""
    to_be_unregistered: Sequence[int] = ()
    """Brokers that are unregistered once they have nothing and are stopped, by whoever leads."""
    strange: Sequence[int] = ()
    """Brokers that are not registered, or not any more."""
    alive: Sequence[int] = ()
    """Those that are, and live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """What came of a request."""

    reason: str | None = None
    """Why there is no plan."""
    moves: Sequence[int] = ()
    """That were begun, and of a drain those that empty the brokers already."""
    planned: int = 0
    """Partitions that are to be changed."""
    partitions: Sequence[PlannedPartition] = ()
    """As many of them as there is room for."""
    accepted: int = 0
    refused: Sequence[PartitionOutcome] = ()
    """The first of those that could not be begun, or cancelled."""
    refused_count: int = 0
    foreseen: Foreseen = field(default_factory=Foreseen)
    emptying: Emptying = field(default_factory=Emptying)
    is_repeated: bool = False
    """Whether it had been asked for before, with the same key."""


def with_key(request: PlanRequest) -> PlanRequest:
    """The request with a key where one that is asked again must not be carried out again.

    All but another factor can be asked for again at any time: what is so already is left.
    """
    if request.key or request.dry_run or request.operation is not Operation.FACTOR:
        return request
    return replace(request, key=new_key())


def wrong(request: PlanRequest) -> str | None:
    """What contradicts itself in the request, with what would be right; None if nothing does."""
    reason = _wrong_of_begun(request)
    if reason is not None:
        return reason
    named = request.brokers
    if named is not None and len(set(named)) != len(named):
        return "a broker is named twice; name each once"
    if request.topics is not None and len(set(request.topics)) != len(request.topics):
        return "a topic is named twice; name each once"
    if request.operation in (Operation.DRAIN, Operation.UNDRAIN):
        return _wrong_of_brokers(request)
    if request.unregister:
        return "only brokers that are emptied can be unregistered; leave it out"
    if request.topics == ():
        return "no topic is named; name at least one, or none at all for all of them"
    if named == ():
        return "no broker is named; name at least one, or none at all for all that take replicas"
    return _wrong_of_topics(request)


def _wrong_of_begun(request: PlanRequest) -> str | None:
    refusal = rate_refusal(request.throttle_bytes_per_s)
    if refusal is not None:
        return refusal.message
    if request.throttle_bytes_per_s and request.operation in (Operation.SPREAD, Operation.UNDRAIN):
        return "nothing is copied by it; leave the throttle out"
    if request.key and request.operation is Operation.SPREAD:
        return "a plan that spreads topics begins nothing; leave the key out"
    return wrong_key(request.key) if request.key else None


def _wrong_of_topics(request: PlanRequest) -> str | None:
    if request.operation is not Operation.FACTOR:
        keeps = "a plan that spreads topics keeps their replication factors; leave it out"
        return keeps if request.factor else None
    if request.topics is None:
        return "no topic is named; name those that are to have another replication factor"
    if not 1 <= request.factor <= FACTOR_MAX:
        return f"a replication factor is from 1 to {FACTOR_MAX:,}, not {request.factor}"
    return None


def _wrong_of_brokers(request: PlanRequest) -> str | None:
    if not request.brokers:
        return "no broker is named; name at least one"
    if request.topics is not None or request.factor:
        return "brokers are emptied of all that they have; leave topics and factor out"
    if request.unregister and (request.dry_run or request.operation is Operation.UNDRAIN):
        return "nothing is unregistered by what changes nothing, or goes back; leave it out"
    return None
