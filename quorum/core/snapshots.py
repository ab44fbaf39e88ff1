"""Snapshots of a replica: advance the log start, send a snapshot, receive one.

Functions over `State` (KIP-630). The driver keeps the bytes, like those of records; leader and
follower exchange the snapshot id and the position of a part. The log start advances only after the
snapshot that replaces the log below it is durable.
"""

from typing import Final

from quorum.core.effects import AdvanceLogStart, InstallSnapshot, StoreChunk, Warn
from quorum.core.events import (
    Asker,
    Correlation,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
)
from quorum.core.leader import refusal_of_fetch
from quorum.core.limits import SNAPSHOT_CHUNK_BYTES_MAX
from quorum.core.messages import (
    Error,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from quorum.core.roles import Follower, Leader
from quorum.core.state import SnapshotDownload, State
from quorum.core.vocabulary import OffsetAndEpoch, Snapshot

KEPT_MIN: Final = 2
"""The log start advances only with two snapshots: the newest one may prove damaged."""


def on_taken(state: State, event: SnapshotTaken, now_ms: int) -> None:
    """Take over the durable snapshots; advance the log start to the end of the oldest one."""
    kept = event.kept
    assert kept
    committed = state.high_watermark or 0
    assert kept[-1].end <= committed, f"{kept[-1]} goes beyond what is committed, {committed}"
    log = state.log
    log.snapshots = kept
    oldest = kept[0]
    if oldest.end > log.start and len(kept) >= KEPT_MIN:
        log.advance(oldest)
        state.effects.append(AdvanceLogStart(log.start))


# The leader's side.


def on_fetch_snapshot(
    state: State, asker: Asker, request: FetchSnapshotRequest, now_ms: int
) -> None:
    found = refusal_of_fetch(state, request) or _found(state, request)
    if isinstance(found, Error):
        state.answer(asker, _answer(state, request, error=found))
        return
    leader = state.role
    assert isinstance(leader, Leader)
    # The request acknowledges nothing, but shows that the replica is live and follows.
    progress = leader.tracker.progress_of(request.replica)
    progress.seen(request.replica, None, state.log.end.offset, now_ms)
    left = found.size_bytes - request.position
    length = min(request.max_bytes, SNAPSHOT_CHUNK_BYTES_MAX, left)
    state.answer(asker, _answer(state, request, size_bytes=found.size_bytes, length=length))


def _found(state: State, request: FetchSnapshotRequest) -> Snapshot | Error:
    if request.max_bytes < 1:
        return Error.INVALID_REQUEST
    for snapshot in state.log.snapshots:
        if snapshot.id == request.snapshot:
            within = 0 <= request.position < snapshot.size_bytes
            return snapshot if within else Error.POSITION_OUT_OF_RANGE
    return Error.SNAPSHOT_NOT_FOUND


def _answer(
    state: State,
    request: FetchSnapshotRequest,
    *,
    error: Error = Error.NONE,
    size_bytes: int = 0,
    length: int = 0,
) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        error=error,
        epoch=state.election.epoch,
        leader=state.leader,
        snapshot=request.snapshot,
        size_bytes=size_bytes,
        position=request.position,
        length=length,
    )


# The follower's side.


def refusal_of_offer(state: State, id_: OffsetAndEpoch) -> str | None:
    """Return the reason why no leader of this epoch can offer this snapshot, or None."""
    committed = state.high_watermark or 0
    if id_.offset > committed and id_.epoch <= state.election.epoch:
        return None
    # Our log has all its records, and they are committed, so the leader's log must have ours.
    return (
        f"snapshot {id_}, although everything below {committed} is committed here, in epoch "
        f"{state.election.epoch}"
    )


def begin_receiving(state: State, follower: Follower, id_: OffsetAndEpoch) -> None:
    """Begin to receive a snapshot: the leader no longer has the records that follow our log."""
    follower.snapshot = id_
    state.receiving = SnapshotDownload.from_(follower.leader, id_, before=state.receiving)


def request_part(state: State, id_: OffsetAndEpoch) -> FetchSnapshotRequest:
    """Return the request for the part after the received ones."""
    assert state.receiving is not None
    return FetchSnapshotRequest(
        replica=state.me,
        epoch=state.election.epoch,
        snapshot=id_,
        position=state.receiving.position,
        max_bytes=SNAPSHOT_CHUNK_BYTES_MAX,
    )


def on_part(
    state: State,
    follower: Follower,
    correlation: Correlation,
    response: FetchSnapshotResponse,
    now_ms: int,
) -> None:
    """Store a part that the leader sent; on an error return to ordinary fetches."""
    receiving = state.receiving
    assert receiving is not None
    wrong = _wrong(response, follower, receiving)
    if wrong is not None:
        # An ordinary fetch finds out what the leader has now.
        follower.snapshot = None
        state.receiving = None
        state.effects.append(Warn(f"leader {follower.leader}: snapshot {receiving.id}: {wrong}"))
        state.fetching.failed(now_ms)
        return
    state.fetching.reset()
    state.hear(follower, now_ms)
    state.effects.append(StoreChunk(correlation, receiving.id, receiving.position, response.length))
    receiving.position += response.length
    if receiving.position == response.size_bytes:
        state.installing = True
        state.effects.append(InstallSnapshot(receiving.id, is_mixed=receiving.is_mixed))


def _wrong(
    response: FetchSnapshotResponse, follower: Follower, receiving: SnapshotDownload
) -> str | None:
    if response.error:
        return f"{response.error}"
    if response.snapshot != follower.snapshot or response.position != receiving.position:
        return f"{response.snapshot} from byte {response.position} came instead"
    if response.length < 1 or response.position + response.length > response.size_bytes:
        return f"{response.length} bytes came of {response.size_bytes} in all"
    return None


def on_installed(state: State, event: SnapshotInstalled, now_ms: int) -> None:
    """Replace the log: it continues at the end of the snapshot."""
    state.log.begin_anew(event.snapshot, event.voters)
    state.high_watermark = event.snapshot.end
    state.take_voters()
    follower = _end_receiving(state)
    # The time-out starts now, however long the disk and the state machine took.
    follower.deadline_ms = state.next_fetch_timeout_ms(now_ms)


def on_refused(state: State, event: SnapshotRefused, now_ms: int) -> None:
    """Warn that the received snapshot is invalid, and start again.

    The time-out is not restarted: a leader whose snapshots are all invalid must be replaced.
    """
    state.effects.append(Warn(f"snapshot {event.id} was received and is not used: {event.reason}"))
    _end_receiving(state)
    state.fetching.failed(now_ms)


def _end_receiving(state: State) -> Follower:
    follower = state.role
    assert isinstance(follower, Follower), f"a snapshot was installed by a {follower}"
    state.installing = False
    state.receiving = follower.snapshot = None
    return follower
