"""Write a log of a million records, in the format of our controllers, to time a restart."""

import itertools
import random
from collections.abc import Iterator
from functools import cache
from time import perf_counter
from typing import Final
from uuid import UUID

from admin.tools.local_plan import log_dir
from bench.peers.cluster import NODES
from bench.peers.ours import Ours
from quorum.core.vocabulary import ElectionState, Epoch, Offset, ReplicaId
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import encode, stamp
from statemachine.records import kafka_records
from statemachine.records.codec import encode as encode_record
from statemachine.vocabulary import METADATA_VERSION

RECORDS: Final = 1_000_000
BATCH_RECORDS: Final = 100
PARTITIONS: Final = 1_000
LEVEL: Final = 29
"""metadata.version, as in a new cluster."""
EPOCH: Final = Epoch(1)
TIMESTAMP_MS: Final = 1_700_000_000_000
BROKERS: Final = (101, 102, 103)
NO_SNAPSHOTS: Final = {
    "metadata.log.max.record.bytes.between.snapshots": str(1 << 30),
    "metadata.log.max.snapshot.interval.ms": "0",
}
"""Snapshots are off, so that the restart replays the whole log."""
_TOPIC: Final = UUID(int=0x70 << 100)


def since(begun: float) -> float:
    """The seconds since a time of `perf_counter`."""
    return perf_counter() - begun


def fill(ours: Ours) -> None:
    """Write the same log for every node of a cluster before its start: a topic and ISR changes."""
    batches = _batches()
    for node in ours.plan.controllers:
        folder = log_dir(ours.folder, node)
        load_or_create(folder, ours.plan.cluster_id, ReplicaId(node.id), rng=random.Random(node.id))
        log = SegmentedLog(folder / LOG_FOLDER, segment_bytes_max=1 << 30, check_all=True)
        for batch in batches:
            log.append(batch)
        log.commit()
        log.close()
        elections = QuorumStateFile(folder / LOG_FOLDER, cluster_id=ours.plan.cluster_id)
        elections.write(ElectionState(EPOCH))


@cache
def _batches() -> list[bytes]:
    """The log for all rounds and clusters, encoded once."""
    return list(_made())


def _made() -> Iterator[bytes]:
    """The batches of the log: leader change, feature levels, a topic, then ISR changes."""
    voters = tuple(map(ReplicaId, NODES))
    change = LeaderChange(leader=voters[0], voters=voters, granting=voters)
    opening = encode_leader_change(change, timestamp_ms=TIMESTAMP_MS)
    stamp(opening, Offset(0), EPOCH)
    yield bytes(opening)
    written = itertools.islice(_records(), RECORDS - 1)
    offset = 1
    while values := [
        encode_record(each, LEVEL) for each in itertools.islice(written, BATCH_RECORDS)
    ]:
        batch = encode(values, timestamp_ms=TIMESTAMP_MS)
        stamp(batch, Offset(offset), EPOCH)
        offset += len(values)
        yield bytes(batch)


def _records() -> Iterator[kafka_records.Record]:
    yield kafka_records.FeatureLevel(name=METADATA_VERSION, level=LEVEL)
    yield kafka_records.Topic(name="restart", topic_id=_TOPIC)
    for number in range(PARTITIONS):
        yield kafka_records.Partition(
            partition_id=number,
            topic_id=_TOPIC,
            replicas=BROKERS,
            isr=BROKERS,
            leader=BROKERS[0],
            leader_epoch=0,
            partition_epoch=0,
        )
    for isr in itertools.cycle((BROKERS[:-1], BROKERS)):
        for number in range(PARTITIONS):
            yield kafka_records.PartitionChange(partition_id=number, topic_id=_TOPIC, isr=isr)
