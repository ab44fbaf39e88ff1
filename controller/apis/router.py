"""Answer the requests of admin clients, here or by the active controller.

Every request that may need the active controller passes `Router.answer`, whether it came to the
Kafka listener or to HTTP: it is answered on this node or forwarded in an Envelope (KIP-590), and
waits through a short election.
"""

import asyncio
import itertools
import logging
import random
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from controller.apis.admin_apis import APIS, AdminApi
from controller.apis.request import TIMEOUT_MS_MAX, KafkaRequest, refuse
from controller.service import NotActive, Service
from quorum.core.vocabulary import ReplicaId
from quorum.log_events import LogEvent
from quorum.ports import Clock
from quorum.protocol import envelope
from quorum.protocol.apis import ApiKey, api_name
from quorum.protocol.codec import encode_request_body
from quorum.protocol.envelope import Forwarded, Reason
from quorum.protocol.errors import ErrorCode, Malformed, RequestRefused
from quorum.transport.audit_log import REQUESTER
from quorum.transport.outcomes import NOT_SENT, Reply, RequestFailed
from quorum.transport.peers import Lane, Peers
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.sweeper import Sweeper

logger = logging.getLogger("kafka")

RETRY_SECONDS: Final = 0.05
"""Time that a request waits for another leader before the next attempt."""
FAREWELL_SECONDS: Final = 2.0
"""The time for a response after the lead was lost: after a transfer it names the new leader."""
LEADERLESS_MS_MAX: Final = 3_000
"""The longest time to wait for an election; after it, a client that asks about the quorum itself
is told that there is no leader."""

_NOT_ENVELOPED: Final = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST})
"""Refusals of an envelope by a controller, Kafka's or of another release of ours, that does not
accept this request in one. A retry is useless."""


class NotAnswered(Exception):
    """One attempt ended without a response from the active controller.

    `may_be_done` is False if it never received the request; `refusal` is the error to answer with
    at once, where a further attempt on this node would be useless.
    """

    def __init__(self, reason: str, *, may_be_done: bool, refusal: int | None = None) -> None:
        super().__init__(reason)
        self.may_be_done = may_be_done
        self.refusal = refusal


class ControllerUnreachable(Exception):
    """No active controller answered in time; `error` is the code for the client.

    With REQUEST_TIMED_OUT the request may take effect all the same.
    """

    def __init__(self, error: int, reason: str) -> None:
        super().__init__(reason)
        self.error = error


