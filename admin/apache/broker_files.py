"""The files that a broker of Kafka is started with, on a cluster of this machine.

Storage is formatted as Kafka's own `kafka-storage format` leaves it: the folder names its cluster,
its node and itself.
"""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from admin.addresses import Address
from quorum.core.vocabulary import ReplicaId
from quorum.log.meta_properties import load_or_create

CONTROLLER_LISTENER: Final = "CONTROLLER"

_FIXED: Final = {
    "process.roles": "broker",
    "controller.listener.names": CONTROLLER_LISTENER,
    "listener.security.protocol.map": f"{CONTROLLER_LISTENER}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    # Small: a whole cluster shares one machine.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "8",
    "group.initial.rebalance.delay.ms": "0",
}
_INTERNAL_TOPICS: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_INTERNAL_MIN_ISR: Final = (
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.min.isr",
)
_REPLICAS_MAX: Final = 3


def settings(
    node_id: int,
    listener: Address,
    log_dir: Path,
    *,
    controllers: Mapping[int, Address],
    brokers: int,
    voters_in_log: bool,
    more: Mapping[str, str],
) -> dict[str, str]:
    """The settings of one of `brokers` brokers.

    A log that names its voters needs but one address to begin with; else all are configured.
    """
    replicas = min(_REPLICAS_MAX, brokers)
    address = f"PLAINTEXT://{listener}"
    if voters_in_log:
        where = {"controller.quorum.bootstrap.servers": _joined(controllers.values())}
    else:
        voters = [f"{each}@{at}" for each, at in sorted(controllers.items())]
        where = {"controller.quorum.voters": _joined(voters)}
    return {
        **_FIXED,
        "node.id": str(node_id),
        "listeners": address,
        "advertised.listeners": address,
        **where,
        "log.dirs": str(log_dir),
        **dict.fromkeys(_INTERNAL_TOPICS, str(replicas)),
        **dict.fromkeys(_INTERNAL_MIN_ISR, str(max(1, replicas - 1))),
        **more,
    }


def format_storage(log_dir: Path, cluster_id: str, node_id: int, rng: random.Random) -> None:
    """Make `log_dir` the storage of this node of this cluster; one that is so already stays."""
    log_dir.mkdir(parents=True, exist_ok=True)
    load_or_create(log_dir, cluster_id, ReplicaId(node_id), rng=rng)


def as_text(values: Mapping[str, str]) -> str:
    """A properties file; the values here need no escape but that of a backslash."""
    lines = (f"{name}={value}".replace("\\", "\\\\") for name, value in values.items())
    return "\n".join(["# Written once by `metaquorum local`; it may be edited.", *lines, ""])


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
