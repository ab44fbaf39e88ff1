"""The samples of a broker: its replicas, its traffic and its lag."""

from collections.abc import Iterator
from typing import Final

from admin.monitoring.metric_table import Sample
from broker.broker_server import BrokerServer
from broker.partition.partition import Partition
from broker.replica_manager import ReplicaManager

STARTING: Final = 1
RUNNING: Final = 3
"""Two of the numbers of Kafka's BrokerState."""
_REPLICAS: Final = "kafka_server_replicamanager_"
_TOPICS: Final = "kafka_server_brokertopicmetrics_"


def broker_samples(broker: BrokerServer) -> Iterator[Sample]:
    """Yield the samples of a broker."""
    state = STARTING if broker.lifecycle.state.is_fenced else RUNNING
    yield Sample("kafka_server_kafkaserver_brokerstate", state)
    applied = broker.image.end_offset - 1
    yield Sample("kafka_server_broker_metadata_metrics_last_applied_record_offset", applied)
    yield from _replicas(broker.manager)
    traffic = broker.manager.traffic
    yield Sample(f"{_REPLICAS}isrshrinks_total", traffic.isr_shrinks)
    yield Sample(f"{_REPLICAS}isrexpands_total", traffic.isr_expands)
    yield Sample(f"{_TOPICS}bytesin_total", traffic.bytes_in)
    yield Sample(f"{_TOPICS}bytesout_total", traffic.bytes_out)
    yield Sample(f"{_TOPICS}replicationbytesin_total", traffic.replication_bytes_in)
    yield Sample(f"{_TOPICS}replicationbytesout_total", traffic.replication_bytes_out)


def _replicas(manager: ReplicaManager) -> Iterator[Sample]:
    """Yield the samples of the replicas here: some thousands, so that they are looked at."""
    index = manager.image.index
    led = under_replicated = under_min_isr = max_lag = 0
    for partition in manager.partitions.values():
        leading, following = partition.leading, partition.following
        if leading is not None:
            led += 1
            under_replicated += _is_under_replicated(manager, partition)
            under_min_isr += leading.under_min_isr
        elif following is not None and following.lag is not None:
            max_lag = max(max_lag, following.lag)
    leads = index.leader_of.get(manager.broker_id)
    reassigning = 0 if leads is None else index.moving.intersection_cardinality(leads)
    yield Sample(f"{_REPLICAS}leadercount", led)
    yield Sample(f"{_REPLICAS}partitioncount", len(manager.partitions))
    yield Sample(f"{_REPLICAS}offlinereplicacount", len(manager.failed))
    yield Sample(f"{_REPLICAS}underreplicatedpartitions", under_replicated)
    yield Sample(f"{_REPLICAS}underminisrpartitioncount", under_min_isr)
    yield Sample(f"{_REPLICAS}reassigningpartitions", reassigning)
    yield Sample("kafka_server_replicafetchermanager_maxlag", max_lag, ("Replica",))


def _is_under_replicated(manager: ReplicaManager, partition: Partition) -> bool:
    """Return True if a replica is not in sync, besides those that are being added."""
    assignment = partition.role.assignment
    lacking = len(assignment.replicas) - len(assignment.isr)
    if not lacking:
        return False
    topic = manager.image.topics.get(partition.key.topic_id)
    found = None if topic is None else topic.partition(partition.key.number)
    return found is not None and lacking > len(found.adding)
