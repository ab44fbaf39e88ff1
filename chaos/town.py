"""Who listens at which address, and how the gossip gets there and back.

What is asked and learned is the product's to say (`quorum.discovery`); here it is carried, late,
twice or not at all. There is an address behind which somebody of all those who run answers (VIP),
and there may be somebody of another cluster, who tries to be believed.
"""

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from chaos.network import Network
from chaos.profile import FOREIGN, VIP
from chaos.rumours import ABROAD, Rumours
from chaos.violation import Violation
from quorum.addresses import HostPort
from quorum.core.vocabulary import Epoch, ReplicaId
from quorum.gossip import DiscoverBrokersRequest, DiscoverBrokersResponse, Sighting

if TYPE_CHECKING:
    from chaos.process import Process

FOREIGN_CLUSTER_ID: Final = "BBBBBBBBQBCBBBBBBBBBBQ"
FOREIGN_BOOT: Final = 1 << 62
STREET: Final = 1_000
"""Between the ports of one replica at one place and at the next."""


@dataclass(slots=True)
class _Exchange:
    asker: "Process"
    place: HostPort
    is_over: bool = False

    def end(self, response: DiscoverBrokersResponse | None) -> None:
        """It was answered, or failed; of no meaning once it is over."""
        if not self.is_over:
            self.is_over = True
            self.asker.gossip.told(self.place, response)


class Town:
    """Addresses, and whoever is there now; `processes` are those that run."""

    def __init__(
        self,
        everyone: list[ReplicaId],
        processes: "dict[ReplicaId, Process]",
        network: Network,
        rng: random.Random,
    ) -> None:
        self.rumours = Rumours()
        self._everyone = everyone
        self._processes = processes
        self._network = network
        self._rng = rng
        self._addresses: dict[ReplicaId, HostPort] = {
            each: ("localhost", 9_000 + each) for each in everyone
        }
        self._at = {where: who for who, where in self._addresses.items()}

    def address_of(self, replica: ReplicaId) -> HostPort:
        """Where it listens, or will when it runs."""
        return self._addresses[replica]

    def move(self, replica: ReplicaId) -> None:
        """Let it listen elsewhere; nobody listens any more where it was."""
        host, port = self._addresses[replica]
        del self._at[host, port]
        self._addresses[replica] = (host, port + STREET)
        self._at[host, port + STREET] = replica

    def at(self, address: HostPort, asker: ReplicaId) -> ReplicaId | None:
        """Whose machine this is, whether it runs or not; behind the VIP is who runs, anyone."""
        if address == VIP:
            return self._rng.choice(sorted(self._processes)) if self._processes else None
        return self._at.get(address)

    def ask(self, asker: "Process", place: HostPort, request: DiscoverBrokersRequest) -> None:
        """Carry a question to whoever is there, and its answer back."""
        self.rumours.asks(asker.speaker, request)
        exchange = _Exchange(asker, place)
        timeout_ms = asker.machine.config.timeouts.request_timeout_ms
        asker.later(timeout_ms, partial(exchange.end, None))
        if place == FOREIGN:
            asker.later(1, partial(exchange.end, self._lie()))
            return
        whom = self.at(place, asker.id)
        if whom is None:
            asker.later(1, partial(exchange.end, None))
        else:
            arrive = partial(self._arrive, exchange, whom, request)
            self._network.carry((asker.id, whom), arrive, is_request=True)

    def visit(self) -> None:
        """Somebody of the other cluster says to one of ours to be one of ours."""
        if self._processes:
            process = self._processes[self._rng.choice(sorted(self._processes))]
            sighting = _foreign(self._rng.choice(self._everyone))
            request = DiscoverBrokersRequest(cluster_id=FOREIGN_CLUSTER_ID, sighting=sighting)
            process.enter(partial(self._refuse, process, request))

    def finds_everyone(self) -> bool:
        """Whether everybody who runs says of all others who do that they are where they are."""
        client = DiscoverBrokersRequest(cluster_id=None, sighting=None)
        keys = {each.id: each.speaker.key for each in self._processes.values()}
        for process in self._processes.values():
            told = process.gossip.asked(client)
            for each in told.brokers if told is not None else ():
                if keys.get(each.id) == each.key and each.address != self._addresses[each.id]:
                    return False
        return True

    def _refuse(self, process: "Process", request: DiscoverBrokersRequest) -> None:
        if process.gossip.asked(request) is not None:
            raise Violation("R13", f"{process.id} answers somebody of another cluster")

    def _lie(self) -> DiscoverBrokersResponse:
        return DiscoverBrokersResponse(
            cluster_id=FOREIGN_CLUSTER_ID,
            brokers=tuple(map(_foreign, self._everyone)),
            leader=self._everyone[0],
            epoch=Epoch(1_000),
            is_founded=True,
        )

    def _arrive(
        self, exchange: _Exchange, whom: ReplicaId, request: DiscoverBrokersRequest
    ) -> None:
        process, asker = self._processes.get(whom), exchange.asker
        if process is not None:
            process.enter(partial(self._answer, exchange, process, request))
        elif whom not in self._network.dark:
            asker.enter(partial(exchange.end, None))

    def _answer(
        self, exchange: _Exchange, process: "Process", request: DiscoverBrokersRequest
    ) -> None:
        asker, response = exchange.asker, process.gossip.asked(request)
        if response is not None:
            self.rumours.answers(process.speaker, response)
        end = partial(asker.enter, partial(exchange.end, response))
        self._network.carry((process.id, asker.id), end, is_request=False)


def _foreign(replica: ReplicaId) -> Sighting:
    return Sighting(
        id=replica, boot_timestamp=FOREIGN_BOOT, host=ABROAD, port=9_000 + replica % STREET
    )
