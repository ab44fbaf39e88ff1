"""The application of a listener without its routes: limits, problems, admission, and probes.

Every node with an HTTP listener has them. Probes answer everybody: an orchestrator has no
credentials, and what they say is no secret. Metrics need the right to describe the cluster.
"""

from importlib import import_module
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.http.access import Access
from admin.http.bodies import BODY_MEMORY, LIMITS, RESPONSE_MEMORY, bounded
from admin.http.caller import CALLER, NotAllowed, RoleTooLow
from admin.http.limits import Account, HttpLimits
from admin.http.page.assets import is_of_page
from admin.http.problems import Handler, as_problems
from admin.monitoring.monitor import Monitor

ACCESS: Final = web.AppKey("access", Access)
MONITOR: Final = web.AppKey("monitor", Monitor)

LIVE: Final = "/livez"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
PROBES: Final = (LIVE, READY)
"""Paths that answer without authentication."""


class Live(Struct, frozen=True, kw_only=True):
    """The process is alive."""

    live: bool


class Ready(Struct, frozen=True, kw_only=True):
    """The readiness of a node: it applies the log and knows a leader."""

    ready: bool
    reasons: Annotated[tuple[str, ...], Meta(description="What it lacks; empty if it is ready")]


def base_app(access: Access, limits: HttpLimits, monitor: Monitor | None) -> web.Application:
    """Make an application; without a `monitor` it has neither probes nor metrics."""
    app = web.Application(middlewares=[bounded, as_problems, admitted])
    app[ACCESS] = access
    app[LIMITS] = limits
    for key in (BODY_MEMORY, RESPONSE_MEMORY):
        app[key] = Account(limits.held_bytes_max, limits.held_bytes_max_per_ip)
    if monitor is not None:
        # Only nodes with a listener need the library: loaded here, it delays no scrape.
        import_module("..monitoring.exposition", __package__)
        app[MONITOR] = monitor
        app.router.add_get(LIVE, get_live)
        app.router.add_get(READY, get_ready)
        app.router.add_get(METRICS, get_metrics)
    return app


@web.middleware
async def admitted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle a request only if its caller is known and no other page sends it."""
    access = request.app[ACCESS]
    if is_of_page(request):
        access.check_host(request)
    elif request.path not in PROBES:
        request[CALLER] = access.admit(request)
    try:
        return await handler(request)
    except RoleTooLow as error:
        access.audit_log.denied(error.requester, error.needs.right, error.needs.resource, error)
        raise


async def get_live(_request: web.Request) -> web.Response:
    """200 while the event loop of the process turns, whatever the quorum does."""
    return _probe(Live(live=True), 200)


async def get_ready(request: web.Request) -> web.Response:
    """200 if the node applies the metadata log and knows a leader; else 503, with reasons."""
    reasons = request.app[MONITOR].unready()
    found = Ready(ready=not reasons, reasons=tuple(reasons))
    return _probe(found, 200 if found.ready else 503)


def _probe(body: Struct, status: int) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )


async def get_metrics(request: web.Request) -> web.Response:
    """The metrics of this node, as Prometheus text or protobuf; they need the right to describe the
    cluster."""
    from admin.monitoring import protobuf_exposition
    from admin.monitoring.exposition import CONTENT_TYPE, protobuf_of, text_of

    caller, monitor = request[CALLER], request.app[MONITOR]
    what = f"GET {METRICS}"
    caller.check(what, DESCRIBE_CLUSTER)
    right = DESCRIBE_CLUSTER.right
    access = monitor.access(caller.requester(what))
    if not access.may(right):
        raise NotAllowed(access.refusal(right))
    samples = await monitor.samples()
    if protobuf_exposition.is_preferred(request.headers.get("Accept", "")):
        headers = {"Content-Type": protobuf_exposition.CONTENT_TYPE}
        return web.Response(body=protobuf_of(samples), headers=headers)
    return web.Response(body=text_of(samples), headers={"Content-Type": CONTENT_TYPE})
