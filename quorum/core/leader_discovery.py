"""The search for a leader, and the wait of a voter before its first election.

A cluster is founded once. A node with `bootstrap.servers` asks them before it founds a cluster, and
founds none if one of them knows a quorum (KIP-595, "Bootstrapping" steps 3 and 4). A voter does not
stand before it knows the addresses of a majority of the expected voters (step 6): it could not win,
and would only raise its epoch. Functions over `State`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from quorum.core.events import DiscoveryDone, EndpointsUpdated
from quorum.core.roles import (
    Cause,
    Follower,
    Leader,
    Resigned,
    Unattached,
)
from quorum.core.state import State
from quorum.core.vocabulary import ReplicaId

SEARCHED_MAX: Final = 64
"""The maximal number of observers to ask for the leader."""


def may_stand(state: State) -> bool:
    """Return True if this voter may stand when its deadline comes."""
    discovery = state.discovery
    if state.log.end.offset == 0 and (not discovery.has_surveyed or discovery.has_found):
        return False
    unlocated = state.voters.ids & discovery.unlocated
    return len(state.voters) - len(unlocated) >= state.voters.majority


def postpone_election(state: State, now_ms: int) -> None:
    """Postpone the election of a voter that may not stand yet."""
    role, deadline_ms = state.role, state.next_election_ms(now_ms)
    if isinstance(role, Unattached | Resigned):
        role.deadline_ms = deadline_ms
        return
    # Only an unattached node searches, and the leader may not know this one.
    cause = role.cause_to_stand if isinstance(role, Follower) else Cause.HELD_BACK
    state.become(Unattached(deadline_ms), cause)


def on_endpoints_updated(state: State, event: EndpointsUpdated, now_ms: int) -> None:
    """Note a replica's endpoints; a change of the voters may wait for them."""
    replica, endpoints = event.replica, event.endpoints
    state.discovery.unlocated -= {replica.id}
    founder = state.founders.get(replica.id)
    if state.log.end.offset == 0 and founder is not None and endpoints:
        # The first leader records the endpoints in the log.
        state.founders = state.founders.with_(replace(founder, endpoints=endpoints))
        state.take_voters()
    state.locate(replica, endpoints)
    # A log without voters has no endpoints of voters either.
    if isinstance(state.role, Leader) and state.log.assignments.last is not None:
        state.role.changes.check_soon(now_ms)


def on_discovery_done(state: State, event: DiscoveryDone, now_ms: int) -> None:
    state.discovery.has_surveyed = True
    state.discovery.has_found |= event.found


def sources(state: State) -> tuple[ReplicaId, ...]:
    """Return the nodes that may know the leader: voters, bootstrap servers, then all others."""
    return (*_likely(state), *_others(state))


def is_likely(state: State, peer: ReplicaId) -> bool:
    """Return True if `peer` is a voter, a bootstrap server, or the leader that this node follows:
    gossip alone does not make a node that one."""
    return peer in state.voters or peer < 0 or peer == state.election.leader


def source(state: State, turn: int) -> ReplicaId | None:
    """Return the replica that a node in search of a leader asks next, or None.

    Between two of the other nodes, every voter and bootstrap server is asked twice: during an
    election no node knows the leader, and a pass through a long list of brokers, with growing
    pauses, would return to the voters too late.
    """
    likely, others = _likely(state), _others(state)
    if not likely or not others:
        found = likely or others
        return found[turn % len(found)] if found else None
    rounds, place = divmod(turn, 2 * len(likely) + 1)
    if place < 2 * len(likely):
        return likely[place % len(likely)]
    return others[rounds % len(others)]


def source_beside_voters(state: State, turn: int) -> ReplicaId | None:
    """Return the non-voter to ask after failed polls: the leader may be missing from our log."""
    voters = state.voters.ids
    found = [each for each in sources(state) if each not in voters]
    return found[turn % len(found)] if found else None


def _likely(state: State) -> tuple[ReplicaId, ...]:
    """Return voters, bootstrap servers, and the last leader if our log does not name it."""
    voters, leader = state.voters.others(state.me.id), state.election.leader
    located = (each for each in voters if each not in state.discovery.unlocated)
    is_named = leader is None or leader == state.me.id or leader in voters
    return (*located, *state.discovery.bootstrap, *(() if is_named else (leader,)))


def _others(state: State) -> Sequence[ReplicaId]:
    known = {state.me.id, state.election.leader, *state.voters.others(state.me.id)}
    return sorted({each.id for each in state.located} - known)[:SEARCHED_MAX]
