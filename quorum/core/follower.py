"""Fetching by a follower, or by a node in search of a leader: append, truncate, commit.

Functions over `State`. An unattached node fetches from one voter after another: each is the leader,
names it, or does not know it (KIP-595, "Bootstrapping").
"""

from quorum.core import snapshots
from quorum.core.committed_history import CommittedHistoryLost
from quorum.core.effects import AppendFetched, Commit, TruncateTo, Warn
from quorum.core.events import Correlation, LeaderUnreachable
from quorum.core.leader_discovery import source, source_beside_voters
from quorum.core.limits import FAILOVER_WAIT_MS_MAX, FETCH_BYTES_MAX
from quorum.core.messages import Error, FetchRequest, FetchResponse, FetchSnapshotResponse
from quorum.core.raft_log import refusal_of_batches, truncation_point
from quorum.core.roles import Cause, Follower, Prospective, Resigned, Unattached
from quorum.core.state import State
from quorum.core.vocabulary import Offset, OffsetAndEpoch, ReplicaId


def fetch_if_due(state: State, now_ms: int) -> None:
    """Send the next fetch if the log is on disk and no fetch is under way."""
    # This runs after every step: the most frequent reason not to fetch comes first.
    if state.fetching.pending is not None or state.log.durable != state.log.end.offset:
        return
    if state.stopping or state.installing or not state.fetching.may_ask(now_ms):
        return
    source = _source(state)
    if source is None:
        return
    follower = state.role if isinstance(state.role, Follower) else None
    if follower is not None and follower.snapshot is not None:
        part = snapshots.request_part(state, follower.snapshot)
        state.fetching.asked(state.send(source, part))
        return
    request = FetchRequest(
        replica=state.me,
        epoch=state.election.epoch,
        log_end=state.log.end,
        max_wait_ms=0 if follower is None else state.timeouts.fetch_wait_ms,
        max_bytes=FETCH_BYTES_MAX,
        round=0 if follower is None else follower.round,
    )
    # A node that is only asked for the leader answers at once, if at all.
    overdue_ms = now_ms + state.timeouts.search_patience_ms if follower is None else None
    state.fetching.asked(state.send(source, request), overdue_ms)


def on_search_tick(state: State, now_ms: int) -> None:
    """Turn to another node if this one is silent; a late answer still names epoch and leader."""
    if state.fetching.leave(now_ms):
        state.probes += 1


def on_fetch_response(
    state: State, correlation: Correlation, response: FetchResponse, now_ms: int
) -> None:
    """`learn` has already taken in the epoch and the leader that the answer names."""
    if correlation != state.fetching.pending:
        return  # The fetch went to another leader, or belongs to another epoch.
    follower = state.role
    if not isinstance(follower, Follower) or response.error:
        _ask_elsewhere(state, now_ms)
        if isinstance(follower, Follower) and _has_resigned(state, follower, response):
            _expect_no_more(state, follower, now_ms)
        return
    if response.epoch != state.election.epoch or response.leader != follower.leader:
        _ask_elsewhere(state, now_ms)
        return
    refusal = _refusal(state, response)
    if refusal is not None:
        # The fetch time-out goes on: a leader that sends nothing else is soon replaced.
        state.effects.append(Warn(f"leader {follower.leader} sent what cannot be: {refusal}"))
        state.fetching.failed(now_ms)
        return
    if response.snapshot is not None:
        # Only its parts restart the time-out: a leader that offers and never sends is no leader.
        state.fetching.answered()
        if follower.lost:
            state.hear(follower, now_ms)
        follower.heard_ms = now_ms
        snapshots.begin_receiving(state, follower, response.snapshot)
        return
    state.fetching.reset()
    follower.round = max(follower.round, response.round)
    state.hear(follower, now_ms)
    if response.diverging is not None:
        _truncate(state, _truncation_end(state, response.diverging))
        return
    _append(state, correlation, response)
    _commit(state, response.high_watermark)


def on_fetch_snapshot_response(
    state: State, correlation: Correlation, response: FetchSnapshotResponse, now_ms: int
) -> None:
    """`learn` has already taken in the epoch and the leader that the answer names."""
    follower = state.role
    if state.fetching.pending != correlation or not isinstance(follower, Follower):
        return  # The fetch went to another leader, or belongs to another epoch.
    if response.epoch != state.election.epoch or response.leader != follower.leader:
        _ask_elsewhere(state, now_ms)
        return
    snapshots.on_part(state, follower, correlation, response, now_ms)


