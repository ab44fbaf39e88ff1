"""The commands of transcripts about founding and joining: nodes on a network without faults.

node 1 at a:1 [voters 1 2 3] [servers b:2 c:3] [cluster C]   a node at this address
start 1 2             start them on their folders
gossip 1              node 1 sends the questions that are due, and gets the answers
run 3000              3,000 ms pass; shows the gossip and the state of every node
known 1               the addresses that node 1 knows
kill 1                end its process; its disk stays
move 1 to d:4         a stopped node gets another address
behind v:9 1 1 2      one address at which these answer in turn
wipe 1                the folder of a stopped node is lost
clock 1 -5000         its time of day is behind
log                   the logs on the disks
voters 1              the voters and their addresses, by the log of node 1
"""

import random
from collections.abc import Callable, Iterator

from quorum.core.vocabulary import HostPort, ReplicaId
from tests.quorum.core.transcript_notation import listed, written
from tests.quorum.discovery.simulated_discovery import Resident
from tests.quorum.discovery.simulated_network import SimulatedNetwork


class DiscoveryCommands:
    def __init__(self) -> None:
        self._network = SimulatedNetwork(random.Random(1))

    def answer(self, command: str) -> str:
        """Do what the lines of `command` say; return what happened."""
        return written(command, self._obey)

    def _obey(self, line: str) -> Iterator[str]:
        verb, *words = line.split()
        scenes: dict[str, Callable[..., Iterator[str]]] = {
            "node": self._node,
            "start": self._start,
            "behind": self._behind,
            "gossip": self._gossip,
            "run": self._run,
            "known": self._known,
            "kill": self._kill,
            "move": self._move,
            "wipe": self._wipe,
            "clock": self._clock,
            "voters": self._voters,
            "log": self._log,
        }
        return scenes[verb](*words)

    def _node(self, number: str, _at: str, address: str, *words: str) -> Iterator[str]:
        given: dict[str, list[str]] = {}
        for word in words:
            if word in ("voters", "servers", "cluster"):
                given[word] = []
            else:
                given[list(given)[-1]].append(word)
        (cluster_id,) = given.get("cluster", [None])
        self._network.settle(
            Resident(
                id=ReplicaId(int(number)),
                address=_place(address),
                voters=tuple(ReplicaId(int(each)) for each in given.get("voters", ())),
                bootstrap=tuple(map(_place, given.get("servers", ()))),
                cluster_id=cluster_id,
            )
        )
        yield from ()

    def _behind(self, address: str, *numbers: str) -> Iterator[str]:
        self._network.behind[_place(address)] = [ReplicaId(int(each)) for each in numbers]
        yield from ()

    def _start(self, *numbers: str) -> Iterator[str]:
        for number in numbers:
            process = self._network.start(ReplicaId(int(number)))
            yield str(process.advertisement)

    def _gossip(self, number: str) -> Iterator[str]:
        self._network.gossip(self._network.processes[ReplicaId(int(number))])
        self._network.run(0)
        yield from self._told()

    def _run(self, ms: str) -> Iterator[str]:
        self._network.run(int(ms))
        yield from dict.fromkeys(self._told())
        yield f"at {self._network.now_ms} ms"
        yield from self._network.state()

    def _known(self, number: str) -> Iterator[str]:
        book = self._network.processes[ReplicaId(int(number))].book
        yield from map(str, book.gossip.advertisements)

    def _kill(self, number: str) -> Iterator[str]:
        self._network.kill(ReplicaId(int(number)))
        yield from ()

    def _move(self, number: str, _to: str, address: str) -> Iterator[str]:
        self._network.residents[ReplicaId(int(number))].address = _place(address)
        yield from ()

    def _wipe(self, number: str) -> Iterator[str]:
        self._network.residents[ReplicaId(int(number))].wipe()
        yield from ()

    def _clock(self, number: str, offset_ms: str) -> Iterator[str]:
        self._network.residents[ReplicaId(int(number))].wall_offset_ms = int(offset_ms)
        yield from ()

    def _voters(self, number: str) -> Iterator[str]:
        for voter in self._network.processes[ReplicaId(int(number))].host.node.voters:
            where = ", ".join(f"{each.host}:{each.port}" for each in voter.endpoints)
            yield f"{voter.key} at {where or 'a place that nobody knows'}"

    def _log(self) -> Iterator[str]:
        residents = sorted(self._network.residents.items())
        yield from listed((id_, str(resident.disk)) for id_, resident in residents)

    def _told(self) -> list[str]:
        told, self._network.told = self._network.told, []
        return told


def _place(text: str) -> HostPort:
    host, _, port = text.partition(":")
    return host, int(port)
