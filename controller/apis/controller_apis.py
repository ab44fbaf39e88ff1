"""Handle every request of a controller's Kafka listener.

Three kinds of requests take three ways: calls of the quorum go to the quorum; requests of brokers
are submitted to the controller at once (the hot path: no task, no wait); requests of admin clients
become a task, which may wait for an election and forward the request.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from controller.apis.admin_apis import APIS
from controller.apis.brokers import SUBMITTED, BrokerApis
from controller.apis.refusals import only_nodes, refusing_rule
from controller.apis.request import (
    LONG_BODY_BYTES,
    KafkaRequest,
    decode,
    decode_inbound,
    encode,
    refuse,
)
from controller.apis.router import ControllerUnreachable, Router
from controller.service import NotActive, Service
from quorum.discovery.discover_brokers import DiscoverBrokersService
from quorum.log_events import LogEvent
from quorum.protocol.api_versions import Features, write_offer
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.protocol.codec import decode_request, throttle_ms
from quorum.protocol.envelope import Forwarded, Reason, Unreadable, unwrap, write_refusal
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.extension import Extension, extension_of, is_newer, newer_reason
from quorum.protocol.raft_messages import VERSIONS
from quorum.raft_rpc import RaftRpc
from quorum.transport.inbound import Handler, InboundRequest
from statemachine.security.authorizer import Rule

logger = logging.getLogger("kafka")

_LONG: Final = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS})
"""The requests whose responses may be long and are made in slices."""

ADMIN_REQUESTS_MAX: Final = 1_024
"""Admin requests under way on one node; a further one is answered REQUEST_TIMED_OUT."""

OFFERED: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        **VERSIONS,
        **{
            key: SPOKEN[key]
            for key in (
                *(ApiKey.API_VERSIONS, ApiKey.ENVELOPE, ApiKey.DISCOVER_BROKERS),
                ApiKey.ALTER_PARTITION,
                *SUBMITTED,
                *APIS,
            )
        },
    }
)


class ControllerApis:
    """Handles the requests of one controller's Kafka listener."""

    def __init__(
        self,
        *,
        service: Service,
        raft_rpc: RaftRpc,
        gossiper: DiscoverBrokersService,
        router: Router,
        broker_apis: BrokerApis,
        supported_features: Mapping[str, VersionRange],
    ) -> None:
        self._service = service
        self._router = router
        self._supported_features = supported_features
        self._tasks: set[asyncio.Task[None]] = set()
        handlers: Mapping[int, Handler] = {
            ApiKey.ALTER_PARTITION: broker_apis.alter_partition,
            **dict.fromkeys(SUBMITTED, broker_apis.submit),
            **dict.fromkeys(VERSIONS, raft_rpc.asked),
            ApiKey.API_VERSIONS: self._offer,
            ApiKey.DISCOVER_BROKERS: gossiper.asked,
        }
        self._handlers = only_nodes(handlers, service.authorization)

    def handle(self, inbound: InboundRequest) -> None:
        """Answer the request now or later; raises `Malformed` for an unreadable one."""
        self._handlers.get(inbound.api_key, self._start)(inbound)

    async def close(self) -> None:
        """Cancel the requests that still wait for an active controller."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _offer(self, inbound: InboundRequest) -> None:
        decode_request(inbound.api_key, inbound.api_version, inbound.body)
        controller = self._service.controller
        features = Features(
            supported=self._supported_features,
            finalized=controller.finalized_features,
            finalized_epoch=controller.committed,
        )
        inbound.respond(write_offer(inbound.api_version, OFFERED, features))

    def _start(self, inbound: InboundRequest) -> None:
        """Answer a request of an admin client, or one that another node forwarded, in a task."""
        is_full = len(self._tasks) >= ADMIN_REQUESTS_MAX
        task = asyncio.get_running_loop().create_task(self._serve(inbound, is_full=is_full))
        if inbound.api_key in _LONG:
            # Nobody else waits for it.
            inbound.on_gone = partial(task.cancel, "its client is gone")
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, inbound))

    async def _serve(self, inbound: InboundRequest, *, is_full: bool) -> None:
        """Decode a request, in a thread if it is long, and answer it; refuse it if `is_full`."""
        extension: Extension | None = None
        decode: Callable[[], KafkaRequest] = partial(decode_inbound, inbound)
        try:
            if inbound.api_key == ApiKey.ENVELOPE:
                message = decode_request(inbound.api_key, inbound.api_version, inbound.body)
                extension = extension_of(message)
                rule = refusing_rule(inbound, self._service.authorization)
                if rule is not None:
                    _refuse_sender(inbound, extension, rule)
                    return
                decode = partial(_request_in, message, inbound)
            is_long = len(inbound.body) > LONG_BODY_BYTES and not is_full
            request = await asyncio.to_thread(decode) if is_long else decode()
            payload = await self._payload(request, is_full=is_full)
        except Malformed as malformed:
            inbound.reject(str(malformed))
        except Unreadable as unreadable:
            logger.info(
                "Refusing an envelope of %s: %s",
                inbound.peer,
                unreadable,
                extra=LogEvent.PEER_REFUSED.extra,
            )
            _refuse_envelope(inbound, extension, unreadable.error, Reason(str(unreadable)))
        except NotActive as not_active:
            # The sender of an envelope tries again (KIP-590).
            reason = Reason(str(not_active), not_active.reason.may_be_done)
            _refuse_envelope(inbound, extension, ErrorCode.NOT_CONTROLLER, reason)
        else:
            body = encode(request, payload)
            if request.envelope_id is None:
                # The node that forwarded an envelope throttles its client itself.
                inbound.throttle(throttle_ms(request.api_key, request.version, body))
            inbound.respond(body)

    async def _payload(self, request: KafkaRequest, *, is_full: bool) -> Any:
        """Return the response; raises `NotActive` for a request in an envelope."""
        if is_full:
            message = f"{ADMIN_REQUESTS_MAX} admin requests are under way; ask again later"
            return refuse(request, ErrorCode.REQUEST_TIMED_OUT, message)
        if request.extension is not None and is_newer(request.extension):
            return refuse(request, ErrorCode.UNSUPPORTED_VERSION, newer_reason(request.extension))
        if request.envelope_id is not None:
            return await self._router.answer_here(request)
        try:
            return await self._router.answer(request)
        except ControllerUnreachable as error:
            return refuse(request, error.error, str(error))

    def _ended(self, inbound: InboundRequest, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # Without a response, all later ones of the connection would wait for ever.
            logger.error(
                "Failed to answer %s", inbound, exc_info=error, extra=LogEvent.REQUEST_FAILED.extra
            )
            inbound.reject("internal error; see the log")


def _request_in(message: Any, inbound: InboundRequest) -> KafkaRequest:
    """Decode the request in an envelope, `inbound`; raises `Unreadable`."""
    forwarded: Forwarded = unwrap(message)
    if forwarded.api_key not in APIS:
        words = f"api {forwarded.api_key} version {forwarded.version} cannot be forwarded here"
        raise Unreadable(ErrorCode.UNSUPPORTED_VERSION, words)
    try:
        return decode(
            forwarded.api_key,
            forwarded.version,
            forwarded.body,
            forwarded.principal,
            client_id=forwarded.client_id,
            host=forwarded.host,
            door=forwarded.door,
            listener=inbound.listener,
            peer=inbound.peer,
            envelope_id=forwarded.correlation_id,
        )
    except Malformed as error:
        raise Unreadable(ErrorCode.INVALID_REQUEST, str(error)) from error


def _refuse_sender(inbound: InboundRequest, extension: Extension | None, rule: Rule) -> None:
    """Refuse the envelope of a sender that may not forward requests."""
    if rule is Rule.NOT_READY:
        # The sender tries again.
        _refuse_envelope(inbound, extension, ErrorCode.NOT_CONTROLLER, Reason(rule.value))
        return
    words = f"Principal {inbound.principal} does not have required CLUSTER_ACTION for envelope"
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    _refuse_envelope(inbound, extension, error, Reason(words))


def _refuse_envelope(
    inbound: InboundRequest, extension: Extension | None, error: ErrorCode, reason: Reason
) -> None:
    # Kafka's nodes get an error code and no field of ours.
    inbound.respond(write_refusal(error, None if extension is None else reason))
