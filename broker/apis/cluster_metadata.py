"""Metadata, DescribeCluster and DescribeTopicPartitions, answered from the image.

Clients see this broker as the "controller": they cannot reach the controllers, and a broker
forwards what only the active controller can do (KIP-590).
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, Final
from uuid import UUID

from broker.apis.partition_lookup import live_brokers
from broker.limits import DESCRIBED_PARTITIONS_MAX
from quorum.protocol import codec
from quorum.protocol.apis import METADATA_BY_TOPIC_ID_SINCE
from quorum.protocol.errors import ErrorCode
from quorum.transport.inbound import InboundRequest
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import NO_LEADER, BrokerId

_NO_OPERATIONS: Final = -(2**31)
"""The value for "authorized operations were not requested" (KIP-430)."""
_ENDPOINT_BROKERS: Final = 1
_ZERO: Final = timedelta(0)


class ClusterApi:
    """The handler of the three requests; each is answered at once."""

    def __init__(self, broker_id: BrokerId, image: Image) -> None:
        self._broker_id = broker_id
        self._image = image
        self.cluster_id: str | None = None

    # --- Metadata (3) -----------------------------------------------------------------------

    def metadata(self, request: InboundRequest) -> None:
        """Metadata (3). Null topics mean all; an empty list means all in v0 and none from v1 on."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        payload = codec.make_known(
            schema,
            throttle_time=_ZERO,
            error_code=codec.error_code(ErrorCode.NONE),
            brokers=self._brokers(codec.nested(schema, "MetadataResponseBroker")),
            cluster_id=self.cluster_id,
            controller_id=self._controller(),
            topics=tuple(self._asked_topics(schema, version, message.topics)),
            cluster_authorized_operations=_NO_OPERATIONS,
        )
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def _asked_topics(
        self, schema: type[Any], version: int, asked: Sequence[Any] | None
    ) -> Iterable[Any]:
        live = {broker.broker_id for broker, _ in live_brokers(self._image)}
        if asked is None or (version == 0 and not asked):
            for name in sorted(self._image.topic_ids):
                topic = self._image.topic_named(name)
                assert topic is not None
                yield self._topic(schema, topic, live)
            return
        for each in asked:
            topic_id, name = getattr(each, "topic_id", None), each.name
            if name is None and version < METADATA_BY_TOPIC_ID_SINCE:
                yield _no_topic(schema, "", topic_id, ErrorCode.INVALID_REQUEST)
                continue
            found = (
                self._image.topics.get(topic_id)
                if name is None and topic_id is not None
                else self._image.topic_named(name or "")
            )
            if found is not None:
                yield self._topic(schema, found, live)
            else:
                error = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if name is not None
                    else ErrorCode.UNKNOWN_TOPIC_ID
                )
                yield _no_topic(schema, name, topic_id, error)

    def _topic(self, schema: type[Any], topic: Topic, live: set[BrokerId]) -> Any:
        of_partition = codec.nested(schema, "MetadataResponsePartition")
        return codec.make_known(
            codec.nested(schema, "MetadataResponseTopic"),
            error_code=codec.error_code(ErrorCode.NONE),
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name.startswith("__"),
            partitions=tuple(
                codec.make_known(
                    of_partition,
                    error_code=codec.error_code(_leader_code(partition, live)),
                    partition_index=number,
                    leader_id=_live_leader(partition, live),
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=partition.replicas,
                    isr_nodes=partition.isr,
                    offline_replicas=_offline(partition, live),
                )
                for number, partition in topic.existing()
            ),
            topic_authorized_operations=_NO_OPERATIONS,
        )

    def _brokers(self, schema: type[Any]) -> tuple[Any, ...]:
        return tuple(
            codec.make_known(
                schema,
                node_id=broker.broker_id,
                broker_id=broker.broker_id,
                host=where.host,
                port=where.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker, where in live_brokers(self._image)
        )

    def _controller(self) -> BrokerId:
        """This broker, or another unfenced one while it is fenced: both forward."""
        live = [broker.broker_id for broker, _ in live_brokers(self._image)]
        if self._broker_id in live:
            return self._broker_id
        return live[0] if live else NO_LEADER

    # --- DescribeCluster (60) ---------------------------------------------------------------

    def describe_cluster(self, request: InboundRequest) -> None:
        """DescribeCluster (60): the brokers.

        A broker's listener does not show controllers (KIP-919).
        """
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        code, reason = ErrorCode.NONE, None
        if getattr(message, "endpoint_type", _ENDPOINT_BROKERS) != _ENDPOINT_BROKERS:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            reason = "a broker describes brokers only; ask a controller for controllers"
        payload = codec.make_known(
            schema,
            throttle_time=_ZERO,
            error_code=codec.error_code(code),
            error_message=reason,
            endpoint_type=_ENDPOINT_BROKERS,
            cluster_id=self.cluster_id or "",
            controller_id=self._controller(),
            brokers=self._brokers(codec.nested(schema, "DescribeClusterBroker")),
            cluster_authorized_operations=_NO_OPERATIONS,
        )
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    # --- DescribeTopicPartitions (75) -------------------------------------------------------

    def describe_topic_partitions(self, request: InboundRequest) -> None:
        """DescribeTopicPartitions (75): topics by name up to the limit, then a cursor."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        names = sorted({each.name for each in message.topics}) or sorted(self._image.topic_ids)
        first = 0
        if message.cursor is not None:
            first = message.cursor.partition_index
            names = [name for name in names if name >= message.cursor.topic_name]
            if not names or names[0] != message.cursor.topic_name:
                first = 0
        limit = max(1, min(message.response_partition_limit, DESCRIBED_PARTITIONS_MAX))
        topics, cursor = self._described(schema, names, first, limit)
        payload = codec.make(schema, throttle_time=_ZERO, topics=tuple(topics), next_cursor=cursor)
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def _described(
        self, schema: type[Any], names: Sequence[str], first: int, limit: int
    ) -> tuple[list[Any], Any]:
        """The topics that fit, and the cursor of the rest; None at the end."""
        live = {broker.broker_id for broker, _ in live_brokers(self._image)}
        of_cursor = codec.nested(schema, "Cursor")
        topics: list[Any] = []
        for name in names:
            if limit == 0:
                return topics, codec.make(of_cursor, topic_name=name, partition_index=first)
            topic = self._image.topic_named(name)
            if topic is None:
                topics.append(
                    _described_topic(schema, name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                )
                continue
            rest = (each for each in topic.existing() if each[0] >= first)
            shown = list(islice(rest, limit + 1))
            more = shown[limit] if len(shown) > limit else None
            partitions = tuple(
                _described_partition(schema, number, partition, live)
                for number, partition in shown[:limit]
            )
            topics.append(
                _described_topic(schema, name, topic.topic_id, ErrorCode.NONE, partitions)
            )
            if more is not None:
                return topics, codec.make(of_cursor, topic_name=name, partition_index=more[0])
            limit -= len(shown)
            first = 0
        return topics, None


def _no_topic(schema: type[Any], name: str | None, topic_id: UUID | None, error: ErrorCode) -> Any:
    return codec.make_known(
        codec.nested(schema, "MetadataResponseTopic"),
        error_code=codec.error_code(error),
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=_NO_OPERATIONS,
    )


def _described_topic(
    schema: type[Any],
    name: str,
    topic_id: UUID | None,
    code: ErrorCode,
    partitions: tuple[Any, ...] = (),
) -> Any:
    return codec.make(
        codec.nested(schema, "DescribeTopicPartitionsResponseTopic"),
        error_code=codec.error_code(code),
        name=name,
        topic_id=topic_id,
        is_internal=name.startswith("__"),
        partitions=partitions,
        topic_authorized_operations=_NO_OPERATIONS,
    )


def _described_partition(
    schema: type[Any], number: int, partition: PartitionRegistration, live: set[BrokerId]
) -> Any:
    return codec.make(
        codec.nested(schema, "DescribeTopicPartitionsResponsePartition"),
        error_code=codec.error_code(_leader_code(partition, live)),
        partition_index=number,
        leader_id=_live_leader(partition, live),
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=_offline(partition, live),
    )


def _leader_code(partition: PartitionRegistration, live: set[BrokerId]) -> ErrorCode:
    return ErrorCode.NONE if partition.leader in live else ErrorCode.LEADER_NOT_AVAILABLE


def _live_leader(partition: PartitionRegistration, live: set[BrokerId]) -> BrokerId:
    return partition.leader if partition.leader in live else NO_LEADER


def _offline(partition: PartitionRegistration, live: set[BrokerId]) -> tuple[BrokerId, ...]:
    return tuple(each for each in partition.replicas if each not in live)
