"""Write the logs of a quorum of three, like those of real controllers, without running any.

Every commit is a separate batch with one record, which is the most expensive form of a log. First
brokers register and partitions are created. Then every partition in turn loses a replica from its
ISR and gets it back; a tenth of the records belong to moves to another broker, with three records
per move. The second voter is the leader from the middle on. Each voter has an index of append
times.
"""

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec

from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, ReplicaKey
from quorum.core.voter_set import Voter, VoterAssignment, VoterSet
from quorum.log.append_times import encode_entry, encode_header, index_of
from quorum.log.meta_properties import load_or_create
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import encode
from statemachine.records import codec, kafka_records
from statemachine.vocabulary import BrokerId

VOTERS: Final = (1, 2, 3)
RATE: Final = 1_000
"""Commits per second, by the clocks of the logs."""
BEGIN_MS: Final = 1_795_236_537_000
BROKERS: Final = 40
TOPIC_PARTITIONS: Final = 100
COMMITS_A_PARTITION: Final = 100
MOVED_EVERY: Final = 25
"""The changes of a partition before each move."""
LEVEL: Final = 29
CLUSTER: Final = "bench"
_WRITE_BYTES: Final = 1 << 22


class Partitions:
    """The records of the controllers about brokers and partitions, one per commit."""

    def __init__(self, commits: int) -> None:
        count = max(TOPIC_PARTITIONS, commits // COMMITS_A_PARTITION)
        self._topics = -(-count // TOPIC_PARTITIONS)
        self._replicas = [
            tuple(BrokerId((place * 7 + at) % BROKERS + 1) for at in range(3))
            for place in range(self._topics * TOPIC_PARTITIONS)
        ]

    def values(self) -> Iterator[bytes]:
        """An endless series of commits."""
        for broker_id in range(1, BROKERS + 1):
            yield self._encoded(_registered(broker_id))
            yield self._encoded(_let_in(broker_id))
        for topic in range(self._topics):
            yield self._encoded(
                kafka_records.Topic(name=f"topic-{topic}", topic_id=_topic_id(topic))
            )
            for number in range(TOPIC_PARTITIONS):
                yield self._encoded(self._created(topic, number))
        turn = 0
        while True:
            for place in range(len(self._replicas)):
                yield self._encoded(self._changed(place, turn % MOVED_EVERY))
            turn += 1

    @staticmethod
    def _encoded(record: kafka_records.Record) -> bytes:
        return codec.encode(record, LEVEL)

    def _created(self, topic: int, number: int) -> kafka_records.Partition:
        replicas = self._replicas[topic * TOPIC_PARTITIONS + number]
        return kafka_records.Partition(
            partition_id=number,
            topic_id=_topic_id(topic),
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )

    def _changed(self, place: int, phase: int) -> kafka_records.PartitionChange:
        """The record about this partition: 0 to 2 are the steps of a move."""
        old = self._replicas[place]
        topic, number = divmod(place, TOPIC_PARTITIONS)
        change = kafka_records.PartitionChange(partition_id=number, topic_id=_topic_id(topic))
        new = BrokerId(old[2] % BROKERS + 1)
        said: dict[str, Any]
        match phase:
            case 0:
                said = {"replicas": (*old, new), "adding": (new,), "removing": old[:1]}
            case 1:
                said = {"isr": (*old, new)}
            case 2:
                kept = self._replicas[place] = (*old[1:], new)
                said = {"replicas": kept, "isr": kept, "adding": (), "removing": ()}
                said["leader"] = kept[0]
            case _:
                said = {"isr": old if phase % 2 == 0 else old[:2]}
        return msgspec.structs.replace(change, **said)


def write_quorum(
    folder: Path, commits: int, *, observers: int = 0, length_ms: int | None = None
) -> int:
    """Write the folders of three voters, and of observers, with `commits` commits; return the size
    of one log. The commits take `length_ms`, by default what they take at `RATE`."""
    length_ms = commits * 1_000 // RATE if length_ms is None else length_ms
    nodes = [*VOTERS, *range(len(VOTERS) + 1, len(VOTERS) + 1 + observers)]
    for node in nodes:
        load_or_create(folder / f"c{node}", CLUSTER, ReplicaId(node), rng=Random(node))
    logs = [folder / f"c{node}" / "__cluster_metadata-0" for node in nodes]
    for log in logs:
        log.mkdir()
    segments = [log / f"{0:020}.log" for log in logs]
    _write_segment(segments[0], commits, length_ms)
    for segment in segments[1:]:
        shutil.copyfile(segments[0], segment)
    for node, segment in zip(nodes, segments, strict=True):
        _write_index(index_of(segment), node, commits, length_ms)
    return segments[0].stat().st_size


def add_observers(folder: Path, replicas: int) -> None:
    """Add observers to a quorum, up to so many replicas. Their files are links to those of the last
    voter, so that a thousand logs take the room of three."""
    source = folder / f"c{VOTERS[-1]}" / "__cluster_metadata-0"
    for node_id in range(VOTERS[-1] + 1, replicas + 1):
        load_or_create(folder / f"c{node_id}", CLUSTER, ReplicaId(node_id), rng=Random(node_id))
        log = folder / f"c{node_id}" / source.name
        log.mkdir()
        for path in source.iterdir():
            os.link(path, log / path.name)


def _write_segment(path: Path, commits: int, length_ms: int) -> None:
    values = Partitions(commits).values()
    election = commits // 2
    with path.open("wb", buffering=_WRITE_BYTES) as file:
        base = 0
        for commit in range(commits):
            at_ms, epoch = BEGIN_MS + commit * length_ms // commits, 1 + (commit >= election)
            if commit in (0, election):
                batch, count = _opening(epoch, at_ms)
            else:
                batch, count = encode([next(values)], timestamp_ms=at_ms), 1
            struct.pack_into(">q", batch, 0, base)
            struct.pack_into(">i", batch, 12, epoch)
            file.write(batch)
            base += count


def _opening(epoch: int, at_ms: int) -> tuple[bytearray, int]:
    """The first batch of an epoch, and its number of records."""
    voters = tuple(ReplicaId(voter) for voter in VOTERS)
    change = LeaderChange(leader=ReplicaId(epoch), voters=voters, granting=voters[:2])
    if epoch > 1:
        return encode_leader_change(change, timestamp_ms=at_ms), 1
    keys = (ReplicaKey(voter, NO_DIRECTORY) for voter in voters)
    assigned = VoterAssignment(VoterSet(tuple(map(Voter, keys))))
    return encode_leader_change(change, assigned, CLUSTER, timestamp_ms=at_ms), 3


def _write_index(path: Path, node: int, commits: int, length_ms: int) -> None:
    """Write the append time of each commit at this node.

    It is 1 ms after the request at the leader, and later at a follower."""
    election = commits // 2
    with path.open("wb", buffering=_WRITE_BYTES) as file:
        file.write(encode_header())
        for commit in range(commits):
            epoch = 1 + (commit >= election)
            late_ms = 1 if node == epoch else node + commit * 7 % 5
            at_ms = BEGIN_MS + commit * length_ms // commits + late_ms
            # The first batch has three records.
            file.write(encode_entry(at_ms, commit + 3, epoch))


def _topic_id(topic: int) -> UUID:
    return UUID(int=topic + 1 << 64)


def _registered(broker_id: int) -> kafka_records.RegisterBroker:
    return kafka_records.RegisterBroker(
        broker_id=BrokerId(broker_id),
        incarnation_id=UUID(int=broker_id),
        broker_epoch=broker_id,
        endpoints=(),
        features=(),
        rack=None,
    )


def _let_in(broker_id: int) -> kafka_records.BrokerRegistrationChange:
    return kafka_records.BrokerRegistrationChange(
        broker_id=BrokerId(broker_id), broker_epoch=broker_id, fenced=-1
    )
