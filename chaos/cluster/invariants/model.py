"""A model of a cluster: committed records folded into brokers, topics and partitions.

It uses no code of the product. `chaos.cluster.invariants.metadata` overrides the hooks to check
each registration and each change of a partition.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from chaos.cluster.invariants.record_parser import ParsedRecord

Ids: TypeAlias = tuple[int, ...]

Key: TypeAlias = tuple[str, int]
"""A partition: the id of its topic, and its number."""

NOBODY: Final = -1


class Part(NamedTuple):
    """The state of a partition; the names are those of the record parser's tables."""

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
        """True if a reassignment is under way or queued."""
        return bool(self.adding or self.removing or self.target)

    @property
    def steps(self) -> bool:
        """True if a step of a reassignment is under way; a reordering adds no replica."""
        in_step = self.adding or self.removing
        return bool(in_step or (self.target and set(self.target) == set(self.replicas)))

    @property
    def moves_leader(self) -> bool:
        """True if the leader changes when the step under way completes."""
        is_led_by_new = bool(self.target) and self.target[0] in self.adding
        return self.leader in self.removing or is_led_by_new

    @property
    def needed(self) -> Ids:
        """Replicas that may hold data that no other replica has, though they were only being
        added."""
        return self.isr + self.elr + self.last_known_elr

    @property
    def aimed(self) -> Ids:
        """The replicas once the step is complete: first the final ones in their order."""
        kept = without(self.replicas, self.removing)
        return tuple(r for r in self.target if r in kept) + without(kept, self.target)

    @property
    def final(self) -> Ids:
        """The replicas once the whole reassignment is complete."""
        return self.target or self.aimed

    @property
    def is_last(self) -> bool:
        """True if no step follows the one under way."""
        return set(self.aimed) == set(self.final)

    @property
    def reverted(self) -> Ids:
        """The replicas to which a cancel leads: all but the added ones, in the old order."""
        return self.base or without(self.replicas, self.adding)

    def went_back_to(self, replicas: Ids) -> bool:
        """True if a cancel leads to these."""
        return replicas == self.reverted


def created(fields: Mapping[str | int, Any]) -> Part:
    """The partition in a PartitionRecord."""
    return Part(**{name: fields[name] for name in Part._fields if name in fields})


def changed(before: Part, fields: Mapping[str | int, Any]) -> Part:
    """The partition after a PartitionChangeRecord, by Kafka's semantics."""
    changes = {name: fields[name] for name in Part._fields if name in fields}
    if "target" not in fields and ("adding" in fields or "removing" in fields):
        # Written by a controller that does not support targets.
        changes |= {"target": (), "original": ()}
    changes["leader_epoch"] = before.leader_epoch + ("leader" in fields)
    changes["partition_epoch"] = before.partition_epoch + 1
    after = before._replace(**changes)
    return after if after.target else after._replace(base=())


def without(these: Ids, those: Ids) -> Ids:
    """The first ids without the second, in order."""
    return tuple(each for each in these if each not in those)


class Broker(NamedTuple):
    """A registered incarnation; only a live one may lead or come into an ISR."""

    epoch: int
    incarnation: str
    fenced: bool
    stops: bool


