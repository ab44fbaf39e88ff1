"""P18 to P21 and P26: records of partitions and folders on the disks of brokers.

Logs are read from their files by the checkers' own parser. Every in-sync replica has written what
is committed; nothing of it is synced, as the product promises, and so simulated broker disks lose
none of it. Also counts reassignment steps that were cancelled under way.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from broker.partition.assignment import PartitionKey
from broker.partition.leader import IsrProposal
from broker.partition.partition import Partition
from chaos.cluster.broker.partition_disk import folder_of, held_on
from chaos.cluster.invariants.history import ClusterHistory
from chaos.cluster.invariants.model import Key, Part, without
from chaos.cluster.invariants.record_parser import ParsedRecord
from chaos.cluster.profile import KEPT
from chaos.disk.virtual_disk import VirtualDisk
from chaos.invariants.disk_format import StoredBatch, batches, records
from chaos.invariants.durable_state import Incarnation
from chaos.simulation.environment import Environment
from chaos.violation import Violation
from quorum.core.vocabulary import ReplicaId

STEP_CANCELLED: Final = "a step is cancelled"
COPY_REMOVED: Final = "a copy for a cancelled step is removed"


def values_of(stored: list[StoredBatch] | tuple[StoredBatch, ...]) -> dict[int, bytes]:
    """The value at each offset of these batches."""
    return {
        batch.base + place: value
        for batch in stored
        for place, (_, value) in enumerate(records(batch.data))
    }


def log_on(disk: VirtualDisk, key: PartitionKey) -> list[StoredBatch]:
    """The batches of a partition in the files of its folder, in order."""
    folder = folder_of(key)
    if not disk.is_folder(folder):
        return []
    found: list[StoredBatch] = []
    for name in sorted(each for each in disk.names(folder) if each.endswith(".log")):
        found += batches(disk.content(folder / name))
    return found


def end_on(disk: VirtualDisk, key: PartitionKey) -> int:
    """The end offset of a partition's log in the files of its folder."""
    folder = folder_of(key)
    names = disk.names(folder) if disk.is_folder(folder) else []
    for name in sorted((each for each in names if each.endswith(".log")), reverse=True):
        stored = batches(disk.content(folder / name))
        if stored:
            return stored[-1].end
    return 0


class PartitionRecords:
    """P18 to P20 and P26: acknowledged, committed and consumed records of one run."""

    def __init__(self, world: Environment, history: ClusterHistory) -> None:
        self._world = world
        self._history = history
        self._acknowledged: dict[int, dict[int, bytes]] = {}
        self._read: dict[int, dict[int, bytes]] = {}
        self._committed: dict[PartitionKey, int] = {}
        self._lost: dict[int, str] = {}
        """The incarnation whose disk has lost data, by broker id, until another one registers."""

    def acknowledged(self, number: int, base: int, values: list[bytes]) -> None:
        """P18: the records of a producer were acknowledged at this offset."""
        name, end = f"{KEPT}-{number}", base + len(values)
        self._world.invariants.observer.partition_acknowledged(name, base, end)
        known = self._acknowledged.setdefault(number, {})
        for offset, value in enumerate(values, base):
            if known.setdefault(offset, value) != value:
                what = f"record {offset} of {name}"
                text = f"{what} is acknowledged as {value!r} and as {known[offset]!r}"
                raise Violation("P18", text)

    def read(self, number: int, stored: tuple[StoredBatch, ...]) -> None:
        """P20: a consumer got these batches; they must stay."""
        known = self._read.setdefault(number, {})
        for offset, value in values_of(stored).items():
            if known.setdefault(offset, value) != value:
                what = f"record {offset} of {KEPT}-{number}"
                text = f"{what} is read as {value!r}, before it was {known[offset]!r}"
                raise Violation("P20", text)

    def committed(self, broker_id: int, partition: Partition) -> None:
        """P19: an unfenced leader raises the high watermark; every in-sync replica has it."""
        key = partition.key
        part = self._history.model.parts.get((key.topic_id.hex, key.number))
        if part is None or part.leader != broker_id:
            return
        if part.leader_epoch != partition.leader_epoch:
            return
        end = partition.high_watermark
        if self._history.model.topics[key.topic_id.hex] == KEPT:
            self.is_committed(key, end)
        in_sync = without(part.isr, tuple(self._lost))
        ends = {member: end_on(self._disk(member), key) for member in in_sync}
        self._world.invariants.observer.partition_committed(broker_id, str(partition), end, ends)
        for member, has in ends.items():
            if has < end:
                raise Violation(
                    "P19",
                    f"broker {broker_id} takes {partition} for committed below {end}, but the "
                    f"files of {member}, which is in sync, end at {has}",
                )

    def proposed(self, leader: int, partition: Partition, proposal: IsrProposal) -> None:
        """P26: a leader proposes an ISR; who joins has the leader's log up to its leader epoch."""
        key = partition.key
        part = self._history.model.parts.get((key.topic_id.hex, key.number))
        made_for = (leader, proposal.leader_epoch, proposal.partition_epoch)
        if part is None or (part.leader, part.leader_epoch, part.partition_epoch) != made_for:
            return
        stored = log_on(self._disk(leader), key)
        opened = (each.base for each in stored if each.epoch == part.leader_epoch)
        start = next(opened, stored[-1].end if stored else 0)
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            broker = self._history.model.brokers.get(member)
            is_itself = broker is not None and broker.epoch == epoch
            if member in part.isr or member in self._lost or not is_itself:
                continue
            has = end_on(self._disk(member), key)
            if has < start:
                raise Violation(
                    "P26",
                    f"broker {member} is proposed for the ISR of {partition} with a log that ends "
                    f"at {has}, but leader epoch {part.leader_epoch} begins at {start}",
                )

    def loses(self, broker_id: int) -> None:
        """Note that a broker's disk is about to lose data that other in-sync replicas have."""
        self._lost[broker_id] = self._history.model.brokers[broker_id].incarnation

    def is_committed(self, key: PartitionKey, end: int) -> None:
        """Record that everything below `end` is committed."""
        self._committed[key] = max(end, self._committed.get(key, 0))

    def changed(self, facts: Sequence[ParsedRecord]) -> None:
        """P19: a replica that joins the ISR has all that is committed."""
        for each in facts:
            if each.type == "RegisterBroker":
                self._registered(each.fields["broker_id"], each.fields["incarnation_id"])
            if each.type != "PartitionChange" or "isr" not in each.fields:
                continue
            key = PartitionKey(UUID(hex=each.fields["topic_id"]), each.fields["partition_id"])
            end = self._committed.get(key, 0)
            for member in without(each.fields["isr"], tuple(self._lost)):
                has = end_on(self._disk(member), key) if end else 0
                if has < end:
                    name = f"{self._history.model.topics[key.topic_id.hex]}-{key.number}"
                    text = f"{member} joins the ISR of {name} at {has}, committed is {end}"
                    raise Violation("P19", text)

    def _registered(self, broker_id: int, incarnation: str) -> None:
        """Forget a loss once another incarnation is registered; a repeated request does not
        count."""
        if self._lost.get(broker_id) != incarnation:
            self._lost.pop(broker_id, None)

    def are_equal(self) -> bool:
        """True if all replicas of each partition have the same records."""
        return all(
            len({tuple(log_on(self._disk(each), key)) for each in replicas}) == 1
            for key, replicas in self._partitions()
        )

    def check_end(self) -> None:
        """P18 and P20, once all replicas are equal."""
        for key, replicas in self._partitions():
            self._check_partition(key, log_on(self._disk(replicas[0]), key))

    def _partitions(self) -> list[tuple[PartitionKey, tuple[int, ...]]]:
        model = self._history.model
        return [
            (PartitionKey(UUID(hex=topic_id), number), part.replicas)
            for (topic_id, number), part in model.parts.items()
            if model.topics[topic_id] == KEPT
        ]

    def _disk(self, broker_id: int) -> VirtualDisk:
        return self._world.machines[ReplicaId(broker_id)].disk

    def _check_partition(self, key: PartitionKey, stored: list[StoredBatch]) -> None:
        found = values_of(stored)
        for rule, known in (("P18", self._acknowledged), ("P20", self._read)):
            for offset, value in known.get(key.number, {}).items():
                if found.get(offset) != value:
                    what = f"record {offset} of {KEPT}-{key.number}"
                    text = f"{what} was {value!r}, now it is {found.get(offset)!r}"
                    raise Violation(rule, text)
        written = list(found.values())
        if len({*written}) != len(written):
            raise Violation("P18", f"a record of {key} is in the log twice")


