"""Small snapshots for tests of what is done with their files."""

from quorum.core.vocabulary import Epoch, LogEnd, Offset, ReplicaId, ReplicaKey
from quorum.core.voters import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.log.snapshot_folder import SnapshotFolder
from quorum.records.snapshot_batches import SnapshotBatches

VOTERS = VoterAssignment(
    VoterSet(
        tuple(Voter(ReplicaKey(ReplicaId(n)), (Endpoint("C", "h", 9000 + n),)) for n in (1, 2))
    )
)


def id_(offset: int, epoch: int = 3) -> LogEnd:
    return LogEnd(Epoch(epoch), Offset(offset))


def parts(*values: bytes, epoch: int = 3, voters: VoterAssignment | None = VOTERS) -> list[bytes]:
    """The batches of a snapshot, one by one."""
    batches = SnapshotBatches(Epoch(epoch), 77)
    made = [batches.opening(voters, "4L6g3nShT-eMCtK--X86sw")]
    made += [batches.data([value, value]) for value in values]
    return [bytes(batch) for batch in (*made, batches.closing())]


def written(store: SnapshotFolder, of: LogEnd, *data: bytes) -> None:
    """Write and finish a snapshot of these bytes."""
    at = 0
    for each in data:
        store.write(of, each, at)
        at += len(each)
    store.finish(of)
    store.note(of, at)