class Model:
    """The metadata of one cluster, folded from records."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, str] = {}
        self.parts: dict[Key, Part] = {}
        self.settings: dict[tuple[int, str, str], str] = {}
        self.has_elr = False
        """True if eligible leader replicas (KIP-966) are in force."""
        self._open: list[ParsedRecord] | None = None

    @property
    def is_whole(self) -> bool:
        """True if no transaction is open."""
        return self._open is None

    def fold(self, batch: Iterable[ParsedRecord]) -> None:
        """Fold one batch; the records of a transaction count when it ends."""
        for fact in batch:
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

    def live(self, broker_id: int) -> bool:
        """True if the broker may lead and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not (broker.fenced or broker.stops)

    def setting(self, topic: str, name: str, default: str) -> str:
        """The value configured for the topic, else for the cluster."""
        places = (2, topic, name), (4, "", name)
        return next((value for value in map(self.settings.get, places) if value), default)

    # --- hooks for the checkers --------------------------------------------------------------

    def on_folded(self, fact: ParsedRecord) -> None:
        """Hook: a record has been folded."""

    def on_created(self, fact: ParsedRecord, key: Key, part: Part) -> None:
        """Hook: a partition has been created."""

    def on_changed(self, fact: ParsedRecord, key: Key, before: Part, after: Part) -> None:
        """Hook: a record has changed a partition."""

    def on_registered(self, fact: ParsedRecord, before: Broker | None, after: Broker) -> None:
        """Hook: a broker is registered; `before` is the previous registration of its id."""

    # --- the records -------------------------------------------------------------------------

    def _fold(self, fact: ParsedRecord) -> None:
        if fact.type in _FOLDED:
            _FOLDED[fact.type](self, fact)
            self.on_folded(fact)

    def _create(self, fact: ParsedRecord) -> None:
        key, part = (fact.fields["topic_id"], fact.fields["partition_id"]), created(fact.fields)
        self.parts[key] = part
        self.on_created(fact, key, part)

    def _change(self, fact: ParsedRecord) -> None:
        key = (fact.fields["topic_id"], fact.fields["partition_id"])
        before = self.parts[key]
        after = self.parts[key] = changed(before, fact.fields)
        self.on_changed(fact, key, before, after)

    def _name(self, fact: ParsedRecord) -> None:
        self.topics[fact.fields["topic_id"]] = fact.fields["name"]

    def _remove(self, fact: ParsedRecord) -> None:
        name = self.topics.pop(fact.fields["topic_id"])
        self.parts = {k: v for k, v in self.parts.items() if k[0] != fact.fields["topic_id"]}
        self.settings = {k: v for k, v in self.settings.items() if k[:2] != (2, name)}

    def _set(self, fact: ParsedRecord) -> None:
        kind, resource, name, value = fact.fields.values()
        self.settings[kind, resource, name] = value or ""

    def _clear(self, fact: ParsedRecord) -> None:
        for key, part in self.parts.items():
            is_meant = fact.fields["topic_name"] in ("", self.topics[key[0]])
            if is_meant and (part.elr or part.last_known_elr):
                self.parts[key] = changed(part, {"elr": (), "last_known_elr": ()})

    def _level(self, fact: ParsedRecord) -> None:
        if fact.fields["name"] == "eligible.leader.replicas.version":
            self.has_elr = fact.fields["level"] > 0

    def _unregister(self, fact: ParsedRecord) -> None:
        del self.brokers[fact.fields["broker_id"]]

    def _fence(self, fact: ParsedRecord) -> None:
        broker = self.brokers[fact.fields["broker_id"]]
        now = _FENCES.get(fact.type, fact.fields.get("fenced", 0))
        stops = broker.stops or fact.fields.get("in_controlled_shutdown", 0) > 0
        fenced = now > 0 if now else broker.fenced
        self.brokers[fact.fields["broker_id"]] = broker._replace(fenced=fenced, stops=stops)

    def _register(self, fact: ParsedRecord) -> None:
        fields, before = fact.fields, self.brokers.get(fact.fields["broker_id"])
        stops = bool(fields.get("in_controlled_shutdown"))
        after = Broker(
            fields["broker_epoch"], fields["incarnation_id"], bool(fields["fenced"]), stops
        )
        self.on_registered(fact, before, after)
        self.brokers[fields["broker_id"]] = after


_FENCES: Final = {"FenceBroker": 1, "UnfenceBroker": -1}
_FOLDED: Final[dict[str, Callable[[Model, ParsedRecord], None]]] = {
    "Partition": Model._create,
    "PartitionChange": Model._change,
    "Topic": Model._name,
    "RemoveTopic": Model._remove,
    "Config": Model._set,
    "ClearElr": Model._clear,
    "FeatureLevel": Model._level,
    "RegisterBroker": Model._register,
    "UnregisterBroker": Model._unregister,
    **dict.fromkeys(("FenceBroker", "UnfenceBroker", "BrokerRegistrationChange"), Model._fence),
}