class Router:
    """Decides for each request which node answers it, and has channels to the other controllers."""

    def __init__(
        self, service: Service, *, clock: Clock, security: ClientSecurity = PLAIN_CLIENT
    ) -> None:
        self._service = service
        self._quorum = service.quorum
        self._sweeper = Sweeper(clock)
        self._correlations = itertools.count(1)
        self._peers = Peers(
            service.addresses,
            client_id=f"forwarder-{self._quorum.node.me.id}",
            sweeper=self._sweeper,
            rng=random.SystemRandom(),
            security=security,
        )

    async def answer(self, request: KafkaRequest) -> Any:
        """Return the response, or its bytes if another node gave it.

        Raises `ControllerUnreachable`.
        """
        api = APIS[request.api_key]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeout_ms / 1_000
        error: int = ErrorCode.NOT_CONTROLLER
        while True:
            try:
                if api.answers_here(request) or self._service.controller.is_active:
                    return await self._try_here(request)
                return await self._forward(request, api, deadline)
            except NotAnswered as not_answered:
                reason = str(not_answered)
                logger.debug("%s was not answered: %s", request.api_key, reason)
                if not_answered.may_be_done:
                    # From now on it is uncertain whether the request was carried out.
                    error = ErrorCode.REQUEST_TIMED_OUT
                if not_answered.refusal is not None:
                    if error == ErrorCode.NOT_CONTROLLER:
                        error = not_answered.refusal
                    raise ControllerUnreachable(error, reason) from None
            left_seconds = max(0.0, deadline - loop.time())
            await self._quorum.leader_changed(within_seconds=min(RETRY_SECONDS, left_seconds))
            if loop.time() >= deadline:
                # No further attempt: the client no longer waits.
                message = f"this node could not reach the active controller in time: {reason}"
                raise ControllerUnreachable(error, message)

    async def _try_here(self, request: KafkaRequest) -> Any:
        """Return this node's response; raises `NotAnswered`."""
        try:
            return await self.answer_here(request)
        except NotActive as not_active:
            may_be_done = not_active.reason.may_be_done
            is_over = may_be_done and not request.has_key
            refusal = ErrorCode.REQUEST_TIMED_OUT if is_over else None
            raise NotAnswered(str(not_active), may_be_done=may_be_done, refusal=refusal) from None

    async def answer_here(self, request: KafkaRequest) -> Any:
        """Return this node's response; raises `NotActive`."""
        api = APIS[request.api_key]
        requester = replace(request.requester, detail=partial(api.wanted, request.message))
        token = REQUESTER.set(requester)
        try:
            refusal = self._service.refusal(request.api_key, requester)
            if refusal is not None:
                return refuse(request, *refusal)
            return await api.handle(request, self._service)
        except NotActive:
            raise
        except RequestRefused as refused:
            return refuse(request, refused.code, refused.words)
        except Exception:
            # One request must not end the node; the log has the cause.
            what = f"{api_name(request.api_key)} v{request.version}"
            logger.exception(
                "Failed to answer %s of %s",
                what,
                request.sender,
                extra=LogEvent.REQUEST_FAILED.extra,
            )
            message = "the controller failed; see its log"
            return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, message)
        finally:
            REQUESTER.reset(token)

    async def _forward(self, request: KafkaRequest, api: AdminApi, deadline: float) -> bytes:
        """Return the body of the active controller's response; raises `NotAnswered`.

        `deadline` is in seconds of the running loop's clock.
        """
        leader = self._quorum.leader
        if leader is None:
            raise self._leaderless(request, api)
        if leader == self._quorum.node.me.id:
            raise NotAnswered(f"node {leader} is about to be active", may_be_done=False)
        channel = self._peers.channel(leader, Lane.CONTROL)
        body = bytes(request.body) or encode_request_body(
            request.api_key, request.version, request.message
        )
        forwarded = Forwarded(
            request.api_key,
            request.version,
            next(self._correlations) & 0x7FFF_FFFF,
            request.client_id,
            request.principal,
            body,
            request.host,
            request.door,
        )
        wrapped = envelope.wrap(forwarded, timeout_ms=request.timeout_ms)
        try:
            # A time-out in the channel drops its connection, with all other requests. So the
            # channel gets more time than any request, and a request that gives up is abandoned.
            async with asyncio.timeout_at(deadline):
                reply = await self._reply(
                    leader,
                    channel.call(
                        ApiKey.ENVELOPE,
                        wrapped,
                        timeout_ms=TIMEOUT_MS_MAX,
                        version=envelope.VERSION,
                    ),
                    deadline,
                )
            return _response_in(leader, forwarded, reply)
        except TimeoutError:
            raise NotAnswered(
                f"node {leader} leads, and did not answer", may_be_done=True
            ) from None
        except RequestFailed as error:
            may_be_done = error.failure.cause not in NOT_SENT
            raise NotAnswered(f"node {leader}: {error}", may_be_done=may_be_done) from error
        except Malformed as error:
            raise NotAnswered(f"node {leader}: {error}", may_be_done=True) from error

    def _leaderless(self, request: KafkaRequest, api: AdminApi) -> NotAnswered:
        """Return the reason why there is no leader, and whether to give up waiting for one."""
        reason = f"node {self._quorum.node.me.id} knows no leader, epoch {self._quorum.node.epoch}"
        is_for_long = False
        if not self._quorum.replica.has_room:
            # It cannot store a new epoch.
            reason += ", and will know none before there is room on its disk: ask another node"
            is_for_long = True
        elif api.asks_who_leads or getattr(request.message, "asks_who_leads", False):
            is_for_long = self._quorum.leaderless_ms >= LEADERLESS_MS_MAX
        refusal = ErrorCode.NOT_CONTROLLER if is_for_long else None
        return NotAnswered(reason, may_be_done=False, refusal=refusal)

    async def _reply(
        self, leader: ReplicaId, call: Coroutine[Any, Any, Reply], deadline: float
    ) -> Reply:
        """Return the reply to a call of the leader; raises `NotAnswered` if it leads no more."""
        loop = asyncio.get_running_loop()
        calling = loop.create_task(call)
        left_seconds = max(0.0, deadline - loop.time())
        watching = loop.create_task(self._quorum.leader_changed(within_seconds=left_seconds))
        try:
            await asyncio.wait({calling, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                await asyncio.wait({calling}, timeout=FAREWELL_SECONDS)
            if not calling.done():
                raise NotAnswered(f"node {leader} led, and does no more", may_be_done=True)
            return calling.result()
        finally:
            calling.cancel()
            watching.cancel()

    async def close(self) -> None:
        """Fail what is under way and close every channel."""
        await self._peers.close()
        self._sweeper.close()


def _response_in(leader: ReplicaId, forwarded: Forwarded, reply: Reply) -> bytes:
    response = reply.decode()
    error: int = response.error_code.value
    reason = envelope.reason_of(response)
    if error in _NOT_ENVELOPED:
        why = f" ({reason.text})" if reason and error == ErrorCode.INVALID_REQUEST else ""
        # Kafka's controllers do not know our own requests, forwarded or not.
        then = "ask it directly, or once another node leads"
        if forwarded.api_key >= ApiKey.DISCOVER_BROKERS:
            then = "none of Kafka's does; ask once a controller of metaquorum leads"
        raise NotAnswered(
            f"node {leader} is the active controller, and accepts no forwarded "
            f"{api_name(forwarded.api_key)} version {forwarded.version}{why}: {then}",
            may_be_done=False,
            refusal=ErrorCode.UNSUPPORTED_VERSION,
        )
    if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise NotAnswered(
            f"node {leader} accepts no forwarded requests from this node: "
            f"{reason.text if reason else 'it lacks CLUSTER_ACTION'}",
            may_be_done=False,
            refusal=ErrorCode.UNKNOWN_SERVER_ERROR,
        )
    if error != 0 or response.response_data is None:
        reason = reason or Reason(f"refused: {response.error_code.name}")
        raise NotAnswered(f"node {leader}: {reason.text}", may_be_done=reason.may_be_done)
    return envelope.unwrap_response(forwarded, response.response_data)
