"""The check of rights on single resources, for the handlers of requests."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from controller.apis.request import KafkaRequest
from controller.service import Service
from statemachine.commands import Result
from statemachine.security.rights import Access, Right

R = TypeVar("R", bound=Result)


def access_of(
    request: KafkaRequest, service: Service, wanted: Callable[[str], str] | None = None
) -> Access:
    """Return the rights of the client that asks.

    `wanted` returns what it wants of a resource, for a line of the audit log about a refusal.
    """
    return service.authorization.access(replace(request.requester, detail=wanted))


def refused(kind: type[R], access: Access, right: Right, name: str, /, **fields: Any) -> R:
    """Return the result of a part of a request that needs this right on a resource."""
    return kind(error=right.error, message=access.refusal(right, name), **fields)
