"""The parts of a Raft message on the wire that the flat messages lack.

Kafka nests each message in one topic and one partition. The metadata log is the only log of the
quorum: any other topic or partition is refused.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from quorum.core.messages import Error, Response
from quorum.core.vocabulary import Epoch, HostPort, ReplicaId, ReplicaKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.shape import Data

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """The node that reads a request: its cluster and its replica key.

    `cluster_id` is None until the node has learned it; until then it answers only nodes without a
    cluster id.
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
        """Return the refusal of a partition with invalid numbers."""
        return cls(ErrorCode.INVALID_REQUEST, f"invalid: {what}", top_level=False)


NOT_ONE_PARTITION: Final = Refusal(
    ErrorCode.INVALID_REQUEST, "exactly one topic with one partition is expected"
)


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """The epoch of the answering node and the leader that it knows, for every response.

    `leader_address` is the leader's listener, for a replica that does not know it (KIP-853).
    """

    epoch: Epoch
    leader: ReplicaId | None
    leader_address: HostPort | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftResponse:
    """A flat response and its attachments.

    `records` are the unchecked bytes for a fetch of records or of a snapshot.
    """

    response: Response
    records: Data = b""
    leader_address: HostPort | None = None


def flat_error(code: int) -> Error | None:
    """Return the core's error for a Kafka error code, or None if it has none."""
    return _FLAT.get(code)


def address_of(leader: ReplicaId | None, response: Any) -> HostPort | None:
    """Return the leader's address in a kio response, or None (KIP-853)."""
    for endpoint in getattr(response, "node_endpoints", ()):
        if endpoint.node_id == leader:
            return endpoint.host, int(endpoint.port)
    return None


def node_endpoints(current: LeaderAndEpoch) -> tuple[dict[str, Any], ...]:
    """Return the leader's address as a response field, in versions that have it (KIP-853)."""
    if current.leader is None or current.leader_address is None:
        return ()
    host, port = current.leader_address
    return ({"node_id": current.leader, "host": host, "port": port},)


def wrong_cluster(
    cluster_id: str | None, here: LocalNode, *, is_required: bool = False
) -> Refusal | None:
    """Return the refusal of a request of a node in `cluster_id`, or None.

    An unknown id passes unless one is required: a node that takes part in the elections of a
    cluster with an id knows it.
    """
    if cluster_id == here.cluster_id or (cluster_id is None and not is_required):
        return None
    if cluster_id is None:
        reason = f"the sender names no cluster, this node is of {here.cluster_id}"
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
    # A node without a cluster id may turn out to belong to another cluster: the sender must not
    # learn its epoch and its leader.
    known = "knows of none yet" if here.cluster_id is None else f"of {here.cluster_id}"
    reason = f"the sender is of cluster {cluster_id}, this node {known}"
    return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)


_FLAT: Final[dict[int, Error]] = {int(error): error for error in Error}
