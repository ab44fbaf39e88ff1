"""The aiohttp application: the routes of every capability, and the two that take or give plans."""

from aiohttp import web

from admin.capabilities.moves import BASE
from admin.http import brokers, moves, plans, quorum
from admin.http.capability_routes import GATEWAY, add_routes
from admin.http.gateway import Gateway
from admin.http.problems import as_problems
from admin.plan_file import PLAN_BYTES_MAX


def make_app(gateway: Gateway) -> web.Application:
    """The application of one node."""
    app = web.Application(middlewares=[as_problems], client_max_size=PLAN_BYTES_MAX)
    app[GATEWAY] = gateway
    app.router.add_get(BASE, moves.get_all)
    app.router.add_post(BASE, moves.post_plan)
    app.router.add_get(f"{BASE}/{{id}}/rollback-plan", moves.get_rollback_plan)
    responses = {**brokers.RESPONSES, **moves.RESPONSES, **plans.RESPONSES, **quorum.RESPONSES}
    add_routes(app.router, responses, moves.REFUSALS)
    return app
