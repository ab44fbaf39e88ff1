"""What committed records make of a cluster, folded by the judges, and what must hold of it.

P1 to P17 of docs/chaos.md, as far as records alone tell. A change of a partition is
judged as it comes (`chaos.cluster.rules`); what a decision has to bring about by its end, at the
end of its batch.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from chaos.cluster.facts import Fact
from chaos.cluster.parts import NOBODY, Ids, Key, Part, changed, created, without
from chaos.cluster.rules import Change, of_a_change, of_a_state, require
from chaos.violation import Violation

UNLIMITED: Final = 2**31 - 1
LIMITS: Final = (
    "parallel.partition.count",
    "max.concurrent.replica.movements",
    "parallel.replica.count",
    "parallel.leader.movements",
)


class Broker(NamedTuple):
    """A registered incarnation; only a live one may lead or come into an ISR."""

    epoch: int
    incarnation: str
    fenced: bool
    stops: bool


class Model:
    """One cluster. `take` each batch of the log in order, and `ask` before what clients ask."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, str] = {}
        self.parts: dict[Key, Part] = {}
        self.settings: dict[tuple[int, str, str], str] = {}
        self._epoch = -1
        self._asked: set[tuple[str, int, Ids]] = set()
        self._open: list[Fact] | None = None

    def ask(self, topic: str, number: int, replicas: Ids) -> None:
        """Somebody wants the partition to have these replicas."""
        self._asked.add((topic, number, replicas))

    def take(self, batch: Iterable[Fact], refused: Collection[Key] = ()) -> None:
        """The facts of one batch; what was `refused` by the decision behind it has none in it."""
        for fact in batch:
            key = (fact.said.get("topic_id"), fact.said.get("partition_id"))
            if key in refused:
                raise Violation("P17", f"{key} was refused, and yet {fact} is in the log")
            if fact.type == "BeginTransaction":
                self._open = []
            elif fact.type in ("EndTransaction", "AbortTransaction"):
                whole, self._open = self._open or [], None
                for each in whole if fact.type == "EndTransaction" else ():
                    self._fold(each)
            elif self._open is not None:
                self._open.append(fact)
            else:
                self._fold(fact)
        for key, part in self.parts.items() if self._open is None else ():
            self._settle(key, part)

    def live(self, broker_id: int) -> bool:
        """Whether the broker may lead and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not (broker.fenced or broker.stops)

    def setting(self, topic: str, name: str, default: str) -> str:
        """What is configured for the topic, else for the cluster."""
        places = (2, topic, name), (4, "", name)
        return next((value for value in map(self.settings.get, places) if value), default)

    def allows_unclean(self, key: Key) -> bool:
        """Whether somebody who is not in sync may lead the partition."""
        value = self.setting(self.topics[key[0]], "unclean.leader.election.enable", "false")
        return value == "true"

    def min_isr(self, key: Key, replicas: Ids) -> int:
        """How many must be in sync where these are the replicas."""
        configured = self.setting(self.topics[key[0]], "min.insync.replicas", "1")
        return min(max(1, int(configured)), len(replicas))

    def is_complete(self, key: Key, part: Part, isr: Ids) -> bool:
        """Whether the step under way is, once these are in sync."""
        if self.setting("", "reassignment.completion.rule", "min-isr") == "all-target":
            return set(part.aimed) <= set(isr)
        enough = len(without(isr, part.removing)) >= self.min_isr(key, part.aimed)
        return enough and set(part.adding) <= set(isr)

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

    def _fold(self, fact: Fact) -> None:
        if fact.type in _FOLDED:
            _FOLDED[fact.type](self, fact)

    def _create(self, fact: Fact) -> None:
        key, part = (fact.said["topic_id"], fact.said["partition_id"]), created(fact.said)
        self.parts[key] = part
        require(fact, of_a_state(self, key, part))
        require(fact, [("P10", all(map(self.live, part.isr)), "who is in sync is alive")])

    def _change(self, fact: Fact) -> None:
        key = (fact.said["topic_id"], fact.said["partition_id"])
        before = self.parts[key]
        after = self.parts[key] = changed(before, fact.said)
        require((fact, before), of_a_state(self, key, after))
        change = Change(before, after, "leader" in fact.said)
        require((fact, before), of_a_change(self, key, change))

    def _name(self, fact: Fact) -> None:
        self.topics[fact.said["topic_id"]] = fact.said["name"]

    def _remove(self, fact: Fact) -> None:
        name = self.topics.pop(fact.said["topic_id"])
        self.parts = {k: v for k, v in self.parts.items() if k[0] != fact.said["topic_id"]}
        self.settings = {k: v for k, v in self.settings.items() if k[:2] != (2, name)}

    def _set(self, fact: Fact) -> None:
        kind, resource, name, value = fact.said.values()
        self.settings[kind, resource, name] = value or ""

    def _clear(self, fact: Fact) -> None:
        for key, part in self.parts.items():
            is_meant = fact.said["topic_name"] in ("", self.topics[key[0]])
            if is_meant and (part.elr or part.last_known_elr):
                self.parts[key] = changed(part, {"elr": (), "last_known_elr": ()})

    def _unregister(self, fact: Fact) -> None:
        del self.brokers[fact.said["broker_id"]]

    def _fence(self, fact: Fact) -> None:
        broker = self.brokers[fact.said["broker_id"]]
        now = _FENCES.get(fact.type, fact.said.get("fenced", 0))
        stops = broker.stops or fact.said.get("in_controlled_shutdown", 0) > 0
        fenced = now > 0 if now else broker.fenced
        self.brokers[fact.said["broker_id"]] = broker._replace(fenced=fenced, stops=stops)

    def _register(self, fact: Fact) -> None:
        said, before = fact.said, self.brokers.get(fact.said["broker_id"])
        epoch, incarnation = said["broker_epoch"], said["incarnation_id"]
        if before is not None and before.incarnation == incarnation:
            rules = [("P11", epoch == before.epoch, "an incarnation keeps its epoch")]
        else:
            rises = epoch == fact.offset > self._epoch
            rules = [("P11", rises, "an epoch is the offset of its record, and rises")]
        require(fact, rules)
        self._epoch = max(self._epoch, epoch)
        stops = bool(said.get("in_controlled_shutdown"))
        broker = Broker(epoch, incarnation, bool(said["fenced"]), stops)
        self.brokers[said["broker_id"]] = broker

    def _settle(self, key: Key, part: Part) -> None:
        """What holds once a decision is whole."""
        late = part.steps and self.is_complete(key, part, part.isr)
        led = part.leader == NOBODY or all(map(self.live, part.isr))
        rules = [
            ("P5" if part.adding else "P7", not late, "what could be complete is"),
            ("P12", led, "a broker that may not be in sync is, or leads"),
            ("P12", part.leader != NOBODY or len(part.isr) <= 1, "the last one alone stays"),
        ]
        require((key, part), rules)


_FENCES: Final = {"FenceBroker": 1, "UnfenceBroker": -1}
_FOLDED: Final[dict[str, Callable[[Model, Fact], None]]] = {
    "Partition": Model._create,
    "PartitionChange": Model._change,
    "Topic": Model._name,
    "RemoveTopic": Model._remove,
    "Config": Model._set,
    "ClearElr": Model._clear,
    "RegisterBroker": Model._register,
    "UnregisterBroker": Model._unregister,
    **dict.fromkeys(("FenceBroker", "UnfenceBroker", "BrokerRegistrationChange"), Model._fence),
}
