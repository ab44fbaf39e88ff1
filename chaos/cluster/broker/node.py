"""A broker process, as its parts know it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from broker.partition.assignment import LiveEpochs
from broker.partition.partition import Partition
from chaos.cluster.process import ClusterProcess
from chaos.cluster.rpc import Respond, Serve
from quorum.core.vocabulary import ReplicaId
from statemachine.vocabulary import BrokerId


class BrokerNode(ClusterProcess, ABC):
    """The `PartitionHost` of the broker's partitions, which can call the active controller."""

    broker_id: BrokerId
    replica_lag_time_max_ms: int
    broker_epoch: int | None
    is_open: bool
    """True once it is unfenced and answers requests; its metadata may be old until then."""

    @abstractmethod
    def registered(self, epoch: int) -> None:
        """The controller has registered the broker with this epoch."""

    @abstractmethod
    def unfenced(self) -> None:
        """The controller has unfenced the broker."""

    @abstractmethod
    def make_ready(self, then: Callable[[], None]) -> None:
        """Run `then` once the partitions of the metadata known so far are open."""

    @property
    def active(self) -> ReplicaId | None:
        """The active controller, as far as this broker knows."""
        leader = self.replica.node.leader
        return leader if leader in self.world.voters else None

    def ask_controller(
        self,
        serve: Serve,
        done: Respond,
        *,
        timeout_ms: int,
        twice: bool = False,
        held_ms: int = 0,
    ) -> None:
        """Call the active controller; `done` gets None if none is known."""
        self._act()
        to = self.active
        if to is None:
            self.later(1, partial(done, None))
        else:
            self.world.rpc.ask(
                self, to, serve, done, timeout_ms=timeout_ms, twice=twice, held_ms=held_ms
            )

    # --- `PartitionHost` ---------------------------------------------------------------------

    @property
    @abstractmethod
    def live(self) -> LiveEpochs:
        """See the port."""

    @abstractmethod
    def on_append(self, partition: Partition) -> None:
        """See the port."""

    @abstractmethod
    def on_high_watermark(self, partition: Partition) -> None:
        """See the port."""

    @abstractmethod
    def on_isr_proposal(self, partition: Partition) -> None:
        """See the port."""

    @abstractmethod
    def on_role_change(self, partition: Partition) -> None:
        """See the port."""
