"""Commands about moves: begin, cancel, roll back, pause, resume and alter.

One request for reassignments is one move of the partitions that it changes, without refused
partitions and those that already have their target. A partition belongs to one move at a time: the
next request takes it out of its earlier move. A move ends with the decision that takes its last
partition out. A paused move begins no steps, and copies nothing unless it is to complete those
under way; an automatic pause (`scheduler.auto_pause`) ends by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias
from uuid import UUID

from msgspec.structs import asdict, replace
from pyroaring import BitMap

from statemachine import commands
from statemachine.errors import Error, Refusal
from statemachine.image.partition_index import PartitionIndex, in_order
from statemachine.image.partition_table import Topic
from statemachine.limits import (
    MOVE_PART_PARTITIONS_MAX,
    PLANNED_STEPS_SHOWN_MAX,
    REFUSED_SHOWN_MAX,
)
from statemachine.partitions.change_builder import ChangeMemo
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import throttle
from statemachine.reassignment.move import Move, altered, begun, ended, move_changed, options_of
from statemachine.reassignment.progress import planned_steps
from statemachine.reassignment.step import Reason
from statemachine.reassignment.target import cancel, direct
from statemachine.records import own_records
from statemachine.records.codec import plan_bytes
from statemachine.records.own_records import (
    MoveBegun,
    MoveOptions,
    PlannedPartition,
    PlannedTopic,
)
from statemachine.slices import CHANGED_US, PASSED_US, PLANNED_US, Slices
from statemachine.vocabulary import NO_MOVE, MoveId, MoveKind, MoveOutcome, MoveState, Replicas

_Planned: TypeAlias = tuple[Topic, PlannedPartition]


class MoveBuilder:
    """Builds the beginning of a move; its records precede the changes of its partitions."""

    def __init__(self, pending: PendingDecision) -> None:
        self.move_id = pending.image.next_move_id
        self.under_way = NO_MOVE
        """A running move that already has the targets of the request."""
        self._pending = pending
        self._joined = 0
        self._planned: dict[int, _Planned] = {}
        """By key, in the order of the first occurrence in the request."""
        self._memo = ChangeMemo(pending)

    @property
    def cost_us(self) -> int:
        """The cost of the last partition, for `Slices`."""
        return self._memo.cost_us

    @property
    def accepted(self) -> int:
        """The number of partitions that belong to the move."""
        return len(self._planned)

    def direct(
        self, topic: Topic, number: int, before: PartitionRegistration, target: Replicas
    ) -> PartitionRegistration | Refusal:
        """Reassign the partition; leave it out if it has this target already."""
        if target == before.final:
            self.under_way = self.under_way or before.stage.move
            return before
        after = self._memo.change(
            topic,
            number,
            before,
            target,
            self.move_id,
            lambda: direct(self._pending, topic, number, before, target, self.move_id),
        )
        if not isinstance(after, Refusal):
            # A partition that the same request cancels and moves again counts each time it joins.
            self._joined += before.stage.move != self.move_id
            known = self._planned.get(topic.keys[number])
            original = before.base if known is None else known[1].original
            planned = PlannedPartition(number=number, target=target, original=original)
            self._planned[topic.keys[number]] = topic, planned
        return after

    def begin(self, request: MoveBegun) -> Slices[MoveId]:
        """Record the move if it has partitions; `request` still lacks the id and their number."""
        pending = self._pending
        if not self._planned:
            return self.under_way
        record = replace(request, id=self.move_id, partitions=self._joined)
        parts = []
        planned = list(self._planned.values())
        for part, start in enumerate(range(0, len(planned), MOVE_PART_PARTITIONS_MAX)):
            some = planned[start : start + MOVE_PART_PARTITIONS_MAX]
            plan = plan_bytes(_by_topic(some))
            parts.append(own_records.MovePart(id=self.move_id, part=part, plan=plan))
            yield len(some) * PLANNED_US
        pending.put_move(begun(record))
        pending.left.setdefault(self.move_id, [])
        yield len(planned) * PASSED_US
        changes = pending.take_records()
        pending.records += [record, *parts]
        # The throttle precedes the first added replica, because copying begins at once.
        numbers = [(topic, each.number) for topic, each in planned]
        yield from throttle.begin(pending, self.move_id, numbers)
        pending.records += changes
        return self.move_id


def _by_topic(planned: Iterable[_Planned]) -> tuple[PlannedTopic, ...]:
    return tuple(
        [
            PlannedTopic(topic_id=topic.topic_id, partitions=tuple([each for _, each in same]))
            for topic, same in groupby(planned, itemgetter(0))
        ]
    )


def alter_reassignments(
    pending: PendingDecision, command: commands.AlterReassignments
) -> Slices[commands.ReassignmentsAltered]:
    """Begin, redirect or cancel reassignments, in order and each independently (KIP-455)."""
    refusal = throttle.rate_refusal(command)
    if refusal is not None:
        parts = tuple([_refused(asked, refusal) for asked in command.reassignments])
        return commands.ReassignmentsAltered(partitions=parts)
    dry_run, may_change = command.dry_run, command.may_change_factor
    builder = MoveBuilder(pending)
    partitions = []
    refused = shown = 0
    for asked in command.reassignments:
        answer = _altered(pending, builder, asked, may_change)
        refused += answer.error is not Error.NONE
        if dry_run and asked.replicas is not None and answer.error is Error.NONE:
            if shown < PLANNED_STEPS_SHOWN_MAX:
                answer = replace(answer, steps=_steps(pending, asked))
            shown += 1
        partitions.append(answer)
        yield CHANGED_US if dry_run or asked.replicas is None else builder.cost_us
    move_id = builder.under_way
    if not dry_run:
        request = _request(pending, command.who, MoveKind.REASSIGN, refused, options_of(command))
        move_id = yield from builder.begin(request)
    yield len(partitions) * PASSED_US
    return commands.ReassignmentsAltered(partitions=tuple(partitions), move_id=move_id)


def _steps(pending: PendingDecision, asked: commands.Reassignment) -> tuple[Replicas, ...]:
    """Return the replicas after each step; none if the partition has its target replicas."""
    topic = pending.image.topic_named(asked.topic)
    assert topic is not None, f"{asked.topic} is deleted during a request"
    before, after = topic.partition(asked.partition), pending.partition(topic, asked.partition)
    assert after is not None, f"{asked.topic}-{asked.partition} is deleted during a request"
    if after.moving:
        return planned_steps(pending.image, topic, after)
    # Reordered or fewer replicas: the change is complete at once.
    return () if after == before else (after.replicas,)


def begin_move(
    pending: PendingDecision, command: commands.BeginMove
) -> Slices[commands.MoveStarted]:
    """Begin a move of all partitions that can move; refuse each other one with its reason."""
    refusal = throttle.rate_refusal(command)
    if refusal is not None:
        return commands.MoveStarted.from_refusal(refusal)
    builder = MoveBuilder(pending)
    refused = []
    for asked in command.reassignments:
        answer = (
            _refused(asked, Refusal(Error.INVALID_REQUEST, "a move needs replicas to move to"))
            if asked.replicas is None
            else _altered(pending, builder, asked, command.may_change_factor)
        )
        if answer.error is not Error.NONE:
            refused.append(answer)
        yield CHANGED_US
    request = _request(pending, command.who, command.kind, len(refused), options_of(command))
    move_id = yield from builder.begin(replace(request, broker=command.broker))
    return _started(move_id, builder.accepted, refused)


def _started(
    move_id: MoveId,
    accepted: int,
    refused: Sequence[commands.ReassignmentAltered],
    foreseen: Sequence[commands.ReassignmentAltered] = (),
) -> commands.MoveStarted:
    return commands.MoveStarted(
        move_id=move_id,
        accepted=accepted,
        refused_count=len(refused),
        refused=tuple(refused[:REFUSED_SHOWN_MAX]),
        foreseen=tuple(foreseen),
    )


def _request(
    pending: PendingDecision, who: str, kind: MoveKind, refused: int, options: MoveOptions
) -> MoveBegun:
    return MoveBegun(
        id=NO_MOVE,
        kind=kind,
        who=who,
        asked_at_ms=pending.now_ms,
        partitions=0,
        refused=refused,
        key=pending.key,
        fingerprint=pending.fingerprint,
        **asdict(options),
    )


def _altered(
    pending: PendingDecision,
    builder: MoveBuilder | None,
    asked: commands.Reassignment,
    may_change_factor: bool = True,
) -> commands.ReassignmentAltered:
    """Begin, redirect or cancel one reassignment; a request that only cancels needs no builder."""
    topic = pending.image.topic_named(asked.topic)
    if topic is None:
        unknown = f"there is no topic {asked.topic}"
        return _refused(asked, Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown))
    partition = pending.partition(topic, asked.partition)
    if partition is None:
        unknown = f"topic {asked.topic} has no partition {asked.partition}"
        return _refused(asked, Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown))
    count = len(partition.final)
    outcome: PartitionRegistration | Refusal
    if asked.replicas is None:
        outcome = cancel(pending, topic, asked.partition)
    elif not may_change_factor and len(asked.replicas) != count:
        change = f"from {count} to {len(asked.replicas)}"
        outcome = Refusal(
            Error.INVALID_REPLICATION_FACTOR,
            f"the number of replicas would change {change}, which the request does not allow",
        )
    else:
        assert builder is not None, "only a cancel has no builder"
        outcome = builder.direct(topic, asked.partition, partition, asked.replicas)
    if isinstance(outcome, Refusal):
        return _refused(asked, outcome)
    return commands.ReassignmentAltered(
        topic=asked.topic, partition=asked.partition, replicas=outcome.replicas
    )


def _refused(asked: commands.Reassignment, refusal: Refusal) -> commands.ReassignmentAltered:
    return commands.ReassignmentAltered.from_refusal(
        refusal, topic=asked.topic, partition=asked.partition
    )


def roll_back_move(
    pending: PendingDecision, command: commands.RollBackMove
) -> Slices[commands.MoveStarted]:
    """Cancel the rest of a move, and begin a move back to the replicas before it."""
    move = pending.image.moves.get(command.move_id)
    if move is None:
        return commands.MoveStarted.from_refusal(unknown_move(pending, command.move_id))
    builder = MoveBuilder(pending)
    refused, foreseen = [], []
    for topic_id, planned in move.planned:
        answer = _rolled_back(pending, builder, move, topic_id, planned)
        if answer is not None:
            refused.append(answer)
        elif command.dry_run:
            topic, number = pending.image.topics[topic_id], planned.number
            if pending.partition(topic, number) != topic.partition(number):
                foreseen.append(
                    commands.ReassignmentAltered(
                        topic=topic.name, partition=number, replicas=planned.original
                    )
                )
        yield CHANGED_US
    if command.dry_run:
        move_id = NO_MOVE if foreseen else builder.under_way
        return _started(move_id, len(foreseen), refused, foreseen)
    # The brokers need the same throttle on the way back.
    options = replace(move.options, name="", priority=0)
    request = _request(pending, command.who, MoveKind.ROLLBACK, len(refused), options)
    move_id = yield from builder.begin(replace(request, rollback_of=move.id))
    return _started(move_id, builder.accepted, refused)


def _rolled_back(
    pending: PendingDecision,
    builder: MoveBuilder,
    move: Move,
    topic_id: UUID,
    planned: PlannedPartition,
) -> commands.ReassignmentAltered | None:
    """Restore this partition's earlier replicas; return the refusal or None."""
    topic = pending.image.topics.get(topic_id)
    partition = None if topic is None else pending.partition(topic, planned.number)
    if topic is None or partition is None:
        gone = f"no topic has the id {topic_id} any more"
        return commands.ReassignmentAltered.from_refusal(
            Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, gone),
            topic=str(topic_id),
            partition=planned.number,
        )
    if partition.stage.move == move.id:
        # If the cancel is refused, the earlier replicas become an ordinary target.
        cancelled = cancel(pending, topic, planned.number)
        partition = partition if isinstance(cancelled, Refusal) else cancelled
    outcome = builder.direct(topic, planned.number, partition, planned.original)
    if not isinstance(outcome, Refusal):
        return None
    asked = commands.Reassignment(
        topic=topic.name, partition=planned.number, replicas=planned.original
    )
    return _refused(asked, outcome)


