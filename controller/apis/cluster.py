"""Metadata (3), DescribeCluster (60) and UnregisterBroker (64): who is there, and with what.

A controller lists itself and its fellows beside the brokers, so that an ordinary admin client can
point at it, and always names the true active controller. It answers from its committed image,
as brokers do in Kafka; the active controller answers instead where an asker says that the answer
must not be stale.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from controller.apis.request import KafkaRequest, code
from controller.service import Service
from quorum.protocol.extension_tags import Consistency
from quorum.transport.address import Address
from statemachine.brokers.registration import BrokerRegistration
from statemachine.commands import UnregisterBroker
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.queries import TopicDescription, describe_topic
from statemachine.vocabulary import NO_LEADER

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
UNKNOWN_TOPIC_ID: Final = 100
MISMATCHED_ENDPOINT_TYPE: Final = 114
UNSUPPORTED_ENDPOINT_TYPE: Final = 115
BROKERS: Final = 1
CONTROLLERS: Final = 2


async def metadata(call: KafkaRequest, service: Service) -> Any:
    """Brokers, controllers and topics; version 0 asks for all topics with an empty list.

    A node that has just started knows the controllers, and of no topic whether it is there.
    """
    asked = call.message.topics
    everything = asked is None or (call.version == 0 and not asked)

    def read(image: Image | None) -> Any:
        topics: Iterable[Any]
        if image is None:
            image = Image()
            topics = [_unknown_yet(call, each) for each in asked]
        elif everything:
            topics = [_topic(call, image, name, None) for name in sorted(image.topic_ids)]
        else:
            topics = [
                _topic(call, image, each.name, getattr(each, "topic_id", None)) for each in asked
            ]
        return call.respond(
            brokers=(*_controllers(call, image, service), *_brokers(call, image)),
            cluster_id=service.cluster_id,
            controller_id=_leader(service),
            topics=tuple(topics),
            error_code=code(0),
        )

    if call.consistency is Consistency.LINEARIZABLE:
        return await service.read(read)
    return await (service.read(read, stale=True) if everything else service.read_if_ready(read))


def refuse_metadata(call: KafkaRequest, error: int, _message: str) -> Any:
    return call.respond(
        brokers=(), cluster_id=None, controller_id=-1, topics=(), error_code=code(error)
    )


async def describe_cluster(call: KafkaRequest, service: Service) -> Any:
    """The controllers for an endpoint type of 2 (KIP-919), else the brokers."""
    endpoint_type = getattr(call.message, "endpoint_type", BROKERS)
    if endpoint_type not in (BROKERS, CONTROLLERS):
        message = f"endpoint type {endpoint_type} is neither 1 (brokers) nor 2 (controllers)"
        return refuse_cluster(call, UNSUPPORTED_ENDPOINT_TYPE, message)
    if endpoint_type == BROKERS and call.version >= 1:
        message = (
            "this is a controller: name it in --bootstrap-controller (endpoint type 2), or ask a "
            "broker"
        )
        return refuse_cluster(call, MISMATCHED_ENDPOINT_TYPE, message)

    def read(image: Image | None) -> Any:
        addresses = controller_addresses(image or Image(), service.voter_addresses)
        leader = _leader(service)
        return call.respond(
            error_code=code(0),
            error_message=None,
            endpoint_type=endpoint_type,
            cluster_id=service.cluster_id or "",
            controller_id=leader if leader in addresses else -1,
            brokers=tuple(
                call.part(
                    "DescribeClusterBroker", broker_id=each, host=address.host, port=address.port
                )
                for each, address in sorted(addresses.items())
            ),
        )

    if call.consistency is Consistency.LINEARIZABLE:
        return await service.read(read)
    return await service.read_if_ready(read)


def controller_addresses(image: Image, voters: Mapping[int, Address]) -> dict[int, Address]:
    """Where the controllers are: as they registered, or as voters of whom nothing is known yet."""
    addresses = dict(voters)
    for controller in image.controllers.values():
        for endpoint in controller.endpoints[:1]:
            addresses[controller.controller_id] = Address(endpoint.host, endpoint.port)
    return addresses


def refuse_cluster(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message, cluster_id="", brokers=())


async def unregister_broker(call: KafkaRequest, service: Service) -> Any:
    command = UnregisterBroker(broker_id=call.message.broker_id)
    answer = await service.unregister_broker(call.principal, command)
    return call.respond(error_code=code(answer.error.code), error_message=answer.message or None)


def refuse_unregister(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message)


def _leader(service: Service) -> int:
    leader = service.quorum.leader
    return -1 if leader is None else leader


def _controllers(call: KafkaRequest, image: Image, service: Service) -> Iterable[Any]:
    for each, address in sorted(controller_addresses(image, service.voter_addresses).items()):
        yield call.part(
            "MetadataResponseBroker", node_id=each, host=address.host, port=address.port, rack=None
        )


def _brokers(call: KafkaRequest, image: Image) -> Iterable[Any]:
    for broker in sorted(image.brokers.values(), key=lambda each: each.broker_id):
        if not broker.fenced and broker.endpoints:
            yield _broker(call, broker)


def _broker(call: KafkaRequest, broker: BrokerRegistration) -> Any:
    endpoint = broker.endpoints[0]
    return call.part(
        "MetadataResponseBroker",
        node_id=broker.broker_id,
        host=endpoint.host,
        port=endpoint.port,
        rack=broker.rack,
    )


def _unknown_yet(call: KafkaRequest, asked: Any) -> Any:
    return call.part(
        "MetadataResponseTopic",
        error_code=code(LEADER_NOT_AVAILABLE),
        name=asked.name,
        topic_id=getattr(asked, "topic_id", None),
        is_internal=False,
        partitions=(),
    )


def _topic(call: KafkaRequest, image: Image, name: str | None, topic_id: UUID | None) -> Any:
    key = name if name is not None else (topic_id or UUID(int=0))
    topic = describe_topic(image, key)
    error = 0
    partitions: tuple[Any, ...] = ()
    if topic is None:
        error = UNKNOWN_TOPIC_ID if name is None else UNKNOWN_TOPIC_OR_PARTITION
    else:
        partitions = tuple(_partitions(call, image, topic))
        name, topic_id = topic.name, topic.topic_id
    return call.part(
        "MetadataResponseTopic",
        error_code=code(error),
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=partitions,
    )


def _partitions(call: KafkaRequest, image: Image, topic: TopicDescription) -> Iterable[Any]:
    for number, partition in topic.partitions:
        yield call.part(
            "MetadataResponsePartition",
            error_code=code(LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else 0),
            partition_index=number,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=_offline(image, partition),
        )


def _offline(image: Image, partition: PartitionRegistration) -> tuple[int, ...]:
    return tuple(
        each
        for each in partition.replicas
        if (broker := image.brokers.get(each)) is None or broker.fenced
    )
