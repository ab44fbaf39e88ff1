"""Retention of ended moves and idempotency keys: records tell what is forgotten.

The active controller issues the command from time to time; replay never reads a clock.

"""

from collections.abc import Iterator
from itertools import islice

from statemachine.brokers.registration import BrokerRegistration
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
from statemachine.records.kafka_records import UnregisterBroker
from statemachine.vocabulary import MoveId


def has_too_much(image: Image, now_ms: int) -> bool:
    """Return True if something is to be forgotten. Fast, since it is called often.

    Of the answers the one that came first tells of all: where clocks disagree, something is kept a
    little longer.
    """
    if next(_gone(image), None) is not None:
        return True
    remembered = next(iter(image.keys.values()), None)
    if remembered is not None and remembered.at_ms < now_ms - KEYS_KEPT_MS:
        return True
    return len(image.keys) > KEYS_MAX or _last_to_forget(image, now_ms) is not None


def forget_moves(draft: PendingDecision, _command: ForgetMoves) -> Done:
    """Record that what is too old, or too much, is not kept any more."""
    for broker in _gone(draft.image):
        record = UnregisterBroker(broker_id=broker.broker_id, broker_epoch=broker.epoch)
        draft.records.append(record)
    through = _last_to_forget(draft.image, draft.now_ms)
    if through is not None:
        draft.records.append(own_records.MovesForgotten(through=through))
    through_ms = _latest_to_forget(draft.image, draft.now_ms)
    if through_ms is not None:
        draft.records.append(own_records.KeysForgotten(through_ms=through_ms))
    return Done()


def _gone(image: Image) -> Iterator[BrokerRegistration]:
    """The brokers that were to be unregistered once they have no replicas and are fenced."""
    index = image.index
    for broker in image.brokers.values():
        is_to_go = broker.leaving and broker.fenced
        if is_to_go and not index.count(index.replicas_of, broker.broker_id):
            yield broker


def _last_to_forget(image: Image, now_ms: int) -> MoveId | None:
    """The last move of those that go first: all up to it that have ended are too old or too many.

    A move that has run for long keeps those that were begun after it a while longer.
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
    """Of what time the youngest is that is forgotten of the remembered answers, or None."""
    times = (each.at_ms for each in islice(image.keys.values(), max(0, len(image.keys) - KEYS_MAX)))
    latest = max(times, default=-1)
    oldest = min((each.at_ms for each in image.keys.values()), default=now_ms)
    too_old_ms = now_ms - KEYS_KEPT_MS - 1
    if oldest <= too_old_ms:
        latest = max(latest, too_old_ms)
    return None if latest < 0 else latest