def unknown_move(pending: PendingDecision, move_id: MoveId) -> Refusal:
    """Return the refusal for a move that is not listed."""
    if 0 < move_id < pending.image.next_move_id:
        reason = f"move {move_id} ended long ago and is not listed any more"
    else:
        reason = f"there is no move {move_id}"
    return Refusal(Error.INVALID_REQUEST, reason)


def end_moves(pending: PendingDecision) -> None:
    """Record the end of each move that has no partition left after the records so far."""
    for move_id in sorted(pending.left):
        move = pending.moves.get(move_id)
        if move is None or move.ended is not None or _partitions_in(pending, move_id):
            continue
        left, outcomes = move.left, pending.left.get(move_id, [])
        for outcome in MoveOutcome:
            left = left.plus(outcome, outcomes.count(outcome))
        record = ended(move, left, pending.now_ms)
        pending.put_move(replace(move, ended=record))
        pending.records.append(record)
        pending.has_freed_configs = True


def _partitions_in(pending: PendingDecision, move_id: MoveId) -> int:
    """Return the number of partitions in the move after the records so far."""
    before = len(pending.image.index.keys_of_move(move_id))
    return before + pending.joined.get(move_id, 0) - len(pending.left.get(move_id, ()))


_EVERY = -1
"""The partition number of an answer about a whole topic."""


