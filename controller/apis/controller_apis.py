"""The listener's side of the door: every request of a controller's Kafka port comes through here.

Three kinds of requests, three ways: the calls of the quorum go to the quorum, what brokers ask is
submitted to the controller at once (the hot path: no task, no wait), and what clients ask becomes
a task, which may have to wait for an election and pass the request on.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from admin.faults import Refused
from controller.apis import admin_apis, brokers
from controller.apis import envelope as envelopes
from controller.apis.brokers import BrokerApiContext
from controller.apis.forwarder import NOT_CONTROLLER, Forwarder, NotForwarded
from controller.apis.offload import LONG_BODY_BYTES, written
from controller.apis.request import ANONYMOUS, AdminApi, KafkaRequest, encode_answer, parse_request
from controller.service import NotActive, Service
from quorum.gossiper import Gossiper
from quorum.protocol.api_versions import Features, write_offer
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.codec import decode_request
from quorum.protocol.envelope_refusals import Words, write_refusal
from quorum.protocol.faults import Malformed
from quorum.protocol.raft_messages import VERSIONS
from quorum.raft_calls import RaftCalls
from quorum.transport.server import InboundRequest
from statemachine.features.features import KRAFT_VERSION

logger = logging.getLogger("kafka")

REQUEST_TIMED_OUT: Final = 7
UNKNOWN_SERVER_ERROR: Final = -1

ADMIN_CALLS_MAX: Final = 1_024
"""Admin requests under way at one node; a further one is answered REQUEST_TIMED_OUT."""

RETRY_SECONDS: Final = 0.05
"""How long a request that could not be answered waits for another leader."""

OFFERED: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        **VERSIONS,
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.ENVELOPE: VersionRange(0, 0),
        ApiKey.DISCOVER_BROKERS: VersionRange(0, 0),
        **{key: api.versions for key, api in brokers.APIS.items()},
        **{key: api.versions for key, api in admin_apis.APIS.items()},
    }
)


class ControllerApis:
    """Handles the requests of one controller's Kafka listener."""

    def __init__(
        self,
        *,
        service: Service,
        raft_calls: RaftCalls,
        gossiper: Gossiper,
        forwarder: Forwarder,
        desk: BrokerApiContext,
        supported_features: Mapping[str, VersionRange],
    ) -> None:
        self._service = service
        self._raft_calls = raft_calls
        self._gossiper = gossiper
        self._forwarder = forwarder
        self._desk = desk
        self._supported_features = supported_features
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, request: InboundRequest) -> None:
        """See to it that the request is answered; raises `Malformed` for what cannot be read."""
        api_key = request.api_key
        if api_key in brokers.APIS:
            brokers.APIS[api_key].handle(request, self._desk)
        elif api_key in VERSIONS:
            self._raft_calls.asked(request)
        elif api_key == ApiKey.API_VERSIONS:
            self._offer(request)
        elif api_key == ApiKey.DISCOVER_BROKERS:
            self._gossiper.asked(request)
        elif api_key == ApiKey.ENVELOPE:
            self._unwrap(request)
        else:
            self._start(request)

    def _offer(self, request: InboundRequest) -> None:
        decode_request(request.api_key, request.api_version, request.body)
        image = self._service.controller.image
        features = Features(
            supported=self._supported_features,
            finalized={
                **image.features,
                KRAFT_VERSION: self._service.controller.kraft_version,
            },
            finalized_epoch=self._service.controller.committed,
        )
        request.respond(write_offer(request.api_version, OFFERED, features))

    def _unwrap(self, request: InboundRequest) -> None:
        """A request that another node passed on: answered here, or refused as a whole."""
        envelope = decode_request(request.api_key, request.api_version, request.body)
        if self._is_long(request):
            self._spawn(request, self._unwrap_long(request, envelope))
            return
        try:
            inner = envelopes.open_envelope(envelope)
        except envelopes.Unreadable as unreadable:
            _refuse_envelope(request, unreadable)
            return
        work = self._work_inside(request, inner)
        if work is not None:
            self._spawn(request, work)

    async def _unwrap_long(self, request: InboundRequest, envelope: Any) -> None:
        try:
            inner = await asyncio.to_thread(envelopes.open_envelope, envelope)
        except envelopes.Unreadable as unreadable:
            _refuse_envelope(request, unreadable)
            return
        work = self._work_inside(request, inner)
        if work is not None:
            await work

    def _work_inside(
        self, request: InboundRequest, inner: envelopes.Inner
    ) -> Coroutine[Any, Any, None] | None:
        """What there is to do about a request that was passed on; None if it is refused."""
        call = inner.call
        api = admin_apis.APIS.get(call.api_key)
        if api is None or call.version not in api.versions:
            words = f"it takes no api {call.api_key:d} version {call.version} from other nodes"
            request.respond(write_refusal(envelopes.UNSUPPORTED_VERSION, Words(words)))
            return None
        reply = _Reply(request, partial(envelopes.answer, inner))
        return self._run_here(call, api, reply) if self._has_room(call, api, reply) else None

    def _start(self, request: InboundRequest) -> None:
        if self._is_long(request):
            self._spawn(request, self._start_long(request))
            return
        call = parse_request(request, ANONYMOUS)
        api, reply = admin_apis.APIS[call.api_key], _Reply(request, partial(encode_answer, call))
        if self._has_room(call, api, reply):
            self._spawn(request, self._run_somewhere(call, api, bytes(request.body), reply))

    async def _start_long(self, request: InboundRequest) -> None:
        try:
            call = await asyncio.to_thread(parse_request, request, ANONYMOUS)
        except Malformed as malformed:
            request.reject(str(malformed))
            return
        api, reply = admin_apis.APIS[call.api_key], _Reply(request, partial(encode_answer, call))
        await self._run_somewhere(call, api, bytes(request.body), reply)

    def _is_long(self, request: InboundRequest) -> bool:
        """Whether it is read beside the loop; where there is no room for it, it is refused here."""
        return len(request.body) > LONG_BODY_BYTES and len(self._tasks) < ADMIN_CALLS_MAX

    def _has_room(self, call: KafkaRequest, api: AdminApi, reply: "_Reply") -> bool:
        if len(self._tasks) < ADMIN_CALLS_MAX:
            return True
        message = f"{ADMIN_CALLS_MAX} admin requests are under way; ask again later"
        reply.refuse(api.refuse(call, REQUEST_TIMED_OUT, message))
        return False

    def _spawn(self, request: InboundRequest, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, request))

    def _ended(self, request: InboundRequest, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # Without an answer, those of all that follow on the connection would wait for ever.
            logger.error("failed to answer %s", request, exc_info=error)
            request.reject("its answer could not be given; see the log")

    async def close(self) -> None:
        """Give up the requests that still wait for an active controller."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_here(self, call: KafkaRequest, api: AdminApi, reply: "_Reply") -> None:
        """Answer on this node, or refuse if it is not the active controller."""
        try:
            payload = await self._answer_here(call, api)
        except NotActive as not_active:
            # Whoever passed it on finds the new active controller and asks again (KIP-590).
            words = Words(str(not_active), not_active.reason.may_be_done)
            reply.request.respond(write_refusal(NOT_CONTROLLER, words))
            return
        await reply.answer(payload)

    async def _answer_here(self, call: KafkaRequest, api: AdminApi) -> Any:
        """This node's answer; raises `NotActive`."""
        try:
            return await api.handle(call, self._service)
        except NotActive:
            raise
        except Refused as refused:
            return api.refuse(call, refused.code, refused.words)
        except Exception:
            # One request must not end the node; what went wrong is in the log, with its cause.
            logger.exception("failed at %s v%d", call.api_key, call.version)
            message = "the controller failed; see its log"
            return api.refuse(call, UNKNOWN_SERVER_ERROR, message)

    async def _run_somewhere(
        self, call: KafkaRequest, api: AdminApi, body: bytes, reply: "_Reply"
    ) -> None:
        """Answer here, or let the active controller answer; wait through a short election."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + api.timeout_ms(call) / 1_000
        error = NOT_CONTROLLER
        while True:
            try:
                if api.answers_here(call) or self._service.controller.is_active:
                    payload = await self._answer_here(call, api)
                else:
                    payload = await self._forwarder.forward(
                        call, body, deadline, asks_who_leads=api.asks_who_leads
                    )
                await reply.answer(payload)
                return
            except NotActive as not_active:
                reason = str(not_active)
                if not_active.reason.may_be_done:
                    reply.refuse(api.refuse(call, REQUEST_TIMED_OUT, reason))
                    return
            except NotForwarded as not_forwarded:
                reason = str(not_forwarded)
                logger.debug("%s was not passed on: %s", call.api_key, reason)
                if not_forwarded.may_be_done:
                    # It may be done by now, so nobody may be told for certain that it is not.
                    error = REQUEST_TIMED_OUT
                if not_forwarded.refusal is not None:
                    refusal = not_forwarded.refusal if error == NOT_CONTROLLER else error
                    reply.refuse(api.refuse(call, refusal, reason))
                    return
            left_seconds = deadline - loop.time()
            if left_seconds > 0:
                within_seconds = min(RETRY_SECONDS, left_seconds)
                await self._service.quorum.leader_changed(within_seconds=within_seconds)
            if loop.time() >= deadline:
                # Not asked once more: of an answer that it cannot wait for nobody would know.
                message = f"this node could not reach the active controller in time: {reason}"
                reply.refuse(api.refuse(call, error, message))
                return


class _Reply:
    """How the answer to one request becomes bytes, and leaves."""

    __slots__ = ("_write", "request")

    def __init__(self, request: InboundRequest, write: Callable[[Any], bytes]) -> None:
        self.request = request
        self._write = write

    async def answer(self, payload: Any) -> None:
        """Answer with this; a long answer is written beside the loop."""
        self.request.respond(await written(self._write, payload))

    def refuse(self, payload: Any) -> None:
        """Answer with this, which is short."""
        self.request.respond(self._write(payload))


def _refuse_envelope(request: InboundRequest, unreadable: envelopes.Unreadable) -> None:
    logger.info("envelope of %s: %s", request.peer, unreadable)
    request.respond(write_refusal(unreadable.error, Words(str(unreadable))))
