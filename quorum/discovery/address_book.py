"""The address book of a node: the address of each replica, from all sources.

The sources, the best first: advertisements of the replicas (gossip), the voters in the log, leader
addresses in responses of other nodes, and the configuration. Anybody can advertise anything, so an
advertisement of a voter precedes the log only once the voter has answered at the new address.
Bootstrap servers have pseudo ids (-2, -3, ...) until the node that answers there has named itself.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from quorum.core.vocabulary import HostPort, ReplicaId
from quorum.core.voter_set import VoterSet
from quorum.discovery.gossip import Advertisement, Gossip

FIRST_PSEUDO_ID: Final = -2
"""-1 is no replica. Pseudo ids are never sent; they only find an address here."""

HINTS_MAX: Final = 64
"""Leader addresses from other nodes; beyond it the oldest is forgotten."""

BOOTSTRAP_SERVERS_MAX: Final = 64

CONFIRM_TRIES: Final = 3
"""The attempts to reach a voter at an address that gossip names, before that is left to chance."""


def pseudo_ids(count: int) -> tuple[ReplicaId, ...]:
    """Return the pseudo ids of this many bootstrap servers."""
    return tuple(ReplicaId(FIRST_PSEUDO_ID - place) for place in range(count))


class AddressBook:
    """A `ports.PeerAddresses` over all sources. Addresses may change at any time."""

    def __init__(
        self,
        gossip: Gossip,
        *,
        configured: Mapping[ReplicaId, HostPort] | None = None,
        bootstrap: Sequence[HostPort] = (),
    ) -> None:
        assert len(bootstrap) <= BOOTSTRAP_SERVERS_MAX
        self.gossip = gossip
        self.on_news: Callable[[Sequence[Advertisement]], None] = lambda _: None
        """Called with new advertisements; with those of a voter in the log, once it has answered
        there."""
        self.voters: Callable[[], VoterSet] = VoterSet
        """Returns the current voters in the log."""
        self._configured = dict(configured or {})
        self._kept = VoterSet()
        self._hints: dict[ReplicaId, HostPort] = {}
        self._confirmed: dict[ReplicaId, HostPort] = {}
        """The address at which a voter itself has answered last."""
        self._unconfirmed: dict[HostPort, int] = {}
        """Addresses of voters by gossip that nobody has answered at, with the remaining tries."""
        self._declined: dict[ReplicaId, Advertisement] = {}
        """The advertisements of observers that do not take connections of controllers."""
        self.bootstrap = dict(zip(pseudo_ids(len(bootstrap)), bootstrap, strict=True))
        """The bootstrap servers by pseudo id, in the configured order."""

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """The replicas with a known address, by ascending id, this node included."""
        known = {each.id for each in self.gossip.advertisements}
        recorded = {each.id for each in self.voters() if each.endpoints}
        return tuple(sorted(known | recorded | {*self._hints, *self._configured}))

    def address_of(self, replica: ReplicaId | None) -> HostPort | None:
        """Return the best address; None while unknown, and for no replica."""
        if replica is None:
            return None
        # Every answer to a fetch looks it up; mostly the first source has it.
        return next(self._addresses(replica), None)

    def places(self) -> tuple[HostPort, ...]:
        """Return every known address once, except this node's own.

        A replica may have several: of two that differ, either may be out of date.
        """
        me = self.gossip.me
        replicas = [each for each in self.replicas if me is None or each != me.id]
        found = dict.fromkeys(self.bootstrap.values())
        for replica in replicas:
            found |= dict.fromkeys(self._addresses(replica))
        if me is not None:
            found.pop(me.address, None)
        return tuple(found)

    def observer_at(self, place: HostPort) -> Advertisement | None:
        """Return the advertisement of the node at an address that only gossip names.

        None for an address that the configuration or the log names, or of a voter.
        """
        if place in self.bootstrap.values() or place in self._configured.values():
            return None
        found = [each for each in self.gossip.advertisements if each.address == place]
        if len(found) != 1 or found[0].id in self.voters().ids or found[0].id in self._configured:
            return None
        return found[0]

    def decline(self, observer: Advertisement) -> None:
        """Forget the address of a node until it advertises anew: it is one for other clients."""
        kept = {each: known for each, known in self._declined.items() if self.gossip.of(each)}
        self._declined = {**kept, observer.id: observer}

    def learn(self, heard: Sequence[Advertisement]) -> None:
        """Learn advertisements of other nodes."""
        voters = self.voters()
        if voters is not self._kept:
            self._kept = voters
            self.gossip.keep(voters.ids.union(self._configured))
        news = self.gossip.learn(heard)
        told = [each for each in news if not self._is_elsewhere(each)]
        for each in news:
            if self._is_elsewhere(each):
                self._unconfirmed[each.address] = CONFIRM_TRIES
        if told:
            self.on_news(told)

    @property
    def unconfirmed(self) -> Collection[HostPort]:
        """The addresses to ask soon: if a voter answers there, it has moved."""
        return self._unconfirmed.keys()

    def answered(self, place: HostPort, advertisement: Advertisement) -> None:
        """Note that the node of `advertisement` has answered at `place`, its own address."""
        self._unconfirmed.pop(place, None)
        known = self.gossip.of(advertisement.id)
        if known is None or known.key != advertisement.key or known.address != place:
            return
        is_news = (
            self._is_elsewhere(advertisement) and self._confirmed.get(advertisement.id) != place
        )
        if self._recorded(advertisement.id) is not None:
            self._confirmed[advertisement.id] = place
        if is_news:
            self.on_news([advertisement])

    def unanswered(self, place: HostPort) -> None:
        """Nobody answered at `place`."""
        tries = self._unconfirmed.get(place, 0) - 1
        if tries > 0:
            self._unconfirmed[place] = tries
        else:
            self._unconfirmed.pop(place, None)

    def _recorded(self, replica: ReplicaId) -> HostPort | None:
        """The address of a voter by the log; None for others."""
        voter = self.voters().get(replica)
        if voter is None or not voter.endpoints:
            return None
        return voter.endpoints[0].host, voter.endpoints[0].port

    def _is_elsewhere(self, advertisement: Advertisement) -> bool:
        """Return True if gossip contradicts the log."""
        recorded = self._recorded(advertisement.id)
        return recorded is not None and recorded != advertisement.address

    def hint(self, leader: ReplicaId, address: HostPort) -> None:
        """Note the leader's address from another node's response (KIP-853)."""
        self._hints.pop(leader, None)
        self._hints[leader] = address
        if len(self._hints) > HINTS_MAX:
            del self._hints[next(iter(self._hints))]

    def _addresses(self, replica: ReplicaId) -> Iterator[HostPort]:
        """Yield the addresses of one replica, the best first; an address may repeat."""
        advertisement, recorded = self.gossip.of(replica), self._recorded(replica)
        if recorded is not None:
            confirmed = self._confirmed.get(replica)
            if confirmed is not None:
                yield confirmed
            yield recorded
        if advertisement is not None and advertisement != self._declined.get(replica):
            yield advertisement.address
        for source in (self._hints, self._configured, self.bootstrap):
            address = source.get(replica)
            if address is not None:
                yield address
