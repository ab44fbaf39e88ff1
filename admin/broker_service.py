"""What can be done with brokers, at the active controller: a part of the service.

It answers there, and raises what the methods of `controller.service` do.
"""

from collections.abc import Sequence

from admin.care import BrokerResult, Operation
from controller.service import Service
from statemachine.commands import CordonBrokers, UnregisterBroker
from statemachine.errors import Error


async def alter_brokers(
    service: Service, who: str, broker_ids: Sequence[int], operation: Operation
) -> Sequence[BrokerResult]:
    """Cordon brokers, end that, or forget those that are not in use; one result for each.

    Each is forgotten by a decision of its own: where the lead is lost amid them, some may be.
    """
    if operation is Operation.UNREGISTER:
        return [await _unregistered(service, who, each) for each in broker_ids]
    command = CordonBrokers(broker_ids=tuple(broker_ids), cordoned=operation is Operation.CORDON)
    answer = await service.cordon_brokers(who, command)
    return [_result(each.broker_id, each.error, each.message) for each in answer.brokers]


async def _unregistered(service: Service, who: str, broker_id: int) -> BrokerResult:
    command = UnregisterBroker(broker_id=broker_id, only_if_empty=True)
    done = await service.unregister_broker(who, command)
    return _result(broker_id, done.error, done.message)


def _result(broker_id: int, error: Error, message: str) -> BrokerResult:
    return BrokerResult(
        broker_id=broker_id,
        error_code=error.code,
        error_name=error.name,
        message=message or None,
    )
