"""AlterPartition: send ISR proposals to the controller, many in one request, one request at a time.

The partition leader decides what to propose and what an answer means (`broker.partition.leader`).
A proposal without an answer is sent again as long as its partition still waits for it; of one
partition only the newest proposal is sent. `ProposalQueue` is pure: the simulation runs it too.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from broker.limits import ALTER_PARTITION_PARTITIONS_MAX, ALTER_PARTITION_RETRY_MS
from broker.partition.assignment import PartitionKey, by_topic
from broker.partition.leader import CommittedIsr, IsrProposal
from broker.partition.partition import Partition, PartitionListener
from broker.replica_manager import ReplicaManager
from quorum.log_events import LogEvent
from quorum.protocol.apis import ApiKey
from quorum.transport.controller_channel import (
    Backoff,
    NoActiveController,
    NodeToControllerChannelManager,
)
from statemachine.vocabulary import RECOVERED

logger = logging.getLogger("broker")

Batch: TypeAlias = Mapping[Partition, IsrProposal]
"""The proposals of one request."""


ProposalAnswer: TypeAlias = CommittedIsr | int
"""The committed ISR, or the error code of a refusal."""


class ProposalQueue:
    """The partitions whose pending proposal waits for the next request."""

    def __init__(self) -> None:
        self._waiting: dict[Partition, None] = {}

    def __bool__(self) -> bool:
        """Return whether anything waits."""
        return bool(self._waiting)

    def submit(self, partition: Partition) -> None:
        """Add the pending proposal of a partition to the next request."""
        self._waiting[partition] = None

    def take(self) -> Batch:
        """Take the proposals for the next request; skip partitions that have none any more."""
        batch: dict[Partition, IsrProposal] = {}
        while self._waiting and len(batch) < ALTER_PARTITION_PARTITIONS_MAX:
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            leading = partition.leading
            if partition.is_open and leading is not None and leading.pending is not None:
                batch[partition] = leading.pending
        return batch

    def put_back(self, partitions: Iterable[Partition]) -> None:
        """Queue the partitions of proposals without an answer again."""
        self._waiting |= dict.fromkeys(partitions)

    def settle(self, batch: Batch, answers: Mapping[PartitionKey, ProposalAnswer]) -> bool:
        """Pass each answer to its partition; return whether some proposals must be retried."""
        # A proposal without an answer was not decided.
        again = [
            partition
            for partition, proposal in batch.items()
            if partition.key not in answers
            or _must_retry(partition, proposal, answers[partition.key])
        ]
        self.put_back(again)
        return bool(again)

    def refuse(self, batch: Batch, error_code: int) -> bool:
        """Pass an error of the whole request on; return whether some proposals must be retried."""
        return self.settle(batch, dict.fromkeys((each.key for each in batch), error_code))


def _must_retry(partition: Partition, proposal: IsrProposal, answer: ProposalAnswer) -> bool:
    """Pass an answer to its partition; return whether the proposal must be retried."""
    if isinstance(answer, int):
        logger.info(
            "%s: %s refused: error %d",
            partition,
            proposal,
            answer,
            extra=LogEvent.ISR_REFUSED.extra,
        )
        return partition.on_refused(proposal, answer)
    logger.info("%s: ISR is now %s", partition, list(answer.isr), extra=LogEvent.ISR_CHANGED.extra)
    partition.on_committed(proposal, answer)
    return False


class AlterPartitionManager(PartitionListener):
    """A `PartitionListener` that collects ISR proposals; `run` sends them."""

    def __init__(
        self, manager: ReplicaManager, controllers: NodeToControllerChannelManager
    ) -> None:
        self._manager = manager
        self._controllers = controllers
        self._proposals = ProposalQueue()
        self._work = asyncio.Event()
        self._backoff = Backoff()

    def on_isr_proposal(self, partition: Partition) -> None:
        """Queue a proposal for the next request."""
        self._proposals.submit(partition)
        self._work.set()

    async def run(self) -> None:
        """Send proposals until cancelled."""
        while True:
            await self._work.wait()
            batch = self._proposals.take()
            epoch = self._manager.broker_epoch
            if batch and epoch is None:
                self._proposals.put_back(batch)
                await self._backoff.wait()
            elif batch and epoch is not None:
                await self._propose(batch, epoch)
            if not self._proposals:
                self._work.clear()

    async def _propose(self, batch: Batch, epoch: int) -> None:
        # Before the request: the metadata may show the new ISRs before their answer comes.
        in_sync = {each: len(each.role.assignment.isr) for each in batch}
        try:
            answer = await self._controllers.ask(
                ApiKey.ALTER_PARTITION,
                broker_id=self._manager.broker_id,
                broker_epoch=epoch,
                topics=by_topic((each.key, _fields(proposal)) for each, proposal in batch.items()),
            )
        except NoActiveController as reason:
            logger.debug("AlterPartition will be retried: %s", reason)
            self._proposals.put_back(batch)
            await self._backoff.wait()
            return
        self._backoff.reset()
        self._count(batch, in_sync, answer)
        if self._settle(batch, answer):
            await asyncio.sleep(ALTER_PARTITION_RETRY_MS / 1_000)

    def _count(self, batch: Batch, in_sync: Mapping[Partition, int], answer: Any) -> None:
        """Count the ISRs that have become smaller or larger."""
        committed = {
            PartitionKey(topic.topic_id, each.partition_index): len(each.isr)
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code == 0
        }
        traffic = self._manager.traffic
        for partition in batch:
            change = committed.get(partition.key, in_sync[partition]) - in_sync[partition]
            traffic.isr_shrinks += change < 0
            traffic.isr_expands += change > 0

    def _settle(self, batch: Batch, answer: Any) -> bool:
        """Pass each answer to its partition; return whether some proposals must be retried."""
        if answer.error_code != 0:
            logger.warning(
                "AlterPartition failed: %s",
                answer.error_code.name,
                extra=LogEvent.ISR_REFUSED.extra,
            )
            return self._proposals.refuse(batch, answer.error_code.value)
        answers = {
            PartitionKey(topic.topic_id, each.partition_index): _answered(each)
            for topic in answer.topics
            for each in topic.partitions
        }
        return self._proposals.settle(batch, answers)


def _answered(answer: Any) -> ProposalAnswer:
    if answer.error_code != 0:
        code: int = answer.error_code.value
        return code
    return CommittedIsr(tuple(answer.isr), answer.leader_epoch, answer.partition_epoch)


def _fields(proposal: IsrProposal) -> Mapping[str, Any]:
    """A proposal, with the ISR in the field that each version of the request has."""
    members = zip(proposal.isr, proposal.broker_epochs, strict=True)
    return {
        "leader_epoch": proposal.leader_epoch,
        "leader_recovery_state": RECOVERED,
        "partition_epoch": proposal.partition_epoch,
        "new_isr": proposal.isr,
        "new_isr_with_epochs": [
            {"broker_id": broker, "broker_epoch": epoch} for broker, epoch in members
        ],
    }
