"""What is told of brokers to those who care for them, as values, and how an image tells it.

Frozen values that every door, client and command shares; they know neither the wire nor the screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from admin.model import PartitionId
from statemachine.errors import Error, Refusal
from statemachine.image import Image
from statemachine.queries import describe_brokers
from statemachine.safety import TooMany, judging
from statemachine.slices import Slices


class Operation(IntEnum):
    """What AlterBrokers can be asked for."""

    CORDON = 1
    """Let brokers get no new replicas; what they have stays."""
    UNCORDON = 2
    UNREGISTER = 3
    """Forget brokers that have stopped and have no replicas."""

    @property
    def participle(self) -> str:
        """What is done to a broker: for "cannot be" to go before."""
        return {
            Operation.CORDON: "cordoned",
            Operation.UNCORDON: "uncordoned",
            Operation.UNREGISTER: "unregistered",
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStanding:
    """A registered broker, alive or not, and what it has."""

    id: int
    epoch: int
    rack: str | None
    is_fenced: bool
    is_stopping: bool
    is_cordoned: bool
    replica_count: int
    in_sync_count: int
    leader_count: int
    is_to_be_unregistered: bool
    """Once it has nothing and is fenced: the wish of a decommission."""

    @property
    def state(self) -> str:
        """In one word: alive, stopping or fenced; whether it is cordoned is another matter."""
        if self.is_fenced:
            return "fenced"
        return "stopping" if self.is_stopping else "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStandings:
    """Brokers in order of id, and the offset that this is as of, where the node said it."""

    brokers: Sequence[BrokerStanding]
    as_of: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HurtPartition:
    """A partition that would be hurt if brokers stopped; `harm` is a word of the state machine."""

    id: PartitionId
    harm: str
    left: Sequence[int]
    """Who would be in sync and alive."""
    min_isr: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyReport:
    """What would be hurt if brokers stopped together, as of an offset where the node said it."""

    hurt: Sequence[HurtPartition]
    """The first of them, in order."""
    hurt_count: int
    looked_at: int
    as_of: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerResult:
    """What came of a request for one broker; error code 0 is success."""

    broker_id: int
    error_code: int = 0
    error_name: str = "NONE"
    message: str | None = None


def standings(
    image: Image, wanted: Sequence[int] | None = None
) -> tuple[BrokerStanding, ...] | Refusal:
    """All registered brokers or those wanted, in order; or that one of them is not registered."""
    refusal = None if wanted is None else _unknown(image, wanted)
    if refusal is not None:
        return refusal
    return tuple(
        BrokerStanding(
            id=each.broker.broker_id,
            epoch=each.broker.epoch,
            rack=each.broker.rack,
            is_fenced=each.broker.fenced,
            is_stopping=each.broker.stopping_at is not None,
            is_cordoned=each.broker.cordoned,
            replica_count=each.replica_count,
            in_sync_count=each.in_sync_count,
            leader_count=each.leader_count,
            is_to_be_unregistered=each.broker.leaving,
        )
        for each in describe_brokers(image)
        if wanted is None or each.broker.broker_id in wanted
    )


def safety(image: Image, broker_ids: Sequence[int]) -> Slices[SafetyReport | Refusal]:
    """What would be hurt if these stopped, or why that cannot be said; in slices.

    Whoever asks for a broker that is not there has meant another one: that is no "safe".
    """
    if not broker_ids:
        return Refusal(Error.INVALID_REQUEST, "no broker is named; name at least one")
    if len(set(broker_ids)) != len(broker_ids):
        return Refusal(Error.INVALID_REQUEST, "a broker is named twice; name each once")
    refusal = _unknown(image, broker_ids)
    if refusal is not None:
        return refusal
    found = yield from judging(image, broker_ids)
    if isinstance(found, TooMany):
        return Refusal(Error.INVALID_REQUEST, str(found))
    return SafetyReport(
        hurt=[
            HurtPartition(
                id=PartitionId(each.topic, each.partition),
                harm=each.harm.value,
                left=each.left,
                min_isr=each.min_isr,
            )
            for each in found.hurt
        ],
        hurt_count=found.hurt_count,
        looked_at=found.looked_at,
        as_of=image.end_offset,
    )


def _unknown(image: Image, broker_ids: Sequence[int]) -> Refusal | None:
    for broker_id in broker_ids:
        if broker_id not in image.brokers:
            return Refusal(
                Error.BROKER_ID_NOT_REGISTERED,
                f"Broker ID {broker_id} is not currently registered",
            )
    return None
