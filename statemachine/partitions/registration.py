"""`PartitionRegistration`: one partition as a value, and its changes by records.

Nothing here depends on brokers, topics or configurations.
"""

from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from statemachine.records import kafka_records
from statemachine.vocabulary import (
    DIRECTORY_MIGRATING,
    NO_MOVE,
    RECOVERED,
    BrokerId,
    Directories,
    MoveId,
    MoveOutcome,
    Replicas,
)


class Stage(Struct, frozen=True, gc=False):
    """The progress of a partition within its move."""

    move: MoveId = NO_MOVE
    """The move that it belongs to."""
    step: int = 0
    """The step under way: 1, 2, ...; 0 while it waits for its first."""
    since_ms: int = 0
    """When that began; 0 if unknown."""
    base: Replicas = ()
    """The replicas that a cancel restores, if a redirect has left replicas of its old target;
    otherwise they follow from the replicas and the adding replicas.
    """


def with_base(stage: Stage, derived: Replicas, base: Replicas) -> Stage:
    """Return the stage with this base, unless the same one is derived from the replicas."""
    return replace(stage, base=() if base == derived else base)


NO_STAGE: Final = Stage()
"""The stage of a partition that is not being reassigned, or whose reassignment has no target."""


class PartitionRegistration(Struct, frozen=True, kw_only=True, gc=False):
    """The registration of one partition.

    The controller asserts `check_invariants` for every change that it decides, and replay never
    does: a committed record is not refused.
    """

    replicas: Replicas
    """In the order of preference; the first is the preferred leader."""
    isr: Replicas
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: Replicas = ()
    removing: Replicas = ()
    target: Replicas = ()
    """While a reassignment is under way: the replicas asked for, in that order (KIP-435)."""
    original: Replicas = ()
    """The replicas before its move began."""
    stage: Stage = NO_STAGE
    """`NO_STAGE` without a target."""
    elr: Replicas = ()
    last_known_elr: Replicas = ()
    recovery: int = RECOVERED
    directories: Directories = ()
    """Parallel to the replicas, or empty if no directory is known."""

    @property
    def moving(self) -> bool:
        """True while a reassignment is under way."""
        return bool(self.adding or self.removing or self.target)

    @property
    def base(self) -> Replicas:
        """The replicas that a cancel restores: those before the step under way, in their order."""
        if self.stage.base or not self.adding:
            return self.stage.base or self.replicas
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def steps(self) -> bool:
        """True while a step is under way: replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def waits(self) -> bool:
        """True if it is to move, and waits for its first or next step.

        Another order of the same replicas needs no step; it depends only on the ISR.
        """
        if not self.target or self.adding or self.removing:
            return False
        kept = set(self.target).intersection(self.replicas)
        return not len(kept) == len(self.target) == len(self.replicas)

    @property
    def aimed(self) -> Replicas:
        """The replicas it will have once the step under way is complete, in order.

        A reassignment that Kafka's controller began has no target: its replicas are in their final
        order.
        """
        if not self.target:
            return _without(self.replicas, self.removing)
        if self.waits:
            return self.replicas
        return in_step_order(_without(self.replicas, self.removing), self.target)

    @property
    def final(self) -> Replicas:
        """The replicas it will have once everything asked of it is done, in order."""
        return self.target or self.aimed


def in_step_order(replicas: Replicas, target: Replicas) -> Replicas:
    """Return the replicas with the final ones first, in the final order, then the others."""
    final = tuple([each for each in target if each in replicas])
    if len(final) == len(replicas):
        return final
    return final + tuple([each for each in replicas if each not in target])


def _without(replicas: Replicas, gone: Replicas) -> Replicas:
    return tuple([each for each in replicas if each not in gone]) if gone else replicas


def moves_leader(partition: PartitionRegistration) -> bool:
    """Return True if the leader changes when the step under way completes.

    A new preferred leader leads once it has been added, and a removed leader leads no more.
    """
    adding, target = partition.adding, partition.target
    return (bool(target) and target[0] in adding) or partition.leader in partition.removing


def created(record: kafka_records.Partition) -> PartitionRegistration:
    """Return the partition of a Partition record."""
    return PartitionRegistration(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        adding=record.adding,
        removing=record.removing,
        target=record.target,
        original=record.original,
        stage=(
            Stage(record.move, record.step, record.since_ms, record.base)
            if record.target
            else NO_STAGE
        ),
        elr=record.elr,
        last_known_elr=record.last_known_elr,
        recovery=record.recovery,
        directories=record.directories if len(record.directories) == len(record.replicas) else (),
    )


def merged(
    before: PartitionRegistration, change: kafka_records.PartitionChange
) -> PartitionRegistration:
    """Return the partition after a change record (Kafka's `PartitionRegistration.merge`).

    The partition epoch rises by one, and so does the leader epoch if the record has a leader.
    """
    replicas = before.replicas if change.replicas is None else change.replicas
    directories = before.directories if change.directories is None else change.directories
    target, original, stage = _aim_after(before, change)
    named = change.leader is not None
    return PartitionRegistration(
        replicas=replicas,
        isr=before.isr if change.isr is None else change.isr,
        leader=before.leader if change.leader is None else change.leader,
        leader_epoch=before.leader_epoch + named,
        partition_epoch=before.partition_epoch + 1,
        adding=before.adding if change.adding is None else change.adding,
        removing=before.removing if change.removing is None else change.removing,
        target=target,
        original=original,
        stage=stage,
        elr=before.elr if change.elr is None else change.elr,
        last_known_elr=(
            before.last_known_elr if change.last_known_elr is None else change.last_known_elr
        ),
        recovery=before.recovery if change.recovery is None else change.recovery,
        # One for each replica or none: they would name other replicas' directories.
        directories=directories if len(directories) == len(replicas) else (),
    )


def _aim_after(
    before: PartitionRegistration, change: kafka_records.PartitionChange
) -> tuple[Replicas, Replicas, Stage]:
    if change.target is None and not (change.adding is None and change.removing is None):
        return (), (), NO_STAGE
    target = before.target if change.target is None else change.target
    original = before.original if change.original is None else change.original
    return target, original, _stage_after(before.stage, change) if target else NO_STAGE


def _stage_after(before: Stage, change: kafka_records.PartitionChange) -> Stage:
    if (change.base, change.move, change.step, change.since_ms) == (None, None, None, None):
        return before
    return Stage(
        before.move if change.move is None else change.move,
        before.step if change.step is None else change.step,
        before.since_ms if change.since_ms is None else change.since_ms,
        before.base if change.base is None else change.base,
    )


def departure(
    before: PartitionRegistration, after: PartitionRegistration | None, asked_by: MoveId = NO_MOVE
) -> MoveOutcome | None:
    """Return how the partition left its move with this change, or None if it did not.

    `after` is None if it was deleted. `asked_by` is the move that requested the change if that is
    another one than its own: it may have requested the replicas of before.
    """
    if before.stage.move == NO_MOVE:
        return None
    if after is None:
        return MoveOutcome.GONE
    if after.stage.move == before.stage.move:
        return None
    if after.moving or asked_by not in (NO_MOVE, before.stage.move):
        return MoveOutcome.SUPERSEDED
    if after.replicas == before.target:
        return MoveOutcome.COMPLETED
    # Another target that completes at once, or a controller without moves, is not a cancel.
    reverted = after.replicas == before.base
    return MoveOutcome.CANCELLED if reverted else MoveOutcome.SUPERSEDED


def difference(before: PartitionRegistration, after: PartitionRegistration) -> dict[str, Any]:
    """Return the fields of the PartitionChange from `before` to `after`: the inverse of `merged`.

    They have a leader iff the leader epoch rises, so that all readers of the log have the same one.
    """
    fields: dict[str, Any] = {}
    _add_changed(fields, before, after, ("isr", "recovery", "elr", "last_known_elr"))
    if after.leader_epoch != before.leader_epoch:
        fields["leader"] = after.leader
    if (
        after.replicas is not before.replicas
        or after.directories is not before.directories
        or after.moving
        or before.moving
    ):
        _add_assignment(fields, before, after)
    return fields


def _add_assignment(
    fields: dict[str, Any], before: PartitionRegistration, after: PartitionRegistration
) -> None:
    names = ("replicas", "adding", "removing", "target", "original", "directories")
    _add_changed(fields, before, after, names)
    # A record with adding or removing replicas and without a target removes the target.
    if after.target and ("adding" in fields or "removing" in fields):
        fields["target"] = after.target
        fields["original"] = after.original
    if not after.target:
        # The end of the target ends the stage too.
        assert after.stage == NO_STAGE, f"{after.stage} without a target"
        return
    _add_changed(fields, before.stage, after.stage, ("base", "move", "step", "since_ms"))


def _add_changed(
    fields: dict[str, Any], before: Struct, after: Struct, names: tuple[str, ...]
) -> None:
    for name in names:
        value = getattr(after, name)
        if value != getattr(before, name):
            fields[name] = value


def directory_of(partition: PartitionRegistration, replica: BrokerId) -> UUID:
    """Return the directory of the replica; MIGRATING until its broker reports it (KIP-858)."""
    if not partition.directories:
        return DIRECTORY_MIGRATING
    return partition.directories[partition.replicas.index(replica)]
