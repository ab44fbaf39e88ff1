"""Requests that only describe: answered at once from the image and the open partitions.

Clients see this broker as the "controller": they cannot reach the controllers, and a broker
forwards what only the active controller can do (KIP-590).
"""

import asyncio
import logging
from collections.abc import Generator, Iterable, Mapping
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Final

from broker.authorization import BrokerRights
from broker.config import BrokerConfig
from broker.cordoned_log_dirs import CordonedLogDirs
from broker.limits import DESCRIBED_PARTITIONS_MAX, DESCRIBED_TOPICS_MAX
from broker.replica_manager import ReplicaManager
from quorum import log_levels
from quorum.log_events import LogEvent
from quorum.protocol import codec
from quorum.protocol.errors import ErrorCode, RequestRefused
from quorum.protocol.long_array import encode_items
from quorum.protocol.metadata_response import encoded_in_slices
from quorum.protocol.refusals import error_fields
from quorum.transport.address import Address
from quorum.transport.inbound import InboundRequest
from quorum.transport.long_responses import LongResponses
from statemachine.configs.config_responses import config_results, quotas_response
from statemachine.configs.describe_configs import BrokerFile
from statemachine.errors import Error
from statemachine.security.authorizer import CLUSTER_NAME
from statemachine.security.rights import ALTER_CLUSTER_CONFIGS, DESCRIBE_TOPIC, Access
from statemachine.slices import pauses, sort_in_slices
from statemachine.topics.metadata_responses import (
    cluster_operations,
    live_brokers,
    live_ids,
    metadata_topics,
    partition_fields,
    topic_fields,
    topic_operations,
)
from statemachine.vocabulary import NO_LEADER, BrokerId

logger = logging.getLogger("broker")

_ENDPOINT_BROKERS: Final = 1


