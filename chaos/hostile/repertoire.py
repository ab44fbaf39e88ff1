"""The repertoire of a hostile node: forged requests of the quorum to a replica, as bytes.

Without authentication it knows the cluster id, all ids, epochs and addresses, and no directory id.
These are left out then, because only authentication closes them (docs/divergence.md):

- the name of a voter with its directory id, and of one whose directory id the asked replica does
  not have yet: while a cluster is founded, an id is enough (`Target.is_proved`);
- higher epochs at a replica that is no voter by its log and may not hear a leader: it believes
  some of them, and then waits until the quorum gets there (`Target.is_steady`);
- an address of a voter whose own the log does not have (`Target.has_address`);
- answers: a node that asks a stranger for the leader, because it does not find one, believes it.

With authentication it sends all of this as well, except for answers: its peers would not connect.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from chaos.network.connection import Message
from chaos.network.gossip import FOREIGN_CLUSTER_ID
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.discovery.discover_brokers import write_request as write_discovery
from quorum.discovery.gossip import BOOT_AHEAD_MS_MAX, Advertisement, DiscoverBrokersRequest
from quorum.protocol.apis import ApiKey
from quorum.protocol.raft_messages import API_KEYS, VERSIONS, lowest_version, write_request

STRANGER: Final = ReplicaId(900)
"""The id of the hostile node itself, which nobody else has."""
NOWHERE: Final = ("nowhere", 1)
LEAPS: Final = (0, 1, 2, 7, 1_000, 1 << 20, 1 << 24, (1 << 24) + 1)
"""How far ahead its epochs are; the last one is beyond what anybody believes."""
EPOCH_MAX: Final = (1 << 31) - 1
FAR: Final = Offset(1 << 40)
HOUR_MS: Final = 60 * 60 * 1_000
AHEAD_MS_MAX: Final = 48 * HOUR_MS
"""Its likely boots are so far ahead: a clock that is put back by days may still hold its own file
for likely, and else begins again (`next_boot`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A replica that is asked, as the hostile node sees it."""

    key: ReplicaKey
    is_voter: bool
    """True if it may be one by its own log."""
    epoch: Epoch
    leader: ReplicaId | None
    end: OffsetAndEpoch
    wall_ms: int
    """The time of day, whatever the clock of the replica says."""
    cluster_id: str | None
    voters: Sequence[ReplicaId]
    """The voters by its log of which it has the directory ids."""
    is_proved: bool
    """True unless an id is enough to be taken for a voter: it has the directory ids of all."""
    is_steady: bool
    """True if it is sure to hear a leader, where it is needed for what is sent."""
    has_address: Sequence[ReplicaId]
    """The voters whose true address its log has."""


class Repertoire:
    """The draws of one hostile node."""

    def __init__(self, rng: random.Random, *, knows_all: bool) -> None:
        """`knows_all` leaves nothing out."""
        self._rng = rng
        self._knows_all = knows_all

    def messages(self, target: Target) -> Iterator[Message]:
        """Some of each kind, in any order."""
        kinds = [self._vote, self._begin, self._end, self._fetch, self._fetch_snapshot]
        found = [kind(target) for kind in self._rng.sample(kinds, len(kinds))]
        yield from (self._written(each, target) for each in found if each is not None)
        advertisement = self._advertisement(target)
        if advertisement is not None:
            request = DiscoverBrokersRequest(
                cluster_id=self._cluster_id(target), advertisement=advertisement
            )
            yield Message(ApiKey.DISCOVER_BROKERS, 0, write_discovery(request))

    def _vote(self, target: Target) -> Request | None:
        if not (target.is_voter or target.is_steady or self._knows_all):
            return None
        epoch = self._epoch(target)
        ahead = OffsetAndEpoch(epoch, FAR)
        log_end = self._rng.choice((target.end, ahead, OffsetAndEpoch(Epoch(0), Offset(0))))
        candidate, pre_vote = self._name(target), self._rng.randrange(2) == 0
        return VoteRequest(epoch=epoch, candidate=candidate, log_end=log_end, pre_vote=pre_vote)

    def _begin(self, target: Target) -> Request | None:
        if not (target.is_proved or self._knows_all):
            return None
        return BeginQuorumEpochRequest(epoch=self._epoch(target), leader=self._name(target).id)

    def _end(self, target: Target) -> Request | None:
        if not (target.is_proved or self._knows_all):
            return None
        leader = self._name(target).id if target.leader is None else target.leader
        successors = (target.key.id, *target.voters)
        epoch = self._rng.choice((target.epoch, self._epoch(target)))
        return EndQuorumEpochRequest(epoch=epoch, leader=leader, preferred_successors=successors)

    def _fetch(self, target: Target) -> Request:
        end = self._rng.choice((target.end, OffsetAndEpoch(target.epoch, FAR)))
        epoch = self._rng.choice((target.epoch, self._epoch(target)))
        return FetchRequest(
            replica=self._name(target),
            epoch=epoch,
            log_end=end,
            max_wait_ms=self._rng.choice((0, 500)),
            max_bytes=1 << 20,
        )

    def _fetch_snapshot(self, target: Target) -> Request:
        snapshot = self._rng.choice((target.end, OffsetAndEpoch(target.epoch, FAR)))
        position = self._rng.choice((0, 1 << 40))
        return FetchSnapshotRequest(
            replica=self._name(target),
            epoch=target.epoch,
            snapshot=snapshot,
            position=position,
            max_bytes=1 << 20,
        )

    def _advertisement(self, target: Target) -> Advertisement | None:
        """An impossible boot of anybody, or a likely one of one whose address the log has."""
        rng, wall_ms = self._rng, target.wall_ms
        boots = [1 << 62, (1 << 62) + 1, wall_ms + 2 * BOOT_AHEAD_MS_MAX, -1]
        named = rng.choice((STRANGER, target.key.id, *target.voters))
        if named in target.has_address or named == STRANGER or self._knows_all:
            boots += [wall_ms + rng.randrange(HOUR_MS), wall_ms + rng.randrange(AHEAD_MS_MAX)]
        host, port = NOWHERE
        directory_id = self._made_up(named).directory_id
        return Advertisement(
            id=named,
            boot_timestamp=rng.choice(boots),
            host=host,
            port=port,
            directory_id=directory_id,
        )

    def _epoch(self, target: Target) -> Epoch:
        return Epoch(min(target.epoch + self._rng.choice(LEAPS), EPOCH_MAX))

    def _name(self, target: Target) -> ReplicaKey:
        """Its own name; or that of a voter, with a wrong directory id or without one."""
        named = self._rng.choice((STRANGER, *target.voters))
        if self._knows_all:
            return target.key if self._rng.randrange(2) else ReplicaKey(named)
        return self._made_up(named)

    def _made_up(self, named: ReplicaId) -> ReplicaKey:
        bits = self._rng.choice((0, self._rng.getrandbits(128)))
        return ReplicaKey(named, UUID(int=bits))

    def _cluster_id(self, target: Target) -> str | None:
        return self._rng.choice((target.cluster_id, target.cluster_id, None, FOREIGN_CLUSTER_ID))

    def _written(self, request: Request, target: Target) -> Message:
        """A request to this replica, whose directory id it does not name."""
        key = API_KEYS[type(request)]
        version = self._rng.randrange(lowest_version(request), VERSIONS[key].highest + 1)
        is_addressed = self._knows_all or isinstance(request, VoteRequest)
        to = target.key if is_addressed else self._made_up(target.key.id)
        body = write_request(request, version, to=to, cluster_id=self._cluster_id(target))
        return Message(key, version, body)
