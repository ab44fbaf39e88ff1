"""Reassignments over HTTP: begin moves, see where they are, pause, resume, cancel, roll back."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import orjson
from aiohttp import web

from admin.faults import Refused
from admin.http.cancels import named_in
from admin.http.paging import PARAMETERS, page_in, token_of
from admin.http.problems import Problem, refused
from admin.http.requests import (
    ANONYMOUS,
    CAPABILITIES,
    as_json,
    check_parameters,
    is_asked,
    is_stale,
    key_of,
    note_repeated,
)
from admin.model import Assignment, PartitionResult
from admin.move_plans import whole
from admin.moves import MovesChanged, MovesRequest, MoveStandings, Operation, Page
from admin.moves_data import (
    begun_data,
    changed_data,
    foreseen_data,
    move_data,
    page_data,
    pause_data,
    reassignment_data,
    whole_move_data,
)
from admin.new_moves import NewMove
from admin.plan_file import InvalidPlan, parse_move, priority_of, render_plan, throttle_of
from admin.plans_data import bytes_data

ID_MAX: Final = 2**63 - 1
INVALID_REQUEST: Final = 42
BASE: Final = "/v1/reassignments"
LARGE_BYTES: Final = 256 * 1024
"""A body that is read beside the event loop: smaller ones take a few milliseconds."""


_ALTERED: Final = {
    ("priority",): Operation.PRIORITY,
    ("throttle_bytes_per_s",): Operation.THROTTLE,
    ("priority", "throttle_bytes_per_s"): Operation.ALTER,
}
"""What can be changed of a move that runs, by itself and together."""


def add_routes(router: web.UrlDispatcher) -> None:
    """What can be asked of reassignments, and of the moves that they belong to."""
    router.add_get(BASE, get_all)
    router.add_post(BASE, post_plan)
    router.add_post(f"{BASE}:pause", post_pause_all)
    router.add_post(f"{BASE}:resume", post_resume_all)
    router.add_post(f"{BASE}:cancel", post_cancel_all)
    router.add_post(f"{BASE}/{{id}}:pause", post_pause)
    router.add_post(f"{BASE}/{{id}}:resume", post_resume)
    router.add_post(f"{BASE}/{{id}}:rollback", post_rollback)
    router.add_post(f"{BASE}/{{id}}:cancel", delete)
    router.add_get(f"{BASE}/{{id}}", get_one)
    router.add_get(f"{BASE}/{{id}}/partitions", get_partitions)
    router.add_get(f"{BASE}/{{id}}/rollback-plan", get_rollback_plan)
    router.add_patch(f"{BASE}/{{id}}", patch)
    router.add_delete(f"{BASE}/{{id}}", delete)


async def get_all(request: web.Request) -> web.Response:
    """The partitions under way, and the moves; `?topic=NAME` asks for one topic's partitions."""
    check_parameters(request, "topic", "stale")
    stale, topic = is_stale(request), request.query.get("topic")
    found = await request.app[CAPABILITIES].list_reassignments(None, stale=stale)
    shown = [reassignment_data(each) for each in found.moves if topic in (None, each.topic)]
    body = {"reassignments": shown, "total": len(shown), "as_of_offset": found.as_of}
    if topic is None:
        moves = await request.app[CAPABILITIES].move_standings(stale=stale)
        body |= {
            "moves": [move_data(each) for each in moves.moves],
            "all_paused": pause_data(moves),
            "moves_as_of_offset": moves.as_of,
        }
    return as_json(body)


async def post_plan(request: web.Request) -> web.Response:
    """Begin a move by a plan as of `reassign-partitions`, with what else it is to be beside it.

    That is `name`, `priority` and `throttle_bytes_per_s`.
    202 with where it is told of; 200 where nothing had to change, and for `dry_run`, which may be a
    parameter too. One bad partition does not stop the others: told are those that are refused, with
    their reasons, and how many are accepted; 400 if none is.
    """
    check_parameters(request, "dry_run")
    key, is_dry = key_of(request), is_asked(request, "dry_run")
    asked = await _plan_in(request)
    asked = replace(asked, key=key, dry_run=asked.dry_run or is_dry)
    found = await request.app[CAPABILITIES].begin_move(ANONYMOUS, asked)
    note_repeated(request, found.is_repeated)
    if len(found.refused) == len(found.results):
        raise refused(found.refused)
    if asked.dry_run:
        moved = await request.app[CAPABILITIES].bytes_of_move(asked.assignments, found.refused)
        return as_json({**foreseen_data(found), **bytes_data(moved)})
    return _begun(begun_data(found), found.move_id)


