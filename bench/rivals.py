"""Files and commands of clusters with our controllers or Kafka's, and with Kafka brokers.

This module starts nothing. The brokers get the same files and the same command line on both sides;
so do the controllers of a side in every round. Our controllers have the settings of `metaquorum
local`. Kafka's have the flags of its start script, its heap or half of it, and a quorum with the
voters in the log (KIP-853), like ours.
"""

import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final
from uuid import UUID

from admin.setting_kinds import Role
from admin.settings import of_listener
from admin.tools import kafka_brokers, local_plan
from admin.tools.kafka_runtime import BROKER, Runtime
from admin.tools.local_plan import ClusterPlan, NodePlan, log_dir
from admin.tools.local_security import CONTROLLERS, MECHANISM, LocalSecurity
from quorum.core.vocabulary import uuid_to_text

SESSION_MS: Final = 9_000
HEARTBEAT_MS: Final = 2_000
"""A broker is killed at a random moment between two of them, on both sides."""
SETTINGS_FILE: Final = "server.properties"
LOGGING_FILE: Final = "logging.properties"
FORMAT_TOOL: Final = "kafka.tools.StorageTool"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

HEAP: Final = ("-Xmx1G", "-Xms1G")
"""The heap of Kafka's start script."""
HALF_HEAP: Final = ("-Xmx512m", "-Xms256m")
"""The heap if brokers share the machine."""

FLAGS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)


class Side(StrEnum):
    """The kind of controllers of a cluster."""

    OURS = "ours"
    KAFKAS = "Kafka's"


def version_of(java: Path) -> str:
    """The version that this Java reports."""
    asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    return asked.stderr.splitlines()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A cluster: its folder, nodes, kind of controllers, and the programs that run Kafka."""

    side: Side
    folder: Path
    plan: ClusterPlan
    runtime: Runtime
    heap: tuple[str, ...] = HALF_HEAP
    """The heap of a Kafka controller."""
    level: str | None = None
    """The release whose metadata.version Kafka's controllers begin with; None for their own."""
    has_static_voters: bool = False
    """True if Kafka's controllers name their voters in their settings, and not in the log."""
    joining: tuple[NodePlan, ...] = ()
    """Controllers of ours that join Kafka's later."""
    security: LocalSecurity | None = None
    """The files of a secured cluster with Kafka's controllers."""

    @property
    def everyone(self) -> ClusterPlan:
        """The plan with the nodes that join later."""
        return replace(self.plan, nodes=(*self.plan.nodes, *self.joining))

    def write_files(self, rng: random.Random) -> None:
        """Write the files that the nodes need, before `format_commands` run."""
        if self.side is Side.OURS:
            level = str(self.runtime.release.founded_at)
            more = {"metadata.version": level, "broker.session.timeout.ms": str(SESSION_MS)}
            local_plan.write_settings(self.folder, self.plan, more)
        else:
            if self.security is not None:
                self.security.issue(self.everyone)
            for node in self.plan.controllers:
                self._write(node, self._settings_of_controller(node))
        for node in self.plan.brokers:
            kafka_brokers.format_storage(
                log_dir(self.folder, node), self.plan.cluster_id, node.id, rng
            )
            self._write(node, self._settings_of_broker(node))

    def format_commands(self, rng: random.Random) -> list[list[str]]:
        """The command lines that format the storage of Kafka's controllers; none for ours."""
        if self.side is Side.OURS:
            return []
        directories = (uuid_to_text(UUID(int=rng.getrandbits(128), version=4)) for _ in range(9))
        voters = ",".join(
            f"{node.id}@{node.kafka}:{directory}"
            for node, directory in zip(self.plan.controllers, directories, strict=False)
        )
        return [
            self.runtime.tool(
                FORMAT_TOOL,
                [
                    "format",
                    "--cluster-id",
                    self.plan.cluster_id,
                    "--config",
                    str(self._file(node, SETTINGS_FILE)),
                    *(() if self.has_static_voters else ("--initial-controllers", voters)),
                    *(() if self.level is None else ("--release-version", self.level)),
                    *self._first_users(),
                ],
            )
            for node in self.plan.controllers
        ]

    def command(self, node: NodePlan) -> list[str]:
        """The command line of a node."""
        settings, logging = self._file(node, SETTINGS_FILE), self._file(node, LOGGING_FILE)
        if node.role is Role.BROKER:
            return self.runtime.broker(settings, logging)
        if self.side is Side.OURS:
            file = self._file(node, local_plan.SETTINGS_FILE)
            return [sys.executable, "-m", "admin.cli.main", "start", "--config", str(file)]
        runtime = self.runtime
        logging_option = f"-D{runtime.release.logging_property}={logging}"
        classes = str(runtime.jars / "*")
        return [
            *(str(runtime.java), *self.heap, *FLAGS, logging_option),
            *("-cp", classes, BROKER, str(settings)),
        ]

    def _first_users(self) -> list[str]:
        """The options of the storage tool that write credentials into a new log (KIP-900)."""
        users = {} if self.security is None else self.security.users(self.everyone)
        return [
            f"--add-scram={MECHANISM.mechanism}=[name={user},password={password}]"
            for user, password in users.items()
        ]

    def _settings_of_controller(self, node: NodePlan) -> dict[str, object]:
        listener = kafka_brokers.CONTROLLER_LISTENER
        return {
            "process.roles": "controller",
            "node.id": str(node.id),
            "controller.listener.names": listener,
            "listener.security.protocol.map": f"{listener}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listeners": f"{listener}://{node.kafka}",
            **self._quorum(),
            "log.dirs": str(log_dir(self.folder, node)),
            "broker.session.timeout.ms": str(SESSION_MS),
            **self._secured(node),
        }

    def _secured(self, node: NodePlan) -> dict[str, object]:
        """The settings of a secured cluster for one of Kafka's nodes."""
        if self.security is None:
            return {}
        settings = self.security.settings(self.everyone, replace(node, http=None))
        if node.role is Role.CONTROLLER:
            # A listener of Kafka's has a login module for each of its mechanisms.
            name = of_listener(CONTROLLERS, "sasl.jaas.config", MECHANISM.mechanism)
            settings[name] = SCRAM_MODULE
        return settings

    def _quorum(self) -> dict[str, str]:
        """The setting that names the controllers."""
        nodes = self.plan.controllers
        if self.has_static_voters:
            voters = ",".join(f"{each.id}@{each.kafka}" for each in nodes)
            return {"controller.quorum.voters": voters}
        return {"controller.quorum.bootstrap.servers": ",".join(str(each.kafka) for each in nodes)}

    def _settings_of_broker(self, node: NodePlan) -> dict[str, object]:
        return kafka_brokers.broker_settings(
            node.id,
            node.kafka,
            log_dir(self.folder, node),
            controllers={each.id: each.kafka for each in self.plan.controllers},
            brokers=len(self.plan.brokers),
            voters_in_log=not self.has_static_voters,
            more={
                "broker.session.timeout.ms": str(SESSION_MS),
                "broker.heartbeat.interval.ms": str(HEARTBEAT_MS),
                **self._secured(node),
            },
        )

    def _write(self, node: NodePlan, settings: Mapping[str, object]) -> None:
        (self.folder / node.name).mkdir(parents=True, exist_ok=True)
        self._file(node, SETTINGS_FILE).write_text(local_plan.as_properties(settings))
        self._file(node, LOGGING_FILE).write_text(self.runtime.release.logging_file)

    def _file(self, node: NodePlan, name: str) -> Path:
        return (self.folder / node.name / name).absolute()