def cancel_moves(
    pending: PendingDecision, command: commands.CancelMoves
) -> Slices[commands.MovesCancelled]:
    """Revert the steps under way of the named partitions, topics and moves; drop later steps."""
    # A dictionary keeps them nearly sorted, which makes sorting fast.
    named = dict.fromkeys((*command.partitions, *_of_topics(pending, command)))
    index = pending.image.index
    for topic, number in (yield from in_order(index, _held(index, command))):
        named[(topic.name, number)] = None
        yield PASSED_US
    partitions = []
    for name, number in sorted(named):
        partitions.append(_cancelled(pending, name, number))
        yield CHANGED_US
    refused = sum(each.error is not Error.NONE for each in partitions)
    return commands.MovesCancelled(
        partitions=tuple(partitions),
        done_count=len(partitions) - refused,
        refused_count=refused,
        moves=tuple([_move_altered(each, _running(pending, each)) for each in command.moves]),
    )


def _held(index: PartitionIndex, command: commands.CancelMoves) -> BitMap:
    """Return the partitions under way of the named moves, or of all."""
    keys = index.moving if command.everything else BitMap()
    for move_id in command.moves:
        keys = keys | index.keys_of_move(move_id)
    return keys


def _of_topics(
    pending: PendingDecision, command: commands.CancelMoves
) -> Iterator[tuple[str, int]]:
    """Yield the partitions under way of each topic, or `_EVERY` for a topic without any."""
    for name in command.topics:
        topic = pending.image.topic_named(name)
        existing = () if topic is None else topic.existing()
        moving = [number for number, partition in existing if partition.moving]
        for number in moving or [_EVERY]:
            yield name, number


