"""The HTTP application of a node: its routes, and the responses that differ from an answer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web
from msgspec import convert
from msgspec.structs import asdict, replace

from admin.capabilities.brokers import (
    BrokersAltered,
    CordonBrokers,
    DescribeBroker,
    ListBrokers,
    UncordonBrokers,
    UnregisterBrokers,
    not_registered,
)
from admin.capabilities.configs import BrokerConfigs, DescribeBrokerConfigs
from admin.capabilities.decommission import DecommissionBrokers, RecommissionBrokers
from admin.capabilities.elections import ElectedLeaders, ElectLeaders
from admin.capabilities.moves import (
    BASE,
    AlterMove,
    CancelMoves,
    DescribeMove,
    ListMoves,
    MoveProgress,
    MovesChanged,
    PartitionResult,
    PauseMoves,
    ResumeMoves,
    RollBackMove,
    whole_plan,
)
from admin.capabilities.operations import BASE as OPERATIONS
from admin.capabilities.operations import (
    RETRY_AFTER_SECONDS,
    decommission_id,
    moves_id,
    voters_id,
)
from admin.capabilities.plan_steps import (
    UNTRIED,
    PlanResult,
    begun_data,
    drain_data,
    plan_data,
)
from admin.capabilities.plans import ChangeReplicationFactor, GeneratePlan
from admin.capabilities.quorum import AlterVoters, Voters
from admin.capabilities.reassignments import BeginMove, BegunMove
from admin.capabilities.schema import Request, json_of
from admin.capabilities.topics import BASE as TOPICS
from admin.capabilities.topics import CreatedTopic, CreateTopic
from admin.faults import Refused
from admin.http import openapi
from admin.http.access import Access
from admin.http.answers import (
    STORED,
    STORED_BROKERS_MAX,
    AllPaused,
    BrokersStored,
    PausedMove,
    StoredBytes,
)
from admin.http.base_app import base_app
from admin.http.bodies import read_body
from admin.http.caller import CALLER
from admin.http.capability_routes import (
    GATEWAY,
    Respond,
    add_routes,
    as_json,
    ask,
    check_body,
    check_parameters,
    described,
    flag,
    id_in,
    key_of,
)
from admin.http.events.streams import add_streams, streamed
from admin.http.gateway import Gateway
from admin.http.health import HEALTH, get_health
from admin.http.limits import HttpLimits
from admin.http.page.assets import add_page
from admin.http.problems import (
    REPEATED,
    Problem,
    kafka_problem,
    refusals_data,
    refused,
    refused_part,
)
from admin.monitoring.monitor import Monitor
from admin.plan_file import InvalidPlan, move_of, parse_move_file, render_plan
from statemachine.errors import Error
from statemachine.limits import PLANNED_STEPS_SHOWN_MAX


def make_app(
    gateway: Gateway,
    access: Access,
    limits: HttpLimits = HttpLimits(),  # noqa: B008 - frozen
    monitor: Monitor | None = None,
) -> web.Application:
    """Make the application of one controller."""
    app = base_app(access, limits, monitor)
    # Behind those of every node: who asks is known.
    app.middlewares.append(streamed)
    app[GATEWAY] = gateway
    if monitor is not None:
        app.router.add_get(HEALTH, get_health)
    app.router.add_post(BASE, post_plan)
    app.router.add_get(f"{BASE}/{{id}}/rollback-plan", get_rollback_plan)
    app.router.add_get(STORED, get_stored_bytes)
    app.router.add_get(openapi.PATH, get_openapi)
    add_routes(app.router, RESPONSES)
    add_streams(app, access)
    add_page(app.router)
    _add_trailing_slashes(app.router)
    return app


def _add_trailing_slashes(router: web.UrlDispatcher) -> None:
    """Make each path with a trailing slash the same resource."""
    for route in tuple(router.routes()):
        assert route.resource is not None
        path = route.resource.canonical
        if path.startswith("/v1/"):
            router.add_route(route.method, f"{path}/", route.handler)


# --- moves -------------------------------------------------------------------------------------


async def post_plan(request: web.Request) -> web.Response:
    """Begin a move by a plan of `reassign-partitions`, with its name, priority and throttle.

    202 with the location of the operation; 200 if nothing had to change, and for a dry run. One
    bad partition does not stop the others: the response lists the refused ones with reasons; 400 if
    all are.
    """
    check_parameters(request, "dry_run")
    asked = await _plan_in(request, key_of(request), is_dry=flag(request, "dry_run"))
    found = await ask(request, asked)
    request[REPEATED] = found.repeated
    if len(found.refused) == len(found.results):
        raise refused(400, found.refused, len(found.refused))
    if asked.dry_run:
        plan = {each.id: each.replicas or () for each in asked.assignments}
        moved = await request.app[GATEWAY].bytes_of_move(plan, found.refused)
        return as_json({**_foreseen_data(found), **json_of(moved)})
    return _begun(_begun_data(found), [found.move_id] if found.move_id else [])


async def _plan_in(request: web.Request, key: str, *, is_dry: bool) -> BeginMove:
    check_body(request, BeginMove)
    body = await read_body(request, large=True)
    # A plan that cannot be read may be a dry run.
    dry_run = True
    try:
        # In a thread: a plan of 100,000 partitions takes a second.
        found = await asyncio.to_thread(lambda: parse_move_file(body.decode()))
        dry_run = is_dry or getattr(found, "dry_run", False)
        asked = await asyncio.to_thread(move_of, found)
    except (UnicodeDecodeError, InvalidPlan) as error:
        # Whoever lacks the right hears of that, and nothing of the plan.
        request.app[GATEWAY].check(BeginMove(assignments=(), dry_run=dry_run), request[CALLER])
        if isinstance(error, InvalidPlan):
            raise Problem(400, "Invalid plan", str(error)) from error
        wrong = f"the body is not UTF-8 text: byte {error.start} is wrong"
        raise Problem(400, "Not UTF-8", wrong) from error
    return replace(asked, key=key, dry_run=dry_run)


async def get_rollback_plan(request: web.Request) -> web.Response:
    """The plan that restores the previous replicas, as JSON for `reassign-partitions`.

    The header Partitions-Gone counts omitted partitions, whose topics are deleted.
    """
    check_parameters(request)
    move_id = id_in(request.match_info["id"], "move")
    await described(request, move_id)
    found = await whole_plan(lambda part: ask(request, part), move_id)
    # In a thread: 100,000 partitions take half a second.
    text = await asyncio.to_thread(render_plan, found.originals)
    headers = {"Partitions-Gone": str(found.gone)}
    return web.Response(text=text, content_type="application/json", headers=headers)


async def get_openapi(request: web.Request) -> web.Response:
    """The description of this listener (OpenAPI 3.1)."""
    check_parameters(request)
    return as_json(await asyncio.to_thread(openapi.document))


async def paused(
    request: web.Request, asked: PauseMoves | ResumeMoves, answer: MovesChanged
) -> web.Response:
    """The changed move, or the pause of all moves, with the copies that it does not stop."""
    await _check_done(request, answer)
    running: dict[str, Any] = {
        "not_stopped": answer.not_stopped,
        "not_stopped_total": answer.not_stopped_total,
    }
    if not asked.everything:
        move = await described(request, asked.moves[0])
        return as_json(json_of(PausedMove(**asdict(move), **running)))
    found = await ask(request, ListMoves(page_size=1))
    body = AllPaused(as_of_offset=found.as_of_offset, all_paused=found.all_paused, **running)
    return as_json(json_of(body))


async def altered(request: web.Request, asked: AlterMove, answer: MovesChanged) -> web.Response:
    """The changed move."""
    return await _altered(request, asked.move_id, answer)


async def _altered(request: web.Request, move_id: int, answer: MovesChanged) -> web.Response:
    await _check_done(request, answer)
    return as_json(json_of(await described(request, move_id)))


async def cancelled(request: web.Request, asked: CancelMoves, answer: MovesChanged) -> web.Response:
    """The answer and `dry_run`; 409 if no partition could be cancelled."""
    if not answer.partitions_accepted:
        await _check_done(request, answer)
        if answer.partitions_refused:
            raise _conflict(answer)
    return as_json({"dry_run": asked.dry_run, **json_of(answer)})


async def rolled_back(
    request: web.Request, asked: RollBackMove, answer: MovesChanged
) -> web.Response:
    """The answer: 202 with the location of the operation; 200 if there is nothing to roll back."""
    if answer.partitions_refused and not answer.begun_move_id:
        raise _conflict(answer)
    body = json_of(answer)
    if not asked.dry_run:
        return _begun(body, [answer.begun_move_id] if answer.begun_move_id else [])
    plan = await whole_plan(lambda part: ask(request, part), asked.move_id)
    moved = await request.app[GATEWAY].bytes_of_move(plan.originals, _refused(answer))
    return as_json({"dry_run": True, **body, **json_of(moved)})


async def _check_done(request: web.Request, answer: MovesChanged) -> None:
    """Raise a `Problem` if a move that was named is not listed, or was not changed."""
    for each in answer.moves:
        if each.kafka_error_code:
            await described(request, each.move_id)
            raise refused_part(409, each)


def _conflict(answer: MovesChanged) -> Problem:
    """409: no partition of a move could be changed, each with its reason."""
    return refused(409, _refused(answer), answer.partitions_refused)


def _refused(answer: MovesChanged) -> list[PartitionResult]:
    return [each for each in answer.partitions if each.kafka_error_code]


def _begun(body: Any, moves: Sequence[int]) -> web.Response:
    """202 with the location of the operation of these moves, or 200 if none has begun."""
    return _accepted(body, moves_id(moves)) if moves else as_json(body)


def _accepted(body: Any, operation_id: str) -> web.Response:
    """202 with the location of an operation, and when it is worth asking for it."""
    response = as_json(body, status=202)
    response.headers["Location"] = f"{OPERATIONS}/{operation_id}"
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def _begun_data(found: BegunMove) -> dict[str, Any]:
    """The JSON of a new move, and the refused partitions."""
    return {
        "move_id": found.move_id or None,
        "accepted": len(found.accepted),
        "refused": len(found.refused),
        "errors": refusals_data(found.refused),
    }


def _foreseen_data(found: BegunMove) -> dict[str, Any]:
    """The JSON of a dry run, with the steps of the first partitions."""
    shown = found.accepted[:PLANNED_STEPS_SHOWN_MAX]
    return {
        "dry_run": True,
        **_begun_data(found),
        "planned": [
            {**each.id._asdict(), "replicas": each.replicas, "steps": each.steps} for each in shown
        ],
        "planned_not_shown": len(found.accepted) - len(shown),
    }


# --- plans -----------------------------------------------------------------------------------


async def generated(request: web.Request, _asked: GeneratePlan, answer: PlanResult) -> web.Response:
    """A plan that can begin a move, its rollback plan and outcome; 409 without a plan."""
    _check_planned(answer)
    return as_json(plan_data(answer, await request.app[GATEWAY].bytes_of_plan(answer)))


async def factor_changed(
    request: web.Request, asked: ChangeReplicationFactor, answer: PlanResult
) -> web.Response:
    """The plan and the move: 202 with the location of the operation; 409 without a plan."""
    _check_planned(answer)
    moved = await request.app[GATEWAY].bytes_of_plan(answer) if asked.dry_run else UNTRIED
    body = {"dry_run": asked.dry_run, **plan_data(answer, moved), **begun_data(answer)}
    return _begun(body, answer.moves if answer.accepted else ())


async def decommissioned(
    request: web.Request, asked: DecommissionBrokers, answer: PlanResult
) -> web.Response:
    """Progress, plan and moves: 202 with the location of the operation while the broker has
    replicas; 409 without a plan."""
    begins = request.method == "PUT"
    if not answer.drain.held and not asked.unregister:
        _check_registered(answer)
    if begins:
        _check_planned(answer)
    moves = []
    for move_id in answer.moves:
        move = await ask(request, DescribeMove(move_id=move_id))
        moves.append(json_of(convert(move, MoveProgress, from_attributes=True)))
    is_tried = begins and asked.dry_run
    moved = await request.app[GATEWAY].bytes_of_plan(answer) if is_tried else UNTRIED
    body = {
        "broker_id": asked.broker_ids[0],
        "dry_run": asked.dry_run,
        **drain_data(answer),
        **plan_data(answer, moved),
        **begun_data(answer),
        "moves": moves,
    }
    # A request that had nothing to begin has not begun anything when it is repeated.
    had_work = bool(answer.moves) or not answer.repeated
    is_begun = begins and not asked.dry_run and answer.drain.held > 0 and had_work
    return _accepted(body, decommission_id(asked.broker_ids[0])) if is_begun else as_json(body)


async def recommissioned(
    _request: web.Request, asked: RecommissionBrokers, answer: PlanResult
) -> web.Response:
    """The replicas of the partitions whose moves are cancelled."""
    _check_planned(answer)
    _check_registered(answer)
    partitions = [{**each.id._asdict(), "replicas": each.replicas} for each in answer.partitions]
    body = {"broker_id": asked.broker_ids[0], "dry_run": asked.dry_run, "cordoned": False}
    return as_json({**body, "partitions": partitions, **begun_data(answer)})


def _check_planned(answer: PlanResult) -> None:
    """Raise a `Problem` with the reason if there is no plan."""
    if answer.reason is not None:
        raise Problem(409, "No plan", answer.reason, retriable=False)


def _check_registered(answer: PlanResult) -> None:
    """Raise a `Problem` if the broker is not registered, and nothing was planned for it."""
    if answer.drain.unregistered and not answer.planned:
        detail = not_registered(answer.drain.unregistered[:1])
        raise kafka_problem(404, "No such broker", detail, Error.BROKER_ID_NOT_REGISTERED.code)


async def get_stored_bytes(request: web.Request) -> web.Response:
    """The bytes of the logs of brokers, as these report them; null where they are unknown."""
    check_parameters(request, "ids")
    request.app[GATEWAY].check(ListBrokers(), request[CALLER])
    ids = [id_in(each, "broker") for each in request.query.get("ids", "").split(",")]
    if len(set(ids)) < len(ids) or len(ids) > STORED_BROKERS_MAX:
        right = f"name each once, and at most {STORED_BROKERS_MAX}"
        raise Problem(400, "Invalid brokers", f"ids names {len(ids)} brokers; {right}")
    found = await request.app[GATEWAY].stored_bytes(ids)
    brokers = [
        StoredBytes(
            broker_id=each,
            stored_bytes=None if isinstance(stored, str) else stored,
            unknown=stored if isinstance(stored, str) else None,
        )
        for each, stored in found.items()
    ]
    return as_json(json_of(BrokersStored(brokers=tuple(brokers))))


# --- topics and partitions -------------------------------------------------------------------


async def topic_created(
    _request: web.Request, _asked: CreateTopic, answer: CreatedTopic
) -> web.Response:
    """The topic: 201 with its location; 200 for a dry run."""
    response = as_json(json_of(answer), status=200 if answer.dry_run else 201)
    if not answer.dry_run:
        response.headers["Location"] = f"{TOPICS}/{answer.name}"
    return response


async def elected(
    _request: web.Request, _asked: ElectLeaders, answer: ElectedLeaders
) -> web.Response:
    """The results; 404 or 409 if every partition is refused."""
    if answer.refused and not (answer.elected or answer.not_needed):
        is_unknown = answer.results[0].kafka_error_code == Error.UNKNOWN_TOPIC_OR_PARTITION.code
        raise refused(404 if is_unknown else 409, answer.results, answer.refused)
    return as_json(json_of(answer))


# --- brokers and voters ----------------------------------------------------------------------


async def broker_configs(
    request: web.Request, _asked: DescribeBrokerConfigs, answer: BrokerConfigs
) -> web.Response:
    """The answer with the settings in the broker's own file, if it is alive and tells them."""
    if not flag(request, "stale"):
        answer = await request.app[GATEWAY].with_file(answer)
    return as_json(json_of(answer))


