"""Which ISR proposals go to the controller next, and what its answers mean for those that wait.

Which ISR to propose, and what an answer says to it, the partitions decide (`broker.leading`). Pure:
nothing here sends or waits. `broker.alter_partition` carries the proposals in production, the
simulation's network in virtual time. A proposal without an answer goes again as long as its
partition still waits for it; of one partition only the newest does.
"""

import logging
from collections.abc import Mapping
from typing import TypeAlias

from broker.hosting import PartitionKey
from broker.leading import Committed, Next, Proposal
from broker.limits import ALTER_PARTITION_PARTITIONS_MAX
from broker.partition import Partition

logger = logging.getLogger("broker.isr")

Batch: TypeAlias = Mapping[PartitionKey, tuple[Partition, Proposal]]
"""What one request proposes."""

Answered: TypeAlias = Committed | int
"""What the controller has made so, or the code of the error instead."""


class Proposals:
    """What waits to be proposed."""

    def __init__(self) -> None:
        self._waiting: dict[PartitionKey, tuple[Partition, Proposal]] = {}

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def submit(self, partition: Partition, proposal: Proposal) -> None:
        """Let this go with the next request."""
        self._waiting[partition.key] = (partition, proposal)

    def take(self) -> Batch:
        """The next proposals that their partitions still wait for."""
        batch: dict[PartitionKey, tuple[Partition, Proposal]] = {}
        while self._waiting and len(batch) < ALTER_PARTITION_PARTITIONS_MAX:
            key = next(iter(self._waiting))
            partition, proposal = self._waiting.pop(key)
            if partition.leading is not None and partition.leading.pending is proposal:
                batch[key] = (partition, proposal)
        return batch

    def put_back(self, batch: Batch) -> None:
        """Nobody has answered: they wait again."""
        for key, found in batch.items():
            # A newer proposal of the same partition goes before this one.
            self._waiting.setdefault(key, found)

    def settle(self, batch: Batch, answers: Mapping[PartitionKey, Answered]) -> bool:
        """Tell each partition; returns whether some must be asked for again."""
        # What is not answered at all was not decided by anyone.
        again = {
            key: (partition, proposal)
            for key, (partition, proposal) in batch.items()
            if key not in answers or _told(partition, proposal, answers[key]) is Next.RETRY
        }
        self.put_back(again)
        return bool(again)

    def refuse(self, batch: Batch, error_code: int) -> bool:
        """The request was refused as a whole; returns whether some must be asked for again."""
        return self.settle(batch, dict.fromkeys(batch, error_code))


def _told(partition: Partition, proposal: Proposal, answer: Answered) -> Next:
    if isinstance(answer, int):
        logger.info("%s: %s was refused with error %d", partition, proposal, answer)
        return partition.on_refused(proposal, answer)
    logger.info("%s: ISR is now %s", partition, list(answer.isr))
    return partition.on_committed(proposal, answer)
