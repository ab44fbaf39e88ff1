"""One partition as its records leave it. Values only, and no judgement."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Ids: TypeAlias = tuple[int, ...]

Key: TypeAlias = tuple[str, int]
"""A partition: the id of its topic, and its number."""

NOBODY: Final = -1


class Part(NamedTuple):
    """What has been said of a partition, under the names of `chaos.cluster.facts`."""

    replicas: Ids
    isr: Ids
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: Ids = ()
    removing: Ids = ()
    target: Ids = ()
    original: Ids = ()
    base: Ids = ()
    elr: Ids = ()
    last_known_elr: Ids = ()
    recovery: int = 0

    @property
    def moves(self) -> bool:
        """Whether a reassignment is under way, or waits for its turn."""
        return bool(self.adding or self.removing or self.target)

    @property
    def steps(self) -> bool:
        """Whether a step of it is under way; one that only changes the order adds nothing."""
        in_step = self.adding or self.removing
        return bool(in_step or (self.target and set(self.target) == set(self.replicas)))

    @property
    def moves_leader(self) -> bool:
        """Whether another broker leads once the step under way is complete."""
        is_led_by_new = bool(self.target) and self.target[0] in self.adding
        return self.leader in self.removing or is_led_by_new

    @property
    def needed(self) -> Ids:
        """Who may have what nobody else has, though it was only being added."""
        return self.isr + self.elr + self.last_known_elr

    @property
    def aimed(self) -> Ids:
        """The replicas once the step is complete: what is final in that order, then the others."""
        kept = without(self.replicas, self.removing)
        return tuple(r for r in self.target if r in kept) + without(kept, self.target)

    @property
    def final(self) -> Ids:
        """The replicas once all that is asked for is done."""
        return self.target or self.aimed

    @property
    def is_last(self) -> bool:
        """Whether no step follows on the one under way."""
        return set(self.aimed) == set(self.final)

    def went_back_to(self, replicas: Ids) -> bool:
        """Whether a cancel leaves these: all but the added, in the order before the step."""
        return replicas == (self.base or without(self.replicas, self.adding))


def created(said: Mapping[str | int, Any]) -> Part:
    """The partition that a Partition record says."""
    return Part(**{name: said[name] for name in Part._fields if name in said})


def changed(before: Part, said: Mapping[str | int, Any]) -> Part:
    """The partition after a PartitionChange, as Kafka's readers count."""
    told = {name: said[name] for name in Part._fields if name in said}
    if "target" not in said and ("adding" in said or "removing" in said):
        # Written by a controller that knows no targets.
        told |= {"target": (), "original": ()}
    told["leader_epoch"] = before.leader_epoch + ("leader" in said)
    told["partition_epoch"] = before.partition_epoch + 1
    after = before._replace(**told)
    return after if after.target else after._replace(base=())


def without(these: Ids, those: Ids) -> Ids:
    """The first without the second, in order."""
    return tuple(each for each in these if each not in those)
