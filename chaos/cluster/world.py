"""A simulated cluster: voters that are controllers, observers that are brokers.

It extends the world of the quorum (`chaos.simulation.world`) with the product's state machine and
decides which process runs on which machine.
"""

from functools import partial
from typing import Any

from broker.limits import CONTROLLED_SHUTDOWN_MS
from chaos.cluster.broker.partition_disk import PARTITIONS
from chaos.cluster.broker.process import BrokerProcess
from chaos.cluster.environment import ClusterEnvironment
from chaos.cluster.process import ClusterProcess, ControllerProcess
from chaos.cluster.profile import ClusterProfile
from chaos.cluster.rpc import Server
from chaos.disk.disk_state import Folder, Node
from chaos.invariants.durable_state import Incarnation
from chaos.simulation.machine import Machine
from chaos.simulation.process import Process
from chaos.simulation.profile import NEARLY_CALM
from chaos.simulation.world import World
from quorum.core.vocabulary import ReplicaId


class ClusterWorld(ClusterEnvironment, World):
    """The world of one run of a cluster."""

    def __init__(self, profile: ClusterProfile) -> None:
        super().__init__(profile)
        self._keeps = True

    def make_whole(self) -> None:
        """Heal everything, with nearly calm rates from now on."""
        self.disturb(NEARLY_CALM)
        self.network.heal()
        for replica in self.everyone:
            self.machines[replica].heal()
            self.boot(replica)
        for process in [*self.processes.values()]:
            process.recover()

    def process_of(self, replica: ReplicaId) -> ClusterProcess | None:
        """The process that runs there now, or None."""
        process = self.processes.get(replica)
        assert process is None or isinstance(process, ClusterProcess)
        return process

    def server_at(self, replica: ReplicaId) -> Server | None:
        """See `ClusterEnvironment`."""
        return self.process_of(replica)

    def running(self) -> list[ClusterProcess]:
        """The running processes."""
        found = (self.process_of(each) for each in self.everyone)
        return [each for each in found if each is not None]

    def is_known(self, broker: ReplicaId) -> bool:
        """True if the running process is the registered incarnation, unfenced and open."""
        found, process = self.history.model.brokers.get(int(broker)), self.process_of(broker)
        if found is None or not isinstance(process, BrokerProcess) or not process.is_open:
            return False
        return self.history.model.live(int(broker)) and found.epoch == process.broker_epoch

    def stop(self, replica: ReplicaId) -> None:
        """Stop a process in order; a broker hands over its leaderships first."""
        process = self.processes.get(replica)
        if not isinstance(process, BrokerProcess):
            super().stop(replica)
        elif not process.machine.stopped:
            process.machine.stopped = True
            process.enter(process.lifecycle.begin_shutdown)
            process.later(CONTROLLED_SHUTDOWN_MS, partial(self._leave, process))

    def _lose_power(self, incarnation: Incarnation, machine: Machine) -> None:
        """Lose power, but keep the partition logs: they may be lost only if all in-sync replicas
        lose data at once."""
        held = machine.disk.kept(PARTITIONS) if self._keeps else None
        if held is not None:
            _sync(held)
        super()._lose_power(incarnation, machine)

    def lose_what_is_not_synced(self, broker: ReplicaId) -> None:
        """Cut the power of a broker; its partition logs may lose any unsynced data."""
        self._keeps = False
        self.cut_power(broker)
        self._keeps = True

    def _leave(self, process: Process) -> None:
        if isinstance(process, BrokerProcess):
            process.close()
        super()._leave(process)

    def _process(self, *about: Any) -> Process:
        machine = about[0]
        kind = ControllerProcess if machine.config.node_id in self.voters else BrokerProcess
        return kind(self, *about)


def _sync(node: Node) -> None:
    if isinstance(node, Folder):
        for each in node.shown.values():
            _sync(each)
    node.sync()
