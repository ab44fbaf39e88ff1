"""Automatic pauses: a move starts no steps while one of its partitions is under min ISR.

"Under min ISR" means at or below it for want of a replica that the move does not add
(`queue.is_under_min_isr`). Those partitions themselves go on, and go first: the pause spares the
brokers that they need. No pause stops a step that is under way.
"""

from pyroaring import BitMap

from statemachine.configs.effective import configured_min_isr
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.move import Move
from statemachine.reassignment.scheduler.queue import ReassignmentQueue
from statemachine.reassignment.settings import Limits
from statemachine.reassignment.step import Reason
from statemachine.records import own_records
from statemachine.vocabulary import MoveId, MoveState

UnderMinIsr = dict[MoveId, tuple[Topic, int, PartitionRegistration]]
"""Of each move that a decision has under_min_isr partitions of, the first one."""


def pause_and_resume(
    draft: PendingDecision,
    queue: ReassignmentQueue,
    shadowed: BitMap,
    under_min_isr: UnderMinIsr,
    limits: Limits,
) -> None:
    """Record the automatic pauses that begin and end.

    `shadowed` are the positions of partitions that the decision has changed; `under_min_isr` are
    those of them that are under min ISR. Without limits every step has begun, and nothing pauses.
    """
    for move_id in sorted(queue.of_move.keys() | under_min_isr.keys()):
        move = draft.move(move_id)
        if move is None or move.ended is not None or move_id in draft.ended:
            continue
        if move.state == MoveState.PAUSED:
            continue
        cause = None if limits.is_unlimited else _cause(draft, queue, shadowed, under_min_isr, move)
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
    draft: PendingDecision,
    queue: ReassignmentQueue,
    shadowed: BitMap,
    under_min_isr: UnderMinIsr,
    move: Move,
) -> str | None:
    if move.id in under_min_isr:
        topic, number, partition = under_min_isr[move.id]
    else:
        positions = (queue.of_move.get(move.id, BitMap()) & queue.under_min_isr) - shadowed
        if not positions:
            return None
        found = draft.image.index.at(queue.key_at(positions[0]))
        assert found is not None, f"position {positions[0]} is of no partition"
        topic, number = found
        known = topic.partition(number)
        assert known is not None
        partition = known
    needed = min(configured_min_isr(draft, topic.name), len(partition.aimed))
    return f"{topic.name}-{number} has {len(partition.isr)} in sync, and min ISR is {needed}"


def resting(draft: PendingDecision, queue: ReassignmentQueue) -> BitMap:
    """Return the positions that pauses of single moves hold up."""
    held = BitMap()
    for move_id in queue.of_move:
        state = _state(draft, move_id)
        if state == MoveState.PAUSED:
            held |= queue.of_move[move_id]
        elif state == MoveState.PAUSED_BY_ITSELF:
            held |= queue.of_move[move_id] - queue.under_min_isr
    return held


def rests(draft: PendingDecision, move_id: MoveId, *, is_under_min_isr: bool) -> bool:
    """Return True if a pause of the move holds up the partition."""
    state = _state(draft, move_id)
    return state == MoveState.PAUSED or (
        state == MoveState.PAUSED_BY_ITSELF and not is_under_min_isr
    )


def _state(draft: PendingDecision, move_id: MoveId) -> int:
    move = draft.move(move_id)
    return MoveState.RUNNING if move is None else move.state
