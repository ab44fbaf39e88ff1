"""A listener to the durable events of a run, in the order in which the checkers learn of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chaos.invariants.disk_format import StoredBatch

if TYPE_CHECKING:
    from chaos.invariants.durable_state import DurableVote, Incarnation


class Observer:
    """The listener of a run that nobody tells: it ignores everything."""

    def vote_kept(self, who: "Incarnation", before: "DurableVote", now: "DurableVote") -> None:
        """The election state on a disk has changed."""

    def log_grown(self, who: "Incarnation", new: Sequence[StoredBatch]) -> None:
        """These batches have become durable at the end of a log."""

    def log_cut(self, who: "Incarnation", lost: Sequence[StoredBatch]) -> None:
        """These batches are no longer in a log."""

    def committed(self, leader: int, epoch: int, start: int, end: int, holders: list[int]) -> None:
        """The records from `start` to `end` are on the disks of a majority, the `holders`."""

    def high_watermark_told(self, who: "Incarnation", high_watermark: int) -> None:
        """A replica has reported a high watermark to its state machine."""

    def partition_appended(self, broker: int, partition: str, end: int) -> None:
        """A broker has appended to its log of a partition, in memory, up to `end`."""

    def partition_written(self, broker: int, partition: str, end: int) -> None:
        """The files of a broker have the log of a partition up to `end`."""

    def partition_committed(
        self, leader: int, partition: str, end: int, file_ends: Mapping[int, int]
    ) -> None:
        """The leader of a partition has raised its high watermark; the ends are those of the
        in-sync replicas' files."""

    def partition_acknowledged(self, partition: str, start: int, end: int) -> None:
        """A producer has been told that its records are stored."""