class DescribeApi:
    """The handlers of the requests that describe."""

    def __init__(
        self,
        config: BrokerConfig,
        manager: ReplicaManager,
        cluster_id: str | None,
        rights: BrokerRights,
        long_responses: LongResponses,
    ) -> None:
        self._rights = rights
        self._file = BrokerFile(str(config.quorum.node_id), _settings(config))
        self._log_dir = str(config.quorum.folder)
        self._cordoned = CordonedLogDirs(
            config.quorum.node_id, manager.image, config.quorum.folder, config.cordoned_log_dirs
        )
        self._long_responses = long_responses
        self._manager = manager
        self._image = manager.image
        self._cluster_id = cluster_id

    def metadata(self, request: InboundRequest, message: Any) -> None:
        """Metadata (3): the brokers and topics, in slices if they are many."""
        access, version = self._rights.access(request), request.api_version
        values = {
            **cluster_operations(message, access),
            "error_code": ErrorCode.NONE,
            "brokers": live_brokers(self._image, request.listener),
            "cluster_id": self._cluster_id,
            "controller_id": self._controller(),
        }
        topics = metadata_topics(self._image, message, version, request.listener, access=access)
        self._answer_in_slices(request, encoded_in_slices(version, values, topics))

    def _answer_in_slices(
        self, request: InboundRequest, response: Generator[None, None, bytes]
    ) -> None:
        made = self._long_responses.make(response, request.network)
        if made.done():
            _respond(request, made)
        else:
            request.on_gone = made.cancel
            made.add_done_callback(partial(_respond, request))

    def cluster(self, request: InboundRequest, message: Any) -> Mapping[str, Any]:
        """DescribeCluster (60): the brokers.

        A broker's listener does not show controllers (KIP-919).
        """
        code, reason = ErrorCode.NONE, None
        if getattr(message, "endpoint_type", _ENDPOINT_BROKERS) != _ENDPOINT_BROKERS:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            reason = "a broker describes brokers only; ask a controller for controllers"
        return {
            **cluster_operations(message, self._rights.access(request)),
            "error_code": code,
            "error_message": reason,
            "endpoint_type": _ENDPOINT_BROKERS,
            "cluster_id": self._cluster_id or "",
            "controller_id": self._controller(),
            "brokers": live_brokers(self._image, request.listener),
        }

    def topic_partitions(self, request: InboundRequest, message: Any) -> None:
        """DescribeTopicPartitions (75): topics by name up to the limit, then a cursor."""
        self._answer_in_slices(request, self._topic_partitions(request, message))

    def _topic_partitions(
        self, request: InboundRequest, message: Any
    ) -> Generator[None, None, bytes]:
        asked, access = {each.name for each in message.topics}, self._rights.access(request)
        begin = ("", 0)
        if message.cursor is not None:
            begin = message.cursor.topic_name, max(0, message.cursor.partition_index)
        # A copy: topics come and go between two slices.
        all_names = [*(asked or self._image.topic_ids)]
        left = (None if each < begin[0] else each for each in all_names)
        names = yield from pauses(sort_in_slices(left))
        limit = max(1, min(message.response_partition_limit, DESCRIBED_PARTITIONS_MAX))
        live = live_ids(self._image, request.listener)
        topics, cursor = self._page(names, access, begin, limit, live, is_asked=bool(asked))
        return codec.response_body(
            request.api_key,
            request.api_version,
            topics=[topic_operations(each, access) for each in topics],
            next_cursor=cursor,
        )

    def _page(
        self,
        names: Iterable[str],
        access: Access,
        begin: tuple[str, int],
        limit: int,
        live: set[BrokerId],
        *,
        is_asked: bool,
    ) -> tuple[list[Mapping[str, Any]], Mapping[str, Any] | None]:
        """The topics from `begin` on that fit, and the cursor of the rest; None at the end."""
        topics: list[Mapping[str, Any]] = []
        for at, name in enumerate(names):
            if limit == 0 or at == DESCRIBED_TOPICS_MAX:
                return topics, {"topic_name": name, "partition_index": 0}
            if not access.may(DESCRIBE_TOPIC, name, is_told=is_asked):
                if is_asked:
                    topics.append(topic_fields(name, None, error=DESCRIBE_TOPIC.error))
                continue
            topic = self._image.topic_named(name)
            if topic is None:
                topics.append(topic_fields(name, None, error=Error.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            first = begin[1] if name == begin[0] else 0
            some = list(islice(topic.existing(first), limit + 1))
            partitions = partition_fields(some[:limit], live)
            topics.append(topic_fields(name, topic.topic_id, partitions))
            if len(some) > limit:
                return topics, {"topic_name": name, "partition_index": some[limit][0]}
            limit -= len(some)
        return topics, None

    def configs(self, request: InboundRequest, message: Any) -> None:
        """DescribeConfigs (32): any resource; of brokers only the cluster default and this one.

        The state machine defines the configurations; this broker adds those of its own file.
        """
        access = self._rights.access(request)
        results = config_results(
            self._image, message, self._file, access=access, loggers_of=self._loggers_of
        )
        self._answer_in_slices(
            request, encode_items(request.api_key, request.api_version, {}, "results", results)
        )

    def _loggers_of(self, node: str) -> Mapping[str, str] | str:
        return log_levels.other_node(int(self._file.broker), node) or log_levels.levels()

    def alter_loggers(self, request: InboundRequest, message: Any) -> Mapping[str, Any]:
        """IncrementalAlterConfigs (44) of log levels alone, which are this broker's own (KIP-412).

        All that one resource names are changed, or none.
        """
        access, right = self._rights.access(request), ALTER_CLUSTER_CONFIGS
        results = []
        for asked in message.resources:
            code, reason = ErrorCode.INVALID_REQUEST, None
            if not access.may(right, CLUSTER_NAME):
                code, reason = ErrorCode(right.error.code), access.refusal(right, CLUSTER_NAME)
            changes = [(each.name, each.config_operation, each.value) for each in asked.configs]
            reason = reason or log_levels.other_node(int(self._file.broker), asked.resource_name)
            reason = reason or log_levels.alter(
                changes, str(request.principal), validate_only=message.validate_only
            )
            results.append(
                error_fields(
                    code if reason else ErrorCode.NONE,
                    reason or "",
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                )
            )
        return {"responses": results}

    def client_quotas(self, request: InboundRequest, message: Any) -> None:
        """DescribeClientQuotas (48): the quotas, as far as this broker has replayed the log."""
        self._answer_in_slices(request, self._client_quotas(request, message))

    def _client_quotas(self, request: InboundRequest, message: Any) -> Generator[None, None, bytes]:
        key, version = request.api_key, request.api_version
        # A copy: entities come and go between two slices.
        response = quotas_response(self._image, message, [*self._image.quotas])
        fields = dict((yield from pauses(response)))
        entries = fields.pop("entries")
        if entries is None:
            return codec.response_body(key, version, **fields, entries=None)
        return (yield from encode_items(key, version, fields, "entries", entries))

    def log_dirs(self, _: InboundRequest, message: Any) -> Mapping[str, Any]:
        """DescribeLogDirs (35): the sizes of the logs in the one directory, without reading a file.

        The space of its volume is reported as unknown (-1).
        """
        partitions = sorted(
            self._manager.partitions.values(), key=lambda each: (each.topic, each.key.number)
        )
        if message.topics is not None:
            wanted = {(each.topic, number) for each in message.topics for number in each.partitions}
            partitions = [each for each in partitions if (each.topic, each.key.number) in wanted]
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": each.key.number,
                        "partition_size": each.log.size_bytes,
                        "offset_lag": max(0, each.high_watermark - each.log_end),
                        "is_future_key": False,
                    }
                    for each in found
                ],
            }
            for topic, found in groupby(partitions, attrgetter("topic"))
        ]
        directory = {
            "error_code": ErrorCode.NONE,
            "log_dir": self._log_dir,
            "topics": topics,
            "is_cordoned": self._cordoned.is_cordoned,
        }
        return {"error_code": ErrorCode.NONE, "results": [directory]}

    def _controller(self) -> BrokerId:
        """This broker, or another unfenced one while it is fenced: both forward."""
        live, own_id = live_ids(self._image), self._manager.broker_id
        return own_id if own_id in live else min(live, default=NO_LEADER)


def _respond(request: InboundRequest, made: "asyncio.Future[bytes]") -> None:
    """Send a response that has been made, or close the connection of one that cannot be."""
    if made.cancelled():
        return
    error = made.exception()
    if error is None:
        request.respond(made.result())
        return
    if not isinstance(error, RequestRefused):
        logger.error(
            "Failed to answer %s", request, exc_info=error, extra=LogEvent.REQUEST_FAILED.extra
        )
    request.reject(str(error))


def _settings(config: BrokerConfig) -> Mapping[str, str]:
    """The effective settings of this broker."""
    voters = (
        f"{each}" if address is None else f"{each}@{Address(*address)}"
        for each, address in sorted(config.quorum.voters.items())
    )
    return {
        **config.settings,
        "node.id": str(config.quorum.node_id),
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": str(config.quorum.folder),
        "log.segment.bytes": str(config.log_segment_bytes),
        "message.max.bytes": str(config.message_bytes_max),
        "min.insync.replicas": str(config.min_insync_replicas),
        "replica.lag.time.max.ms": str(config.replica_lag_time_max_ms),
        "replica.fetch.max.bytes": str(config.replica_fetch_max_bytes),
        "broker.session.timeout.ms": str(config.session_timeout_ms),
        "broker.heartbeat.interval.ms": str(config.heartbeat_interval_ms),
        **({} if config.rack is None else {"broker.rack": config.rack}),
    }
