"""A broker process: an observer of the quorum with the product's broker code above it.

It follows the metadata, registers with the controller, holds partitions on its virtual disk,
fetches from leaders and proposes ISRs: `broker.broker_server` in virtual time, with its parts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker.alter_partition_manager import Batch, ProposalAnswer, ProposalQueue
from broker.limits import (
    ALTER_PARTITION_RETRY_MS,
    HELD_REQUESTS_MAX,
)
from broker.metadata import MetadataFollower
from broker.partition.assignment import LiveEpochs, PartitionKey
from broker.partition.leader import CommittedIsr
from broker.partition.partition import Partition
from chaos.cluster import controller_apis
from chaos.cluster.broker.fetch_handler import FetchHandler
from chaos.cluster.broker.fetcher import Fetcher
from chaos.cluster.broker.lifecycle import BrokerLifecycle, DirectoryAssignments
from chaos.cluster.broker.node import BrokerNode
from chaos.cluster.broker.replica_manager import ReplicaManager
from chaos.cluster.environment import ClusterEnvironment
from chaos.invariants.durable_state import Incarnation
from chaos.simulation.machine import Machine
from chaos.simulation.runtime import CoarseRandom
from quorum.persistent_state import PersistentState
from quorum.transport.controller_channel import (
    CONTROLLER_BACKOFF_MS,
    CONTROLLER_TIMEOUT_MS,
)
from statemachine import commands
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.vocabulary import NO_EPOCH

SWEEP_MS: Final = 100


class BrokerProcess(BrokerNode):
    """See the module; it is the `PartitionHost` of its partitions."""

    def __init__(
        self,
        world: ClusterEnvironment,
        machine: Machine,
        incarnation: Incarnation,
        past: PersistentState,
        rng: CoarseRandom,
    ) -> None:
        self._image = Image()
        self.metadata = self.above = MetadataFollower(self._image)
        self.metadata.on_change = self._changed
        self.is_open = False
        """True once it is unfenced and answers requests; its metadata may be old until then."""
        self._held: list[Callable[[], None]] = []
        self.broker_id = int(incarnation.id)
        self.broker_epoch: int | None = None
        self.replica_lag_time_max_ms = world.settings.lag_ms_max
        super().__init__(world, machine, incarnation, past, rng)
        self.metadata.read_from(self.replica)
        self.replicas = ReplicaManager(self)
        self.assignments = DirectoryAssignments(self, self.replicas)
        stopped_at = world.previous_epochs.pop(self.id, NO_EPOCH)
        self.lifecycle = BrokerLifecycle(
            self,
            self.replicas,
            self.assignments,
            previous_epoch=world.old_marks.pop(self.id, stopped_at),
        )
        world.history.model.starts(self.lifecycle.incarnation_id.hex, stopped_at)
        self.fetch_handler = FetchHandler(self, self.replicas)
        self.fetcher = Fetcher(self, self.replicas)
        self._proposals = ProposalQueue()
        self._proposes = False
        self._backoff_ms = CONTROLLER_BACKOFF_MS
        self.lifecycle.begin()
        self.later(SWEEP_MS, partial(self.again, self._sweep))

    @property
    def image(self) -> Image:
        return self._image

    def registered(self, epoch: int) -> None:
        """The controller has registered the broker with this epoch."""
        self.broker_epoch = epoch
        self.world.note("a broker is registered")
        self.world.tell(self.id, f"is registered with epoch {epoch}")

    def admit(self, serve: Callable[[], None]) -> None:
        """See `ClusterProcess`: as `broker.apis.broker_apis` does."""
        if self.is_open:
            serve()
        elif len(self._held) < HELD_REQUESTS_MAX:
            self._held.append(serve)

    def unfenced(self) -> None:
        """The controller has unfenced the broker: it may lead and be in sync."""
        self.is_open = True
        held, self._held = self._held, []
        for each in held:
            each()

    def make_ready(self, then: Callable[[], None]) -> None:
        """Run `then` once the partitions of the metadata known so far are open."""
        self.replicas.when_settled(then)

    def close(self) -> None:
        """Close all logs, as in a clean shutdown."""
        self.replicas.close()
        if self.broker_epoch is not None:
            self.world.previous_epochs[self.id] = self.broker_epoch
            self.world.last_marks[self.id] = self.broker_epoch

    # --- the metadata ------------------------------------------------------------------------

    def _changed(self, touched: MetadataDelta) -> None:
        self.replicas.apply(touched)
        self.assignments.report()
        brokers = (self._image.brokers.get(each) for each in touched.brokers)
        if any(each is not None and each.stopping_at is not None for each in brokers):
            self.lifecycle.heartbeat_soon()

    # --- `PartitionHost` ---------------------------------------------------------------------

    @property
    def live(self) -> LiveEpochs:
        """See the port."""
        return self.replicas.live

    def on_append(self, partition: Partition) -> None:
        """See the port."""
        observer = self.world.invariants.observer
        observer.partition_appended(self.broker_id, str(partition), partition.log_end)
        self.replicas.disk.write_soon(partition)
        self.fetch_handler.on_change(partition)

    def on_high_watermark(self, partition: Partition) -> None:
        """See the port."""
        self.fetch_handler.on_change(partition)
        if self.is_open:
            self.world.records.committed(self.broker_id, partition)

    def on_role_change(self, partition: Partition) -> None:
        """See the port."""
        self.fetch_handler.on_change(partition)
        self.fetcher.on_role_change(partition)
        self.assignments.report()

    def on_isr_proposal(self, partition: Partition) -> None:
        """See the port."""
        self._proposals.submit(partition)
        self._propose_soon(0)

    def _sweep(self) -> int:
        """Check the waiting acknowledgements and the ISRs."""
        for each in self.replicas.partitions.values():
            each.sweep(self.now_ms())
            each.review()
        return SWEEP_MS

    # --- ISR proposals -----------------------------------------------------------------------

    def _propose_soon(self, wait_ms: int) -> None:
        if not self._proposes:
            self._proposes = True
            self.later(wait_ms, self._propose)

    def _propose(self) -> None:
        self._proposes = False
        batch = self._proposals.take()
        if not batch:
            return
        if self.broker_epoch is None:
            self._proposals.put_back(batch)
            self._back_off()
            return
        self._proposes = True
        for partition, proposal in batch.items():
            members = dict(zip(proposal.isr, proposal.broker_epochs, strict=True))
            part = (partition.key.topic_id.hex, partition.key.number)
            self.world.history.model.propose(part, proposal.partition_epoch, members)
            self.world.records.proposed(self.broker_id, partition, proposal)
        self.ask_controller(
            controller_apis.command(_command(self.broker_id, self.broker_epoch, batch)),
            partial(self._on_altered, batch),
            timeout_ms=CONTROLLER_TIMEOUT_MS,
            twice=True,
            held_ms=self.world.delayed_isr_requests.held_ms(batch),
        )

    def _on_altered(self, batch: Batch, answer: Any) -> None:
        self._proposes = False
        if not isinstance(answer, commands.PartitionsAltered):
            self._proposals.put_back(batch)
            self._back_off()
            return
        self._backoff_ms = CONTROLLER_BACKOFF_MS
        if answer.error.code:
            has_more = self._proposals.refuse(batch, answer.error.code)
        else:
            has_more = self._proposals.settle(batch, dict(map(_answer_of, answer.partitions)))
        if has_more:
            self._propose_soon(ALTER_PARTITION_RETRY_MS)
        elif self._proposals:
            self._propose_soon(0)

    def _back_off(self) -> None:
        self._propose_soon(self._backoff_ms)
        self._backoff_ms = min(2 * self._backoff_ms, 10 * CONTROLLER_BACKOFF_MS)


def _command(broker_id: int, broker_epoch: int, batch: Batch) -> commands.AlterPartition:
    proposals = [
        commands.IsrProposal(
            topic_id=partition.key.topic_id,
            partition=partition.key.number,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            isr=tuple(
                commands.IsrMember(member, epoch)
                for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
            ),
        )
        for partition, proposal in batch.items()
    ]
    return commands.AlterPartition(
        broker_id=broker_id, broker_epoch=broker_epoch, proposals=tuple(proposals)
    )


def _answer_of(altered: commands.PartitionAltered) -> tuple[PartitionKey, ProposalAnswer]:
    key = PartitionKey(altered.topic_id, altered.partition)
    if altered.error.code:
        return key, altered.error.code
    return key, CommittedIsr(altered.isr, altered.leader_epoch, altered.partition_epoch)
