"""HTTP responses about plans: with their bytes, and with the location of what has begun."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from admin.capabilities.decommission import DecommissionBrokers, RecommissionBrokers
from admin.capabilities.moves import BASE, DescribeMove, MoveProgress
from admin.capabilities.plan_steps import (
    UNTRIED,
    PlanResult,
    begun_data,
    emptying_data,
    plan_data,
)
from admin.capabilities.plans import ChangeReplicationFactor, GeneratePlan
from admin.capabilities.schema import Request, json_of
from admin.http.capability_routes import GATEWAY, Respond, as_json, ask
from admin.http.problems import Problem
from statemachine.errors import Error

LOOK_AGAIN_SECONDS: Final = 2
"""The `Retry-After` of a decommission."""


async def generated(request: web.Request, _asked: GeneratePlan, answer: PlanResult) -> web.Response:
    """The plan, to be asked for as it is told; 409 if there is none."""
    _check_planned(answer)
    return as_json(plan_data(answer, await request.app[GATEWAY].bytes_of_plan(answer)))


async def factor_changed(
    request: web.Request, asked: ChangeReplicationFactor, answer: PlanResult
) -> web.Response:
    """The plan and what has begun of it: 202 with its location; 409 if there is no plan."""
    _check_planned(answer)
    moved = await request.app[GATEWAY].bytes_of_plan(answer) if asked.dry_run else UNTRIED
    body = {"dry_run": asked.dry_run, **plan_data(answer, moved), **begun_data(answer)}
    return _begun(answer, body, status=202 if answer.accepted else 200)


async def decommissioned(
    request: web.Request, asked: DecommissionBrokers, answer: PlanResult
) -> web.Response:
    """The progress of a decommission: 202 while the broker has replicas that moves take away."""
    begins = request.method == "PUT"
    if not answer.emptying.held and not asked.unregister:
        _check_registered(answer)
    if begins:
        _check_planned(answer)
    moves = []
    for move_id in answer.moves:
        move = await ask(request, DescribeMove(move_id=move_id))
        moves.append(json_of(msgspec.convert(move, MoveProgress, from_attributes=True)))
    is_tried = begins and asked.dry_run
    moved = await request.app[GATEWAY].bytes_of_plan(answer) if is_tried else UNTRIED
    body = {
        "broker_id": asked.broker_ids[0],
        "dry_run": asked.dry_run,
        **emptying_data(answer),
        **plan_data(answer, moved),
        **begun_data(answer),
        "moves": moves,
    }
    is_begun = begins and not asked.dry_run and answer.emptying.held > 0
    return _begun(answer, body, status=202 if is_begun else 200)


async def recommissioned(
    _request: web.Request, asked: RecommissionBrokers, answer: PlanResult
) -> web.Response:
    """The replicas of the partitions whose moves are cancelled."""
    _check_planned(answer)
    _check_registered(answer)
    partitions = [
        {**each.id._asdict(), "replicas": list(each.replicas)} for each in answer.partitions
    ]
    told = {"broker_id": asked.broker_ids[0], "dry_run": asked.dry_run, "cordoned": False}
    return as_json({**told, "partitions": partitions, **begun_data(answer)})


def _begun(answer: PlanResult, body: dict[str, Any], *, status: int) -> web.Response:
    response = as_json(body, status=status)
    if status == 202:
        response.headers["Retry-After"] = str(LOOK_AGAIN_SECONDS)
        if answer.moves:
            response.headers["Location"] = f"{BASE}/{answer.moves[-1]}"
    return response


def _check_planned(answer: PlanResult) -> None:
    """Raise a `Problem` with the reason if there is no plan."""
    if answer.reason is not None:
        raise Problem(409, "No plan", answer.reason, retriable=False)


def _check_registered(answer: PlanResult) -> None:
    """Raise a `Problem` if the broker is not registered, and nothing was planned for it."""
    for each in answer.emptying.strange:
        if not answer.planned:
            raise Problem(
                404,
                "No such broker",
                f"Broker ID {each} is not currently registered",
                kafka_error=Error.BROKER_ID_NOT_REGISTERED.name,
                kafka_error_code=Error.BROKER_ID_NOT_REGISTERED.code,
                retriable=False,
            )


RESPONSES: Final[Mapping[type[Request[Any]], Respond]] = {
    GeneratePlan: generated,
    ChangeReplicationFactor: factor_changed,
    DecommissionBrokers: decommissioned,
    RecommissionBrokers: recommissioned,
}
