"""Brokers over HTTP: who is there, who gets new replicas, who may stop."""

from collections.abc import Sequence

from aiohttp import web

from admin.care import Operation
from admin.care_data import broker_data, safety_data, standings_data
from admin.faults import Refused
from admin.http.problems import BROKER_ID_NOT_REGISTERED, Problem
from admin.http.requests import (
    ANONYMOUS,
    CAPABILITIES,
    as_json,
    broker_in,
    check_parameters,
    is_stale,
)


def add_routes(router: web.UrlDispatcher) -> None:
    """What can be asked of brokers."""
    router.add_get("/v1/brokers", get_all)
    router.add_get("/v1/brokers:safe-to-stop", get_safety_of_several)
    router.add_get("/v1/brokers/{id}", get_one)
    router.add_delete("/v1/brokers/{id}", delete_one)
    router.add_put("/v1/brokers/{id}/cordon", put_cordon)
    router.add_delete("/v1/brokers/{id}/cordon", delete_cordon)
    router.add_get("/v1/brokers/{id}/safe-to-stop", get_safety)


async def get_all(request: web.Request) -> web.Response:
    """All registered brokers, alive or not, with what they have."""
    check_parameters(request, "stale")
    found = await request.app[CAPABILITIES].broker_standings(stale=is_stale(request))
    return as_json(standings_data(found))


async def get_one(request: web.Request) -> web.Response:
    """One of them."""
    check_parameters(request, "stale")
    return await _told(request, broker_in(request.match_info["id"]), stale=is_stale(request))


async def delete_one(request: web.Request) -> web.Response:
    """Forget a broker that has stopped and has no replicas; 409 for any other one, and why."""
    check_parameters(request)
    broker = broker_in(request.match_info["id"])
    (result,) = await request.app[CAPABILITIES].alter_brokers(
        ANONYMOUS, [broker], Operation.UNREGISTER
    )
    failing = f"broker {broker} cannot be unregistered"
    if result.error_code == BROKER_ID_NOT_REGISTERED:
        raise Refused(failing, result.error_code, result.message)
    if result.error_code:
        raise Problem(
            409,
            "Refused",
            f"{failing}: {result.message}",
            kafka_error=result.error_name,
            kafka_error_code=result.error_code,
            retriable=False,
        )
    return as_json({"broker_id": broker, "registered": False})


async def put_cordon(request: web.Request) -> web.Response:
    """Let the broker get no new replicas; what it has stays."""
    return await _cordoned(request, Operation.CORDON)


async def delete_cordon(request: web.Request) -> web.Response:
    """Let the broker get new replicas again."""
    return await _cordoned(request, Operation.UNCORDON)


async def get_safety(request: web.Request) -> web.Response:
    """Whether the broker may stop, and the partitions that say no."""
    check_parameters(request, "stale")
    return await _judged(request, [broker_in(request.match_info["id"])])


async def get_safety_of_several(request: web.Request) -> web.Response:
    """Whether brokers may stop together: `?ids=101,102`."""
    check_parameters(request, "stale", "ids")
    ids = request.query.get("ids", "").split(",")
    return await _judged(request, [broker_in(each) for each in ids])


async def _cordoned(request: web.Request, operation: Operation) -> web.Response:
    check_parameters(request)
    broker = broker_in(request.match_info["id"])
    (result,) = await request.app[CAPABILITIES].alter_brokers(ANONYMOUS, [broker], operation)
    if result.error_code:
        failing = f"broker {broker} cannot be {operation.participle}"
        raise Refused(failing, result.error_code, result.message)
    return await _told(request, broker)


async def _told(request: web.Request, broker: int, *, stale: bool = False) -> web.Response:
    found = await request.app[CAPABILITIES].broker_standings([broker], stale=stale)
    (one,) = found.brokers
    return as_json({"as_of_offset": found.as_of, **broker_data(one)})


async def _judged(request: web.Request, brokers: Sequence[int]) -> web.Response:
    found = await request.app[CAPABILITIES].safe_to_stop(brokers, stale=is_stale(request))
    return as_json(safety_data(found))
