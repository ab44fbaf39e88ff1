"""Gossip: the addresses of all nodes, as each node knows them and passes them on.

DiscoverBrokers (KIP-595) is gossip. The request carries the address of its sender, the response all
addresses that the other node knows, and both sides learn. Only the advertisement of a later boot
replaces one of the same node, so knowledge never gets older. Two advertisements with the same boot
timestamp, which an old copy of a disk can cause, are ordered by a rule that all nodes share. So all
nodes converge to the same addresses, in any order of messages, and a node that finds a wrong one
for itself advertises again. The module is pure: it does not send, wait or read a clock.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from quorum.core.limits import OBSERVERS_MAX, PORT_MAX
from quorum.core.vocabulary import NO_DIRECTORY, Epoch, ReplicaId, ReplicaKey

ADVERTISEMENTS_MAX: Final = OBSERVERS_MAX
"""Nodes in the table, without the voters."""

HOST_CHARACTERS_MAX: Final = 255
"""Characters of a host name (RFC 1035)."""

VERSION_CHARACTERS_MAX: Final = 64
"""Of the release that a node names."""

BOOT_TIMESTAMP_MAX: Final = 2**62
"""As milliseconds far beyond any clock; leaves half of the 63 bits for later boots."""

BOOT_AHEAD_MS_MAX: Final = 7 * 24 * 60 * 60 * 1_000
"""How far a boot timestamp may be ahead of the clock of who hears of it. Clocks differ, but a
timestamp of a far future could never be replaced by one of a later boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement:
    """The address that a node advertises, with the timestamp of its boot.

    The boot timestamp is the time of the boot, but always above that of the boot before, even if
    the clock was put back.
    """

    id: ReplicaId
    boot_timestamp: int
    host: str
    port: int
    directory_id: UUID = NO_DIRECTORY
    """The directory of its copy of the log; zero if unknown."""
    software_version: str = field(default="", compare=False)
    """The release that it runs; empty if it does not say. Not compared: nodes of releases before
    0.1.0 pass advertisements on without it."""

    def __str__(self) -> str:
        return f"{self.key} {self._where}"

    @property
    def text(self) -> str:
        """The form for operators."""
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
        """Return True if this advertisement is newer than `known`, of the same node."""
        if self.boot_timestamp != known.boot_timestamp:
            return self.boot_timestamp > known.boot_timestamp
        # Either would do, as long as all nodes take the same one.
        return (self.directory_id, self.address) > (known.directory_id, known.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersRequest:
    """A node advertises its address and asks for all others; a client (None) only asks."""

    cluster_id: str | None
    advertisement: Advertisement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersResponse:
    """The addresses that the answering node knows, and its status in the quorum."""

    cluster_id: str | None
    brokers: tuple[Advertisement, ...]
    leader: ReplicaId | None = None
    epoch: Epoch = Epoch(0)
    is_founded: bool = False
    """True if its log has records: the quorum has had a leader."""
    answerer: ReplicaId | None = None
    """The answering node, whose address is among `brokers`; None if it advertises none."""


def version_of_peer(text: str | None) -> str:
    """Return the release that another node names, or "" for none and for what is no version."""
    is_one = bool(text) and len(text or "") <= VERSION_CHARACTERS_MAX
    return text if text and is_one and text.isascii() and text.isprintable() else ""


def is_of_the_future(advertisement: Advertisement, wall_ms: int) -> bool:
    """Return True if no clock that is nearly right can have said this."""
    return advertisement.boot_timestamp > wall_ms + BOOT_AHEAD_MS_MAX


def impossible(advertisement: Advertisement) -> str | None:
    """Return the reason why an advertisement from outside is invalid, or None."""
    if advertisement.id < 0:
        return f"node {advertisement.id} is no node: ids begin at 0"
    boot = advertisement.boot_timestamp
    if not 0 <= boot <= BOOT_TIMESTAMP_MAX:
        return f"node {advertisement.id} has boot timestamp {boot}, not 0 to {BOOT_TIMESTAMP_MAX}"
    if (
        not 0 < len(advertisement.host) <= HOST_CHARACTERS_MAX
        or not advertisement.host.isprintable()
    ):
        return f"node {advertisement.id} names an invalid host"
    if not 0 < advertisement.port <= PORT_MAX:
        return f"node {advertisement.id} names port {advertisement.port}, ports are 1 to {PORT_MAX}"
    return None


class Gossip:
    """The addresses of all nodes, as one node knows them.

    Invariant: the boot timestamp of an entry never falls, so a replaced address never returns.
    """

    __slots__ = ("_advertisements", "_kept", "_most", "me")

    def __init__(self, me: Advertisement | None, *, most: int = ADVERTISEMENTS_MAX) -> None:
        """`me` is this node's advertisement; None for a node that advertises no address."""
        self.me = me
        self._most = most
        self._kept: frozenset[ReplicaId] = frozenset()
        self._advertisements: dict[ReplicaId, Advertisement] = {} if me is None else {me.id: me}

    @property
    def advertisements(self) -> tuple[Advertisement, ...]:
        """All advertisements by ascending id, independent of the order in which they came."""
        return tuple(self._advertisements[each] for each in sorted(self._advertisements))

    def of(self, replica: ReplicaId) -> Advertisement | None:
        return self._advertisements.get(replica)

    def keep(self, replicas: Collection[ReplicaId]) -> None:
        """Never forget these replicas, the current and expected voters."""
        self._kept = frozenset(replicas)
        self._forget_surplus()

    def learn(self, heard: Iterable[Advertisement]) -> tuple[Advertisement, ...]:
        """Learn advertisements from another node; return the new ones, by ascending id.

        A node believes no other about itself. Beyond the bound it forgets the nodes with the oldest
        boots, so the rest does not depend on the order in which they came.
        """
        news: dict[ReplicaId, Advertisement] = {}
        for each in heard:
            known = self._advertisements.get(each.id)
            if known is not None and not each.replaces(known):
                if each == known and each.software_version and not known.software_version:
                    # It came first by a node that passes it on without the release.
                    self._advertisements[each.id] = each
                continue
            if self.me is not None and each.id == self.me.id:
                continue
            self._advertisements[each.id] = news[each.id] = each
        self._forget_surplus()
        return tuple(news[each] for each in sorted(news) if each in self._advertisements)

    def contradiction(self, heard: Iterable[Advertisement]) -> Advertisement | None:
        """Return another advertisement for this node's id whose boot timestamp is not lower.

        It is from an earlier boot whose folder is lost, or from a second node with this id. This
        node has to advertise again with a boot timestamp above that one.
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
        """Advertise the same address with a later boot timestamp, which is durable already."""
        me = self.me
        assert me is not None, "this node advertises no address"
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
