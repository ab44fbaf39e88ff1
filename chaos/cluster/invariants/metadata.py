"""P1 to P17 and P25: invariants of metadata records and of the requests of clients and leaders.

`chaos.cluster.invariants.partition_rules` checks each change of a partition as it comes. What a
decision must bring about is checked at the end of its batch. `StepPlans` computes the steps of a
reassignment (KIP-435 as `docs/divergence.md` has it) a second time and compares them (P16).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from chaos.cluster.invariants.model import NOBODY, Broker, Ids, Key, Model, Part, changed, without
from chaos.cluster.invariants.partition_rules import Change, of_a_change, of_a_state, require
from chaos.cluster.invariants.record_parser import ParsedRecord
from chaos.violation import Violation

UNLIMITED: Final = 2**31 - 1
LIMITS: Final = (
    "parallel.partition.count",
    "max.concurrent.replica.movements",
    "parallel.replica.count",
    "parallel.leader.movements",
)


class MetadataInvariants(Model):
    """The checked model of one cluster.

    Call `take` with each batch of the log in order, and `ask` before each client request. With
    `has_proposals`, call `propose` with each proposal of a leader: the log has the ISR, but not the
    broker epochs with which its members fetched (KIP-903).
    """

    def __init__(self, *, has_proposals: bool = False) -> None:
        super().__init__()
        self.watch: Callable[[ParsedRecord], None] = _ignore_record
        """Called with each record that is folded."""
        self.on_step_cancelled: Callable[[Key, Part, Part], None] = _ignore_step
        """Called when a step is cancelled: the partition, its state before and after."""
        self._has_proposals = has_proposals
        self._epoch = -1
        self._asked: set[tuple[str, int, Ids]] = set()
        self._proposed: dict[tuple[Key, int], list[Mapping[int, int]]] = {}
        self._stopped_at: dict[str, int] = {}
        """The epoch whose clean stop preceded an incarnation; -1 after another end."""
        self._elects_uncleanly = False
        self._distrusted: list[int] = []
        """Brokers that this batch registers after an unclean stop."""
        self._passed_over: list[tuple[Key, set[int]]] = []
        """Eligible replicas that this batch has passed over, and that it has not registered yet."""

    def ask(self, topic: str, number: int, replicas: Ids) -> None:
        """A client asks for these replicas."""
        self._asked.add((topic, number, replicas))

    def ask_cancel(self, topic: str, number: int) -> None:
        """A client cancels the step under way."""
        self.ask(topic, number, ())

    def propose(self, key: Key, partition_epoch: int, members: Mapping[int, int]) -> None:
        """A leader proposes this ISR, with broker epochs, on top of a partition epoch."""
        self._proposed.setdefault((key, partition_epoch), []).append(members)

    def ask_unclean_election(self) -> None:
        """An operator asks for unclean elections; the next batch may have their results."""
        self._elects_uncleanly = True

    def starts(self, incarnation: str, stopped_at: int) -> None:
        """An incarnation starts; the one of epoch `stopped_at` has stopped cleanly before, or none
        has (-1)."""
        self._stopped_at[incarnation] = stopped_at

    def take(self, batch: Collection[ParsedRecord], refused: Collection[Key] = ()) -> None:
        """Check the records of one batch; it must not change the `refused` partitions."""
        for fact in batch if refused else ():
            key = (fact.fields.get("topic_id"), fact.fields.get("partition_id"))
            if key in refused:
                raise Violation("P17", f"{key} was refused, but {fact} is in the log")
        self.fold(batch)
        if not self.is_whole:
            return
        for key, part in self.parts.items():
            self._settle(key, part)
        for key, replicas in self._passed_over:
            require(
                (key, self.parts.get(key)),
                [("P9", not replicas, f"the last known leader leads, but {replicas} are eligible")],
            )
        self._elects_uncleanly, self._distrusted, self._passed_over = False, [], []

    # --- the context of the rules ------------------------------------------------------------

    def allows_unclean(self, key: Key) -> bool:
        """True if a replica outside the ISR may be elected."""
        value = self.setting(self.topics[key[0]], "unclean.leader.election.enable", "false")
        return value == "true"

    def may_elect_uncleanly(self, key: Key) -> bool:
        """See `Cluster`."""
        return self._elects_uncleanly or self.allows_unclean(key)

    def is_passed_over(self, key: Key, eligible: Ids) -> bool:
        """See `Cluster`; not before the end of the batch."""
        self._passed_over.append((key, {*eligible}))
        return False

    def min_isr(self, key: Key, replicas: Ids) -> int:
        """The effective min ISR of a partition with these replicas."""
        configured = self.setting(self.topics[key[0]], "min.insync.replicas", "1")
        return min(max(1, int(configured)), len(replicas))

    def is_complete(self, key: Key, part: Part, isr: Ids) -> bool:
        """True if the step under way is complete with this ISR."""
        needed = min(self.min_isr(key, part.aimed), len(part.final))
        enough = len(without(isr, part.removing)) >= needed
        if self.setting("", "reassignment.completion.rule", "min-isr") == "all-target":
            is_there = set(part.aimed) & set(part.final) <= set(isr)
            return is_there and (part.is_last or enough)
        return enough and set(part.adding) <= set(isr)

    def has_grown(self, part: Part, isr: Ids) -> bool:
        """True if a step that is not the last has added all its replicas."""
        if part.is_last or not part.adding:
            return False
        if self.setting("", "reassignment.completion.rule", "min-isr") == "all-target":
            return set(part.aimed) & set(part.final) <= set(isr)
        return set(part.adding) <= set(isr)

    def limit(self, name: str) -> int:
        """A limit of reassignments, by the part of its name after "reassignment."."""
        return int(self.setting("", f"reassignment.{name}", str(UNLIMITED)))

    @property
    def goes_in_steps(self) -> bool:
        """True if any limit may split a move into steps."""
        return any(self.limit(name) != UNLIMITED for name in LIMITS)

    @property
    def has_room(self) -> bool:
        """True if the steps under way are within the limits."""
        under_way = [part for part in self.parts.values() if part.adding or part.removing]
        added = sum(len(part.adding) for part in under_way)
        return len(under_way) <= self.limit(LIMITS[0]) and added <= self.limit(LIMITS[1])

    @property
    def has_room_for_leaders(self) -> bool:
        """True if the steps that move a leader are within their limit."""
        return sum(part.moves_leader for part in self.parts.values()) <= self.limit(LIMITS[3])

    def was_requested(self, key: Key, replicas: Ids) -> bool:
        """True if a client asked for these replicas, and they exist."""
        is_requested = (self.topics[key[0]], key[1], replicas) in self._asked
        return is_requested and set(replicas) <= self.brokers.keys()

    def was_cancel_requested(self, key: Key, replicas: Ids) -> bool:
        """True if a client cancelled a step of the partition, or asked for these replicas."""
        return self.was_requested(key, ()) or self.was_requested(key, replicas)

    def was_proposed(self, key: Key, partition_epoch: int, came: Iterable[int]) -> bool:
        """True if a leader proposed all of them in this epoch, each with its current broker
        epoch."""
        wanted = {(each, self.brokers[each].epoch) for each in came if each in self.brokers}
        proposed = self._proposed.get((key, partition_epoch), ())
        return not self._has_proposals or any(wanted <= members.items() for members in proposed)

    # --- the hooks of the model --------------------------------------------------------------

    def on_folded(self, fact: ParsedRecord) -> None:
        self.watch(fact)

    def on_created(self, fact: ParsedRecord, key: Key, part: Part) -> None:
        require(fact, of_a_state(self, key, part))
        require(fact, [("P10", all(map(self.live, part.isr)), "every in-sync replica is alive")])

    def on_changed(self, fact: ParsedRecord, key: Key, before: Part, after: Part) -> None:
        require((fact, before), of_a_state(self, key, after))
        change = Change(before, after, "leader" in fact.fields)
        require((fact, before), of_a_change(self, key, change))
        if change.reverts and (before.adding or before.removing):
            self.on_step_cancelled(key, before, after)

    def on_registered(self, fact: ParsedRecord, before: Broker | None, after: Broker) -> None:
        if before is not None and before.incarnation == after.incarnation:
            rules = [("P11", after.epoch == before.epoch, "an incarnation keeps its epoch")]
        else:
            rises = after.epoch == fact.offset > self._epoch
            rules = [("P11", rises, "an epoch is the offset of its record, and rises")]
            stopped_at = self._stopped_at.get(after.incarnation)
            if before is not None and stopped_at not in (None, before.epoch):
                self._distrusted.append(fact.fields["broker_id"])
            for _, replicas in self._passed_over:
                replicas.discard(fact.fields["broker_id"])
        require(fact, rules)
        self._epoch = max(self._epoch, after.epoch)

    def _settle(self, key: Key, part: Part) -> None:
        """Check what must hold at the end of a decision."""
        is_over = self.is_complete(key, part, part.isr) or self.has_grown(part, part.isr)
        late = part.steps and is_over
        led = part.leader == NOBODY or all(map(self.live, part.isr))
        # Without the feature the last member of the ISR stays there.
        trusted = {*part.elr, *(part.isr if self.has_elr else ())}
        rules = [
            (
                "P5" if part.adding else "P7",
                not late,
                "a step is complete as soon as the rule allows it",
            ),
            ("P12", led, "a fenced or stopping broker is neither leader nor in the ISR"),
            (
                "P12",
                part.leader != NOBODY or len(part.isr) <= 1,
                "without a leader, at most one member stays in the ISR",
            ),
            (
                "P25",
                not trusted.intersection(self._distrusted),
                "a broker that did not stop cleanly is not eligible when it registers",
            ),
        ]
        require((key, part), rules)


def _ignore_record(_: ParsedRecord) -> None:
    """Ignore a record."""


def _ignore_step(_key: Key, _before: Part, _after: Part) -> None:
    """Ignore a cancelled step."""


RELEVANT: Final = frozenset(
    {
        "RegisterBroker",
        "UnregisterBroker",
        "FenceBroker",
        "UnfenceBroker",
        "BrokerRegistrationChange",
        "Config",
    }
)
"""Types of records that a plan depends on, besides those of the partition itself."""


class Begun(NamedTuple):
    """The start of a step in one record, for a partition that waited for it."""

    key: Key
    before: Part
    after: Part


class StepPlans:
    """A check of each step that begins against the plan of the rules (P16)."""

    def __init__(self, model: MetadataInvariants) -> None:
        self._model = model

    def take(self, facts: Sequence[ParsedRecord]) -> None:
        """Check the steps that begin in one batch."""
        begun = self._begun(facts)
        # A batch may have several decisions, with records about live brokers before or after the
        # steps: a step may follow the plan before the batch, or after any record of it.
        allowed = [[self._plan(each)] for each in begun]

        def look(fact: ParsedRecord) -> None:
            if fact.type in RELEVANT:
                for each, plans in zip(begun, allowed, strict=True):
                    plans.append(self._plan(each))

        self._model.watch = look
        self._model.take(facts)
        for each, plans in zip(begun, allowed, strict=True):
            done = without(each.after.replicas, each.before.replicas), each.after.removing
            if None not in plans and done not in plans:
                text = f"{each.key} {each.before} adds and drops {done}, the plan is {plans[-1]}"
                raise Violation("P16", text)

    def _plan(self, step: Begun) -> tuple[Ids, Ids] | None:
        """The replicas to add and to drop now; None if nothing limits a step."""
        model, (key, before, _) = self._model, step
        if not model.goes_in_steps or key[0] not in model.topics:
            return None
        min_isr = int(model.setting(model.topics[key[0]], "min.insync.replicas", "1"))
        limits = [model.limit(LIMITS[which]) for which in (2, 1)]
        return planned(before, min_isr, model.live, *limits)

    def _begun(self, facts: Sequence[ParsedRecord]) -> list[Begun]:
        found: list[Begun] = []
        known: dict[Key, Part] = {}
        for each in facts:
            if each.type != "PartitionChange":
                continue
            key = (each.fields["topic_id"], each.fields["partition_id"])
            before = known.get(key, self._model.parts.get(key))
            if before is None:
                continue
            after = known[key] = changed(before, each.fields)
            waited = before.target and not (before.adding or before.removing)
            if waited and after.target == before.target and (after.adding or after.removing):
                found.append(Begun(key, before, after))
        return found


def planned(
    part: Part, min_isr: int, live: Callable[[int], bool], most: int, movements: int
) -> tuple[Ids, Ids]:
    """The replicas that the next step adds and drops, at most `most` of each."""
    current, target = part.replicas, part.target
    old, new = without(current, target), without(target, current)
    able = tuple(each for each in new if live(each))
    dropped: Ids = ()
    count = 1
    if most == UNLIMITED or target[0] not in able:
        dropped = old[:most]
        missing = len(target) - len(current) + len(dropped)
        count = min(most, missing) if missing > 0 else 0
    kept = len(current) - len(dropped)
    in_sync = len(without(part.isr, dropped))
    if in_sync < kept and in_sync + count < min_isr:
        count = min_isr - in_sync
    added = able[: min(count, movements)]
    # Keep as many replicas as the smaller of the original and the target.
    spare = len(current) + len(added) - min(len(current), len(target))
    return added, dropped[:spare]
