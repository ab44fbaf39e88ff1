"""The aiohttp application: its routes, and the handlers of those that are about the quorum."""

from typing import Final

from aiohttp import web

from admin.anywhere import Anywhere
from admin.capabilities.moves import BASE
from admin.http import brokers, moves, plans
from admin.http.bodies import (
    quorum_body,
    transfer_body,
    voters_body,
    whereabouts_body,
)
from admin.http.capability_routes import ANYWHERE, add_routes
from admin.http.problems import Handler, Problem, as_problems
from admin.http.requests import (
    ANONYMOUS,
    CAPABILITIES,
    KEY_HEADER,
    as_json,
    check_parameters,
    is_stale,
)
from admin.http.voter_bodies import successor_in, target_in
from admin.plan_file import PLAN_BYTES_MAX


def make_app(capabilities: Anywhere) -> web.Application:
    """The application of one node; `capabilities` answers, wherever the active controller is."""
    app = web.Application(middlewares=[as_problems, heed_keys], client_max_size=PLAN_BYTES_MAX)
    app[CAPABILITIES] = app[ANYWHERE] = capabilities
    app.router.add_get("/v1/quorum", get_quorum)
    app.router.add_get("/v1/quorum/brokers", get_brokers)
    app.router.add_get("/v1/quorum/voters", get_voters)
    app.router.add_put("/v1/quorum/voters", put_voters)
    app.router.add_delete("/v1/quorum/voters/target", delete_target)
    app.router.add_post("/v1/quorum/leader:transfer", post_transfer)
    app.router.add_get(BASE, moves.get_all)
    app.router.add_post(BASE, moves.post_plan)
    app.router.add_get(f"{BASE}/{{id}}/rollback-plan", moves.get_rollback_plan)
    add_routes(
        app.router, {**brokers.RESPONSES, **moves.RESPONSES, **plans.RESPONSES}, moves.REFUSALS
    )
    return app


@web.middleware
async def heed_keys(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a key where it would be passed over: whoever gives it relies on it."""
    is_change = request.method not in ("GET", "HEAD")
    if is_change and KEY_HEADER in request.headers and not _takes_key(request):
        what = f"{request.method} {request.path}"
        raise Problem(400, "Key not taken", f"{what} takes no {KEY_HEADER}; leave it out")
    return await handler(request)


def _takes_key(request: web.Request) -> bool:
    found = request.match_info
    # What is not there at all is said by whoever looks for it.
    return found.http_exception is not None or found.handler not in _KEYLESS


async def get_quorum(request: web.Request) -> web.Response:
    """Leader, epoch, high watermark, and how far every replica has come."""
    check_parameters(request, "stale")
    found = await request.app[CAPABILITIES].describe_quorum(stale=is_stale(request))
    return as_json(quorum_body(found))


async def get_brokers(request: web.Request) -> web.Response:
    """Where every node is, as this one has heard it; it needs no leader."""
    check_parameters(request)
    return as_json(whereabouts_body(request.app[CAPABILITIES].whereabouts()))


async def get_voters(request: web.Request) -> web.Response:
    """Who votes, who is to, and what the change waits for."""
    check_parameters(request, "stale")
    found = await request.app[CAPABILITIES].describe_quorum(stale=is_stale(request))
    return as_json(voters_body(found))


async def put_voters(request: web.Request) -> web.Response:
    """Let `target_voters` vote in the end: 202 once that is committed, and `GET` tells the rest."""
    check_parameters(request)
    target = target_in(await request.read())
    await request.app[CAPABILITIES].alter_voters(ANONYMOUS, target)
    found = await request.app[CAPABILITIES].describe_quorum()
    is_done = not found.target_voters and found.waits_for is None
    return as_json(voters_body(found), status=200 if is_done else 202)


async def delete_target(request: web.Request) -> web.Response:
    """Cancel what is under way: the voters stay as they are now."""
    check_parameters(request)
    await request.app[CAPABILITIES].alter_voters(ANONYMOUS, None)
    return as_json(voters_body(await request.app[CAPABILITIES].describe_quorum()))


async def post_transfer(request: web.Request) -> web.Response:
    """Let another controller be the active one: `{"to": 3}`, or whoever suits best without a body.

    200 once it is, with who leads in which epoch.
    """
    check_parameters(request)
    to = successor_in(await request.read())
    found = await request.app[CAPABILITIES].transfer_leadership(ANONYMOUS, to)
    return as_json(transfer_body(found))


_KEYLESS: Final[frozenset[object]] = frozenset({put_voters, delete_target, post_transfer})
