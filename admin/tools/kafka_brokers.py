"""The files of Apache Kafka's brokers in a local cluster: settings, logging, formatted storage.

Storage is formatted as `kafka-storage format` does it: the folder names its cluster, its node and
its directory id.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from admin.setting_kinds import Role
from admin.settings import SETTINGS
from admin.tools.kafka_runtime import Runtime
from admin.tools.local_plan import (
    NO_MORE,
    ClusterPlan,
    MoreOfNode,
    NodePlan,
    as_properties,
    log_dir,
)
from quorum.core.vocabulary import ReplicaId
from quorum.log.meta_properties import load_or_create
from quorum.transport.address import Address
from statemachine.vocabulary import LEVEL_KRAFT_VERSION, METADATA_VERSION

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


def broker_settings(
    node_id: int,
    listener: Address,
    log_dir: Path,
    *,
    controllers: Mapping[int, Address],
    brokers: int,
    voters_in_log: bool,
    more: Mapping[str, object],
) -> dict[str, object]:
    """The settings of one of `brokers` brokers.

    If the log names the voters, any of their addresses is enough; else all voters are configured.
    """
    replicas = min(_REPLICAS_MAX, brokers)
    if voters_in_log:
        name = "controller.quorum.bootstrap.servers"
        voters = [str(each) for each in controllers.values()]
    else:
        name = "controller.quorum.voters"
        voters = [f"{id}@{each}" for id, each in sorted(controllers.items())]
    return {
        **_FIXED,
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{listener}",
        name: ",".join(voters),
        "log.dirs": str(log_dir),
        **dict.fromkeys(_INTERNAL_TOPICS, str(replicas)),
        **dict.fromkeys(_INTERNAL_MIN_ISR, str(max(1, replicas - 1))),
        **more,
    }


def format_storage(log_dir: Path, cluster_id: str, node_id: int, rng: random.Random) -> None:
    """Format the storage of a node of this cluster, unless that is done already."""
    log_dir.mkdir(parents=True, exist_ok=True)
    load_or_create(log_dir, cluster_id, ReplicaId(node_id), rng=rng)


SETTINGS_FILE: Final = "server.properties"
LOGGING_FILE: Final = "logging.properties"


def write_files(
    folder: Path,
    plan: ClusterPlan,
    runtime: Runtime,
    settings: Mapping[str, str],
    rng: random.Random,
    of_node: MoreOfNode = NO_MORE,
) -> None:
    """Format the storage of every broker and write its files; existing ones stay.

    `settings` are those of the cluster; its metadata.version says whether the log names the voters.
    """
    level = SETTINGS[METADATA_VERSION].parse(settings[METADATA_VERSION])
    of_brokers = {
        name: _as_kafka_has_it(name, text)
        for name, text in settings.items()
        if SETTINGS[name].applies_to(Role.BROKER)
    }
    for node in plan.brokers:
        home = folder / node.name
        storage = log_dir(folder, node)
        format_storage(storage, plan.cluster_id, node.id, rng)
        values = broker_settings(
            node.id,
            node.kafka,
            storage,
            controllers={each.id: each.kafka for each in plan.controllers},
            brokers=len(plan.brokers),
            voters_in_log=level >= LEVEL_KRAFT_VERSION,
            more={**of_brokers, **of_node.settings(node)},
        )
        for name, text in (
            (SETTINGS_FILE, as_properties(values)),
            (LOGGING_FILE, runtime.release.logging_file),
        ):
            if not (home / name).exists():
                of_node.write(home / name, text.encode())


def _as_kafka_has_it(name: str, text: str) -> str:
    """The value of a setting of our brokers for one of Kafka's, which has no units."""
    value = SETTINGS[name].parse(text)
    return str(value) if type(value) is int else text


def command(folder: Path, node: NodePlan, runtime: Runtime) -> list[str]:
    """The command line of a broker whose files are written."""
    home = folder / node.name
    return runtime.broker(home / SETTINGS_FILE, home / LOGGING_FILE)
