"""Forward requests to the active controller in an Envelope (KIP-590).

The request travels unchanged, with the client's principal, and the response returns unchanged.
Without an active controller it is retried, through an election if need be, until the timeout of
the request. A lost response can make the controller execute a request twice, so every forwarded
request states a desired state and not a change to it. If no controller answers in time, the client
gets one error for everything in its request.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from broker.controller_channel import Backoff, NoActiveController, NodeToControllerChannelManager
from broker.limits import FORWARD_TIMEOUT_MS, FORWARDED_BYTES_MAX
from quorum.ports import Clock
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.envelope import Forwarded, wrap
from quorum.protocol.errors import ErrorCode
from quorum.protocol.headers import read_correlation_id, response_body_start
from quorum.protocol.malformed import Malformed
from quorum.transport.address import BadAddress, parse_address
from quorum.transport.inbound import InboundRequest

logger = logging.getLogger(__name__)

PRINCIPAL: Final = "User:ANONYMOUS"
"""This listener does not authenticate clients."""

_LOOPBACK: Final = ipaddress.IPv4Address("127.0.0.1").packed


class ForwardingManager:
    """The forwarder; each request runs in a task of `group`."""

    def __init__(
        self, controllers: NodeToControllerChannelManager, group: asyncio.TaskGroup, *, clock: Clock
    ) -> None:
        self._controllers = controllers
        self._group = group
        self._clock = clock
        self._held_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Cancel the requests in flight, without a response."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def handle(self, request: InboundRequest) -> None:
        """Forward the request, or refuse it if too many bytes are in flight."""
        message = codec.decode_request(request.api_key, request.api_version, request.body)
        body = bytes(request.body)
        if self._held_bytes + len(body) > FORWARDED_BYTES_MAX:
            _refuse(
                request,
                message,
                ErrorCode.REQUEST_TIMED_OUT,
                "too many requests are being forwarded",
            )
            return
        self._held_bytes += len(body)
        task = self._group.create_task(self._forward(request, message, body))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._let_go(done, len(body)))

    def _let_go(self, task: asyncio.Task[None], size: int) -> None:
        self._tasks.discard(task)
        self._held_bytes -= size

    async def _forward(self, request: InboundRequest, message: Any, body: bytes) -> None:
        forwarded = Forwarded(
            request.api_key,
            request.api_version,
            request.correlation_id,
            request.client_id,
            PRINCIPAL,
            body,
        )
        deadline_ms = self._clock() + _timeout_ms(message)
        backoff = Backoff()
        reason = "no active controller answered in time"
        while not request.is_gone:
            left_ms = deadline_ms - self._clock()
            if left_ms <= 0:
                _refuse(request, message, ErrorCode.REQUEST_TIMED_OUT, reason)
                return
            try:
                answer = await self._ask(request, forwarded, left_ms)
            except NoActiveController as failure:
                logger.debug("Forwarding %s again: %s", request, failure)
                reason = f"no active controller answered in time: {failure}"
                await backoff.wait()
                continue
            self._hand_back(request, message, answer)
            return

    async def _ask(self, request: InboundRequest, forwarded: Forwarded, left_ms: int) -> Any:
        timeout_ms = max(1, left_ms)
        body = wrap(forwarded, host=_packed_host(request.peer), timeout_ms=timeout_ms)
        return await self._controllers.ask(
            ApiKey.ENVELOPE, lambda _version: body, timeout_ms=timeout_ms
        )

    def _hand_back(self, request: InboundRequest, message: Any, answer: Any) -> None:
        code = answer.error_code.value
        if code == ErrorCode.UNSUPPORTED_VERSION:
            request.reject(f"the controller does not know {request}")
            return
        data = answer.response_data
        if code != 0 or data is None:
            reason = f"the controller rejected the envelope: {answer.error_code.name}"
            _refuse(request, message, ErrorCode.UNKNOWN_SERVER_ERROR, reason)
            return
        try:
            came_back = read_correlation_id(data, request.api_key, request.api_version)
            start = response_body_start(data, request.api_key, request.api_version)
        except Malformed as malformed:
            logger.error("Invalid response from the controller: %s", malformed)
            _refuse(
                request,
                message,
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "the response of the controller is malformed",
            )
            return
        assert came_back == request.correlation_id, f"an answer to {came_back} for {request}"
        request.respond(data[start:])


def _refuse(request: InboundRequest, message: Any, code: ErrorCode, reason: str) -> None:
    if not request.is_gone:
        request.respond(refusal(request.api_key, request.api_version, message, code, reason))


def _timeout_ms(message: Any) -> int:
    timeout = getattr(message, "timeout", None)
    if timeout is None:
        return FORWARD_TIMEOUT_MS
    asked_ms: int = round(timeout.total_seconds() * 1_000)
    return min(max(asked_ms, 1_000), FORWARD_TIMEOUT_MS)


def _packed_host(peer: str) -> bytes:
    """The client's IP address, packed."""
    try:
        return ipaddress.ip_address(parse_address(peer).host.partition("%")[0]).packed
    except (BadAddress, ValueError):
        return _LOOPBACK


