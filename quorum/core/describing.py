"""What a node tells of the quorum to those who ask. Functions over `State` that change nothing."""

from quorum.core.progress import ReplicaProgress, ReplicaStatus
from quorum.core.roles import Leader
from quorum.core.state import State
from quorum.core.vocabulary import ReplicaId
from quorum.core.voters_wanted import VoterChange


def voter_change(state: State) -> VoterChange:
    """Who is to vote in the end, and what that waits for, as a leader knows it."""
    assignment = state.log.assignments.last
    wait = state.role.changes.first_wait if isinstance(state.role, Leader) else None
    target = None if assignment is None else assignment.target
    return VoterChange(target, wait)


def successor(state: State) -> ReplicaId | None:
    """To whom a leader is handing over its lead; None where it is not."""
    leader = state.role
    if not isinstance(leader, Leader) or leader.transfer is None:
        return None
    return leader.transfer.successor


def replicas(state: State) -> tuple[ReplicaStatus, ...]:
    """What a leader knows of every replica, voters first; empty on any other node."""
    if not isinstance(state.role, Leader):
        return ()
    serving = state.role.serving
    own = ReplicaStatus(
        replica=state.me,
        log_end=state.log.end.offset,
        last_fetch_ms=None,
        last_caught_up_ms=None,
        is_voter=state.is_voter,
        is_leader=True,
    )
    voters = [_status(each, is_voter=True) for each in serving.voters.values()]
    observers = [_status(each, is_voter=False) for each in serving.observers]
    (voters if own.is_voter else observers).append(own)
    return (
        *sorted(voters, key=lambda each: each.replica),
        *sorted(observers, key=lambda each: each.replica),
    )


def _status(progress: ReplicaProgress, *, is_voter: bool) -> ReplicaStatus:
    return ReplicaStatus(
        replica=progress.replica,
        log_end=progress.log_end,
        last_fetch_ms=progress.last_fetch_ms,
        last_caught_up_ms=progress.last_caught_up_ms,
        is_voter=is_voter,
        is_leader=False,
    )
