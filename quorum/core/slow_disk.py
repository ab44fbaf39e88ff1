"""A node whose own disk does not keep up: slow, stalled, or full.

Safety asks for nothing here: a node says what it says only when it is on disk. What is at stake is
the lead, and order. A leader needs no disk of its own to commit, as long as a majority of the
others keeps what it sends. But what it cannot write it holds in memory, and where one of the others
is missing, everybody waits for its disk. So it gives the lead away when something has waited for
its disk for a fetch time-out, or at once when the disk is full; but only where another voter has
more on disk than itself, for then that one's disk works. Where none has, nothing would be better.

A voter that could not write its vote does not stand: it has not lost the leader, it has no disk.
But who has been told that the leader is gone, and only waits for a write that is under way, stands
as soon as that is done: a successor whose disk is a moment behind must not cost a time-out.
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
    """Resign if the disk is full and another voter has shown that it has room."""
    if not state.has_room and _is_outdone(state, leader):
        resign(state, leader, Cause.DISK_BEHIND, now_ms)


def on_tick(state: State, leader: Leader, now_ms: int) -> None:
    """Resign if something has waited for the leader's disk since the last check."""
    if leader.disk_look_ms is None or now_ms < leader.disk_look_ms:
        return
    if state.log.durable < leader.disk_owes and _is_outdone(state, leader):
        resign(state, leader, Cause.DISK_BEHIND, now_ms)
        return
    leader.disk_owes = state.log.end.offset
    leader.disk_look_ms = now_ms + state.timeouts.fetch_timeout_ms


def holds_back(state: State) -> bool:
    """Return True if this node waits for its own disk, and not for others."""
    return not state.has_room or state.log.durable < state.log.end.offset


def wait_for_it(state: State, now_ms: int) -> None:
    """Postpone the election of a node that waits for its own disk, not for a leader."""
    role = state.role
    if isinstance(role, Follower):
        # One that was only not heard of may live: this node could not ask it for more.
        state.awaits_disk = role.lost
        state.stand_at(state.next_fetch_timeout_ms(now_ms))
    else:
        state.awaits_disk = True
        state.stand_at(state.next_election_ms(now_ms))


def on_progress(state: State, now_ms: int) -> None:
    """Let a node that waited for its disk alone stand, now that the disk has caught up."""
    if holds_back(state):
        return
    state.awaits_disk = False
    state.stand_at(now_ms)


def _is_outdone(state: State, leader: Leader) -> bool:
    """Return True if another voter has more on disk than this node."""
    voters = leader.serving.voters.values()
    return any((each.log_end or 0) > state.log.durable for each in voters)