def on_fetch_unanswered(state: State, correlation: Correlation, now_ms: int) -> None:
    if correlation == state.fetching.pending:
        _ask_elsewhere(state, now_ms)


def on_leader_unreachable(state: State, event: LeaderUnreachable, now_ms: int) -> None:
    """Treat the leader as lost until it answers again; pre-vote makes a wrong hint harmless."""
    follower = state.role
    if state.stopping or not isinstance(follower, Follower) or follower.leader != event.leader:
        return
    if state.is_promotable:
        _expect_no_more(state, follower, now_ms)
    else:
        # An observer searches for a leader at once.
        state.become(Unattached(None), Cause.LEADER_GONE)


def next_ms(state: State) -> int | None:
    """Return the time of the next fetch, or at which the one under way is overdue; None if none."""
    if state.stopping or state.installing:
        return None
    if state.fetching.pending is not None:
        return state.fetching.overdue_ms
    if state.log.durable != state.log.end.offset:
        return None  # It waits for the disk, not for a time.
    return None if _source(state) is None else state.fetching.not_before_ms


def _source(state: State) -> ReplicaId | None:
    match state.role:
        case Follower(leader=leader):
            return leader
        case Unattached() | Resigned():
            return source(state, state.probes)
        case Prospective(is_searching=True):
            return source_beside_voters(state, state.probes)
        case _:
            return None


def _has_resigned(state: State, follower: Follower, response: FetchResponse) -> bool:
    """Return True if the leader itself answers that it does not lead: it resigned or restarted.

    Always False for an observer: it asks this node until that names the next leader.
    """
    return (
        response.error is Error.NOT_LEADER_OR_FOLLOWER
        and state.is_promotable
        and response.epoch == state.election.epoch
        and response.leader in (None, follower.leader)
    )


def _expect_no_more(state: State, follower: Follower, now_ms: int) -> None:
    """Shorten the fetch time-out to a random wait, so that two voters do not stand at once."""
    if follower.lost:
        return
    follower.lost = True
    soon_ms = now_ms + state.rng.randrange(FAILOVER_WAIT_MS_MAX + 1)
    follower.deadline_ms = min(follower.deadline_ms, soon_ms)


def _ask_elsewhere(state: State, now_ms: int) -> None:
    """Ask the next node after a pause."""
    state.probes += 1
    # A node that knows no voters may search for a long time, so it asks less often.
    pause_ms_max = state.timeouts.search_pause_ms_max if len(state.voters) else None
    state.fetching.failed(now_ms, pause_ms_max=pause_ms_max)


def _refusal(state: State, response: FetchResponse) -> str | None:
    """Return the reason why no leader can have sent this answer, or None."""
    if response.snapshot is not None:
        return snapshots.refusal_of_offer(state, response.snapshot)
    if response.diverging is not None:
        if _truncation_end(state, response.diverging) < state.log.end.offset:
            return None
        return f"the log parts at {response.diverging}, but nothing of {state.log.end} is after it"
    return refusal_of_batches(response.batches, state.log.end, state.election.epoch)


def _truncation_end(state: State, diverging: OffsetAndEpoch) -> Offset:
    end = truncation_point(state.log.history, state.log.end.offset, diverging)
    if end < (state.high_watermark or 0):
        raise CommittedHistoryLost(
            f"the leader's log parts from ours at {diverging}, below our high watermark "
            f"{state.high_watermark}: a committed record would be lost. If the cluster was "
            "restored or recovered from an older state, move the __cluster_metadata-0 and the "
            "boot-timestamp of this broker away, of a controller the whole folder, and start it "
            "again (docs/recovery.md); otherwise do not trust the leader's disk"
        )
    return end


def _truncate(state: State, end: Offset) -> None:
    state.truncate(end)
    state.effects.append(TruncateTo(end))


def _append(state: State, correlation: Correlation, response: FetchResponse) -> None:
    if not response.batches:
        return
    for batch in response.batches:
        state.append(batch)
    state.effects.append(AppendFetched(correlation, response.batches))


def _commit(state: State, high_watermark: Offset | None) -> None:
    if high_watermark is None:
        return
    reached = min(high_watermark, state.log.end.offset)
    # For a replica without records `reached` is 0, which commits nothing.
    if reached > (state.high_watermark or 0):
        state.high_watermark = reached
        state.effects.append(Commit(reached))
