"""What the state machine of one replica hears of commits and of the lead, and when.

That of a leader is told at once: clients wait for it. That of any other is told when what the
leader waits for has left, for a follower's state machine is in nobody's way. Nothing is decided
here, and nothing is told out of order.
"""

from typing import Final

from quorum.cluster import Cluster
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, Offset
from quorum.ports import Log, StateMachine

PUT_OFF_MAX: Final = 8
"""Turns for which a commit is put off while there is always something else to do."""


class Committing:
    """Between one node and its state machine."""

    __slots__ = ("_cluster", "_lead_pending", "_log", "_node", "_put_off", "_state_machine", "due")

    def __init__(
        self, node: QuorumNode, log: Log, state_machine: StateMachine, cluster: Cluster | None
    ) -> None:
        self._node = node
        self._log = log
        self._state_machine = state_machine
        self._cluster = cluster
        self._lead_pending: Epoch | None = None
        self._put_off = 0
        self.due: Offset | None = None
        """The high watermark that the state machine has not been told yet."""

    def on_commit(self, high_watermark: Offset) -> None:
        """The high watermark has risen: tell it, or let it be due."""
        self.due = high_watermark
        if self._node.epoch_start is not None:
            self.catch_up()

    def is_time(self, *, busy: bool) -> bool:
        """Whether to `catch_up` before this turn does anything else."""
        if self.due is None:
            return False
        self._put_off += 1
        return not busy or self._put_off > PUT_OFF_MAX

    def catch_up(self) -> None:
        """Tell the state machine what is due; whatever rests on the commit comes after this."""
        if self.due is None:
            return
        high_watermark, self.due = self.due, None
        self._put_off = 0
        if self._cluster is not None:
            self._cluster.on_commit(self._log, high_watermark)
        self._state_machine.on_commit(high_watermark)
        start = self._node.epoch_start
        if self._lead_pending is not None and start is not None and high_watermark > start:
            epoch, self._lead_pending = self._lead_pending, None
            assert high_watermark == self._node.log_end.offset, "proposed before leading"
            self._state_machine.on_lead(epoch, high_watermark)

    def on_lead(self, epoch: Epoch) -> None:
        """The node leads; its state machine hears of it when a record of the epoch is committed."""
        self._lead_pending = epoch

    def on_stop_leading(self, epoch: Epoch) -> None:
        """The node leads no more."""
        if self._lead_pending == epoch:
            self._lead_pending = None
            return
        self._state_machine.on_stop_leading(epoch)
