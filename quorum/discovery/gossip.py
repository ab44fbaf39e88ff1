"""Gossip: the addresses of all nodes, as each node knows them and tells the others.

DiscoverBrokers (KIP-595) is gossip. Who asks says where it is itself, who answers says where
everyone is that it has heard of, and both learn. An entry is replaced only by one of a later boot
of the same node, so what a node knows only grows newer. Of two that name the same boot, which an
older copy of a disk can bring about, one is the same for everybody: so everyone who hears of
everyone in the end knows the same, in whatever order it happened, and the node itself hears of it
if that is wrong. Nothing here sends, waits or tells time.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from quorum.core.limits import OBSERVERS_MAX
from quorum.core.vocabulary import NO_DIRECTORY, Epoch, ReplicaId, ReplicaKey

ADVERTISEMENTS_MAX: Final = OBSERVERS_MAX
"""Nodes that a table holds, besides those that are to be kept."""

HOST_CHARACTERS_MAX: Final = 255
"""Of the name of a host (RFC 1035)."""

PORT_MAX: Final = 65_535
BOOT_TIMESTAMP_MAX: Final = 2**62
"""As milliseconds far beyond any clock; half of what the wire can carry is left for later boots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement:
    """The address that a node advertises, with the timestamp of its boot.

    The boot timestamp counts boots in the main, and tells the time besides: each boot of a node
    has a larger one than all before, whatever its clock says.
    """

    id: ReplicaId
    boot_timestamp: int
    host: str
    port: int
    directory_id: UUID = NO_DIRECTORY
    """The directory of its copy of the log; zero if unknown."""

    def __str__(self) -> str:
        return f"{self.key} {self._where}"

    @property
    def text(self) -> str:
        """As operators read it."""
        return f"{self.key.text} {self._where}"

    @property
    def _where(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"at {host}:{self.port} since boot {self.boot_timestamp}"

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.directory_id)

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def replaces(self, known: "Advertisement") -> bool:
        """Return True if this is to be believed where `known`, of the same node, was until now."""
        if self.boot_timestamp != known.boot_timestamp:
            return self.boot_timestamp > known.boot_timestamp
        # Which of the two does not matter, as long as all take the same one.
        return (self.directory_id, self.address) > (known.directory_id, known.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersRequest:
    """A node says where it is, and asks where everyone is; a client (no advertisement) only asks."""

    cluster_id: str | None
    advertisement: Advertisement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersResponse:
    """Everyone that the answering node has heard of, and how it stands in the quorum."""

    cluster_id: str | None
    brokers: tuple[Advertisement, ...]
    leader: ReplicaId | None = None
    epoch: Epoch = Epoch(0)
    is_founded: bool = False
    """True if its log has been begun: somebody has led this quorum already."""
    answerer: ReplicaId | None = None
    """The id of the answering node, whose address is among `brokers`; None if it advertises none.
    """


def impossible(advertisement: Advertisement) -> str | None:
    """Return the reason why this cannot be true, or None: what comes from outside is asked before
    it is learned."""
    if advertisement.id < 0:
        return f"node {advertisement.id} has no place: ids begin at 0"
    boot = advertisement.boot_timestamp
    if not 0 <= boot <= BOOT_TIMESTAMP_MAX:
        return f"node {advertisement.id} has boot timestamp {boot}, not 0 to {BOOT_TIMESTAMP_MAX}"
    if not 0 < len(advertisement.host) <= HOST_CHARACTERS_MAX or not advertisement.host.isprintable():
        return f"node {advertisement.id} names no host that there could be"
    if not 0 < advertisement.port <= PORT_MAX:
        return f"node {advertisement.id} names port {advertisement.port}, ports are 1 to {PORT_MAX}"
    return None


class Gossip:
    """The addresses of all nodes, as one node knows them.

    Invariant: the boot timestamp of an entry never falls, and nothing comes back that was replaced.
    """

    __slots__ = ("_kept", "_most", "_advertisements", "me")

    def __init__(self, me: Advertisement | None, *, most: int = ADVERTISEMENTS_MAX) -> None:
        """`me` is what this node says of itself; None for one that nobody is to find."""
        self.me = me
        self._most = most
        self._kept: frozenset[ReplicaId] = frozenset()
        self._advertisements: dict[ReplicaId, Advertisement] = {} if me is None else {me.id: me}

    @property
    def advertisements(self) -> tuple[Advertisement, ...]:
        """By rising id: what a node says must not depend on the order in which it heard it."""
        return tuple(self._advertisements[each] for each in sorted(self._advertisements))

    def of(self, replica: ReplicaId) -> Advertisement | None:
        return self._advertisements.get(replica)

    def keep(self, replicas: Collection[ReplicaId]) -> None:
        """Never forget these, which vote or are to vote, however many others there are."""
        self._kept = frozenset(replicas)
        self._forget_surplus()

    def learn(self, heard: Iterable[Advertisement]) -> tuple[Advertisement, ...]:
        """Take in what another node says; return what of it is news, by rising id.

        Of itself a node believes nobody. Beyond the bound, those that were booted longest ago are
        forgotten, which leaves the same ones whatever the order in which they were heard of.
        """
        news: dict[ReplicaId, Advertisement] = {}
        for each in heard:
            known = self._advertisements.get(each.id)
            if known is not None and not each.replaces(known):
                continue
            if self.me is not None and each.id == self.me.id:
                continue
            self._advertisements[each.id] = news[each.id] = each
        self._forget_surplus()
        return tuple(news[each] for each in sorted(news) if each in self._advertisements)

    def contradiction(self, heard: Iterable[Advertisement]) -> Advertisement | None:
        """The rival that claims to be this node with a boot timestamp that is not lower.

        It is an earlier boot of ours whose folder is lost, or a second node with our id. Either
        way this node has to say again where it is, with a boot timestamp above that one.
        """
        me = self.me
        if me is None:
            return None
        rivals = [
            each
            for each in heard
            if each.id == me.id and each.boot_timestamp >= me.boot_timestamp and each != me
        ]
        return max(rivals, key=lambda each: each.boot_timestamp, default=None)

    def advertise_again(self, boot_timestamp: int) -> None:
        """Be at the same place, by a later boot timestamp, which has been made durable before."""
        me = self.me
        assert me is not None, "who is nowhere has nothing to say again"
        assert boot_timestamp > me.boot_timestamp, f"{boot_timestamp} is not later than {me}"
        self.me = self._advertisements[me.id] = replace(me, boot_timestamp=boot_timestamp)

    def _forget_surplus(self) -> None:
        kept = self._kept if self.me is None else self._kept | {self.me.id}
        others = [each for each in self._advertisements if each not in kept]
        surplus = len(others) - self._most
        if surplus > 0:
            others.sort(key=lambda each: (self._advertisements[each].boot_timestamp, each))
            for each in others[:surplus]:
                del self._advertisements[each]
