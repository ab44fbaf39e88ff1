"""The address book of a node: the address of each replica, from all sources.

The sources, the best first: advertisements of the replicas (gossip), the voters in the log, leader
addresses in responses of other nodes, and the configuration. Bootstrap servers have pseudo ids
(-2, -3, ...) until the node that answers there has named itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from quorum.core.vocabulary import ReplicaId
from quorum.core.voter_set import VoterSet
from quorum.discovery.gossip import Advertisement, Gossip
from quorum.ports import HostPort

FIRST_PSEUDO_ID: Final = -2
"""-1 is no replica. Pseudo ids are never sent; they only find an address here."""

HINTS_MAX: Final = 64
"""Leader addresses from other nodes; beyond it the oldest is forgotten."""

BOOTSTRAP_SERVERS_MAX: Final = 64


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
        """Called with new advertisements."""
        self.voters: Callable[[], VoterSet] = VoterSet
        """Returns the current voters in the log."""
        self._configured = dict(configured or {})
        self._kept = VoterSet()
        self._hints: dict[ReplicaId, HostPort] = {}
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
        advertisement = self.gossip.of(replica)
        return (
            next(self._addresses(replica), None) if advertisement is None else advertisement.address
        )

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

    def learn(self, heard: Sequence[Advertisement]) -> None:
        """Learn advertisements of other nodes."""
        voters = self.voters()
        if voters is not self._kept:
            self._kept = voters
            self.gossip.keep(voters.ids.union(self._configured))
        news = self.gossip.learn(heard)
        if news:
            self.on_news(news)

    def hint(self, leader: ReplicaId, address: HostPort) -> None:
        """Note the leader's address from another node's response (KIP-853)."""
        self._hints.pop(leader, None)
        self._hints[leader] = address
        if len(self._hints) > HINTS_MAX:
            del self._hints[next(iter(self._hints))]

    def _addresses(self, replica: ReplicaId) -> Iterator[HostPort]:
        """Yield the addresses of one replica, the best first; an address may repeat."""
        advertisement = self.gossip.of(replica)
        if advertisement is not None:
            yield advertisement.address
        voter = self.voters().get(replica)
        if voter is not None and voter.endpoints:
            yield voter.endpoints[0].host, voter.endpoints[0].port
        for source in (self._hints, self._configured, self.bootstrap):
            address = source.get(replica)
            if address is not None:
                yield address