_ZERO: Final = timedelta(0)

_Results = Callable[[type[Any], Any, dict[str, Any]], dict[str, Any]]
"""(response schema, request, error fields) to the fields with the results."""


def refusal(api_key: int, version: int, message: Any, code: int, reason: str) -> bytes:
    """Encode a response to `message` with this error for everything in it."""
    schema = codec.response_schema(api_key, version)
    error = {"error_code": codec.error_code(code), "error_message": reason}
    results = _RESULTS.get(ApiKey(api_key), _nothing)(schema, message, error)
    payload = codec.make_known(schema, throttle_time=_ZERO, **error, **results)
    return codec.encode_response_body(api_key, version, payload)


def _nothing(schema: type[Any], _message: Any, _error: dict[str, Any]) -> dict[str, Any]:
    """The results of an API whose error is at the top: empty."""
    names = ("responses", "results", "topics", "nodes", "brokers", "hurt", "moves", "partitions")
    return {name: () for name in names if name in schema.__dataclass_fields__}


def _created_topics(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "CreatableTopicResult")
    return {
        "topics": tuple(
            codec.make_known(
                of_topic,
                name=topic.name,
                topic_id=None,
                num_partitions=-1,
                replication_factor=-1,
                configs=None,
                **error,
            )
            for topic in message.topics
        )
    }


def _created_partitions(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "CreatePartitionsTopicResult")
    return {
        "results": tuple(codec.make(of_topic, name=topic.name, **error) for topic in message.topics)
    }


def _deleted_topics(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "DeletableTopicResult")
    if hasattr(message, "topics"):
        named = [(topic.name, topic.topic_id) for topic in message.topics]
    else:
        named = [(name, None) for name in message.topic_names]
    return {
        "responses": tuple(
            codec.make_known(of_topic, name=name, topic_id=topic_id, **error)
            for name, topic_id in named
        )
    }


def _elected_leaders(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "ReplicaElectionResult")
    of_partition = codec.nested(schema, "PartitionResult")
    return {
        "replica_election_results": tuple(
            codec.make(
                of_topic,
                topic=topic.topic,
                partition_result=tuple(
                    codec.make(of_partition, partition_id=number, **error)
                    for number in topic.partitions
                ),
            )
            for topic in message.topic_partitions or ()
        )
    }


def _altered_configs(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_resource = codec.nested(schema, "AlterConfigsResourceResponse")
    return {
        "responses": tuple(
            codec.make(
                of_resource,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                **error,
            )
            for each in message.resources
        )
    }


def _altered_quotas(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_entry, of_entity = codec.nested(schema, "EntryData"), codec.nested(schema, "EntityData")
    return {
        "entries": tuple(
            codec.make(
                of_entry,
                entity=tuple(
                    codec.make(
                        of_entity, entity_type=each.entity_type, entity_name=each.entity_name
                    )
                    for each in entry.entity
                ),
                **error,
            )
            for entry in message.entries
        )
    }


_RESULTS: Final[Mapping[ApiKey, _Results]] = MappingProxyType(
    {
        ApiKey.CREATE_TOPICS: _created_topics,
        ApiKey.CREATE_PARTITIONS: _created_partitions,
        ApiKey.DELETE_TOPICS: _deleted_topics,
        ApiKey.ELECT_LEADERS: _elected_leaders,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered_configs,
        ApiKey.ALTER_CONFIGS: _altered_configs,
        ApiKey.ALTER_CLIENT_QUOTAS: _altered_quotas,
    }
)
