"""The next step of a partition towards its final replicas (KIP-435), or the reason to wait.

The values of `Reason` are shown and stored: add new ones, and never change one.
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
    """An operator has paused all moves."""
    MOVE_PAUSED = "move-paused"
    """An operator has paused its move."""
    HURT = "hurt"
    """Its move is paused automatically: one of its partitions is under min ISR."""
    NO_LEADER = "no-leader"
    """The partition has no leader, so its ISR cannot change."""
    NO_LIVE_TARGET = "no-live-target"
    """None of the brokers that get a replica is alive."""
    NOT_REGISTERED = "not-registered"
    """Brokers that get a replica are no longer registered."""
    LIMIT_PARTITIONS = "limit-partitions"
    """The limit of partitions with a step under way is reached."""
    LIMIT_LEADER_MOVEMENTS = "limit-leader-movements"
    """The limit of steps that move a leader is reached."""
    LIMIT_REPLICA_MOVEMENTS = "limit-replica-movements"
    """The step would exceed the limit of replicas that are being added."""
    FALLING_BEHIND = "falling-behind"
    """More is written than is copied: at this rate a new replica never gets in sync."""
    CATCHING_UP = "catching-up"
    """Replicas that are being added are not in sync yet."""
    MIN_ISR = "min-isr"
    """Without the removed replicas fewer than min ISR would be in sync."""
    ALL_TARGET = "all-target"
    """Replicas that stay are not in sync, and the completion rule requires all of them."""
    TURN = "turn"
    """Other partitions come first in the queue."""


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One step: the replicas that it adds and removes, and those after it."""

    adding: Replicas
    removing: Replicas
    replicas: Replicas
    """First the final ones, in their final order, then those that a later step removes."""
    moves_leader: bool
    """True if another broker leads once it is complete."""


class Blocked(Struct, frozen=True, kw_only=True, gc=False):
    """The reason why a partition cannot take its next step, whatever the limits are."""

    reason: Reason
    brokers: Replicas = ()
    """The brokers that it waits for."""


class ClusterView(Protocol):
    """An image, or a pending decision on top of one."""

    @property
    def configs(self) -> Mapping[Resource, Mapping[str, str]]:
        """The configurations by resource, as in `HoldsConfigs`."""
        ...

    @property
    def moves(self) -> Mapping[MoveId, Move]:
        """The listed moves by id."""
        ...

    def live(self, broker_id: BrokerId) -> bool:
        """Return True if the broker may lead and be in sync."""
        ...


Live = Callable[[BrokerId], bool]


def next_step(
    view: ClusterView, topic: Topic, partition: PartitionRegistration, limits: Limits
) -> Step | Blocked:
    """Return the next step of a waiting partition, or why it must wait."""
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
    """Return the next step from the `current` replicas to the `target`, which differ.

    `min_isr` is the topic's setting; it may exceed the number of replicas.
    """
    assert current != target, f"{target} is reached: there is no next step"
    added = tuple(each for each in target if each not in current)
    dropped = tuple(each for each in current if each not in target)
    if not limits.is_unlimited and (added or dropped):
        if leader == NO_LEADER:
            return Blocked(reason=Reason.NO_LEADER)
        # Rule 5: only live brokers are added; the next live one replaces a dead one.
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
    # Rule 2: a new preferred leader is added alone, and takes over the load before the rest.
    # Without a limit of replicas per step all are added at once, with the leader among them.
    alone = limits.parallel_replicas != UNLIMITED and target[0] in addable
    dropped = () if alone else old[: limits.parallel_replicas]
    # Rule 3: add enough replicas to reach the target's number, up to the limit; none while there
    # are more replicas than in the target.
    kept = len(current) - len(dropped)
    count = 1 if alone else min(limits.parallel_replicas, max(0, len(target) - kept))
    # Rule 4: add enough replicas to reach min ISR once they are in sync, whatever the limit.
    # If the ISR is at min ISR before the step, this adds no more than are dropped: only a
    # partition under min ISR can exceed the limit.
    in_sync = sum(each not in dropped for each in isr)
    if in_sync != kept:
        count = max(count, min_isr - in_sync)
    added = addable[: min(count, limits.replica_movements)]
    # Rule 5, continued: if fewer replicas can be added, fewer are dropped. The number of replicas
    # never falls below the smaller of the current and the target number.
    at_least = min(len(current), len(target))
    return added, dropped[: len(current) + len(added) - at_least]


STEPS_SHOWN_MAX: Final = 1_000
"""Steps of one partition that a plan lists: more than any partition has replicas."""


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
    """Return the remaining steps if every live broker catches up and dead ones return in the end.

    The first replica is taken for the leader of a partition without one.
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
