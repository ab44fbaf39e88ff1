"""Nodes that discover each other: the real core, gossip, address book and cluster id of each.

A resident is the part of a node that outlives its processes: disk, settings and address.
`simulated_network` delivers the messages.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import AppendLeaderChange, Effect
from quorum.core.events import DiscoveryDone, EndpointsUpdated, Event
from quorum.core.limits import Timeouts
from quorum.core.state import DiscoveryState
from quorum.core.vocabulary import Epoch, HostPort, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.discovery.address_book import AddressBook, pseudo_ids
from quorum.discovery.gossip import Advertisement, Gossip
from quorum.discovery.schedule import DiscoverySchedule
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import stamp
from tests.quorum.core.request_notation import directory_of
from tests.quorum.core.simulated_node import Host, Packet
from tests.quorum.core.virtual_disk import Disk
from tests.support.memory_storage import MemoryLog

LISTENER: Final = "CONTROLLER"


@dataclass(kw_only=True)
class Resident:
    """One node: what it was told, where it lives, and what its folder holds."""

    id: ReplicaId
    address: HostPort
    voters: tuple[ReplicaId, ...] = ()
    bootstrap: tuple[HostPort, ...] = ()
    cluster_id: str | None = None
    """As configured, and, once it is kept, as `meta.properties` has it."""
    wall_offset_ms: int = 0
    disks: int = 1
    disk: Disk = field(default_factory=Disk)
    last_boot: int = -1
    """The file `boot-timestamp`."""

    def __post_init__(self) -> None:
        self.disk = Disk(directory_of(self.id, self.disks))

    def wipe(self) -> None:
        """The folder is gone; what it was told is not."""
        self.disks += 1
        self.disk = Disk(directory_of(self.id, self.disks))
        self.last_boot = -1

    def next_boot(self, now_ms: int) -> int:
        """The timestamp of the boot that begins now."""
        self.last_boot = max(0, now_ms + self.wall_offset_ms, self.last_boot + 1)
        return self.last_boot


class TownHost(Host):
    """A host whose founding record carries the cluster's id, as the real one does."""

    cluster: ClusterIdentity

    def perform(self, effect: Effect) -> Packet | None:
        packet = super().perform(effect)
        if isinstance(effect, AppendLeaderChange) and effect.batch.assignment is not None:
            batch = self.disk.batches[-1]
            *words, last = batch.words
            named = f"{last}={self.cluster.id_to_found_with()}"
            self.disk.batches[-1] = type(batch)(batch.outline, (*words, named))
            self.disk.records[-1] = type(self.disk.records[-1])(batch.outline.epoch, named)
        return packet


def founded_as(disk: Disk) -> str | None:
    """The cluster id that the log's first batch names, if it names one."""
    if not disk.batches:
        return None
    _, named, cluster_id = disk.batches[0].words[-1].partition("=")
    return cluster_id if named else None


class LogOfWords(MemoryLog):
    """The first batch of a disk of words, in the bytes that a real log would have."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        voters = VoterSet.of(1)
        change = LeaderChange(leader=ReplicaId(1), voters=(), granting=())
        batch = encode_leader_change(
            change, VoterAssignment(voters), founded_as(disk), timestamp_ms=0
        )
        stamp(batch, Offset(0), Epoch(1))
        self.append(batch)


class Process:
    """A resident that runs, from one boot to its end."""

    def __init__(
        self, resident: Resident, *, number: int, now_ms: int, rng: random.Random, made: str
    ) -> None:
        self.resident = resident
        self.number = number
        """The number of the process; an answer reaches only the process that asked."""
        me = ReplicaKey(resident.id, resident.disk.directory_id)
        host, port = resident.address
        self.advertisement = Advertisement(
            id=me.id,
            boot_timestamp=resident.next_boot(now_ms),
            host=host,
            port=port,
            directory_id=me.directory_id,
        )
        self.book = AddressBook(Gossip(self.advertisement), bootstrap=resident.bootstrap)
        self.cluster = ClusterIdentity(resident.cluster_id, keep=self._keep, make=lambda: made)
        has_log = bool(resident.disk.records)
        self.host = TownHost(
            me.id,
            self._founders(),
            resident.disk,
            boot=number,
            rng=random.Random(rng.getrandbits(32)),
            now_ms=now_ms,
            timeouts=Timeouts(),
            records_voters=True,
            discovery=DiscoveryState(
                unlocated=frozenset(resident.voters) - {me.id},
                bootstrap=pseudo_ids(len(resident.bootstrap)),
                has_surveyed=has_log or not resident.bootstrap,
            ),
        )
        self.host.cluster = self.cluster
        self.book.voters = lambda: self.host.node.voters
        self.heard: list[Event] = []
        """The events from the gossip for the core, in order."""
        self.book.on_news = self._locate
        self._locate([self.advertisement])
        self.discovery = DiscoverySchedule(
            self.book,
            self.cluster,
            self.host.node,
            has_log=has_log,
            surveyed=lambda found: self.heard.append(DiscoveryDone(found)),
            advertise_again=self._advertise_again,
            rng=random.Random(rng.getrandbits(32)),
            now_ms=now_ms,
        )

    @property
    def id(self) -> ReplicaId:
        return self.resident.id

    @property
    def deadline_ms(self) -> int:
        """The time of the next check, whatever happens."""
        core_ms = self.host.node.deadline_ms
        gossip_ms = self.discovery.deadline_ms
        return gossip_ms if core_ms is None else min(core_ms, gossip_ms)

    def committed(self) -> None:
        """The core has committed something."""
        if self.resident.disk.batches:
            high_watermark = self.host.node.high_watermark or Offset(0)
            self.cluster.on_commit(LogOfWords(self.resident.disk), high_watermark)

    def _founders(self) -> VoterSet:
        own = (Endpoint(LISTENER, *self.resident.address),)
        return VoterSet(
            tuple(
                Voter(ReplicaKey(each), own if each == self.id else ())
                for each in self.resident.voters
            )
        )

    def _keep(self, cluster_id: str, done: Callable[[], None]) -> None:
        self.resident.cluster_id = cluster_id
        done()

    def _locate(self, news: Iterable[Advertisement]) -> None:
        for each in news:
            self.heard.append(EndpointsUpdated(each.key, (Endpoint(LISTENER, *each.address),)))

    def _advertise_again(self, rival: Advertisement) -> None:
        self.resident.last_boot = rival.boot_timestamp + 1
        self.discovery.advertised_again(self.resident.last_boot)


def log_end_of(process: Process) -> OffsetAndEpoch:
    return process.host.node.log_end
