"""Kafka's own brokers as nodes of a cluster of this machine: their files and how they are run."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from admin.apache import broker_files
from admin.apache.runtime import Runtime
from admin.kinds import Role
from admin.local_plan import ClusterPlan, NodePlan, log_dir, write_atomically
from admin.settings import SETTINGS
from statemachine.vocabulary import LEVEL_KRAFT_VERSION, METADATA_VERSION

SETTINGS_FILE: Final = "server.properties"
LOGGING_FILE: Final = "logging.properties"


def write_files(
    folder: Path,
    plan: ClusterPlan,
    runtime: Runtime,
    settings: Mapping[str, str],
    rng: random.Random,
) -> None:
    """Format the storage of every broker and write its files; what is there already stays.

    `settings` are those of the cluster; the level of its metadata says who names the voters.
    """
    level = SETTINGS[METADATA_VERSION].parse(settings[METADATA_VERSION])
    for node in plan.brokers:
        home = folder / node.name
        storage = log_dir(folder, node)
        broker_files.format_storage(storage, plan.cluster_id, node.id, rng)
        values = broker_files.settings(
            node.id,
            node.kafka,
            storage,
            controllers={each.id: each.kafka for each in plan.controllers},
            brokers=len(plan.brokers),
            voters_in_log=level >= LEVEL_KRAFT_VERSION,
            more=_in_kafkas_words(settings),
        )
        for name, text in (
            (SETTINGS_FILE, broker_files.as_text(values)),
            (LOGGING_FILE, runtime.release.logging_file),
        ):
            if not (home / name).exists():
                write_atomically(home / name, text)


def command(folder: Path, node: NodePlan, runtime: Runtime) -> list[str]:
    """The command line of a broker whose files are written."""
    home = folder / node.name
    return runtime.broker(home / SETTINGS_FILE, home / LOGGING_FILE)


def _in_kafkas_words(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of our brokers for Kafka's: the names are the same, but it knows no units."""
    return {
        name: str(SETTINGS[name].parse(text))
        for name, text in settings.items()
        if Role.BROKER in SETTINGS[name].roles
    }
