"""A node whose own disk does not keep up: slow, stalled, or full.

A slow disk does not endanger safety: a node acknowledges only what is on disk. It endangers
availability. A leader commits without its own disk as long as a majority of the other voters
stores the records, but it holds what it cannot write in memory, and if another voter is missing,
every commit waits for its disk. So it resigns when records have waited for its disk for a fetch
time-out, or at once when the disk is full; but only if another voter has more on disk than itself,
so that a disk that works exists.

A voter that cannot write its vote does not stand. A voter that knows that the leader is gone, and
waits only for a write under way, stands as soon as that is done: a successor whose disk is slightly
behind must not wait for another time-out.
"""

from quorum.core.events import DiskSpaceChanged
from quorum.core.leader import resign
from quorum.core.roles import Cause, Follower, Leader
from quorum.core.state import State


def on_disk_space_changed(state: State, event: DiskSpaceChanged, now_ms: int) -> None:
    state.has_room = event.exists
    if isinstance(state.role, Leader):
        give_up_if_full(state, state.role, now_ms)
    elif state.awaits_disk:
        on_progress(state, now_ms)


def give_up_if_full(state: State, leader: Leader, now_ms: int) -> None:
    """Resign if the disk is full and another voter has more on disk."""
    if not state.has_room and _is_outdone(state, leader):
        resign(state, leader, Cause.DISK_BEHIND, now_ms)


def on_tick(state: State, leader: Leader, now_ms: int) -> None:
    """Resign if records have waited for the leader's disk since the last check."""
    if leader.disk_check_ms is None or now_ms < leader.disk_check_ms:
        return
    if state.log.durable < leader.disk_checked_end and _is_outdone(state, leader):
        resign(state, leader, Cause.DISK_BEHIND, now_ms)
        return
    leader.disk_checked_end = state.log.end.offset
    leader.disk_check_ms = now_ms + state.timeouts.fetch_timeout_ms


def holds_back(state: State) -> bool:
    """Return True if this node must not stand now, because its own disk is behind or full."""
    return not state.has_room or state.log.durable < state.log.end.offset


def postpone_election(state: State, now_ms: int) -> None:
    """Postpone the election of a node that waits for its own disk."""
    role = state.role
    if isinstance(role, Follower):
        # Without other signs the leader may live: this node could not fetch while its disk waited.
        state.awaits_disk = role.lost
        state.stand_at(state.next_fetch_timeout_ms(now_ms))
    else:
        state.awaits_disk = True
        state.stand_at(state.next_election_ms(now_ms))


def on_progress(state: State, now_ms: int) -> None:
    """Let a node stand that waited only for its disk, once the disk has caught up."""
    if holds_back(state):
        return
    state.awaits_disk = False
    state.stand_at(now_ms)


def _is_outdone(state: State, leader: Leader) -> bool:
    """Return True if another voter has more on disk than this node."""
    voters = leader.tracker.voters.values()
    return any((each.log_end or 0) > state.log.durable for each in voters)
