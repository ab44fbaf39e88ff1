"""ISR proposals on their way to the controller: many in one request, one request at a time.

Which ISR to propose, and what an answer means, the partitions decide (`broker.leading`); here they
only travel. A proposal without an answer is sent again as long as its partition still waits for it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from broker.controller import Backoff, Controllers, NoController
from broker.hosting import PartitionKey
from broker.leading import Committed, Next, Proposal
from broker.limits import ALTER_PARTITION_PARTITIONS_MAX, ALTER_PARTITION_RETRY_MS
from broker.manager import Manager
from broker.partition import Partition
from quorum.wire import codec
from quorum.wire.apis import ApiKey
from statemachine.vocabulary import RECOVERED

logger = logging.getLogger("broker.isr")

_EPOCHS_FROM: Final = 3

_Batch = Mapping[PartitionKey, tuple[Partition, Proposal]]


class IsrProposer:
    """Takes proposals from the partitions; `run` carries them."""

    def __init__(self, manager: Manager, controllers: Controllers) -> None:
        self._manager = manager
        self._controllers = controllers
        self._waiting: dict[PartitionKey, tuple[Partition, Proposal]] = {}
        self._work = asyncio.Event()
        self._backoff = Backoff()

    def submit(self, partition: Partition, proposal: Proposal) -> None:
        """Propose this ISR as soon as the request under way is answered."""
        self._waiting[partition.key] = (partition, proposal)
        self._work.set()

    async def run(self) -> None:
        """Send what is proposed until cancelled."""
        while True:
            await self._work.wait()
            batch = self._take()
            if not self._waiting:
                self._work.clear()
            epoch = self._manager.broker_epoch
            if not batch:
                continue
            if epoch is None:
                self._put_back(batch)
                await self._backoff.wait()
                continue
            await self._propose(batch, epoch)

    def _take(self) -> _Batch:
        """The next proposals that their partitions still wait for."""
        batch: dict[PartitionKey, tuple[Partition, Proposal]] = {}
        while self._waiting and len(batch) < ALTER_PARTITION_PARTITIONS_MAX:
            key = next(iter(self._waiting))
            partition, proposal = self._waiting.pop(key)
            if partition.leading is not None and partition.leading.pending is proposal:
                batch[key] = (partition, proposal)
        return batch

    async def _propose(self, batch: _Batch, epoch: int) -> None:
        try:
            answer = await self._controllers.ask(
                ApiKey.ALTER_PARTITION,
                lambda version: _request(version, self._manager.broker_id, epoch, batch),
            )
        except NoController as reason:
            logger.debug("ISR proposals will be sent again: %s", reason)
            self._put_back(batch)
            await self._backoff.wait()
            return
        self._backoff.reset()
        if self._settle(batch, answer):
            await asyncio.sleep(ALTER_PARTITION_RETRY_MS / 1_000)

    def _settle(self, batch: _Batch, answer: Any) -> bool:
        """Tell each partition; returns whether some must be asked for again."""
        if answer.error_code != 0:
            logger.warning("the controller answered ISR proposals with %s", answer.error_code.name)
            return self._all_refused(batch, answer.error_code.value)
        missing = dict(batch)
        again: dict[PartitionKey, tuple[Partition, Proposal]] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                key = PartitionKey(topic.topic_id, each.partition_index)
                found = missing.pop(key, None)
                if found is not None and _told(*found, each) is Next.RETRY:
                    again[key] = found
        # What is not answered at all was not decided by anyone.
        again |= missing
        self._put_back(again)
        return bool(again)

    def _all_refused(self, batch: _Batch, error_code: int) -> bool:
        again = {
            key: (partition, proposal)
            for key, (partition, proposal) in batch.items()
            if partition.on_refused(proposal, error_code) is Next.RETRY
        }
        self._put_back(again)
        return bool(again)

    def _put_back(self, batch: _Batch) -> None:
        for key, found in batch.items():
            # A newer proposal of the same partition goes before this one.
            self._waiting.setdefault(key, found)
        if self._waiting:
            self._work.set()


def _told(partition: Partition, proposal: Proposal, answer: Any) -> Next:
    if answer.error_code != 0:
        logger.info("%s: %s was refused with %s", partition, proposal, answer.error_code.name)
        return partition.on_refused(proposal, answer.error_code.value)
    logger.info("%s: ISR is now %s", partition, list(answer.isr))
    committed = Committed(tuple(answer.isr), answer.leader_epoch, answer.partition_epoch)
    return partition.on_committed(proposal, committed)


def _request(version: int, broker_id: int, broker_epoch: int, batch: _Batch) -> bytes:
    schema = codec.request_schema(ApiKey.ALTER_PARTITION, version)
    of_topic = codec.nested(schema, "TopicData")
    by_topic: dict[Any, list[Any]] = {}
    for key, (_, proposal) in batch.items():
        by_topic.setdefault(key.topic_id, []).append(
            codec.make(
                codec.nested(schema, "PartitionData"),
                partition_index=key.number,
                leader_epoch=proposal.leader_epoch,
                leader_recovery_state=RECOVERED,
                partition_epoch=proposal.partition_epoch,
                **_isr(schema, version, proposal),
            )
        )
    topics = tuple(
        codec.make(of_topic, topic_id=topic_id, partitions=tuple(partitions))
        for topic_id, partitions in by_topic.items()
    )
    payload = codec.make(schema, broker_id=broker_id, broker_epoch=broker_epoch, topics=topics)
    return codec.encode_request_body(ApiKey.ALTER_PARTITION, version, payload)


def _isr(schema: type[Any], version: int, proposal: Proposal) -> dict[str, Any]:
    if version < _EPOCHS_FROM:
        return {"new_isr": proposal.isr}
    of_broker = codec.nested(schema, "BrokerState")
    members = zip(proposal.isr, proposal.broker_epochs, strict=True)
    return {
        "new_isr_with_epochs": tuple(
            codec.make(of_broker, broker_id=broker, broker_epoch=epoch) for broker, epoch in members
        )
    }