class PartitionFolders:
    """P21: partition folders of one run, on the disks of brokers.

    It also counts cancelled reassignment steps, and the copies that are removed because of them.
    P13 checks the cancellation itself.
    """

    def __init__(self, world: Environment, history: ClusterHistory) -> None:
        self._world = world
        self._history = history
        self._held_since: dict[tuple[ReplicaId, PartitionKey], int] = {}
        self._cancelled: set[tuple[ReplicaId, PartitionKey]] = set()
        """Copies that had begun for a step that was cancelled."""

    def opens(self, broker: Incarnation, key: PartitionKey) -> None:
        """Note that a broker is about to open a partition's folder."""
        offset = self._world.invariants.high_watermark(broker)
        self._held_since.setdefault((broker.id, key), offset)

    def removes(self, broker: Incarnation, key: PartitionKey) -> None:
        """P21: a broker removes data only if it was no replica at some offset since it opened."""
        offset = self._world.invariants.high_watermark(broker)
        since = self._held_since.pop((broker.id, key), 0)
        self._world.note("data of a partition is removed")
        if (broker.id, key) in self._cancelled:
            self._cancelled.discard((broker.id, key))
            self._world.note(COPY_REMOVED)
        if not self._history.was_no_replica(int(broker.id), key, since, offset):
            raise Violation("P21", f"{broker} removes {key}, but has been a replica since {since}")

    def loses(self, replica: ReplicaId) -> None:
        """Forget a broker whose whole disk is gone."""
        for each in [each for each in self._held_since if each[0] == replica]:
            del self._held_since[each]

    def step_cancelled(self, key: Key, before: Part, after: Part) -> None:
        """Count a cancelled step, and note the copies that exist for it."""
        self._world.note(STEP_CANCELLED)
        partition = PartitionKey(UUID(hex=key[0]), key[1])
        for each in map(ReplicaId, without(before.replicas, after.replicas)):
            if partition in held_on(self._world.machines[each].disk):
                self._cancelled.add((each, partition))

    def check_end(self) -> None:
        """P21: no broker has data of a partition that it is not a replica of."""
        view = self._history.view_at(self._history.end)
        brokers = [each for each in self._world.everyone if each not in self._world.voters]
        for replica in brokers:
            for key in held_on(self._world.machines[replica].disk):
                part = view.parts.get((key.topic_id.hex, key.number))
                if part is None or int(replica) not in part.replicas:
                    raise Violation(
                        "P21", f"{replica} has data of {key}, but is not a replica of it"
                    )
