"""The aiohttp application: its routes, and one handler for each."""

from aiohttp import web

from admin.anywhere import Anywhere
from admin.http import brokers
from admin.http.bodies import (
    quorum_body,
    reassignment_body,
    transfer_body,
    voters_body,
    whereabouts_body,
)
from admin.http.problems import Problem, as_problems, refused
from admin.http.requests import ANONYMOUS, CAPABILITIES, as_json, check_parameters, is_stale
from admin.http.targets import successor_in, target_in
from admin.plan_file import PLAN_BYTES_MAX, InvalidPlan, parse_plan


def make_app(capabilities: Anywhere) -> web.Application:
    """The application of one node; `capabilities` answers, wherever the active controller is."""
    app = web.Application(middlewares=[as_problems], client_max_size=PLAN_BYTES_MAX)
    app[CAPABILITIES] = capabilities
    app.router.add_get("/v1/quorum", get_quorum)
    app.router.add_get("/v1/quorum/brokers", get_brokers)
    app.router.add_get("/v1/quorum/voters", get_voters)
    app.router.add_put("/v1/quorum/voters", put_voters)
    app.router.add_delete("/v1/quorum/voters/target", delete_target)
    app.router.add_post("/v1/quorum/leader:transfer", post_transfer)
    app.router.add_get("/v1/reassignments", get_reassignments)
    app.router.add_post("/v1/reassignments", post_reassignments)
    brokers.add_routes(app.router)
    return app


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


async def get_reassignments(request: web.Request) -> web.Response:
    """The partitions under way; `?topic=NAME` asks for one topic."""
    check_parameters(request, "topic", "stale")
    found = await request.app[CAPABILITIES].list_reassignments(None, stale=is_stale(request))
    topic = request.query.get("topic")
    shown = [reassignment_body(each) for each in found.moves if topic in (None, each.topic)]
    return as_json({"reassignments": shown, "total": len(shown), "as_of_offset": found.as_of})


async def post_reassignments(request: web.Request) -> web.Response:
    """Begin the moves of a plan, in the JSON form of `reassign-partitions`.

    One bad partition does not stop the others: 200 if at least one was accepted, with the errors
    of the rest; 400 if none was.
    """
    check_parameters(request)
    try:
        text = (await request.read()).decode()
        assignments = parse_plan(text)
    except UnicodeDecodeError as error:
        raise Problem(400, "Not UTF-8", f"the body must be JSON in UTF-8: {error}") from error
    except InvalidPlan as error:
        raise Problem(400, "Invalid plan", str(error)) from error
    results = await request.app[CAPABILITIES].alter_reassignments(ANONYMOUS, assignments)
    failed = [each for each in results if each.error_code]
    if len(failed) == len(results):
        raise refused(failed)
    accepted = [
        {"topic": each.topic, "partition": each.partition}
        for each in results
        if not each.error_code
    ]
    return as_json(
        {"accepted": accepted, "errors": refused(failed).body["errors"] if failed else []}
    )
