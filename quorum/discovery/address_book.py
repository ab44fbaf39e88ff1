"""The address book of a node: where each replica is to be asked, by all that is known.

Four sources, the better first: what the replicas say of themselves (gossip), what the log says of
the voters, where others said the leader is, and the configuration. Servers to begin with have no
ids of their own: they stand in the book under pseudo ids, -2, -3 and so on, until whoever answers
there has said who it is. Nothing here asks anybody.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from quorum.core.vocabulary import ReplicaId
from quorum.core.voter_set import VoterSet
from quorum.discovery.gossip import Advertisement, Gossip

HostPort = tuple[str, int]

FIRST_PSEUDO_ID: Final = -2
"""-1 is no replica; a pseudo id is never sent to anybody, it only finds an address here."""

HINTS_MAX: Final = 64
"""Leaders of whom others have said where they are; beyond it the oldest is forgotten."""

BOOTSTRAP_SERVERS_MAX: Final = 64


def pseudo_ids(count: int) -> tuple[ReplicaId, ...]:
    """The ids under which so many bootstrap servers are found."""
    return tuple(ReplicaId(FIRST_PSEUDO_ID - place) for place in range(count))


class AddressBook:
    """`ports.PeerAddresses`, of all that a node knows. Addresses may change at any time."""

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
        """Told of every place that was not known before."""
        self.voters: Callable[[], VoterSet] = VoterSet
        """The current voters, as the log names them."""
        self._configured = dict(configured or {})
        self._kept = VoterSet()
        self._hints: dict[ReplicaId, HostPort] = {}
        self.bootstrap = dict(zip(pseudo_ids(len(bootstrap)), bootstrap, strict=True))
        """The bootstrap servers by pseudo id, in the order they were given in."""

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """Everyone whose address is known, by rising id, this node included."""
        known = {each.id for each in self.gossip.advertisements}
        recorded = {each.id for each in self.voters() if each.endpoints}
        return tuple(sorted(known | recorded | {*self._hints, *self._configured}))

    def address_of(self, replica: ReplicaId | None) -> HostPort | None:
        """Host and port, or None while unknown, and for no replica."""
        if replica is None:
            return None
        # Looked up for every answer to a fetch: most often the first source has it.
        advertisement = self.gossip.of(replica)
        return next(self._addresses(replica), None) if advertisement is None else advertisement.address

    def places(self) -> tuple[HostPort, ...]:
        """Every address at which somebody may answer, each once, this node's own left out.

        Not only the best address of each replica: of two that disagree, either may be the old one.
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
        """Take in where others say that they are."""
        voters = self.voters()
        if voters is not self._kept:
            self._kept = voters
            self.gossip.keep(voters.ids.union(self._configured))
        news = self.gossip.learn(heard)
        if news:
            self.on_news(news)

    def hint(self, leader: ReplicaId, address: HostPort) -> None:
        """Somebody who named the leader has said where it is (KIP-853)."""
        self._hints.pop(leader, None)
        self._hints[leader] = address
        if len(self._hints) > HINTS_MAX:
            del self._hints[next(iter(self._hints))]

    def _addresses(self, replica: ReplicaId) -> Iterator[HostPort]:
        """All of one replica, the best first; an address may come twice."""
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
