"""DiscoverBrokers in virtual time: the address directory, each process's gossip, R13 and R22.

The product decides what to ask and what to learn (`quorum.discovery`); the directory delivers
questions and answers late, twice or never. A virtual IP (`VIP`) reaches any running process, and a
node of another cluster tries to be believed.

R13: nothing that another cluster says is passed on. R22: what a node says of another one never goes
back to an earlier boot, one boot has one address, no boot is of a far future, and a node's own boot
timestamp rises with each boot. A node whose disk and clock have both gone back may repeat one,
until it hears of it.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from chaos.invariants.durable_state import Incarnation
from chaos.network.virtual_network import Network
from chaos.simulation.machine import EPOCH_WALL_MS, Machine
from chaos.simulation.profile import FOREIGN, VIP
from chaos.violation import Violation
from quorum.bootstrap import address_book, cluster_of, discovery_of
from quorum.cluster_id import ClusterIdentity
from quorum.core.vocabulary import Epoch, HostPort, ReplicaId, ReplicaKey
from quorum.discovery.address_book import AddressBook
from quorum.discovery.discover_brokers import DiscoverBrokersService
from quorum.discovery.gossip import Advertisement, DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum.persistent_state import PersistentState
from quorum.ports import Disk
from quorum.replica import Replica
from quorum.transport.inbound import InboundRequest
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.sweeper import Sweeper

FOREIGN_CLUSTER_ID: Final = "BBBBBBBBQBCBBBBBBBBBBQ"
FOREIGN_BOOT: Final = 1 << 62
PORT_STEP: Final = 1_000
"""Between the ports of one replica at one place and at the next."""


class GossipingProcess(Protocol):
    """A process that takes part in the gossip."""

    gossip: "Gossiper"
    replica: Replica

    @property
    def id(self) -> ReplicaId:
        """The id of its replica."""
        ...

    @property
    def incarnation(self) -> Incarnation:
        """Its replica, boot and disk."""
        ...

    @property
    def machine(self) -> Machine:
        """The machine that it runs on."""
        ...

    @property
    def disk_queue(self) -> Disk:
        """Its disk, asynchronously."""
        ...

    @property
    def rng(self) -> random.Random:
        """Its randomness."""
        ...

    def now_ms(self) -> int:
        """The time by its monotonic clock."""
        ...

    def now_wall_ms(self) -> int:
        """The time of day by its clock."""
        ...

    def enter(self, happen: Callable[[], None]) -> None:
        """Run this inside the process, if it still lives."""
        ...

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """Run this inside the process after a delay, if it still lives."""
        ...


@dataclass(slots=True)
class _Exchange:
    asker: GossipingProcess
    place: HostPort
    is_over: bool = False

    def end(self, response: DiscoverBrokersResponse | None) -> None:
        """End the exchange with an answer or None; ignored once it has ended."""
        if not self.is_over:
            self.is_over = True
            self.asker.gossip.told(self.place, response)


class AddressDirectory:
    """Addresses, and the replicas behind them."""

    def __init__(
        self,
        everyone: list[ReplicaId],
        network: Network,
        rng: random.Random,
    ) -> None:
        self.invariants = GossipInvariants()
        self._everyone = everyone
        self.processes: Mapping[ReplicaId, GossipingProcess] = {}
        """The running processes, kept by the world."""
        self._network = network
        self._rng = rng
        self._addresses: dict[ReplicaId, HostPort] = {
            each: ("localhost", 9_000 + each) for each in everyone
        }
        self._at = {where: who for who, where in self._addresses.items()}

    def address_of(self, replica: ReplicaId) -> HostPort:
        """The address at which the replica listens when it runs."""
        return self._addresses[replica]

    def move(self, replica: ReplicaId) -> None:
        """Give the replica another port; nothing listens at the old one any more."""
        host, port = self._addresses[replica]
        del self._at[host, port]
        self._addresses[replica] = (host, port + PORT_STEP)
        self._at[host, port + PORT_STEP] = replica

    def at(self, address: HostPort, asker: ReplicaId) -> ReplicaId | None:
        """The replica whose machine has this address, running or not; for the VIP any running
        one."""
        if address == VIP:
            return self._rng.choice(sorted(self.processes)) if self.processes else None
        return self._at.get(address)

    def ask(
        self, asker: GossipingProcess, place: HostPort, request: DiscoverBrokersRequest
    ) -> None:
        """Carry a question to its address, and the answer back."""
        self.invariants.asks(asker.incarnation, request)
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
        """Let a node of another cluster claim to belong to this one."""
        if self.processes:
            process = self.processes[self._rng.choice(sorted(self.processes))]
            advertisement = _foreign(self._rng.choice(self._everyone))
            request = DiscoverBrokersRequest(
                cluster_id=FOREIGN_CLUSTER_ID, advertisement=advertisement
            )
            process.enter(partial(self._refuse, process, request))

    def finds_everyone(self) -> bool:
        """True if every running process knows the addresses of all others."""
        client = DiscoverBrokersRequest(cluster_id=None, advertisement=None)
        keys = {each.id: each.incarnation.key for each in self.processes.values()}
        for process in self.processes.values():
            told = process.gossip.asked(client)
            for each in told.brokers if told is not None else ():
                if keys.get(each.id) == each.key and each.address != self._addresses[each.id]:
                    return False
        return True

    def _refuse(self, process: GossipingProcess, request: DiscoverBrokersRequest) -> None:
        if process.gossip.asked(request) is not None:
            raise Violation("R13", f"{process.id} answers a node of another cluster")

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
        process, asker = self.processes.get(whom), exchange.asker
        if process is not None:
            process.enter(partial(self._answer, exchange, process, request))
        elif whom not in self._network.dark:
            asker.enter(partial(exchange.end, None))

    def _answer(
        self, exchange: _Exchange, process: GossipingProcess, request: DiscoverBrokersRequest
    ) -> None:
        asker, response = exchange.asker, process.gossip.asked(request)
        if response is not None:
            self.invariants.answers(process.incarnation, response)
        end = partial(asker.enter, partial(exchange.end, response))
        self._network.carry((process.id, asker.id), end, is_request=False)


def _foreign(replica: ReplicaId) -> Advertisement:
    return Advertisement(
        id=replica, boot_timestamp=FOREIGN_BOOT, host=FOREIGN_HOST, port=9_000 + replica % PORT_STEP
    )


NAP_MS: Final = 1_000
"""The longest sleep."""


def cluster_for(process: GossipingProcess, past: PersistentState) -> ClusterIdentity:
    """The id of the cluster, as far as this process knows it."""
    return cluster_of(
        past.elections,
        process.id,
        folder=process.machine.config.folder,
        disk=process.disk_queue,
        rng=process.rng,
        fs=process.machine.disk,
    )


class Gossiper:
    """The gossip of one process."""

    def __init__(
        self,
        process: GossipingProcess,
        past: PersistentState,
        cluster: ClusterIdentity,
        directory: AddressDirectory,
        note: Callable[[str], None],
    ) -> None:
        config = process.machine.config
        self._process = process
        self._directory = directory
        self._note = note
        self._book = address_book(
            config, past.key, wall_ms=process.now_wall_ms(), fs=process.machine.disk
        )
        self._discovery = discovery_of(
            config,
            past,
            process.replica,
            cluster=cluster,
            book=self._book,
            disk=process.disk_queue,
            fs=process.machine.disk,
            clock=process.now_ms,
            rng=process.rng,
        )
        process.later(0, self._look)

    def whereabouts(self, replica: ReplicaId) -> ReplicaId | None:
        """Return the replica at the known address of `replica`; None if no address is known."""
        address = self._book.address_of(replica)
        return None if address is None else self._directory.at(address, self._process.id)

    @property
    def book(self) -> AddressBook:
        """The addresses that this process knows."""
        return self._book

    def serve(self, request: InboundRequest) -> None:
        """Answer a request that came as bytes; raises `Malformed`."""
        clock = self._process.now_ms
        service = DiscoverBrokersService(
            self._discovery,
            client_id="",
            sweeper=Sweeper(clock),
            clock=clock,
            wall_clock=self._process.now_wall_ms,
            rng=self._process.rng,
            timeout_ms=1,
            refusal_log=RefusalLog("gossip", clock),
        )
        service.asked(request)

    def asked(self, request: DiscoverBrokersRequest) -> DiscoverBrokersResponse | None:
        """Return the response to a request; None if it is refused."""
        answer = self._discovery.asked(request, self._process.now_ms())
        if isinstance(answer, DiscoverBrokersResponse):
            return answer
        self._note("somebody of another cluster is refused")
        return None

    def told(self, place: HostPort, response: DiscoverBrokersResponse | None) -> None:
        """Take the answer to a question of this process."""
        if response is None:
            self._discovery.failed(place)
            return
        if response.answerer == self._process.id:
            self._note("who asks is led back to itself")
        if self._discovery.heard(place, response, self._process.now_ms()) is not None:
            self._note("nothing is learned of another cluster")

    def _look(self) -> None:
        discovery, process = self._discovery, self._process
        now_ms = process.now_ms()
        if discovery.is_due(now_ms):
            for place in discovery.round(now_ms):
                self._directory.ask(process, place, discovery.request())
        wait_ms = max(1, discovery.deadline_ms - process.now_ms())
        process.later(min(wait_ms, NAP_MS), self._look)


BOOT_MAX: Final = EPOCH_WALL_MS + 365 * 24 * 60 * 60 * 1_000
"""No boot of a run is later: jumps of clocks are of hours, and a week ahead is believed."""
FOREIGN_HOST: Final = "abroad"
"""The host of everybody of the other cluster."""


class GossipInvariants:
    """R13 and R22: what the nodes have said; one for each run."""

    def __init__(self) -> None:
        self._said: dict[tuple[int, ReplicaId], int] = {}
        self._places: dict[tuple[ReplicaKey, int], tuple[str, int]] = {}
        self._boots: dict[ReplicaKey, tuple[int, int]] = {}
        self._unknown: dict[ReplicaKey, int] = {}
        """The last timestamp of those of which neither the disk nor the clock knows now."""
        self._judged: dict[tuple[int, ReplicaId], Advertisement] = {}
        """What each process has said of each replica last, since anything was rewound."""

    def rewinds(self, key: ReplicaKey) -> None:
        """An older copy of its disk was restored, and its clock is behind."""
        _, known = self._boots.pop(key, (0, -1))
        self._unknown[key] = max(known, self._unknown.get(key, -1))
        self._judged.clear()

    def asks(self, who: Incarnation, request: DiscoverBrokersRequest) -> None:
        """A node states its address and asks for the others."""
        self._says(who, () if request.advertisement is None else (request.advertisement,))

    def answers(self, who: Incarnation, response: DiscoverBrokersResponse) -> None:
        """A node answers with every address that it knows."""
        self._says(who, response.brokers)

    def _says(self, who: Incarnation, advertisements: Iterable[Advertisement]) -> None:
        for each in advertisements:
            # The very same as the last time: it is no earlier boot than that, its place is the one
            # that stands in `_places`, and of itself a process that lives is in its last boot.
            if self._judged.get((who.boot, each.id)) is each:
                continue
            timestamp = each.boot_timestamp
            if timestamp > BOOT_MAX:
                raise Violation("R22", f"{who} reports {each}, a boot of a far future")
            if each.host == FOREIGN_HOST:
                raise Violation(
                    "R13", f"{who} reports {each}, which no node of its cluster reported"
                )
            before = self._said.get((who.boot, each.id), -1)
            if timestamp < before:
                raise Violation("R22", f"{who} reports {each}, but it already knew boot {before}")
            self._said[who.boot, each.id] = timestamp
            key = each.key
            if timestamp > self._unknown.get(key, -1):
                if self._places.setdefault((key, timestamp), each.address) != each.address:
                    raise Violation("R22", f"{who} reports {each} at another address than before")
                if key == who.key:
                    self._is(who, timestamp)
            self._judged[who.boot, each.id] = each

    def _is(self, who: Incarnation, timestamp: int) -> None:
        boot, known = self._boots.get(who.key, (who.boot, -1))
        if timestamp < known or (boot != who.boot and timestamp == known):
            raise Violation("R22", f"{who} has boot timestamp {timestamp}, before it had {known}")
        self._boots[who.key] = (who.boot, timestamp)
