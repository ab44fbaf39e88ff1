"""The private request (20010) that carries the capabilities of `admin`, opaque here."""

from typing import Any, Protocol

from admin.faults import Refused
from controller.apis.request import KafkaRequest, code
from controller.service import Service


class CapabilityHandler(Protocol):
    """Carries out a capability on the active controller, or on any node if it may be stale."""

    async def __call__(
        self, service: Service, name: str, body: bytes, *, who: str, stale: bool
    ) -> bytes:
        """The bytes of the answer; raises `Refused` or `NotActive`."""
        ...


async def handle(call: KafkaRequest, service: Service) -> Any:
    message = call.message
    try:
        body = await service.capability_handler(
            service, message.name, message.body, who=call.principal, stale=message.stale
        )
    except Refused as refused:
        # The client says itself what failed; only the reason travels.
        return refuse(call, refused.code, refused.message or "")
    return call.respond(error_code=code(0), error_message=None, body=body)


def refuse(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message or None)
