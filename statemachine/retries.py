"""A request that is asked again with the same key is carried out once, and answered alike.

The answer is kept in the log, in the same piece as what the request changed: no fail-over can part
them. How long it is kept is told by `forgetting`. A key belongs to one request: with another body
it is refused. What was refused is kept as well, for the retry must not be carried out where the
first was not.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from statemachine import our_records
from statemachine.commands import (
    AlterReassignments,
    Answer,
    Done,
    Keyed,
    KeyedAnswer,
    KeyedCommand,
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    ReassignmentsAltered,
)
from statemachine.draft import Draft
from statemachine.errors import Error, Refusal
from statemachine.limits import (
    FINGERPRINT_BYTES_MAX,
    KEY_CHARACTERS_MAX,
    KEYED_PARTS_MAX,
)

_ANSWERS: Final[dict[str, type[KeyedAnswer]]] = {
    shape.__name__: shape
    for shape in (MoveStarted, MovesCancelled, MovesAltered, ReassignmentsAltered)
}
"""What can be kept, by the name under which it is."""


def keyed(
    draft: Draft, command: Keyed, carry_out: Callable[[Draft, KeyedCommand], KeyedAnswer]
) -> Answer:
    """Answer as the first time, or carry the request out and keep the answer."""
    refusal = _refusal(command)
    if refusal is None:
        known = draft.image.keys.get(command.key)
        if known is None:
            return _carried_out(draft, command, carry_out)
        if known.fingerprint == command.fingerprint:
            return msgspec.msgpack.decode(known.answer, type=_ANSWERS[known.kind])
        refusal = Refusal(
            Error.INVALID_REQUEST,
            f"the key {command.key} belongs to another request; give this one a key of its own",
        )
    return Done(error=refusal.error, message=refusal.message)


def _refusal(command: Keyed) -> Refusal | None:
    """Why the request cannot have this key, or None."""
    if not 0 < len(command.key) <= KEY_CHARACTERS_MAX:
        reason = f"a key has 1 to {KEY_CHARACTERS_MAX} characters, not {len(command.key)}"
    elif len(command.fingerprint) > FINGERPRINT_BYTES_MAX:
        size = len(command.fingerprint)
        reason = f"a fingerprint has at most {FINGERPRINT_BYTES_MAX} bytes, not {size}"
    elif (
        isinstance(command.command, AlterReassignments)
        and (count := len(command.command.reassignments)) > KEYED_PARTS_MAX
    ):
        reason = f"with a key at most {KEYED_PARTS_MAX:,} partitions may be named, not {count:,}"
    else:
        return None
    return Refusal(Error.INVALID_REQUEST, reason)


def _carried_out(
    draft: Draft, command: Keyed, carry_out: Callable[[Draft, KeyedCommand], KeyedAnswer]
) -> Answer:
    draft.key, draft.fingerprint = command.key, command.fingerprint
    answer = carry_out(draft, command.command)
    draft.records.append(
        our_records.Remembered(
            key=command.key,
            fingerprint=command.fingerprint,
            kind=type(answer).__name__,
            answer=msgspec.msgpack.encode(_shortened(answer)),
            at_ms=draft.now_ms,
        )
    )
    return answer


def _shortened(answer: KeyedAnswer) -> KeyedAnswer:
    """What is kept of an answer that can be of any length."""
    if isinstance(answer, MovesCancelled):
        return replace(answer, partitions=answer.partitions[:KEYED_PARTS_MAX])
    return answer
