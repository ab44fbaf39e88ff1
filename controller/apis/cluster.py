"""Metadata (3), DescribeCluster (60) and UnregisterBroker (64).

A controller lists the controllers beside the brokers, so that an ordinary admin client can use it,
and names the true active controller. It answers from its committed image, as Kafka's brokers do;
the active controller answers a client that asks for a linearizable answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from controller.apis.request import KafkaRequest, outcome, refuse
from controller.service import Service
from quorum.protocol.apis import METADATA_BY_TOPIC_ID_SINCE
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension_tags import Consistency
from quorum.protocol.refusals import error_fields
from quorum.transport.address import Address
from statemachine.commands import Done, UnregisterBroker
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import NO_LEADER

BROKERS: Final = 1
CONTROLLERS: Final = 2

_NO_ID: Final = UUID(int=0)


async def metadata(request: KafkaRequest, service: Service) -> Any:
    """Brokers, controllers and topics; version 0 asks for all topics with an empty list.

    A node that has just started knows the controllers, and of no topic whether it is there.
    """
    asked = request.message.topics
    everything = asked is None or (request.version == 0 and not asked)

    def read(image: Image | None) -> Any:
        topics: Iterable[Any]
        if image is None:
            image = Image()
            topics = [
                _unnamed(request, each)
                or _topic_error(
                    ErrorCode.LEADER_NOT_AVAILABLE, each.name, getattr(each, "topic_id", None)
                )
                for each in asked
            ]
        elif everything:
            topics = [_topic(image, name, None) for name in sorted(image.topic_ids)]
        else:
            topics = [
                _unnamed(request, each) or _topic(image, each.name, getattr(each, "topic_id", None))
                for each in asked
            ]
        return request.respond(
            brokers=(*_controllers(image, service), *_brokers(image)),
            cluster_id=service.cluster_id,
            controller_id=_leader(service),
            topics=topics,
            error_code=ErrorCode.NONE,
        )

    if request.consistency is Consistency.LINEARIZABLE:
        return await service.read(read)
    return await (service.read(read, stale=True) if everything else service.read_if_ready(read))


async def describe_cluster(request: KafkaRequest, service: Service) -> Any:
    """The controllers for an endpoint type of 2 (KIP-919), else the brokers."""
    endpoint_type = getattr(request.message, "endpoint_type", BROKERS)
    if endpoint_type not in (BROKERS, CONTROLLERS):
        message = f"endpoint type {endpoint_type} is neither 1 (brokers) nor 2 (controllers)"
        return refuse(request, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, message)
    if endpoint_type == BROKERS and request.version >= 1:
        message = (
            "this is a controller: name it in --bootstrap-controller (endpoint type 2), or ask a "
            "broker"
        )
        return refuse(request, ErrorCode.MISMATCHED_ENDPOINT_TYPE, message)

    def read(image: Image | None) -> Any:
        addresses = controller_addresses(image or Image(), service.voter_addresses)
        leader = _leader(service)
        return request.respond(
            **error_fields(ErrorCode.NONE, ""),
            endpoint_type=endpoint_type,
            cluster_id=service.cluster_id or "",
            controller_id=leader if leader in addresses else -1,
            brokers=[
                {"broker_id": each, "host": address.host, "port": address.port}
                for each, address in sorted(addresses.items())
            ],
        )

    if request.consistency is Consistency.LINEARIZABLE:
        return await service.read(read)
    return await service.read_if_ready(read)


def controller_addresses(image: Image, voters: Mapping[int, Address]) -> dict[int, Address]:
    """Return the address of each controller: as registered, or else as a voter."""
    addresses = dict(voters)
    for controller in image.controllers.values():
        for endpoint in controller.endpoints[:1]:
            addresses[controller.controller_id] = Address(endpoint.host, endpoint.port)
    return addresses


async def unregister_broker(request: KafkaRequest, service: Service) -> Any:
    command = UnregisterBroker(broker_id=request.message.broker_id)
    answer = await service.carry_out(command, Done, who=request.principal)
    return request.respond(**outcome(answer))


def _leader(service: Service) -> int:
    leader = service.quorum.leader
    return -1 if leader is None else leader


def _controllers(image: Image, service: Service) -> Iterable[Mapping[str, Any]]:
    for each, address in sorted(controller_addresses(image, service.voter_addresses).items()):
        yield {"node_id": each, "host": address.host, "port": address.port, "rack": None}


def _brokers(image: Image) -> Iterable[Mapping[str, Any]]:
    for each, broker in sorted(image.brokers.items()):
        if not broker.fenced and broker.endpoints:
            endpoint = broker.endpoints[0]
            yield {
                "node_id": each,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": broker.rack,
            }


def _topic_error(error: ErrorCode, name: str | None, topic_id: UUID | None) -> Mapping[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": (),
    }


def _unnamed(request: KafkaRequest, asked: Any) -> Mapping[str, Any] | None:
    """Refuse a topic without a name in a version whose answers cannot do without; else None."""
    if asked.name is not None or request.version >= METADATA_BY_TOPIC_ID_SINCE:
        return None
    return _topic_error(ErrorCode.INVALID_REQUEST, "", asked.topic_id)


def _topic(image: Image, name: str | None, topic_id: UUID | None) -> Mapping[str, Any]:
    topic = image.topic_named(name) if name is not None else image.topics.get(topic_id or _NO_ID)
    if topic is None:
        is_named = name is not None
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_named else ErrorCode.UNKNOWN_TOPIC_ID
        return _topic_error(error, name, topic_id)
    return {
        **_topic_error(ErrorCode.NONE, topic.name, topic.topic_id),
        "partitions": _partitions(image, tuple(topic.existing())),
    }


def _partitions(
    image: Image, partitions: Iterable[tuple[int, PartitionRegistration]]
) -> Iterable[Mapping[str, Any]]:
    for number, partition in partitions:
        has_leader = partition.leader != NO_LEADER
        yield {
            "error_code": ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
            "partition_index": number,
            "leader_id": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": partition.replicas,
            "isr_nodes": partition.isr,
            "offline_replicas": _offline(image, partition),
        }


def _offline(image: Image, partition: PartitionRegistration) -> tuple[int, ...]:
    return tuple(
        each
        for each in partition.replicas
        if (broker := image.brokers.get(each)) is None or broker.fenced
    )