def _cancelled(pending: PendingDecision, name: str, number: int) -> commands.ReassignmentAltered:
    asked = commands.Reassignment(topic=name, partition=number, replicas=None)
    if number != _EVERY or pending.image.topic_named(name) is None:
        return _altered(pending, None, asked)
    nothing = f"no partition of topic {name} is being reassigned"
    return _refused(asked, Refusal(Error.NO_REASSIGNMENT_IN_PROGRESS, nothing))


def pause_moves(
    pending: PendingDecision, command: commands.PauseMoves
) -> Slices[commands.MovesAltered]:
    """Pause or resume these moves, or all of them.

    No step begins under a pause. Throttles of rate 0 stop the steps under way, unless the request
    lets them complete.
    """
    running = [each for each, move in sorted(pending.moves.items()) if move.ended is None]
    named = running if command.moves is None else command.moves
    before = throttle.needs(pending, named)
    answer = commands.MovesAltered()
    if command.moves is None:
        _switch_all(pending, command)
    else:
        moves = [_switched(pending, each, command) for each in command.moves]
        answer = commands.MovesAltered(moves=tuple(moves))
    yield from throttle.adapt(pending, before)
    return answer


def _switch_all(pending: PendingDecision, command: commands.PauseMoves) -> None:
    stops = command.paused and not command.after_step
    known = pending.all_paused
    if command.paused is (known is not None) and stops is (
        known is not None and known.stops_copying
    ):
        return
    record = own_records.MovesPaused(
        paused=command.paused, who=command.who, since_ms=pending.now_ms, stops_copying=stops
    )
    pending.records.append(record)
    pending.all_paused = record if command.paused else None


