"""What must hold in a town whatever happens, judged from what was sent, kept and shown."""

from dataclasses import dataclass, field

from quorum.addresses import HostPort
from quorum.core.messages import VoteRequest
from quorum.core.vocabulary import ReplicaId
from tests.quorum.core.host import Packet
from tests.quorum.town.residents import Process, founded_as
from tests.quorum.town.town import Town


class TownBroken(AssertionError):
    """An invariant does not hold; its name comes first."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


@dataclass
class TownJudge:
    """Watches every event of a town."""

    town: Town
    clusters: dict[ReplicaId, str]
    """Which cluster each node belongs to, in truth."""
    _boots: dict[tuple[ReplicaId, int], HostPort] = field(default_factory=dict)
    _seen: dict[tuple[int, ReplicaId], int] = field(default_factory=dict)
    _founded: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.town.on_step = self.look
        self.town.on_send = self.leaving

    def look(self, process: Process) -> None:
        """After an event that happened to this process."""
        self._places(process)
        self._cluster(process)
        self._records(process)

    def leaving(self, process: Process, packet: Packet) -> None:
        """A request leaves: who stands must know where a majority of the voters is."""
        if not isinstance(packet.message, VoteRequest) or process.resident.disk.records:
            return
        voters = process.host.node.voters
        known = [
            each
            for each in voters.sorted()
            if each == process.id or process.book.gossip.of(each) is not None
        ]
        if len(known) < voters.majority:
            raise TownBroken("majority", f"{process.id} stands and knows of {known} alone")

    def _places(self, process: Process) -> None:
        """R22: what a node knows of another only grows newer, and has been true."""
        me = process.book.gossip.me
        assert me is not None
        known_at = self._boots.setdefault((me.id, me.boot_timestamp), me.address)
        if known_at != me.address:
            raise TownBroken("R22", f"{me} was at {known_at} by the same boot timestamp")
        for each in process.book.gossip.sightings:
            before = self._seen.get((process.number, each.id), -1)
            if each.boot_timestamp < before:
                raise TownBroken("R22", f"{process.id} believes {each}, and knew of boot {before}")
            self._seen[process.number, each.id] = each.boot_timestamp
            if self._boots.get((each.id, each.boot_timestamp)) != each.address:
                raise TownBroken("R22", f"{process.id} believes {each}, which never was")

    def _cluster(self, process: Process) -> None:
        """R13: nothing of another cluster is learned, and the cluster of a node never changes."""
        own = self.clusters[process.id]
        for each in process.book.gossip.sightings:
            if self.clusters[each.id] != own:
                raise TownBroken("R13", f"{process.id} of {own} believes {each}")

    def _records(self, process: Process) -> None:
        """R19: a log begins with who leads and who votes, and a cluster is founded once."""
        disk = process.resident.disk
        if disk.records:
            first = [each.word.partition("-")[0] for each in disk.records[:3]]
            if first != ["leader", "kraft", "voters"]:
                raise TownBroken("R19", f"the log of {process.id} begins with {first}")
        if not process.host.node.high_watermark:
            return
        own, named = self.clusters[process.id], founded_as(disk)
        record = " ".join(map(str, disk.records[:3]))
        if self._founded.setdefault(own, record) != record:
            raise TownBroken("R19", f"{own} was founded by {self._founded[own]} and by {record}")
        if process.cluster.id != named:
            raise TownBroken("R13", f"{process.id} is of {process.cluster.id}, its log of {named}")
