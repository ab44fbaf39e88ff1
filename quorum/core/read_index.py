"""Linearizable reads (ReadIndex): the proof that a leader still leads after a read has come.

A leader that was replaced may not know it yet, and what it reads may then be old. So a read waits
until two things are so. The leader has committed a record of its own epoch: then it knows all that
earlier leaders committed. And a majority of the voters, itself counted, has shown that it was
still in this epoch *after* the read came: whoever elects another leader takes a majority into a
higher epoch, which none of them ever leaves, and any two majorities share a voter.

The proof travels with the fetches. Answers to voters carry the number of a round, and a fetch
echoes the last one that its sender has seen. A fetch that was under way when the read came echoes
an earlier round, so it proves nothing, and neither does one that arrives late or twice. A voter
that does not echo (the controllers of Kafka) proves it by acknowledging a record that was appended
after the read came.

Reads that come before any answer has carried the present round share it. Nothing is written or
flushed for a read. That the state machine has applied what a read must see is a matter of order:
`Commit` comes before the `AnswerReads` that rests on it.
"""

from quorum.core.effects import AnswerReads, ReadRefusal
from quorum.core.events import ReadToken
from quorum.core.messages import FetchRequest
from quorum.core.replica_progress import ReplicaProgress
from quorum.core.roles import Leader, ReadGroup
from quorum.core.state import State
from quorum.core.vocabulary import Offset


def begin(state: State, token: ReadToken, now_ms: int) -> bool:
    """Let a read wait for its proof, or refuse it. Whether parked fetches are to be answered."""
    leader = state.role
    if not isinstance(leader, Leader):
        state.effects.append(AnswerReads((token,), ReadRefusal.NOT_LEADER))
        return False
    serving = leader.serving
    if serving.round_sent == serving.round:
        # An answer that left before this read carried the present number: it proves nothing now.
        serving.round += 1
    serving.round_awaited = serving.round
    if not leader.reads or leader.reads[-1].round != serving.round:
        deadline_ms = now_ms + state.timeouts.request_timeout_ms
        leader.reads.append(ReadGroup(serving.round, deadline_ms))
    group = leader.reads[-1]
    group.tokens.append(token)
    group.log_end = state.log.end.offset
    settle(state, leader)
    return bool(leader.reads)


def echoed(leader: Leader, progress: ReplicaProgress, request: FetchRequest) -> None:
    """Note the round that a voter has seen; one that was never sent is nobody's echo."""
    if progress.round < request.round <= leader.serving.round_sent:
        progress.round = request.round


def settle(state: State, leader: Leader) -> None:
    """Release the reads that are proved by now; cheap to call when none waits."""
    committed = state.shown_high_watermark(leader)
    if not leader.reads or committed is None:
        return
    ready: list[ReadToken] = []
    while leader.reads and _is_proved(state, leader, leader.reads[0]):
        ready += leader.reads.popleft().tokens
    if ready:
        state.effects.append(AnswerReads(tuple(ready), committed))
    if not leader.reads:
        leader.serving.round_awaited = 0


def give_up_due(state: State, leader: Leader, now_ms: int) -> None:
    """Refuse the reads that have waited as long as they may."""
    while leader.reads and leader.reads[0].deadline_ms <= now_ms:
        tokens = tuple(leader.reads.popleft().tokens)
        state.effects.append(AnswerReads(tokens, ReadRefusal.NOT_PROVED))
    if not leader.reads:
        leader.serving.round_awaited = 0


def _is_proved(state: State, leader: Leader, group: ReadGroup) -> bool:
    shown = sum(_shows(each, group) for each in leader.serving.voters.values())
    # A leader that is no voter any more leads on for a while, and counts for nothing.
    return shown + state.is_voter >= state.voters.majority


def _shows(voter: ReplicaProgress, group: ReadGroup) -> bool:
    """Return True if the voter was in this epoch after the reads of the group had come."""
    return voter.round >= group.round or (voter.log_end or Offset(0)) > group.log_end
