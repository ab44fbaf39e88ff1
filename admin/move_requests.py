"""What is asked of moves that are there, as a command of the state machine. It asks nobody."""

from typing import Final, TypeAlias

from admin.keys import wrong_key
from admin.moves import MovesRequest, Operation
from statemachine.commands import (
    AlterMove,
    CancelMoves,
    PauseMoves,
    ResumeMoves,
    RollBackMove,
)
from statemachine.errors import Error, Refusal

MoveCommand: TypeAlias = PauseMoves | ResumeMoves | CancelMoves | RollBackMove | AlterMove

_TRIED: Final = (Operation.CANCEL, Operation.ROLL_BACK)
_ORDERING: Final = (Operation.PRIORITY, Operation.ALTER)
_THROTTLING: Final = (Operation.THROTTLE, Operation.ALTER)
_OF_ONE: Final = (Operation.ROLL_BACK, Operation.PRIORITY, Operation.THROTTLE, Operation.ALTER)


def command_of(request: MovesRequest, who: str) -> MoveCommand | Refusal:
    """What the state machine is asked for; or what is wrong with the request."""
    reason = wrong_key(request.key) if request.key else None
    reason = reason or _wrong(request)
    if reason is not None:
        return Refusal(Error.INVALID_REQUEST, reason)
    moves = None if request.everything else request.move_ids
    match request.operation:
        case Operation.PAUSE:
            return PauseMoves(moves=moves, who=who)
        case Operation.RESUME:
            return ResumeMoves(moves=moves, who=who)
        case Operation.ROLL_BACK:
            return RollBackMove(move_id=request.move_ids[0], who=who, dry_run=request.dry_run)
        case Operation.PRIORITY:
            return AlterMove(move_id=request.move_ids[0], priority=request.priority)
        case Operation.THROTTLE:
            rate = request.throttle_bytes_per_s
            return AlterMove(move_id=request.move_ids[0], throttle_bytes_per_s=rate)
        case Operation.ALTER:
            return AlterMove(
                move_id=request.move_ids[0],
                priority=request.priority,
                throttle_bytes_per_s=request.throttle_bytes_per_s,
            )
        case Operation.CANCEL:
            return CancelMoves(
                partitions=tuple((each.topic, each.partition) for each in request.partitions),
                topics=request.topics,
                moves=request.move_ids,
                everything=request.everything,
                dry_run=request.dry_run,
            )


def _wrong(request: MovesRequest) -> str | None:
    is_cancel = request.operation is Operation.CANCEL
    parts = request.topics or request.partitions
    if request.dry_run and request.operation not in _TRIED:
        return "only a cancel or a rollback can be tried; leave the dry run out"
    if request.priority and request.operation not in _ORDERING:
        return "a priority is given to one move by itself; leave it out"
    if request.throttle_bytes_per_s and request.operation not in _THROTTLING:
        return "a throttle is given to one move by itself; leave it out"
    if parts and not is_cancel:
        return "topics and partitions can only be cancelled; name moves"
    if request.everything and (request.move_ids or parts):
        return "everything is asked for, and parts of it by name; ask for one of them"
    if request.operation in _OF_ONE:
        named = "all of them" if request.everything else len(request.move_ids)
        return None if named == 1 else f"it is done with one move, not {named}; name one"
    if not (request.everything or request.move_ids or parts):
        more = ", topics or partitions" if is_cancel else ""
        return f"nothing is named; name moves{more}, or ask for everything"
    return None
