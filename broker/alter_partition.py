"""ISR proposals on their way to the controller: many in one request, one request at a time.

Which ones go, and what an answer means, is told elsewhere (`broker.proposing`, `broker.leading`);
here they only travel.
"""

import asyncio
import logging
from typing import Any, Final

from broker.controller import Backoff, Controllers, NoController
from broker.hosting import PartitionKey
from broker.leading import Committed, Proposal
from broker.limits import ALTER_PARTITION_RETRY_MS
from broker.manager import Manager
from broker.partition import Partition
from broker.proposing import Answered, Batch, Proposals
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from statemachine.vocabulary import RECOVERED

logger = logging.getLogger("broker.isr")

_EPOCHS_FROM: Final = 3


class IsrProposer:
    """Takes proposals from the partitions; `run` carries them."""

    def __init__(self, manager: Manager, controllers: Controllers) -> None:
        self._manager = manager
        self._controllers = controllers
        self._proposals = Proposals()
        self._work = asyncio.Event()
        self._backoff = Backoff()

    def submit(self, partition: Partition, proposal: Proposal) -> None:
        """Propose this ISR as soon as the request under way is answered."""
        self._proposals.submit(partition, proposal)
        self._work.set()

    async def run(self) -> None:
        """Send what is proposed until cancelled."""
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
        try:
            answer = await self._controllers.ask(
                ApiKey.ALTER_PARTITION,
                lambda version: _request(version, self._manager.broker_id, epoch, batch),
            )
        except NoController as reason:
            logger.debug("ISR proposals will be sent again: %s", reason)
            self._proposals.put_back(batch)
            await self._backoff.wait()
            return
        self._backoff.reset()
        if self._settle(batch, answer):
            await asyncio.sleep(ALTER_PARTITION_RETRY_MS / 1_000)

    def _settle(self, batch: Batch, answer: Any) -> bool:
        """Tell each partition; returns whether some must be asked for again."""
        if answer.error_code != 0:
            logger.warning("the controller answered ISR proposals with %s", answer.error_code.name)
            return self._proposals.refuse(batch, answer.error_code.value)
        answers = {
            PartitionKey(topic.topic_id, each.partition_index): _answered(each)
            for topic in answer.topics
            for each in topic.partitions
        }
        return self._proposals.settle(batch, answers)


def _answered(answer: Any) -> Answered:
    if answer.error_code != 0:
        code: int = answer.error_code.value
        return code
    return Committed(tuple(answer.isr), answer.leader_epoch, answer.partition_epoch)


def _request(version: int, broker_id: int, broker_epoch: int, batch: Batch) -> bytes:
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
