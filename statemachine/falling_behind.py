"""Where a partition stands, by the image and by what brokers say of their copies.

What follows from the image alone is told by `progress`, and every controller says the same. That a
replica will never be in sync as it goes, only the active controller can know, from the reports of
brokers: where the image says "catching up", this says why that has no end. It changes nothing.
"""

from msgspec.structs import replace

from statemachine.copies import Told, partition_copies
from statemachine.image import Image
from statemachine.index import Topic
from statemachine.progress import Position, position
from statemachine.reasons import Reason
from statemachine.vocabulary import Replicas


def position_as_told(image: Image, topic: Topic, number: int, told: Told) -> Position | None:
    """As `position`, and where replicas fall behind, with that as the reason."""
    found = position(image, topic, number)
    if found is None or found.reason is not Reason.CATCHING_UP:
        return found
    partition = topic.partition(number)
    assert partition is not None
    copies = partition_copies(topic.topic_id, number, partition, told)
    if copies is None or not copies.behind:
        return found
    move = image.moves.get(partition.stage.move)
    rate = 0 if move is None else move.throttle_bytes_per_s
    detail = _detail(copies.behind, rate)
    return replace(found, reason=Reason.FALLING_BEHIND, detail=detail, brokers=copies.behind)


def _detail(behind: Replicas, throttle_bytes_per_s: int) -> str:
    brokers = ", ".join(map(str, behind))
    words = f"more is written than is copied, so that it never is in sync: {brokers}"
    if not throttle_bytes_per_s:
        return words
    return f"{words}; the move is throttled to {throttle_bytes_per_s} bytes/s"
