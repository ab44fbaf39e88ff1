"""When a voter may stand that has no log yet, or does not know where the others are.

A cluster is founded once. A node that was told where to ask first (`bootstrap.servers`) asks there
before it founds one, and does not if it hears of a quorum (KIP-595, "Bootstrapping" steps 3 and
4); and no voter stands before it knows where a majority of the expected voters is (step 6): it
could win nothing, and would only raise its epoch. Functions over `State`.
"""

from typing import Final, assert_never

from quorum.core.events import Located, Surveyed
from quorum.core.roles import Cause, Follower, Resigned, Unattached
from quorum.core.state import State
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.core.voters import Endpoint, Voter

SEARCHED_MAX: Final = 64
"""Replicas without a vote that are asked who leads."""


def may_stand(state: State) -> bool:
    """Whether this voter may ask for votes when its time comes."""
    beginning = state.beginning
    if state.log.end.offset == 0 and (not beginning.has_surveyed or beginning.has_found):
        return False
    unlocated = state.voters.ids & beginning.unlocated
    return len(state.voters) - len(unlocated) >= state.voters.majority


def holds_back(state: State, now_ms: int) -> bool:
    """Whether the time to stand has come for a voter that may not; it gets another one."""
    if not state.may_be_needed or may_stand(state):
        return False
    match state.role:
        case Unattached(election_deadline_ms=int(due_ms)) as waiting if now_ms >= due_ms:
            waiting.election_deadline_ms = state.next_election_ms(now_ms)
        case Resigned(election_deadline_ms=int(due_ms)) as resigned if now_ms >= due_ms:
            resigned.election_deadline_ms = state.next_election_ms(now_ms)
        case Follower(fetch_deadline_ms=due_ms) if now_ms >= due_ms:
            state.become(Unattached(state.next_election_ms(now_ms)), Cause.FETCH_TIMEOUT)
        case _:
            return False
    return True


def on_news(state: State, news: Located | Surveyed) -> None:
    """Take in what was heard of a replica's place, or of a quorum."""
    match news:
        case Located(replica, endpoints):
            _locate(state, replica.id, endpoints)
        case Surveyed(found):
            state.beginning.has_surveyed = True
            state.beginning.has_found |= found
        case _:
            assert_never(news)


def _locate(state: State, replica: ReplicaId, endpoints: tuple[Endpoint, ...]) -> None:
    state.beginning.unlocated -= {replica}
    if state.log.end.offset == 0 and replica in state.founders and endpoints:
        # Whoever founds the cluster writes it down.
        state.founders = state.founders.with_(Voter(ReplicaKey(replica), endpoints))
        state.take_voters()


def sources(state: State) -> tuple[ReplicaId, ...]:
    """Whom a node without a leader asks for it: voters, bootstrap servers, then anyone else."""
    beginning, voters = state.beginning, state.voters.others(state.me.id)
    others = {each.id for each in state.located} - {*voters, state.me.id}
    return (
        *(each for each in voters if each not in beginning.unlocated),
        *beginning.bootstrap,
        *sorted(others)[:SEARCHED_MAX],
    )
