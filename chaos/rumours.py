"""R13 and R22: what the nodes tell each other of their whereabouts, judged from what they say.

Nothing that a node of another cluster has said is ever said on. What a node says of another one is
never of an earlier boot than what it said before, and of one boot there is one place. And of itself
it names, at each boot, a later timestamp than at all boots before. Where neither its disk nor its
clock can know of them, it may repeat one, until it hears of that from the others.
"""

from collections.abc import Iterable
from typing import Final

from chaos.audience import Speaker
from chaos.violation import Violation
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.gossip import DiscoverBrokersRequest, DiscoverBrokersResponse, Sighting

ABROAD: Final = "abroad"
"""The host of everybody of the other cluster."""


class Rumours:
    """Knows what was said; one for each run."""

    def __init__(self) -> None:
        self._said: dict[tuple[int, ReplicaId], int] = {}
        self._places: dict[tuple[ReplicaKey, int], tuple[str, int]] = {}
        self._boots: dict[ReplicaKey, tuple[int, int]] = {}
        self._unknown: dict[ReplicaKey, int] = {}
        """The last timestamp of those of which neither the disk nor the clock knows now."""
        self._judged: dict[tuple[int, ReplicaId], Sighting] = {}
        """What each process has said of each replica last, since anything was rewound."""

    def rewinds(self, key: ReplicaKey) -> None:
        """An older copy of its disk was put back, and its clock is behind."""
        _, known = self._boots.pop(key, (0, -1))
        self._unknown[key] = max(known, self._unknown.get(key, -1))
        self._judged.clear()

    def asks(self, who: Speaker, request: DiscoverBrokersRequest) -> None:
        """It says where it is, and asks where the others are."""
        self._says(who, () if request.sighting is None else (request.sighting,))

    def answers(self, who: Speaker, response: DiscoverBrokersResponse) -> None:
        """It says where everyone is that it has heard of."""
        self._says(who, response.brokers)

    def _says(self, who: Speaker, sightings: Iterable[Sighting]) -> None:
        for each in sightings:
            # The very same as the last time: it is no earlier boot than that, its place is the one
            # that stands in `_places`, and of itself a process that lives is in its last boot.
            if self._judged.get((who.boot, each.id)) is each:
                continue
            timestamp = each.boot_timestamp
            if each.host == ABROAD:
                raise Violation("R13", f"{who} says {each}, which nobody of its cluster has said")
            before = self._said.get((who.boot, each.id), -1)
            if timestamp < before:
                raise Violation("R22", f"{who} says {each}, and has known of boot {before}")
            self._said[who.boot, each.id] = timestamp
            key = each.key
            if timestamp > self._unknown.get(key, -1):
                if self._places.setdefault((key, timestamp), each.address) != each.address:
                    raise Violation("R22", f"{who} says {each}, in another place than it was")
                if key == who.key:
                    self._is(who, timestamp)
            self._judged[who.boot, each.id] = each

    def _is(self, who: Speaker, timestamp: int) -> None:
        boot, known = self._boots.get(who.key, (who.boot, -1))
        if timestamp < known or (boot != who.boot and timestamp == known):
            raise Violation("R22", f"{who} is in boot {timestamp}, and was in boot {known} before")
        self._boots[who.key] = (who.boot, timestamp)
