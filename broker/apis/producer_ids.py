"""InitProducerId: ids for idempotent producers, from blocks that the controller allocates.

A block has a thousand ids (KIP-730). There are no transactions: a request with a transactional id
is refused.
"""

import asyncio
import logging
from collections import deque
from typing import Any, NamedTuple

from broker.authorization import OPEN, BrokerRights
from broker.limits import FORWARD_TIMEOUT_MS, PRODUCER_ID_WAITERS_MAX
from broker.replica_manager import ReplicaManager
from quorum.log_events import LogEvent
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.transport.controller_channel import (
    Backoff,
    NoActiveController,
    NodeToControllerChannelManager,
)
from quorum.transport.inbound import InboundRequest
from statemachine.security.rights import IDEMPOTENT_WRITE, WRITE_TOPIC, WRITE_TRANSACTION

logger = logging.getLogger("broker")


class _Waiter(NamedTuple):
    request: InboundRequest
    deadline_ms: int


class ProducerIdManager:
    """Producer ids from a block; `run` requests the next block."""

    def __init__(
        self,
        manager: ReplicaManager,
        controllers: NodeToControllerChannelManager,
        rights: BrokerRights = OPEN,
    ) -> None:
        self._rights = rights
        self._manager = manager
        self._controllers = controllers
        self._next = 0
        self._end = 0
        self._waiters: deque[_Waiter] = deque()
        self._work = asyncio.Event()
        self._backoff = Backoff()

    def handle(self, request: InboundRequest, message: Any) -> None:
        """Respond with a new id and epoch 0, at once or when a block arrives."""
        refusal = self._refusal(request, message.transactional_id)
        if refusal is not None:
            _respond(request, refusal)
        elif message.transactional_id is not None:
            _respond(request, ErrorCode.INVALID_REQUEST)
        elif self._next < self._end:
            self._give(request)
        elif len(self._waiters) >= PRODUCER_ID_WAITERS_MAX:
            _respond(request, ErrorCode.REQUEST_TIMED_OUT)
        else:
            deadline_ms = self._manager.now_ms() + FORWARD_TIMEOUT_MS
            self._waiters.append(_Waiter(request, deadline_ms))
            self._work.set()

    def _refusal(self, request: InboundRequest, transaction: str | None) -> ErrorCode | None:
        access = self._rights.access(request)
        if transaction is not None:
            if access.may(WRITE_TRANSACTION, transaction):
                return None
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        # Whoever may write to some topic may do so idempotently (KIP-679).
        if (
            access.may(IDEMPOTENT_WRITE, is_told=False)
            or access.may_any(WRITE_TOPIC)
            or access.may(IDEMPOTENT_WRITE)
        ):
            return None
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    async def run(self) -> None:
        """Request a block whenever a request waits for one, until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            while self._waiters:
                await self._allocate()
                self._serve()

    async def _allocate(self) -> None:
        epoch = self._manager.broker_epoch
        try:
            if epoch is None:
                raise NoActiveController("this broker is not registered yet")
            answer = await self._controllers.ask(
                ApiKey.ALLOCATE_PRODUCER_IDS,
                broker_id=self._manager.broker_id,
                broker_epoch=epoch,
            )
            if answer.error_code != 0:
                raise NoActiveController(f"AllocateProducerIds failed: {answer.error_code.name}")
        except NoActiveController as reason:
            logger.info(
                "AllocateProducerIds will be retried: %s",
                reason,
                extra=LogEvent.CONTROLLER_UNREACHABLE.extra,
            )
            await self._backoff.wait()
            return
        self._backoff.reset()
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len

    def _serve(self) -> None:
        now_ms = self._manager.now_ms()
        while self._waiters:
            request, deadline_ms = self._waiters[0]
            if self._next < self._end:
                self._give(request)
            elif deadline_ms <= now_ms:
                _respond(request, ErrorCode.REQUEST_TIMED_OUT)
            else:
                return
            self._waiters.popleft()

    def _give(self, request: InboundRequest) -> None:
        if request.is_gone:
            return
        _respond(request, ErrorCode.NONE, self._next, 0)
        self._next += 1


def _respond(
    request: InboundRequest, code: ErrorCode, producer_id: int = -1, producer_epoch: int = -1
) -> None:
    body = codec.response_body(
        request.api_key,
        request.api_version,
        error_code=code,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    request.respond(body)
