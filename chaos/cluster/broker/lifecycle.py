"""Registration, heartbeats and directory assignments of a broker, in virtual time.

`LifecycleState` decides which request is next and `directory_report` what to report of a replica
(KIP-858). The network and timers here stand for the tasks and channels of the product.
"""

from functools import partial
from typing import Any
from uuid import UUID

from broker.assignments_manager import DirectoryReport, directory_report
from broker.lifecycle import LifecycleState, RegistrationRejected
from broker.limits import CONTROLLED_SHUTDOWN_HEARTBEAT_MS
from broker.partition.assignment import PartitionKey
from chaos.cluster import controller_apis
from chaos.cluster.broker.node import BrokerNode
from chaos.cluster.broker.replica_manager import ReplicaManager
from chaos.violation import Violation
from quorum.transport.controller_channel import (
    CONTROLLER_BACKOFF_MS,
    CONTROLLER_BACKOFF_MS_MAX,
    CONTROLLER_TIMEOUT_MS,
)
from statemachine import commands
from statemachine.features.features import RANGES
from statemachine.records import kafka_records


class DirectoryAssignments:
    """The directory assignments that one broker process reports."""

    def __init__(self, process: BrokerNode, replicas: ReplicaManager) -> None:
        self._process = process
        self._replicas = replicas
        self._is_reporting = False

    @property
    def is_settled(self) -> bool:
        """True once the controller knows the directory of every replica."""
        return not self._is_reporting and not self._unreported()

    def report(self) -> None:
        """Report the replicas that the controller has in another directory."""
        process, keys = self._process, self._unreported()
        if self._is_reporting or not keys or process.broker_epoch is None:
            return
        self._is_reporting = True
        own = process.incarnation.key.directory_id
        assigned = tuple(
            commands.DirectoryAssignment(
                directory_id=own, topic_id=key.topic_id, partition=key.number
            )
            for key in keys
        )
        command = commands.AssignReplicasToDirs(
            broker_id=process.broker_id, broker_epoch=process.broker_epoch, assignments=assigned
        )
        process.ask_controller(
            controller_apis.command(command), self._answered, timeout_ms=CONTROLLER_TIMEOUT_MS
        )

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, commands.ReplicasAssigned):
            self._process.world.note("a broker assigns its replicas to its directory")
        # The metadata shows the result; compare with it after the pause.
        self._process.later(CONTROLLER_BACKOFF_MS, self._review)

    def _review(self) -> None:
        self._is_reporting = False
        self.report()

    def _unreported(self) -> list[PartitionKey]:
        process = self._process
        judge = partial(
            directory_report,
            process.image,
            me=process.broker_id,
            own=process.incarnation.key.directory_id,
        )
        registered = process.image.brokers.get(process.broker_id)
        if registered is None or registered.broker_epoch != process.broker_epoch:
            return []
        return [key for key in self._replicas.partitions if judge(key) is DirectoryReport.REPORT]


