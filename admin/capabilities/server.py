"""Capabilities carried out on a node: the handler of each request, found and called."""

import asyncio
from typing import Final, TypeVar

from admin.capabilities import planning
from admin.capabilities.schema import HANDLERS, Context, Request, decode_request, encode, refused
from admin.faults import Refused
from controller.move_requests import wrong_key
from controller.service import Service
from quorum.protocol.errors import RequestRefused
from statemachine.errors import Error, Refusal

A = TypeVar("A")

LONG_BODY_BYTES: Final = 32 * 1024
"""Some thousand partitions; a shorter body takes a few milliseconds at most."""

_HANDLERS_OF: Final = (planning,)
"""Modules that hold handlers and no schema."""


async def carry_out(request: Request[A], context: Context) -> A:
    """Carry out a request on this node; raises `Refused` or `NotActive`."""
    if context.stale and not (request.may_be_stale() or request.LOCAL):
        raise Refused(request.failing(), Error.INVALID_REQUEST.code, "only what reads may be stale")
    key: str = getattr(request, "key", "")
    wrong = wrong_key(key) if key else None
    if wrong is not None:
        raise refused(request, Refusal(Error.INVALID_REQUEST, wrong))
    try:
        answer: A = await HANDLERS[type(request)](request, context)
    except RequestRefused as error:
        raise Refused(request.failing(), error.code, error.reason) from error
    return answer


async def handle(
    service: Service, name: str, body: bytes, *, who: str, stale: bool, timeout_ms: int
) -> bytes:
    """Carry out the request in `body` on this node; raises `Refused` or `NotActive`.

    A long body is decoded in a thread, and so is its answer encoded.
    """
    is_long = len(body) > LONG_BODY_BYTES
    if is_long:
        request = await asyncio.to_thread(decode_request, name, body)
    else:
        request = decode_request(name, body)
    answer = await carry_out(
        request, Context(service=service, who=who, stale=stale, timeout_ms=timeout_ms)
    )
    return await asyncio.to_thread(encode, answer) if is_long else encode(answer)
