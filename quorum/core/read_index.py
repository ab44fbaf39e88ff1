"""Linearizable reads (ReadIndex): prove that a leader still leads after a read has arrived.

A leader that was replaced may not know it yet, and its state may be stale. So a read waits for two
conditions. The leader has committed a record of its own epoch: then it knows everything that
earlier leaders committed. And a majority of the voters, including the leader, has shown that it
was still in this epoch *after* the read arrived: the election of another leader takes a majority
into a higher epoch for good, and any two majorities share a voter.

The proof travels with the fetches. Responses to voters carry the number of a read round, and a
fetch echoes the last round that its sender has seen. A fetch that was under way when the read
arrived echoes an earlier round, so it proves nothing; the same holds for a late or repeated fetch.
A voter that does not echo (Kafka's controllers) proves it by acknowledging a record that was
appended after the read arrived.

Reads share the current round until a response has carried it. A read writes and flushes nothing.
`Commit` comes before the `AnswerReads` that depends on it, so the state machine applies first.
"""

from quorum.core.effects import AnswerReads, ReadRefusal
from quorum.core.events import ReadToken
from quorum.core.messages import FetchRequest
from quorum.core.replica_progress import ReplicaProgress
from quorum.core.roles import Leader, ReadGroup
from quorum.core.state import State
from quorum.core.vocabulary import Offset


def begin(state: State, token: ReadToken, now_ms: int) -> bool:
    """Queue a read or refuse it; return True if parked fetches should be answered for it."""
    leader = state.role
    if not isinstance(leader, Leader):
        state.effects.append(AnswerReads((token,), ReadRefusal.NOT_LEADER))
        return False
    tracker = leader.tracker
    if tracker.round_sent == tracker.round:
        # A response sent before this read carried the current round, so its echo proves nothing.
        tracker.round += 1
    tracker.round_awaited = tracker.round
    if not leader.reads or leader.reads[-1].round != tracker.round:
        deadline_ms = now_ms + state.timeouts.request_timeout_ms
        leader.reads.append(ReadGroup(tracker.round, deadline_ms))
    group = leader.reads[-1]
    group.tokens.append(token)
    group.log_end = state.log.end.offset
    settle(state, leader)
    return bool(leader.reads)


def echoed(leader: Leader, progress: ReplicaProgress, request: FetchRequest) -> None:
    """Note the round that a voter echoes; ignore a round that was never sent."""
    if progress.round < request.round <= leader.tracker.round_sent:
        progress.round = request.round


def settle(state: State, leader: Leader) -> None:
    """Release the reads that are proved by now; cheap if no read waits."""
    committed = state.shown_high_watermark(leader)
    if not leader.reads or committed is None:
        return
    ready: list[ReadToken] = []
    while leader.reads and _is_proved(state, leader, leader.reads[0]):
        ready += leader.reads.popleft().tokens
    if ready:
        state.effects.append(AnswerReads(tuple(ready), committed))
    if not leader.reads:
        leader.tracker.round_awaited = 0


def give_up_due(state: State, leader: Leader, now_ms: int) -> None:
    """Refuse the reads whose deadline has passed."""
    while leader.reads and leader.reads[0].deadline_ms <= now_ms:
        tokens = tuple(leader.reads.popleft().tokens)
        state.effects.append(AnswerReads(tokens, ReadRefusal.NOT_PROVED))
    if not leader.reads:
        leader.tracker.round_awaited = 0


def _is_proved(state: State, leader: Leader, group: ReadGroup) -> bool:
    shown = sum(_shows(each, group) for each in leader.tracker.voters.values())
    # A leader that was removed from the voters leads for a while without counting itself.
    return shown + state.is_voter >= state.voters.majority


def _shows(voter: ReplicaProgress, group: ReadGroup) -> bool:
    """Return True if the voter was in this epoch after the reads of the group had arrived."""
    return voter.round >= group.round or (voter.log_end or Offset(0)) > group.log_end