class BrokerLifecycle:
    """The registration and heartbeats of one broker process."""

    def __init__(
        self,
        process: BrokerNode,
        replicas: ReplicaManager,
        assignments: DirectoryAssignments,
        *,
        previous_epoch: int,
    ) -> None:
        settings = process.world.settings
        self._process = process
        self._replicas = replicas
        self._assignments = assignments
        self._session_timeout_ms = settings.session_timeout_ms
        self.incarnation_id = UUID(int=process.rng.getrandbits(128), version=4)
        self._backoff_ms = CONTROLLER_BACKOFF_MS
        self._round = 0
        self._is_stopping = False
        self.may_go = False
        """True once the controller has allowed the shutdown."""
        self.state = LifecycleState(
            heartbeat_interval_ms=settings.heartbeat_interval_ms, previous_epoch=previous_epoch
        )

    def begin(self) -> None:
        """Register, then send heartbeats."""
        self._schedule(0)

    def heartbeat_soon(self) -> None:
        """Send a heartbeat now: the controller waits for this broker's metadata offset."""
        if not self._is_stopping and self.state.broker_epoch is not None:
            self._schedule(0)

    def begin_shutdown(self) -> None:
        """Start a controlled shutdown; `may_go` becomes true when it is done."""
        self._is_stopping = True
        self._round += 1
        if self.state.broker_epoch is None or self.state.is_fenced:
            self.may_go = True
        else:
            self._request_shutdown()

    def _schedule(self, wait_ms: int) -> None:
        """Continue after a delay, and cancel any earlier schedule."""
        self._round += 1
        self._process.later(wait_ms, partial(self._go_on, self._round))

    def _go_on(self, round_: int) -> None:
        if round_ != self._round or self._is_stopping:
            return
        if self._process.active is None or self._process.cluster.id is None:
            self._back_off()
        elif self.state.broker_epoch is None:
            self._register(self._process.cluster.id)
        else:
            self._send_heartbeat()

    def _back_off(self) -> None:
        self._schedule(self._backoff_ms)
        self._backoff_ms = min(2 * self._backoff_ms, CONTROLLER_BACKOFF_MS_MAX)

    def _register(self, cluster_id: str) -> None:
        process = self._process
        command = commands.RegisterBroker(
            broker_id=process.broker_id,
            cluster_id=cluster_id,
            our_cluster_id="",
            incarnation_id=self.incarnation_id,
            endpoints=(
                kafka_records.Endpoint(
                    name="PLAINTEXT", host="localhost", port=process.broker_id, security_protocol=0
                ),
            ),
            features=RANGES,
            log_dirs=(process.incarnation.key.directory_id,),
            previous_epoch=self.state.previous_epoch,
        )
        process.ask_controller(
            controller_apis.registration(command),
            partial(self._on_registration, self._round),
            timeout_ms=CONTROLLER_TIMEOUT_MS,
        )

    def _on_registration(self, round_: int, answer: Any) -> None:
        if round_ != self._round:
            return
        if not isinstance(answer, commands.BrokerRegistered):
            self._back_off()
            return
        try:
            is_registered = self.state.on_registration(answer.error.code, answer.broker_epoch)
        except RegistrationRejected:
            rejected = f"broker {self._process.id} is rejected: {answer.message}"
            raise Violation("L7", rejected) from None
        if not is_registered:
            self._back_off()
            return
        self._backoff_ms = CONTROLLER_BACKOFF_MS
        self._process.registered(answer.broker_epoch)
        self._schedule(0)

    def _send_heartbeat(self) -> None:
        waits = self.state.wants_fence(is_settled=self._assignments.is_settled)
        command = self._heartbeat(want_fence=waits)
        answered = partial(self._on_heartbeat, self._round)
        timeout_ms = self._session_timeout_ms // 2
        beat = controller_apis.heartbeat(command, self._replicas.copy_reports())
        self._process.ask_controller(beat, answered, timeout_ms=timeout_ms)

    def _heartbeat(
        self, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> commands.BrokerHeartbeat:
        epoch = self.state.broker_epoch
        assert epoch is not None, "only a registered broker sends heartbeats"
        return commands.BrokerHeartbeat(
            broker_id=self._process.broker_id,
            broker_epoch=epoch,
            metadata_offset=self._process.image.end_offset - 1,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )

    def _on_heartbeat(self, round_: int, answer: Any) -> None:
        if round_ != self._round:
            return
        state = self.state
        if not isinstance(answer, commands.HeartbeatAnswered):
            self._back_off()
            return
        if not state.on_heartbeat(answer.error.code, is_fenced=answer.fenced):
            self._back_off()
            return
        if state.broker_epoch is None:
            self._process.world.note("a broker is not known to its controller")
        else:
            self._backoff_ms = CONTROLLER_BACKOFF_MS
            if not state.is_fenced and not self._process.is_open:
                self._process.unfenced()
            if state.becomes_ready(is_caught_up=answer.caught_up):
                self._process.make_ready(partial(self._is_ready, self._round))
                return
        self._schedule(state.wait_ms)

    def _is_ready(self, round_: int) -> None:
        self.state.is_ready = True
        if round_ == self._round:
            self._schedule(0)

    def _request_shutdown(self) -> None:
        command = self._heartbeat(want_shut_down=True)
        timeout_ms = self._session_timeout_ms // 2
        self._process.ask_controller(
            controller_apis.heartbeat(command), self._on_shutdown_response, timeout_ms=timeout_ms
        )

    def _on_shutdown_response(self, answer: Any) -> None:
        if isinstance(answer, commands.HeartbeatAnswered):
            self.may_go = self.state.may_go(
                answer.error.code, should_shut_down=answer.should_shut_down
            )
        if not self.may_go:
            self._process.later(CONTROLLED_SHUTDOWN_HEARTBEAT_MS, self._request_shutdown)
