"""Idempotency keys: a request that is repeated with its key is carried out once.

The answer is stored in the log, in the same batch as the changes of the request: no fail-over can
separate them. A key belongs to one request; another request with it is refused. Refusals are stored
too: a retry must not succeed after the first request was refused. `retention` drops old answers.

A request may name 100,000 partitions, and its answer is one record. For AlterReassignments that
record has only what does not follow from the request: the refusals and the id of the move.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pyroaring import BitMap

from statemachine import commands
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
    refused: tuple[tuple[int, commands.ReassignmentAltered], ...]
    """The first refused partitions, each with its place in the request."""
    others: tuple[tuple[Error, bytes], ...]
    """The places of all other refused ones, a bitmap for each error; their reasons are not kept."""


_Kept: TypeAlias = commands.MoveStarted | commands.MovesCancelled | commands.MovesAltered | _Outline

_KEPT: Final[dict[type[commands.KeyedCommand], tuple[str, type[_Kept]]]] = {
    commands.AlterReassignments: ("ReassignmentsAltered", _Outline),
    commands.BeginMove: ("MoveStarted", commands.MoveStarted),
    commands.RollBackMove: ("MoveStarted", commands.MoveStarted),
    commands.CancelMoves: ("MovesCancelled", commands.MovesCancelled),
    commands.PauseMoves: ("MovesAltered", commands.MovesAltered),
    commands.AlterMove: ("MovesAltered", commands.MovesAltered),
}
"""The name in the log of the answer to each command, and the type that is stored."""


def carry_out_once(
    pending: PendingDecision,
    command: commands.IdempotentCommand,
    carry_out: Callable[[PendingDecision, commands.KeyedCommand], Slices[commands.KeyedAnswer]],
) -> Slices[commands.Answer]:
    """Carry the request out and store the answer, or repeat the stored answer."""
    refusal, known = _refusal(command), pending.image.keys.get(command.key)
    if refusal is None and known is None:
        pending.key, pending.fingerprint = command.key, command.fingerprint
        answer = yield from carry_out(pending, command.command)
        pending.records.append(
            own_records.Remembered(
                key=command.key,
                fingerprint=command.fingerprint,
                kind=type(answer).__name__,
                answer=msgspec.msgpack.encode(_shortened(answer)),
                at_ms=pending.now_ms,
            )
        )
        return answer
    if refusal is None and known is not None and known.fingerprint == command.fingerprint:
        repeated = _repeated(pending.image, command.command, known)
        if repeated is not None:
            return repeated
    return commands.Done.from_refusal(
        refusal
        or Refusal(
            Error.DUPLICATE_RESOURCE,
            f"the key {command.key} belongs to another request; use another key for this one",
        )
    )


def _refusal(command: commands.IdempotentCommand) -> Refusal | None:
    """Return the reason to refuse the idempotency key, or None."""
    if not 0 < len(command.key) <= KEY_CHARACTERS_MAX:
        reason = f"a key has 1 to {KEY_CHARACTERS_MAX} characters, not {len(command.key)}"
    elif len(command.fingerprint) > FINGERPRINT_BYTES_MAX:
        size = len(command.fingerprint)
        reason = f"a fingerprint has at most {FINGERPRINT_BYTES_MAX} bytes, not {size}"
    else:
        return None
    return Refusal(Error.INVALID_REQUEST, reason)


def _shortened(answer: commands.KeyedAnswer) -> _Kept:
    """Return the part of an answer that is stored: it has a bounded length."""
    match answer:
        case commands.ReassignmentsAltered():
            return _outline(answer)
        case commands.MovesCancelled(partitions=parts) if len(parts) > KEYED_PARTS_MAX:
            return replace(answer, partitions=refused_first(parts)[:KEYED_PARTS_MAX])
        case commands.MoveStarted(foreseen=parts) if len(parts) > KEYED_PARTS_MAX:
            return replace(answer, foreseen=parts[:KEYED_PARTS_MAX])
        case _:
            return answer


def refused_first(
    parts: Sequence[commands.ReassignmentAltered],
) -> tuple[commands.ReassignmentAltered, ...]:
    """Return these parts with the refused ones first, otherwise in their order."""
    return tuple(sorted(parts, key=lambda each: each.error is Error.NONE))


def _outline(answer: commands.ReassignmentsAltered) -> _Outline:
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


def _repeated(
    image: Image, command: commands.KeyedCommand, known: own_records.Remembered
) -> commands.KeyedAnswer | None:
    """Return the stored answer, with the present replicas of the partitions.

    None if the stored answer does not fit this request, whatever the fingerprint is.
    """
    kind, shape = _KEPT[type(command)]
    if known.kind != kind:
        return None
    kept = msgspec.msgpack.decode(known.answer, type=shape)
    if not isinstance(kept, _Outline):
        return replace(kept, repeated=True)
    if not isinstance(command, commands.AlterReassignments):
        return None
    if len(command.reassignments) != kept.count:
        return None
    parts = [_accepted(image, each) for each in command.reassignments]
    for place, part in kept.refused:
        parts[place] = part
    for error, places in kept.others:
        for place in BitMap.deserialize(places):
            parts[place] = replace(parts[place], error=error, message=error.meaning, replicas=())
    return commands.ReassignmentsAltered(
        partitions=tuple(parts), move_id=kept.move_id, repeated=True
    )


def _accepted(image: Image, request: commands.Reassignment) -> commands.ReassignmentAltered:
    """Return the answer for an accepted partition, which may have changed or be deleted since."""
    topic = image.topic_named(request.topic)
    partition = None if topic is None else topic.partition(request.partition)
    return commands.ReassignmentAltered(
        topic=request.topic,
        partition=request.partition,
        replicas=() if partition is None else partition.replicas,
    )
