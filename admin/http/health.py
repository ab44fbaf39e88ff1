"""The health of the cluster as the status of a response, for load balancers and scripts."""

from typing import Final

from aiohttp import web

from admin.capabilities.health import DescribeHealth
from admin.http.capability_routes import as_json, ask, check_parameters
from admin.http.gateway import NoAnswer

HEALTH: Final = "/health"


async def get_health(request: web.Request) -> web.Response:
    """200 if the cluster is healthy, else 503, with the names of the rules; see the capability."""
    check_parameters(request)
    try:
        found = await ask(request, DescribeHealth())
    except NoAnswer:
        found = await ask(request, DescribeHealth(), stale=True)
    body = {"healthy": found.healthy, "rules": [each.rule for each in found.reasons]}
    return as_json(body, status=200 if found.healthy else 503)
