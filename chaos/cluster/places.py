"""`broker.assignments_manager` in virtual time (KIP-858): replicas' directories for the controller.

`directory_report` decides what to report of a replica. A broker whose disk was replaced reports
before it is unfenced.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.assignments_manager import DirectoryReport, directory_report
from broker.limits import CONTROLLER_BACKOFF_MS, CONTROLLER_TIMEOUT_MS
from broker.partition.assignment import PartitionKey
from chaos.cluster import desk
from statemachine import commands

if TYPE_CHECKING:
    from chaos.cluster.broker import BrokerProcess


class Places:
    """Of one process of a broker."""

    def __init__(self, process: "BrokerProcess") -> None:
        self._process = process
        self._is_asking = False

    @property
    def is_settled(self) -> bool:
        """Whether the controller has been told of every replica that is to be spoken of."""
        return not self._is_asking and not self._to_say()

    def say(self) -> None:
        """Tell the controller of those that it knows elsewhere, if there are any."""
        process, keys = self._process, self._to_say()
        if self._is_asking or not keys or process.broker_epoch is None:
            return
        self._is_asking = True
        own = process.speaker.key.directory_id
        assigned = tuple(
            commands.DirectoryAssignment(
                directory_id=own, topic_id=key.topic_id, partition=key.number
            )
            for key in keys
        )
        asked = commands.AssignReplicasToDirs(
            broker_id=process.broker_id, broker_epoch=process.broker_epoch, assignments=assigned
        )
        process.ask_controller(
            desk.command(asked), self._answered, timeout_ms=CONTROLLER_TIMEOUT_MS
        )

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, commands.ReplicasAssigned):
            self._process.world.note("a broker says in which directory its replicas are")
        # The metadata says what became of it, and is looked at then.
        self._process.later(CONTROLLER_BACKOFF_MS, self._look_again)

    def _look_again(self) -> None:
        self._is_asking = False
        self.say()

    def _to_say(self) -> list[PartitionKey]:
        process = self._process
        judge = partial(
            directory_report,
            process.image,
            me=process.broker_id,
            own=process.speaker.key.directory_id,
        )
        registered = process.image.brokers.get(process.broker_id)
        if registered is None or registered.epoch != process.broker_epoch:
            return []
        return [key for key in process.replicas.partitions if judge(key) is DirectoryReport.TO_SAY]
