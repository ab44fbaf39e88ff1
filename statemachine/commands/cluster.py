"""What concerns the cluster as a whole. Values only, never behaviour."""

from uuid import UUID

from msgspec import Struct

from statemachine import records
from statemachine.errors import Error
from statemachine.vocabulary import BrokerId


class FoundCluster(Struct, frozen=True, kw_only=True, gc=False):
    """The first active controller of an empty log says which features are in force."""

    metadata_version: int
    features: tuple[tuple[str, int], ...] = ()
    """Levels of other features, where they shall differ from the defaults of that level."""
    default_min_isr: int = 1
    """`min.insync.replicas` of the cluster, which the ELR needs in the log (KIP-966)."""


class RegisterController(Struct, frozen=True, kw_only=True, gc=False):
    """A controller says where it is (api 70, KIP-919)."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[records.Endpoint, ...]
    features: tuple[records.FeatureRange, ...]


class AllocateProducerIds(Struct, frozen=True, kw_only=True, gc=False):
    """A broker needs a block of producer ids (api 67, KIP-730)."""

    broker_id: BrokerId
    broker_epoch: int


class ProducerIdsAllocated(Struct, frozen=True, kw_only=True, gc=False):
    """The block of producer ids that now belongs to the broker."""

    error: Error = Error.NONE
    message: str = ""
    first_id: int = -1
    count: int = 0
