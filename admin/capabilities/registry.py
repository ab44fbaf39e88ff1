"""The table of all capabilities, and the way of a request to its handler on this node."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from admin.capabilities import (
    acls,
    brokers,
    configs,
    copy_progress,
    decommission,
    elections,
    features,
    health,
    loggers,
    moves,
    operations,
    partitions,
    plans,
    quorum,
    quotas,
    reassignments,
    snapshots,
    support,
    topics,
    users,
)
from admin.capabilities.schema import Context, Request, check, encode
from admin.faults import Refused
from controller.service import Service
from quorum.protocol.errors import RequestRefused
from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.audit_log import Requester
from quorum.version import VERSION
from statemachine.errors import Error

A = TypeVar("A")

LONG_BODY_BYTES: Final = 32 * 1024
"""Some thousand partitions; a shorter body takes a few milliseconds at most."""

CAPABILITIES: Final[Mapping[str, type[Request[Any]]]] = MappingProxyType(
    {
        kind.NAME: kind
        for module in (
            brokers,
            reassignments,
            moves,
            copy_progress,
            plans,
            decommission,
            topics,
            configs,
            partitions,
            elections,
            features,
            quotas,
            acls,
            users,
            quorum,
            snapshots,
            loggers,
            support,
            operations,
            health,
        )
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Request) and "NAME" in vars(kind)
    }
)
"""Every capability by its name."""


def decode_request(name: str, body: bytes) -> Request[Any]:
    """The request of this name; raises `Refused`, which names the field that is wrong."""
    kind = CAPABILITIES.get(name)
    if kind is None:
        reason = f"{name!r} is not known to metaquorum {VERSION}, which this node runs"
        raise Refused("no such capability", Error.INVALID_REQUEST.code, reason)
    try:
        request: Request[Any] = msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # A newer client may name a field that this release would otherwise ignore in silence.
        reason = f"{error} (this node runs metaquorum {VERSION})"
        raise Refused(f"{name} cannot be read", Error.INVALID_REQUEST.code, reason) from None
    return request


async def carry_out(request: Request[A], context: Context) -> A:
    """Carry out a request on this node; raises `Refused` or `NotActive`."""
    if context.stale and not (request.may_be_stale() or request.LOCAL):
        reason = "only requests that read may be stale"
        raise Refused(request.failing(), Error.INVALID_REQUEST.code, reason)
    check(request)
    try:
        answer: A = await request.answer(context)
    except RequestRefused as error:
        throttle_ms = error.throttle_ms
        raise Refused(
            request.failing(), error.code, error.reason, throttle_ms=throttle_ms
        ) from error
    return answer


async def handle(
    service: Service,
    name: str,
    body: bytes,
    *,
    requester: Requester,
    principal: KafkaPrincipal,
    client_id: str,
    stale: bool,
    timeout_ms: int,
) -> bytes:
    """Carry out the request in `body` on this node; raises `Refused` or `NotActive`.

    A long body is decoded in a thread, and so is its answer encoded.
    """
    is_long = len(body) > LONG_BODY_BYTES
    if is_long:
        request = await asyncio.to_thread(decode_request, name, body)
    else:
        request = decode_request(name, body)
    needs = request.needs()
    # The command of a long request takes too long to build where it is refused.
    wanted = None if is_long else request.wanted
    asking = msgspec.structs.replace(requester, detail=wanted)
    refusal = needs.refusal(service.authorization.access(asking))
    if refusal is not None:
        raise Refused(request.failing(), needs.right.error.code, refusal)
    context = Context(
        service=service,
        principal=principal,
        client_id=client_id,
        stale=stale,
        timeout_ms=timeout_ms,
    )
    answer = await carry_out(request, context)
    return await asyncio.to_thread(encode, answer) if is_long else encode(answer)
