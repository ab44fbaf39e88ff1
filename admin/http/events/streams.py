"""Requests for event streams: `Accept: text/event-stream` on a resource that can be watched."""

import asyncio
from functools import partial
from typing import Final

from aiohttp import HttpVersion11, web

from admin.capabilities.moves import DescribeMove
from admin.capabilities.schema import Request
from admin.faults import Refused
from admin.http.access import Access
from admin.http.bodies import LIMITS
from admin.http.caller import CALLER, NotAllowed
from admin.http.capability_routes import GATEWAY, INT64_MAX, check_parameters, described, id_in
from admin.http.events.hub import HUB, EventHub, Watcher, chunk
from admin.http.events.resources import EVENT_STREAM, LAST_EVENT_ID, OVERVIEW, RESOURCES, Resource
from admin.http.gateway import NoAnswer
from admin.http.limits import Account
from admin.http.listener import no_longer_counted
from admin.http.problems import SECURITY_HEADERS, Handler, Problem
from admin.units import whole_number
from quorum.transport.address import network_of

RETRY_AFTER_SECONDS: Final = 10
RETRY_MS: Final = 1_000
"""When a browser's EventSource connects again."""

STREAMS: Final = web.AppKey("streams", Account)
"""The open streams, in total and of each address."""
STREAM_ACCESS: Final = web.AppKey("stream_access", Access)


def add_streams(app: web.Application, access: Access) -> None:
    """Let the application of a node answer requests for event streams."""
    limits = app[LIMITS]
    app[STREAM_ACCESS] = access
    app[STREAMS] = Account(limits.streams_max, limits.streams_max_per_ip)
    app[HUB] = EventHub(app[GATEWAY])
    app.on_shutdown.append(_close)
    app.router.add_get(OVERVIEW, _only_a_stream)


async def _close(app: web.Application) -> None:
    await app[HUB].close()


async def _only_a_stream(request: web.Request) -> web.Response:
    """Refuse to answer with anything but a stream."""
    raise Problem(
        406, "Only a stream", f"{request.path} has events only; add Accept: {EVENT_STREAM}"
    )


@web.middleware
async def streamed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with the events of a resource, if the request asks for them.

    A request that takes nothing but events is refused where there are none (RFC 9110, 15.5.7).
    """
    resource = _resource_of(request)
    return await handler(request) if resource is None else await _stream(request, resource)


def _resource_of(request: web.Request) -> Resource | None:
    route = request.match_info.route.resource
    accept = request.headers.get("Accept", "")
    # Most requests ask for no stream, and need no list.
    if request.method != "GET" or route is None or EVENT_STREAM not in accept:
        return None
    kinds = [each.partition(";")[0].strip() for each in accept.split(",")]
    if EVENT_STREAM not in kinds:
        return None
    found = RESOURCES.get(route.canonical.rstrip("/"))
    if found is None and {*kinds} == {EVENT_STREAM}:
        there = ", ".join(RESOURCES)
        raise Problem(406, "No events", f"{request.path} has no events; there are those of {there}")
    return found


async def _stream(request: web.Request, resource: Resource) -> web.StreamResponse:
    check_parameters(request, "stale")
    if request.version < HttpVersion11:
        raise Problem(505, "HTTP/1.1 needed", "a stream has no length; ask by HTTP/1.1")
    resumes_from = _last_event(request)
    move_id = id_in(request.match_info["id"], "move") if "id" in request.match_info else None
    asked = DescribeMove(move_id=move_id) if move_id is not None else resource.needs()
    request.app[GATEWAY].check(asked, request[CALLER])
    if move_id is not None and resumes_from is None:
        await described(request, move_id, stale=True)
    network = network_of(request.remote or "")
    streams = request.app[STREAMS]
    if not streams.take(network, 1):
        raise Problem(
            503,
            "Too many streams",
            f"this node has {streams.total} event streams, and takes no more of them from here "
            "(http.streams.max, http.streams.max.per.ip); poll, or ask another node",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            retriable=True,
        )
    try:
        no_longer_counted(request)
        return await _watch(request, resource, move_id, resumes_from, asked)
    finally:
        streams.give_back(network, 1)


async def _watch(
    request: web.Request,
    resource: Resource,
    move_id: int | None,
    resumes_from: int | None,
    asked: Request[object],
) -> web.StreamResponse:
    headers = {**SECURITY_HEADERS, "Content-Type": EVENT_STREAM, "X-Accel-Buffering": "no"}
    response = web.StreamResponse(headers=headers)
    # It does not count among the connections any more, so it takes no further request.
    response.force_close()
    await response.prepare(request)
    transport = request.transport
    if transport is None:
        return response
    transport.write(chunk(b"retry: %d\n\n" % RETRY_MS))
    loop = asyncio.get_running_loop()
    watcher = Watcher(
        transport=transport,
        caller=request[CALLER],
        is_still_allowed=partial(_refusal, request, asked),
        resumes_from=resumes_from,
        ended=loop.create_future(),
        began=loop.time(),
        written=loop.time(),
        checked=loop.time(),
    )
    request.app[HUB].watch(resource, move_id, watcher)
    try:
        await watcher.ended
    finally:
        watcher.ended.cancel()
    return response


def _refusal(request: web.Request, asked: Request[object]) -> str | None:
    """Return why the caller of a stream may not read any more, or None."""
    try:
        caller = request.app[STREAM_ACCESS].admit(request)
        request.app[GATEWAY].check(asked, caller)
    except (Problem, Refused, NotAllowed, NoAnswer) as error:
        return str(error)
    return None


def _last_event(request: web.Request) -> int | None:
    """The offset of the last event that the client has, or None."""
    given = request.headers.get(LAST_EVENT_ID)
    if given is None:
        return None
    offset = whole_number(given, INT64_MAX)
    if offset is None:
        right = "send the id of the last event, an offset like 4711, or omit it"
        raise Problem(400, "Invalid id", f"{LAST_EVENT_ID} is {given[:60]!r}; {right}")
    return offset
