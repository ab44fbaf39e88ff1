"""HTTP responses of broker capabilities that are not just their answers."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from admin.capabilities.brokers import (
    BrokerResult,
    BrokersAltered,
    CordonBrokers,
    DescribeBroker,
    UncordonBrokers,
    UnregisterBrokers,
)
from admin.capabilities.schema import Request, json_of
from admin.faults import Refused
from admin.http.capability_routes import Respond, as_json, ask
from admin.http.problems import Problem
from statemachine.errors import Error


async def cordoned(
    request: web.Request, asked: CordonBrokers | UncordonBrokers, answer: BrokersAltered
) -> web.Response:
    """The broker as it is now."""
    result = _only(answer)
    if result.kafka_error_code:
        raise Refused(asked.failing(), result.kafka_error_code, result.message)
    broker = await ask(request, DescribeBroker(broker_id=result.broker_id))
    return as_json(json_of(broker))


async def unregistered(
    _request: web.Request, asked: UnregisterBrokers, answer: BrokersAltered
) -> web.Response:
    """That the broker is not registered any more; 409 if it is in use."""
    result = _only(answer)
    if result.kafka_error_code == Error.BROKER_ID_NOT_REGISTERED.code:
        raise Refused(asked.failing(), result.kafka_error_code, result.message)
    if result.kafka_error_code:
        raise Problem(
            409,
            "Refused",
            f"{asked.failing()}: {result.message}",
            kafka_error=result.kafka_error,
            kafka_error_code=result.kafka_error_code,
            retriable=False,
        )
    return as_json({"broker_id": result.broker_id, "registered": False})


def _only(answer: BrokersAltered) -> BrokerResult:
    (result,) = answer.brokers
    return result


RESPONSES: Final[Mapping[type[Request[Any]], Respond]] = {
    CordonBrokers: cordoned,
    UncordonBrokers: cordoned,
    UnregisterBrokers: unregistered,
}
