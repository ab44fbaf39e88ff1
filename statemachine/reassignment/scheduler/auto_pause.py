"""Which moves begin no further steps for now, and when a move is paused by itself.

A move rests while one of its partitions is hurt: at or under min ISR for want of a replica that the
move does not add (`places.is_hurt`). The hurt ones themselves go on, and go first: what a pause is
for is not to load the brokers that they need. What is under way is never held up by any pause.
"""

from pyroaring import BitMap

from statemachine.configs.effective import configured_min_isr
from statemachine.image.partition_index import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.move import Move
from statemachine.reassignment.scheduler.queue import Turns
from statemachine.reassignment.settings import Limits
from statemachine.reassignment.step import Reason
from statemachine.records import own_records
from statemachine.vocabulary import MoveId, MoveState

Hurt = dict[MoveId, tuple[Topic, int, PartitionRegistration]]
"""Of each move that a decision has hurt partitions of, the first one."""


def pause_and_resume(
    draft: PendingDecision, turns: Turns, shadowed: BitMap, hurt: Hurt, limits: Limits
) -> None:
    """Record which moves begin to rest by themselves, and which go on.

    `shadowed` are the turns of the partitions that the decision has changed; `hurt` is what is
    hurt among these. Where nothing is limited all has begun that can begin, and nothing rests.
    """
    for move_id in sorted(turns.of_move.keys() | hurt.keys()):
        move = draft.move(move_id)
        if move is None or move.ended is not None or move_id in draft.ended:
            continue
        if move.state == MoveState.PAUSED:
            continue
        if move_id in draft.ended:
            continue
        cause = None if limits.is_unlimited else _cause(draft, turns, shadowed, hurt, move)
        if (cause is None) is (move.state == MoveState.RUNNING):
            continue
        state = MoveState.RUNNING if cause is None else MoveState.PAUSED_BY_ITSELF
        draft.change_move(
            own_records.MoveChanged(
                id=move_id,
                state=state,
                since_ms=draft.now_ms,
                reason="" if cause is None else Reason.HURT.value,
                detail="" if cause is None else cause,
            )
        )


def _cause(
    draft: PendingDecision, turns: Turns, shadowed: BitMap, hurt: Hurt, move: Move
) -> str | None:
    if move.id in hurt:
        return _told(draft, *hurt[move.id])
    of_move = turns.of_move.get(move.id)
    first = None if of_move is None else next(iter((of_move & turns.hurt) - shadowed), None)
    if first is None:
        return None
    found = draft.image.index.at(turns.key(first))
    assert found is not None, f"turn {first} is of no partition"
    topic, number = found
    partition = topic.partition(number)
    assert partition is not None
    return _told(draft, topic, number, partition)


def _told(
    draft: PendingDecision, topic: Topic, number: int, partition: PartitionRegistration
) -> str:
    needed = min(configured_min_isr(draft, topic.name), len(partition.aimed))
    return f"{topic.name}-{number} has {len(partition.isr)} in sync, and min ISR is {needed}"


def resting(draft: PendingDecision, turns: Turns) -> BitMap:
    """The turns that pauses hold up. Where all moves are paused, that is not asked."""
    held = BitMap()
    for move_id in turns.of_move:
        state = _state(draft, move_id)
        if state == MoveState.PAUSED:
            held |= turns.of_move[move_id]
        elif state == MoveState.PAUSED_BY_ITSELF:
            held |= turns.of_move[move_id] - turns.hurt
    return held


def rests(draft: PendingDecision, move_id: MoveId, *, is_hurt: bool) -> bool:
    """Whether a partition of the move is held up by a pause of the move."""
    state = _state(draft, move_id)
    return state == MoveState.PAUSED or (state == MoveState.PAUSED_BY_ITSELF and not is_hurt)


def _state(draft: PendingDecision, move_id: MoveId) -> int:
    move = draft.move(move_id)
    return MoveState.RUNNING if move is None else move.state
