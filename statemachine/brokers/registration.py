"""The registration of a broker as a value."""

from uuid import UUID

from msgspec import Struct

from statemachine.records import kafka_records
from statemachine.vocabulary import BrokerId, Directories


class BrokerRegistration(Struct, frozen=True, kw_only=True, gc=False):
    """The registration of one incarnation of a broker."""

    broker_id: BrokerId
    epoch: int
    """Unique to the incarnation, and rising: the offset of its first RegisterBroker record."""
    incarnation_id: UUID
    endpoints: tuple[kafka_records.Endpoint, ...]
    features: tuple[kafka_records.FeatureRange, ...]
    rack: str | None
    log_dirs: Directories
    fenced: bool
    stopping_at: int | None = None
    """While it is in controlled shutdown: the offset of the record that says so."""
    registered_at: int
    """The offset of its last RegisterBroker record."""
    cordoned: bool = False
    """Whether it is given no new replicas; it stays so over new incarnations."""
    leaving: bool = False
    """Whether it is unregistered once it has no replicas and is fenced; as above."""
    fenced_at_ms: int | None = None
    """Since when it has been fenced, if that is known."""

    @property
    def live(self) -> bool:
        """True if the broker may lead and be in an ISR: neither fenced nor stopping."""
        return not self.fenced and self.stopping_at is None
