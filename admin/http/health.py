"""The health of the cluster as the status of a response, for load balancers and scripts."""

from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from admin.capabilities.health import DescribeHealth
from admin.capabilities.schema import Answer, json_of
from admin.http.capability_routes import as_json, ask, check_parameters
from admin.monitoring.health_rules import Rule

HEALTH: Final = "/health"


class HealthSummary(Answer, frozen=True, kw_only=True):
    """The health of the cluster in short; `/v1/quorum/health` tells all."""

    healthy: Annotated[bool, Meta(description="True if no rule that is an error applies")]
    rules: Annotated[tuple[Rule, ...], Meta(description="The rules that apply")]


async def get_health(request: web.Request) -> web.Response:
    """200 if the cluster is healthy, else 503, with the names of the rules; see the capability."""
    check_parameters(request)
    found = await ask(request, DescribeHealth())
    body = HealthSummary(healthy=found.healthy, rules=tuple([each.rule for each in found.reasons]))
    return as_json(json_of(body), status=200 if found.healthy else 503)
