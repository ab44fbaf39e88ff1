"""The state of the quorum as its leader describes it (KIP-595, KIP-836, KIP-853).

Times are wall-clock milliseconds of the leader.
"""

from collections.abc import Mapping
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from quorum.transport.address import Address

UNKNOWN: Final = -1
"""A time, an offset or a lag that is not known."""


class ReplicaInfo(Struct, frozen=True, kw_only=True):
    """One replica of the metadata log as the leader last heard of it."""

    id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN


class QuorumDescription(Struct, frozen=True, kw_only=True):
    """Leader, voters and observers; `target_voters` is None if no change is wanted."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaInfo, ...]
    observers: tuple[ReplicaInfo, ...]
    addresses: Mapping[int, tuple[tuple[str, Address], ...]]
    """Listeners of each replica by its id: name and address."""
    target_voters: tuple[int, ...] | None = None
    """Only our controllers say this and what follows."""
    waits_for: str | None = None
    """The condition that a change of the voters waits for."""
    full_disks: tuple[int, ...] = ()
    """Nodes without room on their disks. A node knows only its own disk: this is the leader, or, in
    a stale description, the node that answers."""
    leaderless_since_ms: int | None = None
    """The wall-clock time since which the node that answers knows no leader."""

    @property
    def leader(self) -> ReplicaInfo | None:
        """The leader among the voters; None for one that is being removed from them."""
        return next((voter for voter in self.voters if voter.id == self.leader_id), None)


class LeadTransfer(Struct, frozen=True, kw_only=True):
    """The leader after a transfer."""

    leader_id: Annotated[int, Meta(description="-1: not known yet")]
    leader_epoch: int
    duration_ms: Annotated[int, Meta(description="From the request until the leader was known")]
    led_already: Annotated[
        bool, Meta(description="True if it led before the request, which changed nothing")
    ] = False


def lag(replica: ReplicaInfo, leader: ReplicaInfo | None) -> int:
    """Return the records that `replica` lacks, or `UNKNOWN` without the leader's log end.

    The replica's last report may be older than the leader's end. One that never reported lags by
    the whole log and one more, as in Kafka's tool.
    """
    if leader is None or leader.log_end_offset == UNKNOWN:
        return UNKNOWN
    return leader.log_end_offset - replica.log_end_offset


def lag_time_ms(replica: ReplicaInfo, leader: ReplicaInfo | None) -> int:
    """Return the time since `replica` was caught up, or `UNKNOWN`.

    As in Kafka's tool: the leader is always caught up with itself, so the difference of the two
    times is the lag.
    """
    if leader is not None and replica.id == leader.id:
        return 0
    if leader is None or UNKNOWN in (replica.last_caught_up_ms, leader.last_caught_up_ms):
        return UNKNOWN
    return leader.last_caught_up_ms - replica.last_caught_up_ms
