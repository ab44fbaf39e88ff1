"""The model of a cluster with its judge: what must hold of what committed records make of it.

P1 to P17 of docs/chaos.md, as far as records alone tell, and what clients and leaders had asked
for. A change of a partition is judged as it comes (`chaos.cluster.rules`); what a decision has to
bring about by its end, at the end of its batch.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from chaos.cluster.facts import Fact
from chaos.cluster.model import Broker, Model
from chaos.cluster.parts import NOBODY, Ids, Key, Part, without
from chaos.cluster.rules import Change, of_a_change, of_a_state, require
from chaos.violation import Violation

UNLIMITED: Final = 2**31 - 1
LIMITS: Final = (
    "parallel.partition.count",
    "max.concurrent.replica.movements",
    "parallel.replica.count",
    "parallel.leader.movements",
)


class Judged(Model):
    """One cluster. `take` each batch of the log in order, and `ask` before what clients ask.

    Where it `hears` leaders, it is told with `propose` whom they want in the ISR: the log says who
    is in sync, and not with which broker epoch they had fetched (KIP-903).
    """

    def __init__(self, *, hears: bool = False) -> None:
        super().__init__()
        self.watch: Callable[[Fact], None] = _nothing
        """Told of each record that has counted."""
        self.taken_back: Callable[[Key, Part, Part], None] = _nobody
        """Told of each partition of which a step was under way, and is as before it now."""
        self._hears = hears
        self._epoch = -1
        self._asked: set[tuple[str, int, Ids]] = set()
        self._proposed: dict[tuple[Key, int], list[Mapping[int, int]]] = {}

    def ask(self, topic: str, number: int, replicas: Ids) -> None:
        """Somebody wants the partition to have these replicas."""
        self._asked.add((topic, number, replicas))

    def ask_back(self, topic: str, number: int) -> None:
        """Somebody wants the partition to be as before the step that is under way."""
        self.ask(topic, number, ())

    def propose(self, key: Key, partition_epoch: int, members: Mapping[int, int]) -> None:
        """A leader wants these brokers in sync, each by the broker epoch that it has fetched with,
        on top of what it knows at that partition epoch."""
        self._proposed.setdefault((key, partition_epoch), []).append(members)

    def take(self, batch: Collection[Fact], refused: Collection[Key] = ()) -> None:
        """The facts of one batch; what was `refused` by the decision behind it has none in it."""
        for fact in batch if refused else ():
            key = (fact.said.get("topic_id"), fact.said.get("partition_id"))
            if key in refused:
                raise Violation("P17", f"{key} was refused, and yet {fact} is in the log")
        self.fold(batch)
        for key, part in self.parts.items() if self.is_whole else ():
            self._settle(key, part)

    # --- what the rules ask ------------------------------------------------------------------

    def allows_unclean(self, key: Key) -> bool:
        """Whether somebody who is not in sync may lead the partition."""
        value = self.setting(self.topics[key[0]], "unclean.leader.election.enable", "false")
        return value == "true"

    def min_isr(self, key: Key, replicas: Ids) -> int:
        """How many must be in sync where these are the replicas."""
        configured = self.setting(self.topics[key[0]], "min.insync.replicas", "1")
        return min(max(1, int(configured)), len(replicas))

    def is_complete(self, key: Key, part: Part, isr: Ids) -> bool:
        """Whether the step under way does all that it was to do, once these are in sync."""
        needed = min(self.min_isr(key, part.aimed), len(part.final))
        enough = len(without(isr, part.removing)) >= needed
        if self.setting("", "reassignment.completion.rule", "min-isr") == "all-target":
            is_there = set(part.aimed) & set(part.final) <= set(isr)
            return is_there and (part.is_last or enough)
        return enough and set(part.adding) <= set(isr)

    def has_grown(self, part: Part, isr: Ids) -> bool:
        """Whether it has added all that it was to add, and is not the last one."""
        if part.is_last or not part.adding:
            return False
        if self.setting("", "reassignment.completion.rule", "min-isr") == "all-target":
            return set(part.aimed) & set(part.final) <= set(isr)
        return set(part.adding) <= set(isr)

    def limit(self, name: str) -> int:
        """A limit of reassignments, by what follows "reassignment." in its name."""
        return int(self.setting("", f"reassignment.{name}", str(UNLIMITED)))

    @property
    def goes_in_steps(self) -> bool:
        """Whether anything is limited, so that a move may take several steps."""
        return any(self.limit(name) != UNLIMITED for name in LIMITS)

    @property
    def has_room(self) -> bool:
        """Whether what is under way is within the limits."""
        under_way = [part for part in self.parts.values() if part.adding or part.removing]
        added = sum(len(part.adding) for part in under_way)
        return len(under_way) <= self.limit(LIMITS[0]) and added <= self.limit(LIMITS[1])

    @property
    def has_room_for_leaders(self) -> bool:
        """Whether the steps that move a leader are within their limit."""
        return sum(part.moves_leader for part in self.parts.values()) <= self.limit(LIMITS[3])

    def was_asked(self, key: Key, replicas: Ids) -> bool:
        """Whether anybody wanted the partition to have these replicas, and they exist."""
        asked = (self.topics[key[0]], key[1], replicas) in self._asked
        return asked and set(replicas) <= self.brokers.keys()

    def was_asked_back(self, key: Key, replicas: Ids) -> bool:
        """Whether anybody wanted a step of the partition taken back, or these as its target."""
        return self.was_asked(key, ()) or self.was_asked(key, replicas)

    def was_proposed(self, key: Key, partition_epoch: int, came: Iterable[int]) -> bool:
        """Whether a leader has asked for all of them then, each as it is registered now."""
        wanted = {(each, self.brokers[each].epoch) for each in came if each in self.brokers}
        proposed = self._proposed.get((key, partition_epoch), ())
        return not self._hears or any(wanted <= members.items() for members in proposed)

    # --- what it judges ----------------------------------------------------------------------

    def on_folded(self, fact: Fact) -> None:
        self.watch(fact)

    def on_created(self, fact: Fact, key: Key, part: Part) -> None:
        require(fact, of_a_state(self, key, part))
        require(fact, [("P10", all(map(self.live, part.isr)), "who is in sync is alive")])

    def on_changed(self, fact: Fact, key: Key, before: Part, after: Part) -> None:
        require((fact, before), of_a_state(self, key, after))
        change = Change(before, after, "leader" in fact.said)
        require((fact, before), of_a_change(self, key, change))
        if change.reverts and (before.adding or before.removing):
            self.taken_back(key, before, after)

    def on_registered(self, fact: Fact, before: Broker | None, after: Broker) -> None:
        if before is not None and before.incarnation == after.incarnation:
            rules = [("P11", after.epoch == before.epoch, "an incarnation keeps its epoch")]
        else:
            rises = after.epoch == fact.offset > self._epoch
            rules = [("P11", rises, "an epoch is the offset of its record, and rises")]
        require(fact, rules)
        self._epoch = max(self._epoch, after.epoch)

    def _settle(self, key: Key, part: Part) -> None:
        """What holds once a decision is whole."""
        is_over = self.is_complete(key, part, part.isr) or self.has_grown(part, part.isr)
        late = part.steps and is_over
        led = part.leader == NOBODY or all(map(self.live, part.isr))
        rules = [
            ("P5" if part.adding else "P7", not late, "what could be complete is"),
            ("P12", led, "a broker that may not be in sync is, or leads"),
            ("P12", part.leader != NOBODY or len(part.isr) <= 1, "the last one alone stays"),
        ]
        require((key, part), rules)


def _nothing(_: Fact) -> None:
    """Nobody watches."""


def _nobody(_key: Key, _before: Part, _after: Part) -> None:
    """Nobody counts."""
