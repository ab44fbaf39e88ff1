"""Retention of ended moves and idempotency keys.

The active controller issues the command from time to time, and records name what is forgotten:
replay never reads a clock.
"""

from collections.abc import Iterator
from itertools import islice

from statemachine.commands import Done, ForgetMoves
from statemachine.image.image import Image
from statemachine.limits import (
    ENDED_MOVES_KEPT_MS,
    ENDED_MOVES_MAX,
    KEYS_KEPT_MS,
    KEYS_MAX,
)
from statemachine.pending_decision import PendingDecision
from statemachine.records import own_records
from statemachine.records.kafka_records import Record, UnregisterBroker
from statemachine.vocabulary import MoveId


def has_too_much(image: Image, now_ms: int) -> bool:
    """Return True if `forget_moves` has something to record. Fast, since it is called often."""
    return next(_records(image, now_ms), None) is not None


def forget_moves(pending: PendingDecision, _command: ForgetMoves) -> Done:
    """Forget surplus and old moves and keys, and unregister leaving brokers that are empty."""
    pending.records += _records(pending.image, pending.now_ms)
    return Done()


def _records(image: Image, now_ms: int) -> Iterator[Record]:
    index = image.index
    for broker in image.brokers.values():
        is_to_go = broker.leaving and broker.fenced
        if is_to_go and not index.count(index.replicas_of, broker.broker_id):
            yield UnregisterBroker(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    through = _last_to_forget(image, now_ms)
    if through is not None:
        yield own_records.MovesForgotten(through=through)
    through_ms = _latest_to_forget(image, now_ms)
    if through_ms is not None:
        yield own_records.KeysForgotten(through_ms=through_ms)


def _last_to_forget(image: Image, now_ms: int) -> MoveId | None:
    """Return the highest id of the moves to forget, or None: ended moves up to it are forgotten.

    Moves that began after a long one are kept until that one is forgotten.
    """
    ended = sorted(each.id for each in image.moves.values() if each.ended is not None)
    last = ended[-ENDED_MOVES_MAX - 1] if len(ended) > ENDED_MOVES_MAX else None
    for move_id in ended if last is None else ended[-ENDED_MOVES_MAX:]:
        end = image.moves[move_id].ended
        assert end is not None
        if end.at_ms >= now_ms - ENDED_MOVES_KEPT_MS:
            break
        last = move_id
    return last


def _latest_to_forget(image: Image, now_ms: int) -> int | None:
    """Return the time up to which stored answers are too old or too many, or None.

    Only the age of the first answer is checked: if clocks disagree, some are kept a little longer.
    """
    first = next(iter(image.keys.values()), None)
    if first is None:
        return None
    surplus = islice(image.keys.values(), max(0, len(image.keys) - KEYS_MAX))
    latest = max((each.at_ms for each in surplus), default=-1)
    too_old_ms = now_ms - KEYS_KEPT_MS - 1
    if first.at_ms <= too_old_ms:
        latest = max(latest, too_old_ms)
    return None if latest < 0 else latest
