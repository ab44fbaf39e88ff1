"""Plans over HTTP: spread topics, change a replication factor, empty brokers and go back."""

from dataclasses import replace
from typing import Any, Final

import orjson
from aiohttp import web

from admin.http.problems import Problem
from admin.http.requests import (
    ANONYMOUS,
    BROKER_ID_MAX,
    CAPABILITIES,
    as_json,
    broker_in,
    check_parameters,
    is_asked,
    key_of,
    note_repeated,
)
from admin.moves_data import moving_data
from admin.plan_file import InvalidPlan, throttle_of
from admin.plans import FACTOR_MAX, Operation, PlanRequest, PlanResult
from admin.plans_data import UNTRIED, begun_data, emptying_data, plan_data, replicas_data
from admin.shown import shown

LOOK_AGAIN_SECONDS: Final = 2
"""What one is told to wait before asking how far an emptying is."""
BROKER_ID_NOT_REGISTERED: Final = 102
MOVES: Final = "/v1/reassignments"
THROTTLE: Final = "throttle_bytes_per_s"


def add_routes(router: web.UrlDispatcher) -> None:
    """What can be planned, and begun by that."""
    router.add_post(f"{MOVES}:generate", post_generate)
    router.add_post(f"{MOVES}:replication-factor", post_factor)
    router.add_get("/v1/brokers/{id}/decommission", get_emptying)
    router.add_put("/v1/brokers/{id}/decommission", put_emptying)
    router.add_put("/v1/brokers/{id}/recommission", put_back)


async def post_generate(request: web.Request) -> web.Response:
    """A plan that spreads topics evenly, to be asked for as it is told; nothing is begun.

    `{"topics": ["a"], "brokers": [1, 2, 3], "rack_aware": true}`; what is left out is all of it.
    """
    check_parameters(request)
    fields = _fields(await request.read(), {"topics", "brokers", "rack_aware"})
    found = await _planned(
        request,
        PlanRequest(
            operation=Operation.SPREAD,
            topics=_topics(fields),
            brokers=_brokers(fields),
            heeds_racks=_rack_aware(fields),
            dry_run=True,
        ),
    )
    return as_json(plan_data(found, await request.app[CAPABILITIES].bytes_of_plan(found)))


async def post_factor(request: web.Request) -> web.Response:
    """Another number of replicas for topics: 202 with where it is told of; `?dry_run=true` tells.

    `{"topics": ["a"], "replication_factor": 3}`; with `brokers` these alone get new replicas, and
    with `throttle_bytes_per_s` at that rate.
    """
    check_parameters(request, "dry_run")
    dry_run = is_asked(request, "dry_run")
    known = {"topics", "replication_factor", "brokers", "rack_aware", THROTTLE}
    fields = _fields(await request.read(), known)
    found = await _planned(
        request,
        PlanRequest(
            operation=Operation.FACTOR,
            topics=_topics(fields),
            brokers=_brokers(fields),
            heeds_racks=_rack_aware(fields),
            factor=_factor(fields),
            throttle_bytes_per_s=_throttle(fields),
            dry_run=dry_run,
            key=key_of(request),
        ),
    )
    moved = await request.app[CAPABILITIES].bytes_of_plan(found) if dry_run else UNTRIED
    body = {"dry_run": dry_run, **plan_data(found, moved), **begun_data(found)}
    return _begun(found, body, status=202 if found.accepted else 200)


async def get_emptying(request: web.Request) -> web.Response:
    """How far the broker is from having no replicas; it changes nothing."""
    check_parameters(request)
    return await _emptied(request, _emptying(request, dry_run=True))


async def put_emptying(request: web.Request) -> web.Response:
    """Empty the broker, dead or alive: 202 with the move that does it, 200 once it is empty.

    Asked again, it begins what could not be begun before. `?dry_run=true` only tells;
    `?unregister=true` forgets the broker once it is empty and stopped. With a body like
    `{"throttle_bytes_per_s": 1000000}` what is begun by it goes at that rate.
    """
    check_parameters(request, "dry_run", "unregister")
    dry_run, unregister = is_asked(request, "dry_run"), is_asked(request, "unregister")
    fields = _fields(await request.read(), {THROTTLE}, like=f'{{"{THROTTLE}": 1000000}}')
    asked = _emptying(request, dry_run=dry_run)
    asked = replace(
        asked,
        unregister=unregister,
        throttle_bytes_per_s=_throttle(fields),
        key=key_of(request),
    )
    return await _emptied(request, asked, begins=True)


async def put_back(request: web.Request) -> web.Response:
    """Let the broker get new replicas again, and cancel what empties it.

    With `?dry_run=true` only what that would be is told.
    """
    check_parameters(request, "dry_run")
    _fields(await request.read(), set(), like="{}")
    dry_run, broker = is_asked(request, "dry_run"), _id(request)
    asked = PlanRequest(
        operation=Operation.UNDRAIN, brokers=(broker,), dry_run=dry_run, key=key_of(request)
    )
    found = await _planned(request, asked)
    _check_known(found, asked)
    told = {"broker_id": broker, "dry_run": dry_run, "cordoned": False}
    return as_json({**told, "partitions": replicas_data(found), **begun_data(found)})


