"""Metadata (3), DescribeCluster (60) and UnregisterBroker (64).

A controller lists the controllers beside the brokers, so that an ordinary admin client can use it,
and names the true active controller. It answers from its committed image, as Kafka's brokers do;
the active controller answers a client that asks for a linearizable answer.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from controller.apis.access import access_of
from controller.apis.long_answers import answer_in_slices
from controller.apis.request import KafkaRequest, outcome, refuse
from controller.service import AsOf, Service
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import Consistency
from quorum.protocol.metadata_response import encoded_in_slices
from quorum.protocol.refusals import error_fields
from quorum.transport.address import Address
from statemachine.commands import Done, UnregisterBroker
from statemachine.image.image import Image
from statemachine.topics.metadata_responses import (
    asks_for_all_topics,
    cluster_operations,
    live_brokers,
    metadata_topics,
)
from statemachine.vocabulary import NO_LEADER

T = TypeVar("T")

BROKERS: Final = 1
CONTROLLERS: Final = 2


async def metadata(request: KafkaRequest, service: Service) -> Any:
    """List brokers, controllers and topics.

    A node that has just started knows the controllers, but not whether a topic exists.
    """

    access = access_of(request, service)

    def encoded(image: Image | None) -> Generator[None, None, bytes]:
        known = image or Image()
        values = {
            "brokers": (*_controllers(known, service), *live_brokers(known)),
            "cluster_id": service.cluster_id,
            "controller_id": service.leader_id,
            **cluster_operations(request.message, access),
            "error_code": ErrorCode.NONE,
        }
        topics = metadata_topics(image, request.message, request.version, access=access)
        return encoded_in_slices(request.version, values, topics)

    return await answer_in_slices(request, service, partial(_read, request, service), encoded)


async def _read(
    request: KafkaRequest, service: Service, read: Callable[[Image | None], T]
) -> AsOf[T]:
    if request.consistency is Consistency.LINEARIZABLE:
        return await service.read(read)
    if asks_for_all_topics(request.message, request.version):
        return await service.read(read, stale=True)
    return await service.read_if_ready(read)


async def describe_cluster(request: KafkaRequest, service: Service) -> Any:
    """List the controllers for an endpoint type of 2 (KIP-919), else the brokers."""
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

    access = access_of(request, service)

    def read(image: Image | None) -> Any:
        addresses = controller_addresses(image or Image(), service.voter_addresses)
        leader = service.leader_id
        return request.respond(
            **error_fields(ErrorCode.NONE, ""),
            **cluster_operations(request.message, access),
            endpoint_type=endpoint_type,
            cluster_id=service.cluster_id or "",
            controller_id=leader if leader in addresses else NO_LEADER,
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
    answer = await service.carry_out(command, Done, who=str(request.principal))
    return request.respond(**outcome(answer))


def _controllers(image: Image, service: Service) -> Iterable[Mapping[str, Any]]:
    for each, address in sorted(controller_addresses(image, service.voter_addresses).items()):
        yield {"node_id": each, "host": address.host, "port": address.port, "rack": None}
