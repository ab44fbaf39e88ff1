"""A leader that is not fetched from by a majority: it asks around, and gives up (KIP-595).

It may have been replaced without knowing it, by those who do not reach it any more: a zombie. Once
a majority has not fetched for the fetch time-out it asks one node after the other, voters first,
who leads, and obeys a newer epoch as anybody would. Should nobody tell it of one, it resigns at one
and a half times that time all the same: it can commit nothing, and whoever asks it waits in vain. A
leader that needs no other voter does neither.

Functions over `State`.
"""

from quorum.core import leading
from quorum.core.founding import sources
from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.messages import FetchRequest
from quorum.core.roles import Cause, Leader
from quorum.core.state import State
from quorum.core.vocabulary import Epoch, LogEnd, Offset


def on_tick(state: State, leader: Leader, now_ms: int) -> None:
    """Look when a majority, this node counted, has fetched last, and do as is due then."""
    if leader.check_quorum_ms is None or now_ms < leader.check_quorum_ms:
        return
    others_needed = state.voters.majority - state.is_voter
    if not others_needed:
        leader.check_quorum_ms = None
        return
    heard_ms = _majority_heard_ms(leader, others_needed)
    doubt_ms = heard_ms + state.timeouts.fetch_timeout_ms
    resign_ms = heard_ms + state.timeouts.check_quorum_ms
    if now_ms >= resign_ms:
        leading.resign(state, leader, Cause.QUORUM_LOST, now_ms)
    elif now_ms >= doubt_ms:
        _ask_around(state, leader)
        leader.check_quorum_ms = min(resign_ms, now_ms + state.timeouts.doubt_interval_ms)
    else:
        leader.doubts = None
        leader.check_quorum_ms = doubt_ms


def _majority_heard_ms(leader: Leader, others_needed: int) -> int:
    """Since when fewer than a majority have fetched."""
    last_fetches = sorted(
        (
            leader.since_ms if each.last_fetch_ms is None else each.last_fetch_ms
            for each in leader.serving.voters.values()
        ),
        reverse=True,
    )
    return last_fetches[others_needed - 1]


def _ask_around(state: State, leader: Leader) -> None:
    """Ask the next node, the first one at random; the epoch of its answer is what is asked for.

    A leader copies from nobody, and acknowledges nothing: it asks from the very beginning.
    """
    others = sources(state)
    if not others:
        return
    leader.doubts = state.rng.randrange(len(others)) if leader.doubts is None else leader.doubts + 1
    request = FetchRequest(
        replica=state.me,
        epoch=leader.epoch,
        log_end=LogEnd(Epoch(0), Offset(0)),
        max_wait_ms=0,
        max_bytes=FETCH_BYTES_MAX,
    )
    state.send(others[leader.doubts % len(others)], request)
