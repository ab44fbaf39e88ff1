"""The check of rights on single resources, for the handlers of requests."""

from typing import Any, TypeVar

from controller.apis.request import KafkaRequest
from controller.service import Service
from statemachine.commands import Result
from statemachine.security.rights import Access, Right

R = TypeVar("R", bound=Result)


def access_of(request: KafkaRequest, service: Service) -> Access:
    """Return the rights of the client that asks."""
    return service.authorization.access(request.requester)


def refused(kind: type[R], access: Access, right: Right, name: str, /, **fields: Any) -> R:
    """Return the result of a part of a request that needs this right on a resource."""
    return kind(error=right.error, message=access.refusal(right, name), **fields)
