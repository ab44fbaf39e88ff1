"""The next step of a partition towards its final replicas (KIP-435), or the reason against it.

The texts of `Reason` are shown and stored: they are never changed, only added to.

"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from statemachine.configs.effective import configured_min_isr
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration, in_step_order
from statemachine.reassignment.move import Move
from statemachine.reassignment.settings import UNLIMITED, Limits
from statemachine.vocabulary import NO_LEADER, BrokerId, MoveId, Replicas, Resource


class Reason(Enum):
    """The reasons why a partition waits, in order of precedence: the first that holds is shown."""

    ALL_PAUSED = "all-paused"
    """Somebody has paused all moves."""
    MOVE_PAUSED = "move-paused"
    """Somebody has paused its move."""
    HURT = "hurt"
    """A partition of its move lacks replicas that it may not lack; the move rests meanwhile."""
    NO_LEADER = "no-leader"
    """The partition has no leader, so its ISR cannot change."""
    NO_LIVE_TARGET = "no-live-target"
    """None of the brokers that are to get a replica is alive."""
    NOT_REGISTERED = "not-registered"
    """Brokers that are to get a replica are not known to the cluster any more."""
    LIMIT_PARTITIONS = "limit-partitions"
    """As many partitions as may have a step under way have one."""
    LIMIT_LEADER_MOVEMENTS = "limit-leader-movements"
    """As many steps as may move a leader are under way."""
    LIMIT_REPLICA_MOVEMENTS = "limit-replica-movements"
    """As many replicas as may be added are being added."""
    FALLING_BEHIND = "falling-behind"
    """More is written to it than is copied: like this it is never in sync."""
    CATCHING_UP = "catching-up"
    """Replicas that are being added are not in sync yet."""
    MIN_ISR = "min-isr"
    """Fewer than min ISR would be in sync without those that are removed."""
    ALL_TARGET = "all-target"
    """Replicas that stay are not in sync, and the rule wants all of them to be."""
    TURN = "turn"
    """Others go first."""


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """The replicas that one step adds and removes, and those after it."""

    adding: Replicas
    removing: Replicas
    replicas: Replicas
    """In order: what is final already, in the final order, then what is yet to go."""
    moves_leader: bool
    """Whether another broker leads once it is complete."""


class Blocked(Struct, frozen=True, kw_only=True, gc=False):
    """The reason why a partition cannot take its next step, whatever the limits are."""

    reason: Reason
    brokers: Replicas = ()
    """Those it waits for."""


class ClusterView(Protocol):
    """An image, or a pending decision on top of one."""

    @property
    def configs(self) -> Mapping[Resource, Mapping[str, str]]:
        """As `HoldsConfigs` has them."""
        ...

    @property
    def moves(self) -> Mapping[MoveId, Move]:
        """The moves that are listed."""
        ...

    def live(self, broker_id: BrokerId) -> bool:
        """Return True if the broker may lead and be in sync."""
        ...


Live = Callable[[BrokerId], bool]


def next_step(
    view: ClusterView, topic: Topic, partition: PartitionRegistration, limits: Limits
) -> Step | Blocked:
    """Return the next step of a partition that waits for one, or why there is none."""
    return step(
        partition.replicas,
        partition.target,
        isr=partition.isr,
        leader=partition.leader,
        min_isr=configured_min_isr(view, topic.name),
        live=view.live,
        limits=limits,
    )


def step(
    current: Replicas,
    target: Replicas,
    *,
    isr: Replicas,
    leader: BrokerId,
    min_isr: int,
    live: Live,
    limits: Limits,
) -> Step | Blocked:
    """The next step from the `current` replicas to the `target`, which differ.

    `min_isr` is what the topic is configured to; a partition needs no more than it has replicas.
    """
    assert current != target, f"{target} is reached: there is no next step"
    added = tuple(each for each in target if each not in current)
    dropped = tuple(each for each in current if each not in target)
    if not limits.is_unlimited and (added or dropped):
        if leader == NO_LEADER:
            return Blocked(reason=Reason.NO_LEADER)
        # Rule 5: only live brokers are added; the next one in order takes the place of a dead one.
        addable = tuple(each for each in added if live(each))
        if added and not addable:
            return Blocked(reason=Reason.NO_LIVE_TARGET, brokers=added)
        added, dropped = _limited(current, target, addable, dropped, isr, min_isr, limits)
        assert added or dropped, f"{current} to {target} goes neither on nor waits"
    after = tuple(each for each in current if each not in dropped) + added
    return Step(
        adding=added,
        removing=dropped,
        # Rule 6.
        replicas=in_step_order(after, target),
        moves_leader=leader in dropped or target[0] in added,
    )


def _limited(
    current: Replicas,
    target: Replicas,
    addable: Replicas,
    old: Replicas,
    isr: Replicas,
    min_isr: int,
    limits: Limits,
) -> tuple[Replicas, Replicas]:
    """Return the replicas that the next step adds and drops."""
    # Rule 2: a preferred leader that is new comes alone, and takes the load over before the rest.
    # Only where the replicas of a step are counted: otherwise all of them come at once, and it too.
    alone = limits.parallel_replicas != UNLIMITED and target[0] in addable
    dropped = () if alone else old[: limits.parallel_replicas]
    # Rule 3: as many new ones as are wanted in the place of the dropped, up to the limit. None,
    # while there are more replicas than there will be in the end.
    kept = len(current) - len(dropped)
    count = 1 if alone else min(limits.parallel_replicas, max(0, len(target) - kept))
    # Rule 4: enough new ones that min ISR is reached once they are in sync, whatever the limit.
    # Where the ISR is at min ISR before the step this never takes more than are dropped, so that
    # only a partition under min ISR can pass the limit.
    in_sync = sum(each not in dropped for each in isr)
    if in_sync != kept:
        count = max(count, min_isr - in_sync)
    added = addable[: min(count, limits.replica_movements)]
    # Rule 5 goes on: where fewer can be added, fewer go, or data would be held by fewer for long.
    # There are never fewer replicas than before or than there will be, whichever is less.
    at_least = min(len(current), len(target))
    return added, dropped[: len(current) + len(added) - at_least]


STEPS_SHOWN_MAX: Final = 1_000
"""Steps of one partition that a plan lists: more than replicas any partition has."""


def steps_left(
    current: Replicas,
    target: Replicas,
    *,
    isr: Replicas,
    leader: BrokerId,
    min_isr: int,
    live: Live,
    limits: Limits,
) -> tuple[Step, ...]:
    """Return the remaining steps if every live broker catches up and dead ones return at last.

    A partition that nobody leads is taken to be led by the first of its replicas.
    """
    found: list[Step] = []
    leader = current[0] if leader == NO_LEADER else leader
    while current != target and len(found) < STEPS_SHOWN_MAX:
        coming = step(
            current,
            target,
            isr=isr,
            leader=leader,
            min_isr=min_isr,
            live=live,
            limits=limits,
        )
        if isinstance(coming, Blocked):
            live, isr = (lambda _broker_id: True), current
            continue
        found.append(coming)
        current = coming.replicas
        isr = tuple(each for each in current if live(each) or each in isr)
        leader = current[0] if coming.moves_leader else leader
    return tuple(found)