async def _plan_in(request: web.Request) -> NewMove:
    body = await request.read()
    try:
        if len(body) < LARGE_BYTES:
            return parse_move(body.decode())
        # Beside the loop: a plan of 100,000 partitions takes a second.
        return await asyncio.to_thread(lambda: parse_move(body.decode()))
    except UnicodeDecodeError as error:
        raise Problem(
            400, "Not UTF-8", f"the body is not UTF-8 text: byte {error.start} is wrong"
        ) from error
    except InvalidPlan as error:
        raise Problem(400, "Invalid plan", str(error)) from error


def _begun(body: Any, move_id: int) -> web.Response:
    """The answer to what begins a move, if it did: with where that is told of."""
    response = as_json(body, status=202 if move_id else 200)
    if move_id:
        response.headers["Location"] = f"{BASE}/{move_id}"
    return response


async def get_one(request: web.Request) -> web.Response:
    """A move, running or ended, and where its partitions stand."""
    check_parameters(request, "stale")
    return await _told(request, _id(request), stale=is_stale(request))


async def get_partitions(request: web.Request) -> web.Response:
    """The partitions that are still in a move, a page of them, and where each stands."""
    check_parameters(request, "stale", *PARAMETERS)
    page = page_in(request)
    found = await _move(request, _id(request), page, stale=is_stale(request))
    (move,) = found.moves
    body = {"as_of_offset": found.as_of, **page_data(move)}
    more = token_of(move.partitions[-1].id) if move.has_more else None
    return as_json(body | {"next_page_token": more})


async def get_rollback_plan(request: web.Request) -> web.Response:
    """The plan that leads back, in the JSON form of `reassign-partitions`.

    Partitions whose topics are deleted are left out; how many is in the header Partitions-Gone.
    """
    check_parameters(request)
    id = _id(request)
    await _move(request, id, Page(size=1))
    found = await whole(request.app[CAPABILITIES].move_plan, id)
    # Beside the loop: 100,000 partitions take half a second.
    text = await asyncio.to_thread(render_plan, found.originals)
    headers = {"Partitions-Gone": str(found.gone)}
    return web.Response(text=text, content_type="application/json", headers=headers)


async def delete(request: web.Request) -> web.Response:
    """Cancel a move; with `?dry_run=true` only tell what each partition would have."""
    check_parameters(request, "dry_run")
    return await _cancelled(request, move_ids=(_id(request),))


async def patch(request: web.Request) -> web.Response:
    """Change how a move goes on: `{"priority": 5, "throttle_bytes_per_s": 1000000}` or one of them.

    Where one of them cannot be, neither is changed.
    """
    check_parameters(request)
    id, wished = _id(request), _change_in(await request.read())
    await _changed(request, _ALTERED[tuple(sorted(wished))], move_ids=(id,), **wished)
    return await _told(request, id)


async def post_pause(request: web.Request) -> web.Response:
    """Begin no further steps of a move; what is under way goes on to its end."""
    return await _held(request, Operation.PAUSE)


async def post_resume(request: web.Request) -> web.Response:
    """Go on with a move that was paused by its id."""
    return await _held(request, Operation.RESUME)


async def post_rollback(request: web.Request) -> web.Response:
    """Begin a move back to what the partitions had before: 202 with where it is told of.

    200 if there is nothing to go back to, and with `?dry_run=true`, which only tells what each
    partition would have, and the bytes to be copied.
    """
    check_parameters(request, "dry_run")
    id, dry_run = _id(request), is_asked(request, "dry_run")
    try:
        found = await _changed(request, Operation.ROLL_BACK, dry_run=dry_run, move_ids=(id,))
    except Refused as error:
        if error.code == INVALID_REQUEST:
            await _move(request, id)
        raise
    if found.refused and not found.begun:
        raise _conflict(found)
    if dry_run:
        return as_json(await _foreseen_rollback(request, id, found))
    return _begun(changed_data(found), found.begun)


async def _foreseen_rollback(request: web.Request, id: int, found: MovesChanged) -> dict[str, Any]:
    plan = await whole(request.app[CAPABILITIES].move_plan, id)
    back = [
        Assignment(topic=each.topic, partition=each.partition, replicas=tuple(replicas))
        for each, replicas in plan.originals.items()
    ]
    moved = await request.app[CAPABILITIES].bytes_of_move(back, _results_of(found))
    return {"dry_run": True, **changed_data(found), **bytes_data(moved)}


async def post_pause_all(request: web.Request) -> web.Response:
    """Begin no further steps of any move, of those to come neither."""
    return await _held_all(request, Operation.PAUSE)