def _emptying(request: web.Request, *, dry_run: bool) -> PlanRequest:
    return PlanRequest(operation=Operation.DRAIN, brokers=(_id(request),), dry_run=dry_run)


async def _emptied(
    request: web.Request, asked: PlanRequest, *, begins: bool = False
) -> web.Response:
    found = await request.app[CAPABILITIES].plan_moves(ANONYMOUS, asked)
    note_repeated(request, found.is_repeated)
    if not found.emptying.held and not asked.unregister:
        _check_known(found, asked)
    if begins and found.reason is not None:
        raise Problem(409, "No plan", found.reason, retriable=False)
    moves: list[dict[str, Any]] = []
    if found.moves:
        told = await request.app[CAPABILITIES].move_standings(list(found.moves))
        moves = [moving_data(each) for each in told.moves]
    is_tried = begins and asked.dry_run
    moved = await request.app[CAPABILITIES].bytes_of_plan(found) if is_tried else UNTRIED
    body = {
        "broker_id": _id(request),
        "dry_run": asked.dry_run,
        **emptying_data(found),
        **plan_data(found, moved),
        **begun_data(found),
        "moves": moves,
    }
    is_begun = begins and not asked.dry_run and found.emptying.held > 0
    return _begun(found, body, status=202 if is_begun else 200)


def _begun(found: PlanResult, body: dict[str, Any], *, status: int) -> web.Response:
    response = as_json(body, status=status)
    if status == 202:
        response.headers["Retry-After"] = str(LOOK_AGAIN_SECONDS)
        if found.moves:
            response.headers["Location"] = f"{MOVES}/{found.moves[-1]}"
    return response


async def _planned(request: web.Request, asked: PlanRequest) -> PlanResult:
    """What came of it; a `Problem` with the reason if there is no plan."""
    found = await request.app[CAPABILITIES].plan_moves(ANONYMOUS, asked)
    note_repeated(request, found.is_repeated)
    if found.reason is not None:
        raise Problem(409, "No plan", found.reason, retriable=False)
    return found


def _check_known(found: PlanResult, asked: PlanRequest) -> None:
    """A `Problem` if nobody knows of the broker, and nothing of it is anywhere."""
    for each in found.emptying.strange:
        reason = f"Broker ID {each} is not currently registered"
        if not found.planned:
            raise Problem(
                404,
                "No such broker",
                reason,
                kafka_error="BROKER_ID_NOT_REGISTERED",
                kafka_error_code=BROKER_ID_NOT_REGISTERED,
                retriable=False,
            )


def _fields(body: bytes, known: set[str], *, like: str = '{"topics": ["a"]}') -> dict[str, Any]:
    try:
        asked = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise _invalid(f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict):
        raise _invalid(f"the body is to be an object like {like}")
    for name in asked:
        if name not in known:
            there = ", ".join(sorted(known)) or "nothing that can be said"
            raise _invalid(f"{name!r} is not known; there is {there}")
    return asked


def _topics(fields: dict[str, Any]) -> tuple[str, ...] | None:
    found = fields.get("topics")
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _invalid(f'topics is {shown(found)}; it is a list of names like ["a", "b"]')
    return tuple(found)


def _brokers(fields: dict[str, Any]) -> tuple[int, ...] | None:
    found = fields.get("brokers")
    if found is None:
        return None
    if not isinstance(found, list) or not all(_is_id(each) for each in found):
        raise _invalid(f"brokers is {shown(found)}; it is a list of ids like [101, 102]")
    return tuple(found)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= BROKER_ID_MAX


def _rack_aware(fields: dict[str, Any]) -> bool:
    found = fields.get("rack_aware", True)
    if not isinstance(found, bool):
        raise _invalid(f"rack_aware is {shown(found)}; it is true or false")
    return found


def _factor(fields: dict[str, Any]) -> int:
    found: Any = fields.get("replication_factor")
    if not _is_id(found) or not 1 <= found <= FACTOR_MAX:
        said = shown(found) if "replication_factor" in fields else "missing"
        right = f"it is a whole number from 1 to {FACTOR_MAX}"
        raise _invalid(f"replication_factor is {said}; {right}")
    factor: int = found
    return factor


def _throttle(fields: dict[str, Any]) -> int:
    try:
        return throttle_of(fields.get(THROTTLE, 0))
    except InvalidPlan as error:
        raise _invalid(str(error)) from error


def _invalid(detail: str) -> Problem:
    return Problem(400, "Invalid plan", detail)


def _id(request: web.Request) -> int:
    return broker_in(request.match_info["id"])


KEYED: Final = frozenset({post_factor, put_emptying, put_back})
"""The handlers that take an `Idempotency-Key`."""
