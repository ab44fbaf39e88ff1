"""Small snapshots for tests of snapshot files."""

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.records.control import SnapshotBatches

VOTERS = VoterAssignment(
    VoterSet(
        tuple(Voter(ReplicaKey(ReplicaId(n)), (Endpoint("C", "h", 9000 + n),)) for n in (1, 2))
    )
)


def id_(offset: int, epoch: int = 3) -> OffsetAndEpoch:
    return OffsetAndEpoch(Epoch(epoch), Offset(offset))


def parts(*values: bytes, epoch: int = 3, voters: VoterAssignment | None = VOTERS) -> list[bytes]:
    """The batches of a snapshot, one by one."""
    batches = SnapshotBatches(Epoch(epoch), 77)
    made = [batches.opening(voters, "4L6g3nShT-eMCtK--X86sw")]
    made += [batches.data([value, value]) for value in values]
    return [bytes(batch) for batch in (*made, batches.closing())]


def written(store: FileSnapshotStore, of: OffsetAndEpoch, *data: bytes) -> None:
    """Write and finish a snapshot of these bytes."""
    at = 0
    for each in data:
        store.write(of, each, at)
        at += len(each)
    store.finish(of)
    store.note(of, at)