def _switched(
    pending: PendingDecision, move_id: MoveId, command: commands.PauseMoves
) -> commands.MoveAltered:
    """Pause or resume one move; the message says if there was no pause to end."""
    move = pending.moves.get(move_id)
    if not command.paused and move is not None and _is_running(move):
        message = f"move {move_id} was not paused"
        if pending.all_paused is not None:
            message += " by its id; the pause of all moves goes on"
        return commands.MoveAltered(move_id=move_id, message=message)
    return _move_altered(move_id, _switch(pending, move_id, command))


def _switch(
    pending: PendingDecision, move_id: MoveId, command: commands.PauseMoves
) -> Refusal | None:
    move = _running(pending, move_id)
    if isinstance(move, Refusal):
        return move
    if not command.paused and move.state == MoveState.PAUSED_BY_ITSELF:
        reason = f"move {move_id} is paused automatically and resumes by itself: {move.detail}"
        return Refusal(Error.INVALID_REQUEST, reason)
    state = MoveState.PAUSED if command.paused else MoveState.RUNNING
    stops = command.paused and not command.after_step
    if (move.state, move.stops_copying) != (state, stops):
        pending.change_move(
            own_records.MoveChanged(
                id=move_id,
                state=state,
                since_ms=pending.now_ms,
                reason=Reason.MOVE_PAUSED.value if command.paused else "",
                who=command.who,
                stops_copying=stops,
            )
        )
    return None


def alter_move(
    pending: PendingDecision, command: commands.AlterMove
) -> Slices[commands.MovesAltered]:
    """Change options of a running move."""
    move = _running(pending, command.move_id)
    outcome = move if isinstance(move, Refusal) else throttle.rate_refusal(command) or move
    if isinstance(outcome, Move):
        options = altered(outcome.options, command)
        if options != outcome.options:
            before = throttle.needs(pending, [command.move_id])
            pending.change_move(move_changed(replace(outcome, options=options), outcome.options))
            yield from throttle.adapt(pending, before)
    return commands.MovesAltered(moves=(_move_altered(command.move_id, outcome),))


def _move_altered(move_id: MoveId, outcome: Move | Refusal | None) -> commands.MoveAltered:
    refusal = outcome if isinstance(outcome, Refusal) else None
    return commands.MoveAltered.from_refusal(refusal, move_id=move_id)


def _is_running(move: Move) -> bool:
    return move.outcome is None and move.state == MoveState.RUNNING


def _running(pending: PendingDecision, move_id: MoveId) -> Move | Refusal:
    """Return the move, or the refusal if it has ended or is not listed."""
    move = pending.moves.get(move_id)
    if move is None:
        return unknown_move(pending, move_id)
    if move.outcome is None:
        return move
    outcome = move.outcome.name.lower()
    return Refusal(Error.INVALID_REQUEST, f"move {move_id} has ended: {outcome}")