async def post_resume_all(request: web.Request) -> web.Response:
    """End the pause of all moves; those that were paused by id stay paused."""
    return await _held_all(request, Operation.RESUME)


async def post_cancel_all(request: web.Request) -> web.Response:
    """Cancel whatever is under way, in a move or not, or what the body names of it.

    `?dry_run=true` only tells what each partition would have.
    """
    check_parameters(request, "dry_run")
    return await _cancelled(request, **named_in(await request.read()))


async def _held(request: web.Request, operation: Operation) -> web.Response:
    check_parameters(request)
    id = _id(request)
    await _changed(request, operation, move_ids=(id,))
    return await _told(request, id)


async def _held_all(request: web.Request, operation: Operation) -> web.Response:
    check_parameters(request)
    await _changed(request, operation, everything=True)
    found = await request.app[CAPABILITIES].move_standings()
    return as_json({"as_of_offset": found.as_of, "all_paused": pause_data(found)})


async def _cancelled(request: web.Request, **named: Any) -> web.Response:
    dry_run = is_asked(request, "dry_run")
    found = await _changed(request, Operation.CANCEL, dry_run=dry_run, **named)
    if found.refused and not found.accepted:
        raise _conflict(found)
    return as_json({"dry_run": dry_run, **changed_data(found)})


async def _changed(request: web.Request, operation: Operation, **named: Any) -> MovesChanged:
    """What came of it; a `Problem` if the move that it names is not there, or cannot be changed."""
    asked = MovesRequest(operation=operation, key=key_of(request), **named)
    found = await request.app[CAPABILITIES].alter_moves(ANONYMOUS, asked)
    note_repeated(request, found.is_repeated)
    for each in found.moves:
        # Of several that are to be cancelled, what was done is told beside what was not.
        if each.error_code and not found.accepted:
            await _move(request, each.move_id)
            raise Problem(
                409,
                "Refused",
                each.message or each.error_name,
                kafka_error=each.error_name,
                kafka_error_code=each.error_code,
                retriable=False,
            )
    return found


def _conflict(found: MovesChanged) -> Problem:
    """No partition of a move could be changed: each says why."""
    problem = refused(_results_of(found))
    problem.status = problem.body["status"] = 409
    problem.body["refused"] = found.refused
    return problem


def _results_of(found: MovesChanged) -> list[PartitionResult]:
    """Those of the partitions told of that are refused, with their reasons."""
    return [
        PartitionResult(
            topic=each.id.topic,
            partition=each.id.partition,
            error_code=each.error_code,
            error_name=each.error_name,
            message=each.message,
        )
        for each in found.partitions
        if each.error_code
    ]


async def _told(request: web.Request, id: int, *, stale: bool = False) -> web.Response:
    found = await _move(request, id, stale=stale)
    (move,) = found.moves
    body = {"as_of_offset": found.as_of, "all_paused": pause_data(found), **whole_move_data(move)}
    return as_json(body)


async def _move(
    request: web.Request, id: int, page: Page | None = None, *, stale: bool = False
) -> MoveStandings:
    """The move of this id; a `Problem` if it is not listed."""
    try:
        return await request.app[CAPABILITIES].move_standings([id], page, stale=stale)
    except Refused as error:
        if error.code != INVALID_REQUEST:
            raise
        reason = f"there is no move {id}, or it ended long ago; GET {BASE} lists them"
        raise Problem(404, "No such move", reason, retriable=False) from error


def _id(request: web.Request) -> int:
    text = request.match_info["id"]
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(ID_MAX))
    if not is_number or not 0 < int(text) <= ID_MAX:
        raise Problem(400, "Invalid move", f"{text!r} is no id of a move; write one like 3")
    return int(text)


def _change_in(body: bytes) -> dict[str, int]:
    right = 'the body is to be {"priority": 5} or {"throttle_bytes_per_s": 1000000}, or both in one'
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, "Invalid change", f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict) or tuple(sorted(asked)) not in _ALTERED:
        raise Problem(400, "Invalid change", right)
    try:
        return {name: _READ[name](value) for name, value in asked.items()}
    except InvalidPlan as error:
        raise Problem(400, "Invalid change", str(error)) from error


_READ: Final = {"priority": priority_of, "throttle_bytes_per_s": throttle_of}
"""How each is read; what is wrong with it is an `InvalidPlan`."""

KEYED: Final = frozenset(
    {
        post_plan,
        post_pause_all,
        post_resume_all,
        post_cancel_all,
        post_pause,
        post_resume,
        post_rollback,
        patch,
        delete,
    }
)
"""The handlers that take an `Idempotency-Key`."""
