"""The batches that a leader writes for the quorum itself: who leads, and who votes."""

from quorum.core.effects import AppendAssignment, AppendLeaderChange
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.voters import encode_assignment, encode_founding


def encode_control(
    effect: AppendLeaderChange | AppendAssignment, cluster_id: str | None, *, timestamp_ms: int
) -> bytearray:
    """The batch that `effect` asks for, ready to be stamped."""
    if isinstance(effect, AppendAssignment):
        return encode_assignment(effect.assignment, cluster_id, timestamp_ms=timestamp_ms)
    change = LeaderChange(leader=effect.leader, voters=effect.voters, granting=effect.granting)
    voters = effect.batch.assignment
    if voters is None:
        return encode_leader_change(change, timestamp_ms=timestamp_ms)
    return encode_founding(change, voters, cluster_id, timestamp_ms=timestamp_ms)
