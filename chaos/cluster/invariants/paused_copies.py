"""P24: a broker whose metadata has a pause of a copy requests nothing more of it.

A fetch that is under way may bring records. Whether the pause can stop the copy follows from the
moves in the metadata; whether it does, from the fetches.
"""

from typing import Final

from broker.partition.partition import Partition
from chaos.violation import Violation
from statemachine.image.image import Image
from statemachine.reassignment.throttle import FOLLOWER_RATE
from statemachine.vocabulary import BROKER_RESOURCE, BrokerId, MoveId

STANDS_STILL: Final = "a paused copy stands still"


def check_fetch(image: Image, broker_id: BrokerId, partition: Partition) -> None:
    """Check that the broker may request this partition."""
    if is_paused(image, broker_id, partition):
        raise Violation("P24", f"broker {broker_id} copies {partition}, which is paused")


def is_paused(image: Image, broker_id: BrokerId, partition: Partition) -> bool:
    """True if the broker is being added to the partition, and a pause stops its copy.

    The rate of the broker also limits other moves: those that run with a throttle keep it. As in
    Kafka, a replica that lacks nothing is not held up: it is about to join the ISR.
    """
    if partition.following is None or partition.following.lag == 0:
        return False
    topic = image.topics.get(partition.key.topic_id)
    found = None if topic is None else topic.partition(partition.key.number)
    if found is None or broker_id not in set(found.adding) - set(found.isr):
        return False
    owned = image.owned.get(((BROKER_RESOURCE, str(broker_id)), FOLLOWER_RATE))
    others = () if owned is None else owned.holders
    return all(_is_stopped(image, each) for each in (found.stage.move, *others))


def _is_stopped(image: Image, move_id: MoveId) -> bool:
    move, everything = image.moves.get(move_id), image.all_paused
    if move is None or move.ended is not None:
        return False
    return move.stops_copying or (everything is not None and everything.stops_copying)