async def cordoned(
    request: web.Request, asked: CordonBrokers | UncordonBrokers, answer: BrokersAltered
) -> web.Response:
    """The changed broker."""
    (result,) = answer.brokers
    if result.kafka_error_code:
        raise Refused(asked.failing(), result.kafka_error_code, result.message)
    broker = await ask(request, DescribeBroker(broker_id=result.broker_id))
    return as_json(json_of(broker))


async def unregistered(
    _request: web.Request, asked: UnregisterBrokers, answer: BrokersAltered
) -> web.Response:
    """The broker id, `registered` is false; 409 if it is in use."""
    (result,) = answer.brokers
    if result.kafka_error_code == Error.BROKER_ID_NOT_REGISTERED.code:
        raise Refused(asked.failing(), result.kafka_error_code, result.message)
    if result.kafka_error_code:
        raise refused_part(409, result, f"{asked.failing()}: ")
    return as_json({"broker_id": result.broker_id, "registered": False})


async def voters_altered(_request: web.Request, asked: AlterVoters, answer: Voters) -> web.Response:
    """The voters: 202 with the location of the operation while the change is under way."""
    if asked.target_voters is None or answer.is_at_rest:
        return as_json(json_of(answer))
    target = [each if isinstance(each, int) else each.id for each in asked.target_voters]
    return _accepted(json_of(answer), voters_id(target))


RESPONSES: Final[Mapping[type[Request[Any]], Respond]] = {
    PauseMoves: paused,
    ResumeMoves: paused,
    AlterMove: altered,
    CancelMoves: cancelled,
    RollBackMove: rolled_back,
    GeneratePlan: generated,
    ChangeReplicationFactor: factor_changed,
    DecommissionBrokers: decommissioned,
    RecommissionBrokers: recommissioned,
    DescribeBrokerConfigs: broker_configs,
    CordonBrokers: cordoned,
    UncordonBrokers: cordoned,
    UnregisterBrokers: unregistered,
    AlterVoters: voters_altered,
    CreateTopic: topic_created,
    ElectLeaders: elected,
}
"""Capabilities whose HTTP response differs from the answer; the reference has the docstrings."""
