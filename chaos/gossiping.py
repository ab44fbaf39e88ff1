"""One process's part in the gossip: what `quorum.gossiper` does, in virtual time.

Whom to ask when, and what to make of the answers, is decided by `quorum.discovery` itself.
"""

from typing import TYPE_CHECKING, Final

from quorum.addresses import HostPort
from quorum.cluster import Cluster
from quorum.core.vocabulary import ReplicaId
from quorum.finding import address_book, cluster_of, discovery_of, standing_of
from quorum.gossip import DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum.opening import Past, whereabouts

if TYPE_CHECKING:
    from chaos.process import Process

NAP_MS: Final = 1_000
"""How long it sleeps at most."""


def cluster_for(process: "Process", past: Past) -> Cluster:
    """The id of the cluster, as far as this process knows it."""
    return cluster_of(
        past.cluster_id,
        me=past.key,
        folder=process.machine.config.folder,
        elections=past.elections,
        disk=process.work,
        rng=process.rng,
        fs=process.machine.disk,
    )


class Gossiping:
    """Lives as long as its process."""

    def __init__(self, process: "Process", past: Past, cluster: Cluster) -> None:
        config, node = process.machine.config, process.replica.node
        self._process = process
        self._book = book = address_book(
            past.key, whereabouts(config), wall_ms=process.now_wall_ms(), fs=process.machine.disk
        )
        book.voters = lambda: node.voters
        self._discovery = discovery_of(
            book,
            cluster,
            standing=standing_of(node, has_log=past.view.end.offset > 0),
            tell=process.replica.heard,
            listener_name=config.listener_name,
            folder=config.folder,
            disk=process.work,
            fs=process.machine.disk,
            clock=process.now_ms,
            rng=process.rng,
        )
        process.later(0, self._look)

    def whereabouts(self, replica: ReplicaId) -> ReplicaId | None:
        """Whose machine it is where that one is believed to be; None where nobody's is known."""
        address = self._book.address_of(replica)
        town = self._process.world.town
        return None if address is None else town.at(address, self._process.id)

    def asked(self, request: DiscoverBrokersRequest) -> DiscoverBrokersResponse | None:
        """The answer to somebody who asks; None where it is refused."""
        answer = self._discovery.asked(request, self._process.now_ms())
        if isinstance(answer, DiscoverBrokersResponse):
            return answer
        self._process.world.note("somebody of another cluster is refused")
        return None

    def told(self, place: HostPort, response: DiscoverBrokersResponse | None) -> None:
        """What became of a question of this process."""
        if response is None:
            self._discovery.failed(place)
            return
        if response.answerer == self._process.id:
            self._process.world.note("who asks is led back to itself")
        if self._discovery.heard(place, response, self._process.now_ms()) is not None:
            self._process.world.note("nothing is learned of another cluster")

    def _look(self) -> None:
        discovery, process = self._discovery, self._process
        now_ms = process.now_ms()
        if discovery.is_due(now_ms):
            for place in discovery.round(now_ms):
                process.world.town.ask(process, place, discovery.request())
        wait_ms = max(1, discovery.deadline_ms - process.now_ms())
        process.later(min(wait_ms, NAP_MS), self._look)
