"""The parts of a raft message on the wire that the flat messages do not have.

Kafka nests each of them in one topic and one partition. The metadata log is the only log of the
quorum, so anything but its topic and partition 0 is a mistake of the sender.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from quorum.core.messages import Error, Response
from quorum.core.vocabulary import Epoch, ReplicaId, ReplicaKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.shape import Data

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0

HostPort: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """The node that reads a request: the cluster and the replica that it may be meant for.

    `cluster_id` is None as long as the node has not learned it; then only those who know of none
    either are answered.
    """

    cluster_id: str | None
    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a message does not reach the core: Kafka's error code, and a reason to log.

    At the top level the whole request is refused, otherwise its one partition.
    """

    code: int
    reason: str
    top_level: bool = True

    def __str__(self) -> str:
        return f"refused with error {self.code}: {self.reason}"

    @classmethod
    def of_invalid(cls, what: str) -> "Refusal":
        """The refusal of a partition whose numbers cannot be true."""
        return cls(ErrorCode.INVALID_REQUEST, f"invalid: {what}", top_level=False)


NOT_ONE_PARTITION: Final = Refusal(
    ErrorCode.INVALID_REQUEST, "exactly one topic with one partition is expected"
)


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """The epoch of the node that answers and the leader it knows, which every answer names.

    `leader_address` is where that leader listens, for an asker that does not know (KIP-853).
    """

    epoch: Epoch
    leader: ReplicaId | None
    leader_address: HostPort | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftResponse:
    """A flat response and what came beside it.

    `records` are the bytes of an answered fetch, of records or of a snapshot, unchecked.
    """

    response: Response
    records: Data = b""
    leader_address: HostPort | None = None


def flat_error(code: int) -> Error | None:
    """The core's word for Kafka's error code, or None if it has none."""
    return _FLAT.get(code)


def address_of(leader: ReplicaId | None, response: Any) -> HostPort | None:
    """Return the leader's address, if a response of kio's names it (KIP-853)."""
    for endpoint in getattr(response, "node_endpoints", ()):
        if endpoint.node_id == leader:
            return endpoint.host, int(endpoint.port)
    return None


def node_endpoints(current: LeaderAndEpoch) -> tuple[dict[str, Any], ...]:
    """The leader's address for a response, in versions that have a place for it (KIP-853)."""
    if current.leader is None or current.leader_address is None:
        return ()
    host, port = current.leader_address
    return ({"node_id": current.leader, "host": host, "port": port},)


def wrong_cluster(cluster_id: str | None, here: LocalNode) -> Refusal | None:
    """Return the reason why a request of a node in `cluster_id` is refused, or None; no id is no
    reason."""
    if cluster_id is None or cluster_id == here.cluster_id:
        return None
    # One that knows of no cluster may turn out to be of another: what it would answer, its epoch
    # and its leader, is not for the sender.
    known = "knows of none yet" if here.cluster_id is None else f"of {here.cluster_id}"
    reason = f"the sender is of cluster {cluster_id}, this node {known}"
    return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)


_FLAT: Final[dict[int, Error]] = {int(error): error for error in Error}
