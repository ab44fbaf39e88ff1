"""What brokers ask for, and what is asked about them. Values only, never behaviour."""

from uuid import UUID

from msgspec import Struct

from statemachine import records
from statemachine.errors import Error
from statemachine.vocabulary import BrokerId, Directories


class RegisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """An incarnation of a broker wants to belong to the cluster (api 62, KIP-631)."""

    broker_id: BrokerId
    cluster_id: str
    """The cluster that the broker was formatted for."""
    our_cluster_id: str
    """The cluster that this is."""
    incarnation_id: UUID
    endpoints: tuple[records.Endpoint, ...]
    features: tuple[records.FeatureRange, ...]
    rack: str | None = None
    log_dirs: Directories = ()
    previous_epoch: int | None = None
    """The epoch that it stopped cleanly with, -1 if it did not; None if it cannot say (KIP-966)."""
    kraft_version: int = 0
    """The level of kraft.version, which is in no metadata record."""


class BrokerHeartbeat(Struct, frozen=True, kw_only=True, gc=False):
    """A broker lives, and says what it wants next (api 63, KIP-631)."""

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    """The offset of the last record that the broker has applied."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Directories = ()
    """Those of its log directories that have failed (KIP-858)."""
    lowest_live_offset: int | None = None
    """The lowest such offset among live brokers, from `Sessions`; None if none is live."""


class FenceBrokers(Struct, frozen=True, kw_only=True, gc=False):
    """The sessions of these brokers have expired (`Sessions.expired`)."""

    broker_ids: tuple[BrokerId, ...]


class UnregisterBroker(Struct, frozen=True, kw_only=True, gc=False):
    """A broker will not come back (api 64)."""

    broker_id: BrokerId
    only_if_empty: bool = False
    """Refuse a broker that is alive, or still has replicas; Kafka's request does not."""


class CordonBrokers(Struct, frozen=True, kw_only=True, gc=False):
    """These brokers shall get no new replicas, or may again. What they have stays."""

    broker_ids: tuple[BrokerId, ...]
    cordoned: bool
    unregister: bool = False
    """Of a cordon: unregister each once it has no replicas and is fenced, whoever leads then. An
    end of the cordon puts an end to that as well."""


class BrokerRegistered(Struct, frozen=True, kw_only=True, gc=False):
    """The epoch of this incarnation."""

    error: Error = Error.NONE
    message: str = ""
    broker_epoch: int = -1


class HeartbeatAnswered(Struct, frozen=True, kw_only=True, gc=False):
    """What the broker is from here on."""

    error: Error = Error.NONE
    message: str = ""
    caught_up: bool = False
    """It has applied its own registration."""
    fenced: bool = True
    should_shut_down: bool = False


class BrokersFenced(Struct, frozen=True, kw_only=True, gc=False):
    """The brokers that this fences, without those that are unknown or were fenced already."""

    broker_ids: tuple[BrokerId, ...]


class BrokerCordoned(Struct, frozen=True, kw_only=True, gc=False):
    """What came of it for one broker."""

    broker_id: BrokerId
    error: Error = Error.NONE
    message: str = ""


class BrokersCordoned(Struct, frozen=True, kw_only=True, gc=False):
    """One result for each broker named, in the order asked."""

    brokers: tuple[BrokerCordoned, ...]
