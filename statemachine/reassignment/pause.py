"""Pause, resume and alter moves on an operator's request.

A paused move begins no further steps; a step under way goes on. An automatic pause
(`scheduler.auto_pause`) ends by itself.

"""

from msgspec.structs import replace

from statemachine.commands import AlterMove, MoveAltered, MovesAltered, PauseMoves, ResumeMoves
from statemachine.errors import Error, Refusal
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import throttle
from statemachine.reassignment.move import altered, move_changed
from statemachine.reassignment.move_commands import ended_refusal
from statemachine.reassignment.step import Reason
from statemachine.records import own_records
from statemachine.slices import Slices
from statemachine.vocabulary import MoveId, MoveState


def pause_moves(draft: PendingDecision, command: PauseMoves) -> MovesAltered:
    """Begin no further steps of these moves, or of any."""
    if command.moves is None:
        if draft.all_paused is None:
            _say_of_all(draft, paused=True, who=command.who)
        return MovesAltered()
    return MovesAltered(
        moves=tuple([_paused(draft, move_id, command.who) for move_id in command.moves])
    )


def resume_moves(draft: PendingDecision, command: ResumeMoves) -> MovesAltered:
    """Go on with these moves, or end the pause of all."""
    if command.moves is None:
        if draft.all_paused is not None:
            _say_of_all(draft, paused=False, who=command.who)
        return MovesAltered()
    return MovesAltered(
        moves=tuple([_resumed(draft, move_id, command.who) for move_id in command.moves])
    )


def _say_of_all(draft: PendingDecision, *, paused: bool, who: str) -> None:
    record = own_records.MovesPaused(paused=paused, who=who, since_ms=draft.now_ms)
    draft.records.append(record)
    draft.all_paused = record if paused else None


def _paused(draft: PendingDecision, move_id: MoveId, who: str) -> MoveAltered:
    refusal = ended_refusal(draft, move_id)
    if refusal is not None:
        return _refused(move_id, refusal)
    move = draft.move(move_id)
    assert move is not None, f"move {move_id} runs, and is not there"
    if move.state != MoveState.PAUSED:
        draft.change_move(
            own_records.MoveChanged(
                id=move_id,
                state=MoveState.PAUSED,
                since_ms=draft.now_ms,
                reason=Reason.MOVE_PAUSED.value,
                who=who,
            )
        )
    return MoveAltered(move_id=move_id)


def _resumed(draft: PendingDecision, move_id: MoveId, who: str) -> MoveAltered:
    refusal = ended_refusal(draft, move_id)
    if refusal is not None:
        return _refused(move_id, refusal)
    move = draft.move(move_id)
    assert move is not None, f"move {move_id} runs, and is not there"
    if move.state == MoveState.PAUSED_BY_ITSELF:
        goes_on = f"move {move_id} is paused by itself and goes on by itself: {move.detail}"
        return _refused(move_id, Refusal(Error.INVALID_REQUEST, goes_on))
    if move.state == MoveState.PAUSED:
        draft.change_move(
            own_records.MoveChanged(
                id=move_id, state=MoveState.RUNNING, since_ms=draft.now_ms, who=who
            )
        )
    return MoveAltered(move_id=move_id)


def alter_move(draft: PendingDecision, command: AlterMove) -> Slices[MovesAltered]:
    """Change options of a running move."""
    refusal = ended_refusal(draft, command.move_id)
    refusal = refusal or throttle.rate_refusal(command)
    if refusal is not None:
        return MovesAltered(moves=(_refused(command.move_id, refusal),))
    move = draft.move(command.move_id)
    assert move is not None, f"move {command.move_id} runs, and is not there"
    options = altered(move.options, command)
    if options != move.options:
        draft.change_move(move_changed(replace(move, options=options), move.options))
        yield from throttle.alter(draft, move)
    return MovesAltered(moves=(MoveAltered(move_id=command.move_id),))


def _refused(move_id: MoveId, refusal: Refusal) -> MoveAltered:
    return MoveAltered(move_id=move_id, error=refusal.error, message=refusal.message)
