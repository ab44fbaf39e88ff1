"""What may be asked about moves, and what is answered. Values only, never behaviour.

A move is what one operator asked for at one time, of any number of partitions. It has an id, by
which it is paused, altered, cancelled and rolled back, and it is listed for a while after its end.
"""

from typing import TypeAlias

from msgspec import Struct

from statemachine.commands.partitions import (
    AlterReassignments,
    Reassignment,
    ReassignmentAltered,
    ReassignmentsAltered,
)
from statemachine.errors import Error
from statemachine.vocabulary import BrokerId, MoveId, MoveKind


class BeginMove(Struct, frozen=True, kw_only=True, gc=False):
    """Give these partitions these replicas. One that cannot be does not stop the others."""

    reassignments: tuple[Reassignment, ...]
    who: str = ""
    kind: MoveKind = MoveKind.REASSIGN
    may_change_factor: bool = True
    """Whether a partition may end with another number of replicas than it has (KIP-860)."""
    name: str = ""
    priority: int = 0
    """Moves with a higher one step before others."""
    broker: BrokerId | None = None
    """Whom a drain empties."""
    throttle_bytes_per_s: int = 0
    """What is copied for it at most to each broker, and from each; 0 is "as fast as they can"."""


class MoveStarted(Struct, frozen=True, kw_only=True, gc=False):
    """The move that was begun, or why there is none."""

    error: Error = Error.NONE
    message: str = ""
    move_id: MoveId = 0
    """0 where nothing had to change, or nothing can, or it is only tried."""
    accepted: int = 0
    """Partitions that belong to the move; of a rollback that is only tried all that would change,
    those included that have it at once by a cancel."""
    refused_count: int = 0
    refused: tuple[ReassignmentAltered, ...] = ()
    """The first of those that are refused, with their reasons."""
    foreseen: tuple[ReassignmentAltered, ...] = ()
    """Of a rollback that is only tried: what each partition that changes would have in the end."""
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class MoveAltered(Struct, frozen=True, kw_only=True, gc=False):
    """One move that was paused, resumed or altered, or why it was not."""

    move_id: MoveId
    error: Error = Error.NONE
    message: str = ""


class CancelMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Revert the step that is under way and drop the rest: of all that is named here."""

    partitions: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    moves: tuple[MoveId, ...] = ()
    everything: bool = False
    """Whatever is being reassigned, in a move or not."""
    dry_run: bool = False
    """Only answer what each partition would have then."""


class MovesCancelled(Struct, frozen=True, kw_only=True, gc=False):
    """What each partition now has, in order of topic and number; number -1 tells of a topic."""

    partitions: tuple[ReassignmentAltered, ...] = ()
    moves: tuple[MoveAltered, ...] = ()
    """Of the moves that were named whether they were running, in the order asked."""
    done_count: int = 0
    refused_count: int = 0
    """Of the partitions; where an answer is repeated there may be more than are told of."""
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class RollBackMove(Struct, frozen=True, kw_only=True, gc=False):
    """Cancel what is left of a move, and begin one back to what its partitions had before it."""

    move_id: MoveId
    who: str = ""
    dry_run: bool = False
    """Only answer what each partition would have then."""


class PauseMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Begin no further steps of these moves; with None of any, of those to come as well."""

    moves: tuple[MoveId, ...] | None
    who: str = ""


class ResumeMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Go on with these moves, or with None end the pause of all."""

    moves: tuple[MoveId, ...] | None
    who: str = ""


class AlterMove(Struct, frozen=True, kw_only=True, gc=False):
    """Let a move that runs go before others, or at another rate; None is "as it is"."""

    move_id: MoveId
    priority: int | None = None
    """Moves with a higher one step before others."""
    throttle_bytes_per_s: int | None = None
    """0 is "as fast as they can"."""


class MovesAltered(Struct, frozen=True, kw_only=True, gc=False):
    """In the order asked for; none if all were asked for at once."""

    moves: tuple[MoveAltered, ...] = ()
    repeated: bool = False
    """Whether this was answered before, and is not carried out again."""


class AdvanceMoves(Struct, frozen=True, kw_only=True, gc=False):
    """Go on with what one decision did not finish: begin the steps for which there is room, and
    complete and elect what a change of configurations has allowed.

    The active controller asks it of itself.
    """


class MovesAdvanced(Struct, frozen=True, kw_only=True, gc=False):
    """The steps have begun."""

    is_left: bool
    """Whether there is more to do already."""


class ForgetMoves(Struct, frozen=True, kw_only=True, gc=False):
    """List and remember no longer what is too old or too much, and unregister brokers that were to
    go once they are empty; asked by the active controller.
    """


KeyedCommand: TypeAlias = (
    AlterReassignments
    | BeginMove
    | RollBackMove
    | CancelMoves
    | PauseMoves
    | ResumeMoves
    | AlterMove
)
KeyedAnswer: TypeAlias = ReassignmentsAltered | MoveStarted | MovesCancelled | MovesAltered


class Keyed(Struct, frozen=True, kw_only=True, gc=False):
    """A request that may be asked again, by its asker or for it, and is to be carried out once."""

    key: str
    """Chosen by the asker, of whom only this request has it."""
    fingerprint: bytes
    """Of the request as it was asked: another one with the same key is refused."""
    command: KeyedCommand
