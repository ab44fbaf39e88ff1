"""Answer the requests of admin clients, here or by the active controller.

Every request that may need the active controller passes `Router.answer`, whether it came to the
Kafka listener or to HTTP: it is answered on this node or forwarded, and waits through a short
election.
"""

import asyncio
import logging
from typing import Any, Final

from controller.apis.admin_apis import APIS
from controller.apis.forwarder import Forwarder, NotForwarded
from controller.apis.request import KafkaRequest
from controller.service import NotActive, Service
from quorum.protocol.errors import ErrorCode, RequestRefused

logger = logging.getLogger("kafka")

RETRY_SECONDS: Final = 0.05
"""Time that a request waits for another leader before the next attempt."""


class NoActiveController(Exception):
    """No controller answered in time; `error` is the code that says so.

    With REQUEST_TIMED_OUT the request may take effect all the same.
    """

    def __init__(self, error: int, reason: str) -> None:
        super().__init__(reason)
        self.error = error


class Router:
    """Decides for each request which node answers it."""

    def __init__(self, service: Service, forwarder: Forwarder) -> None:
        self._service = service
        self._forwarder = forwarder

    async def answer(self, request: KafkaRequest) -> Any:
        """Return the response, or its bytes if another node gave it.

        Raises `NoActiveController`.
        """
        api = APIS[request.api_key]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeout_ms / 1_000
        error: int = ErrorCode.NOT_CONTROLLER
        while True:
            try:
                if api.answers_here(request) or self._service.is_active:
                    return await self.answer_here(request)
                who_leads = api.asks_who_leads or getattr(request.message, "asks_who_leads", False)
                return await self._forwarder.forward(request, deadline, asks_who_leads=who_leads)
            except NotActive as not_active:
                reason = str(not_active)
                if not_active.reason.may_be_done:
                    raise NoActiveController(ErrorCode.REQUEST_TIMED_OUT, reason) from None
            except NotForwarded as not_forwarded:
                reason = str(not_forwarded)
                logger.debug("%s was not forwarded: %s", request.api_key, reason)
                if not_forwarded.may_be_done:
                    # From now on nobody can say for certain that it was not carried out.
                    error = ErrorCode.REQUEST_TIMED_OUT
                if not_forwarded.refusal is not None:
                    if error == ErrorCode.NOT_CONTROLLER:
                        error = not_forwarded.refusal
                    raise NoActiveController(error, reason) from None
            await self._wait_for_leader(deadline - loop.time())
            if loop.time() >= deadline:
                # No further attempt: nobody would hear its outcome.
                message = f"this node could not reach the active controller in time: {reason}"
                raise NoActiveController(error, message)

    async def _wait_for_leader(self, left_seconds: float) -> None:
        if left_seconds > 0:
            within_seconds = min(RETRY_SECONDS, left_seconds)
            await self._service.quorum.leader_changed(within_seconds=within_seconds)

    async def answer_here(self, request: KafkaRequest) -> Any:
        """Return this node's response; raises `NotActive`."""
        api = APIS[request.api_key]
        try:
            return await api.handle(request, self._service)
        except NotActive:
            raise
        except RequestRefused as refused:
            return api.refuse(request, refused.code, refused.words)
        except Exception:
            # One request must not end the node; the log has the cause.
            logger.exception("failed to answer %s v%d", request.api_key, request.version)
            message = "the controller failed; see its log"
            return api.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, message)
