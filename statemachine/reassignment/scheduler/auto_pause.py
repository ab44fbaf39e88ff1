"""Automatic pauses: a move starts no steps while one of its partitions is under min ISR.

"Under min ISR" is defined by `queue.is_under_min_isr`. The partitions under min ISR themselves go
on, and first: the pause reserves the brokers' capacity for them. No pause stops a step under way.
"""

from pyroaring import BitMap

from statemachine.configs.effective import min_isr
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment.scheduler.queue import Position, ReassignmentQueue
from statemachine.reassignment.settings import Limits
from statemachine.reassignment.step import Reason
from statemachine.records import own_records
from statemachine.vocabulary import MoveId, MoveState


def pause_and_resume(pending: PendingDecision, queue: ReassignmentQueue, limits: Limits) -> None:
    """Record the automatic pauses that begin and end.

    Without limits every step has already begun, and nothing pauses.
    """
    for move_id in sorted(queue.of_move):
        move = pending.moves.get(move_id)
        if move is None or move.ended is not None or move.state == MoveState.PAUSED:
            continue
        cause = None if limits.is_unlimited else _cause(pending, queue, move_id)
        if (cause is None) is (move.state == MoveState.RUNNING):
            continue
        state = MoveState.RUNNING if cause is None else MoveState.PAUSED_BY_ITSELF
        pending.change_move(
            own_records.MoveChanged(
                id=move_id,
                state=state,
                since_ms=pending.now_ms,
                reason="" if cause is None else Reason.HURT.value,
                detail="" if cause is None else cause,
            )
        )


def _cause(pending: PendingDecision, queue: ReassignmentQueue, move_id: MoveId) -> str | None:
    """Describe the first partition of the move that is under min ISR, if there is one."""
    positions = queue.of_move[move_id] & queue.under_min_isr
    if not positions:
        return None
    topic, number, partition = partition_at(pending, queue, positions[0])
    needed = min_isr(pending, topic.name, partition)
    return f"{topic.name}-{number} has {len(partition.isr)} in sync, and min ISR is {needed}"


def partition_at(
    pending: PendingDecision, queue: ReassignmentQueue, position: Position
) -> tuple[Topic, int, PartitionRegistration]:
    """Return the partition that has this position."""
    found = pending.image.index.at(queue.key_at(position))
    partition = None if found is None else pending.partition(*found)
    assert found is not None, f"position {position} is of no partition"
    assert partition is not None, f"position {position} is of no partition"
    return (*found, partition)


def paused_positions(pending: PendingDecision, queue: ReassignmentQueue) -> BitMap:
    """Return the positions that are held up by pauses of single moves."""
    held = BitMap()
    for move_id, positions in queue.of_move.items():
        move = pending.moves.get(move_id)
        if move is not None and move.state == MoveState.PAUSED:
            held |= positions
        elif move is not None and move.state == MoveState.PAUSED_BY_ITSELF:
            held |= positions - queue.under_min_isr
    return held
