"""A request that is asked again with the same key is carried out once, and answered alike.

The answer is kept in the log, in the same piece as what the request changed: no fail-over can part
them. How long it is kept is told by `forgetting`. A key belongs to one request: with another body
it is refused. What was refused is kept as well, for the retry must not be carried out where the
first was not.

A request may name 100,000 partitions, and what is kept is one record. So of AlterReassignments only
that is kept which cannot be told again from the request: what was refused, and which move it is.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.commands import (
    AlterMove,
    AlterReassignments,
    Answer,
    BeginMove,
    CancelMoves,
    Done,
    IdempotentCommand,
    KeyedAnswer,
    KeyedCommand,
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    PauseMoves,
    Reassignment,
    ReassignmentAltered,
    ReassignmentsAltered,
    ResumeMoves,
    RollBackMove,
)
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import (
    FINGERPRINT_BYTES_MAX,
    KEY_CHARACTERS_MAX,
    KEYED_PARTS_MAX,
)
from statemachine.pending_decision import PendingDecision
from statemachine.records import own_records
from statemachine.slices import Slices
from statemachine.vocabulary import MoveId


class _Outline(Struct, frozen=True, kw_only=True, gc=False):
    """The stored part of an answer to AlterReassignments: the refusals."""

    move_id: MoveId
    count: int
    """Partitions in the request."""
    refused: tuple[tuple[int, ReassignmentAltered], ...]
    """The first of those refused, each with its place in the request."""
    others: tuple[tuple[Error, bytes], ...]
    """The places of all others, a bitmap for each error; their reasons are not kept."""


_Kept: TypeAlias = MoveStarted | MovesCancelled | MovesAltered | _Outline

_KEPT: Final[dict[str, type[_Kept]]] = {
    "MoveStarted": MoveStarted,
    "MovesCancelled": MovesCancelled,
    "MovesAltered": MovesAltered,
    "ReassignmentsAltered": _Outline,
}
"""What is kept of each answer, by its name."""

_ANSWERED: Final[dict[type[KeyedCommand], str]] = {
    AlterReassignments: "ReassignmentsAltered",
    BeginMove: "MoveStarted",
    RollBackMove: "MoveStarted",
    CancelMoves: "MovesCancelled",
    PauseMoves: "MovesAltered",
    ResumeMoves: "MovesAltered",
    AlterMove: "MovesAltered",
}
"""By which answer each command is answered."""


def carry_out_once(
    draft: PendingDecision,
    command: IdempotentCommand,
    carry_out: Callable[[PendingDecision, KeyedCommand], Slices[KeyedAnswer]],
) -> Slices[Answer]:
    """Answer as the first time, or carry the request out and keep the answer."""
    refusal = _refusal(command)
    if refusal is None:
        known = draft.image.keys.get(command.key)
        if known is None:
            return (yield from _carried_out(draft, command, carry_out))
        if known.fingerprint == command.fingerprint:
            answer = _told_again(draft.image, command.command, known)
            if answer is not None:
                return answer
        refusal = Refusal(
            Error.DUPLICATE_RESOURCE,
            f"the key {command.key} belongs to another request; give this one a key of its own",
        )
    return Done.from_refusal(refusal)


def _refusal(command: IdempotentCommand) -> Refusal | None:
    """Return the reason to refuse the idempotency key, or None."""
    if not 0 < len(command.key) <= KEY_CHARACTERS_MAX:
        reason = f"a key has 1 to {KEY_CHARACTERS_MAX} characters, not {len(command.key)}"
    elif len(command.fingerprint) > FINGERPRINT_BYTES_MAX:
        size = len(command.fingerprint)
        reason = f"a fingerprint has at most {FINGERPRINT_BYTES_MAX} bytes, not {size}"
    else:
        return None
    return Refusal(Error.INVALID_REQUEST, reason)


def _carried_out(
    draft: PendingDecision,
    command: IdempotentCommand,
    carry_out: Callable[[PendingDecision, KeyedCommand], Slices[KeyedAnswer]],
) -> Slices[Answer]:
    draft.key, draft.fingerprint = command.key, command.fingerprint
    answer = yield from carry_out(draft, command.command)
    draft.records.append(
        own_records.Remembered(
            key=command.key,
            fingerprint=command.fingerprint,
            kind=type(answer).__name__,
            answer=msgspec.msgpack.encode(_shortened(answer)),
            at_ms=draft.now_ms,
        )
    )
    return answer


def _shortened(answer: KeyedAnswer) -> _Kept:
    """Return the stored part of an answer, which can be of any length."""
    match answer:
        case ReassignmentsAltered():
            return _outline(answer)
        case MovesCancelled(partitions=parts) if len(parts) > KEYED_PARTS_MAX:
            return replace(answer, partitions=refused_first(parts)[:KEYED_PARTS_MAX])
        case MoveStarted(foreseen=parts) if len(parts) > KEYED_PARTS_MAX:
            return replace(answer, foreseen=parts[:KEYED_PARTS_MAX])
        case _:
            return answer


def refused_first(parts: Sequence[ReassignmentAltered]) -> tuple[ReassignmentAltered, ...]:
    """These parts, so that those that somebody has to look at come first; else in their order."""
    return tuple(sorted(parts, key=lambda each: each.error is Error.NONE))


def _outline(answer: ReassignmentsAltered) -> _Outline:
    refused = [
        (place, part)
        for place, part in enumerate(answer.partitions)
        if part.error is not Error.NONE
    ]
    others: dict[Error, BitMap] = {}
    for place, part in refused[KEYED_PARTS_MAX:]:
        others.setdefault(part.error, BitMap()).add(place)
    return _Outline(
        move_id=answer.move_id,
        count=len(answer.partitions),
        refused=tuple(refused[:KEYED_PARTS_MAX]),
        others=tuple((error, places.serialize()) for error, places in others.items()),
    )


def _told_again(
    image: Image, asked: KeyedCommand, known: own_records.Remembered
) -> KeyedAnswer | None:
    """The answer of the first time, of partitions with the replicas that they have now.

    None if it cannot be one to this request, whatever the fingerprint is.
    """
    if known.kind != _ANSWERED[type(asked)]:
        return None
    kept = msgspec.msgpack.decode(known.answer, type=_KEPT[known.kind])
    if not isinstance(kept, _Outline):
        return replace(kept, repeated=True)
    if not isinstance(asked, AlterReassignments) or len(asked.reassignments) != kept.count:
        return None
    parts = [_as_it_is(image, each) for each in asked.reassignments]
    for place, part in kept.refused:
        parts[place] = part
    for error, places in kept.others:
        for place in BitMap.deserialize(places):
            parts[place] = replace(parts[place], error=error, message=error.meaning, replicas=())
    return ReassignmentsAltered(partitions=tuple(parts), move_id=kept.move_id, repeated=True)


def _as_it_is(image: Image, asked: Reassignment) -> ReassignmentAltered:
    """A part of a request that was carried out; it may have been changed, or be gone, since."""
    topic = image.topic_named(asked.topic)
    partition = None if topic is None else topic.partition(asked.partition)
    return ReassignmentAltered(
        topic=asked.topic,
        partition=asked.partition,
        replicas=() if partition is None else partition.replicas,
    )
