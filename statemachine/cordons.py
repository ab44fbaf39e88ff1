"""Cordoned brokers get no new replicas; what they have stays, leads and is in sync as before.

New replicas come by the creation of topics and partitions, by reassignments and by plans: each asks
here. A reassignment that was asked for before goes on: who wants that stopped cancels it. A cordon
outlives the broker's incarnations, and ends with its registration. So does the wish that a broker
be unregistered once it is empty, which is carried out by `forgetting`.
"""

from statemachine import records
from statemachine.commands import BrokerCordoned, BrokersCordoned, CordonBrokers
from statemachine.draft import Draft
from statemachine.errors import Error, Refusal
from statemachine.image import Broker, Image
from statemachine.vocabulary import BrokerId, Replicas

CORDON = 1
UNCORDON = -1


def takers(image: Image) -> list[Broker]:
    """The brokers that new replicas may be placed on."""
    return [broker for broker in image.brokers.values() if broker.live and not broker.cordoned]


def cordon_refusal(image: Image, newcomers: Replicas, *, where: str = "") -> Refusal | None:
    """Why not all of these may get a new replica, or None; `where` begins the sentence."""
    for broker_id in newcomers:
        broker = image.brokers.get(broker_id)
        if broker is not None and broker.cordoned:
            return Refusal(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"{where}broker {broker_id} is cordoned and gets no new replicas; uncordon it, or"
                " name another one",
            )
    return None


def _change(broker: Broker, command: CordonBrokers) -> list[records.Record]:
    leaving = command.cordoned and (command.unregister or broker.leaving)
    if (broker.cordoned, broker.leaving) == (command.cordoned, leaving):
        return []
    word = CORDON if command.cordoned else UNCORDON
    return [
        records.BrokerRegistrationChange(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            cordoned=word if broker.cordoned != command.cordoned else 0,
            leaving=word if broker.leaving != leaving else 0,
        )
    ]


def cordon_brokers(draft: Draft, command: CordonBrokers) -> BrokersCordoned:
    """Cordon the brokers or end that, each on its own; what is so already is no error."""
    answers = []
    done: set[BrokerId] = set()
    for broker_id in command.broker_ids:
        broker = draft.image.brokers.get(broker_id)
        if broker is None:
            answers.append(
                BrokerCordoned(
                    broker_id=broker_id,
                    error=Error.BROKER_ID_NOT_REGISTERED,
                    message=f"Broker ID {broker_id} is not currently registered",
                )
            )
            continue
        if broker_id not in done:
            draft.records += _change(broker, command)
        done.add(broker_id)
        answers.append(BrokerCordoned(broker_id=broker_id))
    return BrokersCordoned(brokers=tuple(answers))
