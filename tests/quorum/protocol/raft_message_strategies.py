"""Hypothesis strategies for the quorum's messages, and the nodes between which they go."""

from uuid import UUID

from hypothesis import strategies as st

from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.protocol.raft_types import LocalNode

DIRECTORY_IDS = st.just(NO_DIRECTORY) | st.uuids(version=4)
REPLICA_IDS = st.integers(0, 2**31 - 1).map(ReplicaId)
REPLICAS = st.builds(ReplicaKey, REPLICA_IDS, DIRECTORY_IDS)
EPOCHS = st.integers(0, 2**31 - 2).map(Epoch)
OFFSETS = (st.integers(0, 3) | st.integers(0, 2**63 - 1)).map(Offset)
LOG_ENDS = st.builds(OffsetAndEpoch, EPOCHS, OFFSETS)
CLUSTER_IDS = st.none() | st.text(max_size=22)
ADDRESSES = st.none() | st.tuples(st.text(min_size=1, max_size=20), st.integers(1, 65_535))
ERRORS = st.sampled_from(Error)
LEADERS = st.none() | REPLICA_IDS


def _vote(
    candidate: ReplicaKey, log_end: OffsetAndEpoch, ahead: int, pre_vote: bool = False
) -> VoteRequest:
    epoch = Epoch(min(log_end.epoch + ahead, 2**31 - 1))
    return VoteRequest(epoch=epoch, candidate=candidate, log_end=log_end, pre_vote=pre_vote)


def _fetch(
    replica: ReplicaKey, log_end: OffsetAndEpoch, ahead: int, wait: int, size: int
) -> FetchRequest:
    epoch = Epoch(min(log_end.epoch + ahead, 2**31 - 1))
    return FetchRequest(
        replica=replica, epoch=epoch, log_end=log_end, max_wait_ms=wait, max_bytes=size
    )


VOTES = st.builds(_vote, REPLICAS, LOG_ENDS, st.integers(1, 1_000))
PRE_VOTES = st.builds(_vote, REPLICAS, LOG_ENDS, st.integers(0, 1_000), st.just(True))
BEGINS = st.builds(BeginQuorumEpochRequest, epoch=EPOCHS, leader=REPLICA_IDS)
ENDS = st.builds(
    EndQuorumEpochRequest,
    epoch=EPOCHS,
    leader=REPLICA_IDS,
    preferred_successors=st.lists(REPLICA_IDS, max_size=4).map(tuple),
)
FETCHES = st.builds(
    _fetch,
    REPLICAS,
    LOG_ENDS,
    st.integers(0, 1_000),
    st.integers(0, 2**31 - 1),
    st.integers(0, FETCH_BYTES_MAX),
)

VOTE_RESPONSES = st.builds(
    VoteResponse, error=ERRORS, epoch=EPOCHS, leader=LEADERS, granted=st.just(False)
) | st.builds(VoteResponse, epoch=EPOCHS, leader=LEADERS, granted=st.booleans())
BEGIN_RESPONSES = st.builds(BeginQuorumEpochResponse, error=ERRORS, epoch=EPOCHS, leader=LEADERS)
END_RESPONSES = st.builds(EndQuorumEpochResponse, error=ERRORS, epoch=EPOCHS, leader=LEADERS)
FETCH_RESPONSES = st.builds(
    FetchResponse,
    error=ERRORS,
    epoch=EPOCHS,
    leader=LEADERS,
    high_watermark=st.none() | OFFSETS,
    log_start=OFFSETS,
    diverging=st.none() | LOG_ENDS,
    span=st.none(),
    batches=st.just(()),
)

ME = ReplicaKey(ReplicaId(2), UUID("6f0d4d53-21b7-4c3f-a5d1-5a1a6a3a9d10"))
CLUSTER_ID = "Vsx5MTtGQf2ybkjtm83Tvg"
HERE = LocalNode(cluster_id=CLUSTER_ID, replica=ME)
