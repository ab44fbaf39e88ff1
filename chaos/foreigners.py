"""A node of another cluster, as it speaks to one of ours: it asks to be taken for one, and answers.

It says what would do the most harm if anybody listened: an epoch that is later, a vote for one of
ours, the end of a lead, everything acknowledged.
"""

from typing import TYPE_CHECKING, Final

from chaos.lines import Side
from chaos.town import FOREIGN_CLUSTER_ID
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from quorum.core.vocabulary import Epoch, LogEnd, Offset, ReplicaKey
from quorum.protocol.raft_messages import Standing

if TYPE_CHECKING:
    from chaos.process import Process

AHEAD: Final = 7
"""How many epochs it is ahead of ours: near enough to be believed."""
FAR: Final = Offset(1 << 40)


def foreigner(of_ours: Side, key: ReplicaKey) -> Side:
    """Somebody in the place of a replica of ours; it says to follow it, in a later epoch."""
    standing = Standing(Epoch(of_ours.standing.epoch + AHEAD), key.id)
    return Side(key=key, cluster_id=FOREIGN_CLUSTER_ID, standing=standing)


def questions(asked: "Process", other: ReplicaKey) -> tuple[Request, ...]:
    """Everything that a replica may ask, as if `other` had asked it."""
    node, end = asked.replica.node, asked.log.end
    now, later = node.epoch, Epoch(node.epoch + AHEAD)
    ahead = LogEnd(later, FAR)
    leader = other.id if node.leader is None else node.leader
    return (
        VoteRequest(epoch=later, candidate=other, log_end=ahead),
        VoteRequest(epoch=later, candidate=other, log_end=ahead, pre_vote=True),
        BeginQuorumEpochRequest(epoch=later, leader=other.id),
        EndQuorumEpochRequest(epoch=now, leader=leader, preferred_successors=(other.id,)),
        FetchRequest(replica=other, epoch=now, log_end=end, max_wait_ms=0, max_bytes=1),
        FetchSnapshotRequest(replica=other, epoch=now, snapshot=end, position=0, max_bytes=1),
    )
