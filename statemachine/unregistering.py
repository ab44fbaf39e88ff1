"""Why a broker is not unregistered where that is asked for with care. It changes nothing.

Kafka's own request forgets any broker, one that lives too, and its replicas stay assigned to nobody
who is there. Who asks with care is refused then, and told what comes first.
"""

from itertools import islice

from statemachine.errors import Error, Refusal
from statemachine.image import Image
from statemachine.in_order import in_order
from statemachine.limits import HELD_PARTITIONS_NAMED_MAX
from statemachine.vocabulary import BrokerId


def unregistered(broker_id: BrokerId) -> Refusal:
    """That there is no such broker."""
    return Refusal(
        Error.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
    )


def in_use_refusal(image: Image, broker_id: BrokerId) -> Refusal | None:
    """Why the broker is not to be forgotten yet: it lives, or has replicas; or None."""
    broker, index = image.brokers[broker_id], image.index
    if not broker.fenced:
        state = "alive" if broker.stopping_at is None else "stopping"
        return Refusal(
            Error.INVALID_REQUEST,
            f"broker {broker_id} is {state}, and would not know of it; unregister it once it has"
            " stopped",
        )
    keys = index.of_any(index.replicas_of, (broker_id,))
    if not keys:
        return None
    first = islice(in_order(index, keys), HELD_PARTITIONS_NAMED_MAX)
    named = ", ".join(f"{topic.name}-{number}" for topic, number in first)
    more = len(keys) - HELD_PARTITIONS_NAMED_MAX
    others = f" and {more} more" if more > 0 else ""
    return Refusal(
        Error.INVALID_REQUEST,
        f"broker {broker_id} still has replicas of {len(keys)} partition(s): {named}{others};"
        " decommission it first",
    )
