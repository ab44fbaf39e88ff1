"""CancelMoves: what is named by partition, topic, move or not at all is cancelled, each on its own.

How a single partition is cancelled is told by `reassignment`. A dry run decides the same on a draft
of its own, of which nothing is recorded.
"""

from collections.abc import Iterator

from pyroaring import BitMap

from statemachine.commands import CancelMoves, MoveAltered, MovesCancelled, ReassignmentAltered
from statemachine.draft import Draft
from statemachine.errors import Error, Refusal
from statemachine.in_order import in_order
from statemachine.index import Topic
from statemachine.moves import unknown_move
from statemachine.reassignment import cancel
from statemachine.slices import CHANGED_US, PASSED_US, Slices
from statemachine.vocabulary import MoveId, MoveOutcome

_EVERY = -1
"""The partition of an answer about all of a topic."""


def cancel_moves(draft: Draft, command: CancelMoves) -> Slices[MovesCancelled]:
    """Revert the steps under way of all that is named, and drop the rest."""
    if command.dry_run:
        draft = Draft(draft.image, draft.now_ms)
    # In the order in which they come, which is nearly that in which they are to be sorted.
    named = dict.fromkeys((*command.partitions, *_of_topics(draft, command)))
    for topic, number in _held(draft, command):
        named[(topic.name, number)] = None
        yield PASSED_US
    partitions = []
    for name, number in sorted(named):
        partitions.append(_cancelled(draft, name, number))
        yield CHANGED_US
    refused = sum(each.error is not Error.NONE for each in partitions)
    return MovesCancelled(
        partitions=tuple(partitions),
        done_count=len(partitions) - refused,
        refused_count=refused,
        moves=tuple([_asked(draft, move_id) for move_id in command.moves]),
    )


def _held(draft: Draft, command: CancelMoves) -> Iterator[tuple[Topic, int]]:
    """What is under way of the moves that are named, or of all."""
    index = draft.image.index
    keys = index.moving if command.everything else BitMap()
    for move_id in command.moves:
        keys = keys | index.keys_of_move(move_id)
    return in_order(index, keys)


def _of_topics(draft: Draft, command: CancelMoves) -> Iterator[tuple[str, int]]:
    """What is under way of each topic; where that is nothing, the topic for itself."""
    for name in command.topics:
        topic = draft.image.topic_named(name)
        existing = () if topic is None else topic.existing()
        moving = [number for number, partition in existing if partition.moving]
        for number in moving or [_EVERY]:
            yield name, number


def _cancelled(draft: Draft, name: str, number: int) -> ReassignmentAltered:
    topic = draft.image.topic_named(name)
    if topic is None:
        refusal = Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return _refused(name, number, refusal)
    if number == _EVERY:
        nothing = f"no partition of topic {name} is being reassigned"
        return _refused(name, number, Refusal(Error.NO_REASSIGNMENT_IN_PROGRESS, nothing))
    if draft.partition(topic, number) is None:
        unknown = f"topic {name} has no partition {number}"
        return _refused(name, number, Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown))
    outcome = cancel(draft, topic, number)
    if isinstance(outcome, Refusal):
        return _refused(name, number, outcome)
    return ReassignmentAltered(topic=name, partition=number, replicas=outcome.replicas)


def _refused(name: str, number: int, refusal: Refusal) -> ReassignmentAltered:
    return ReassignmentAltered(
        topic=name, partition=number, error=refusal.error, message=refusal.message
    )


def _asked(draft: Draft, move_id: MoveId) -> MoveAltered:
    """Whether there was something to cancel of the move."""
    refusal = ended_refusal(draft, move_id)
    if refusal is None:
        return MoveAltered(move_id=move_id)
    return MoveAltered(move_id=move_id, error=refusal.error, message=refusal.message)


def ended_refusal(draft: Draft, move_id: MoveId) -> Refusal | None:
    """Why nothing can be done about a move any more, or None while it runs."""
    move = draft.image.moves.get(move_id)
    if move is None:
        return unknown_move(draft, move_id)
    if move.ended is None:
        return None
    outcome = MoveOutcome(move.ended.outcome).name.lower()
    return Refusal(Error.INVALID_REQUEST, f"move {move_id} has ended: {outcome}")
