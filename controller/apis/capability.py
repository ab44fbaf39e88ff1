"""The private request (20010) that carries the capabilities of `admin`, opaque here."""

from typing import Any, Protocol

from controller.apis.request import KafkaRequest, code
from controller.service import Service
from quorum.protocol.errors import RequestRefused


class CapabilityHandler(Protocol):
    """Carries out a capability on the active controller, or on any node if it may be stale."""

    async def __call__(
        self, service: Service, name: str, body: bytes, *, who: str, stale: bool, timeout_ms: int
    ) -> bytes:
        """The bytes of the answer; raises `RequestRefused` or `NotActive`."""
        ...


async def handle(request: KafkaRequest, service: Service) -> Any:
    message = request.message
    try:
        body = await service.capability_handler(
            service,
            message.name,
            message.body,
            who=request.principal,
            stale=message.stale,
            timeout_ms=request.timeout_ms,
        )
    except RequestRefused as refused:
        # The client says itself what failed; only the reason travels.
        return refuse(request, refused.code, refused.reason)
    return request.respond(error_code=code(0), error_message=None, body=body)


def refuse(request: KafkaRequest, error: int, message: str) -> Any:
    return request.respond(error_code=code(error), error_message=message or None)
