"""The committed log of a cluster, checked batch by batch, and the metadata at each offset.

A `View` is the metadata at one offset: folded by the checkers, or taken from a snapshot or an image
of the product. The two must be equal (P22).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker.partition.assignment import PartitionKey
from chaos.cluster.invariants.idempotency import IdempotencyInvariant
from chaos.cluster.invariants.metadata import MetadataInvariants, StepPlans
from chaos.cluster.invariants.model import Broker, Key, Model, Part, created
from chaos.cluster.invariants.record_parser import ParsedRecord, fact
from chaos.invariants.disk_format import StoredBatch, records
from chaos.invariants.history import History
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration

_PLAIN = tuple(name for name in Part._fields if name != "base")


class View(NamedTuple):
    """Brokers, topics, partitions and configurations."""

    brokers: dict[int, Broker]
    topics: dict[str, str]
    parts: dict[Key, Part]
    settings: dict[tuple[int, str, str], str]

    def difference(self, other: "View") -> str:
        """The first difference in words; empty if the views are equal."""
        if self == other:
            return ""
        for name in self._fields:
            mine, its = getattr(self, name), getattr(other, name)
            for key in {**mine, **its}:
                if mine.get(key) != its.get(key):
                    return f"{name} {key} is {mine.get(key)}, not {its.get(key)}"
        raise AssertionError("no table differs")


NOTHING = View({}, {}, {}, {})


def view_of_model(model: Model) -> View:
    """The view that the checkers have folded so far."""
    settings = {key: value for key, value in model.settings.items() if value}
    return View(dict(model.brokers), dict(model.topics), dict(model.parts), settings)


def view_of_snapshot(values: Iterable[bytes]) -> View:
    """The view in the records of a snapshot."""
    view = View({}, {}, {}, {})
    for place, value in enumerate(values):
        found = fact(place, value)
        row = found.fields
        match found.type:
            case "RegisterBroker":
                stops = bool(row.get("in_controlled_shutdown"))
                broker = Broker(
                    row["broker_epoch"], row["incarnation_id"], bool(row["fenced"]), stops
                )
                view.brokers[row["broker_id"]] = broker
            case "Topic":
                view.topics[row["topic_id"]] = row["name"]
            case "Partition":
                view.parts[row["topic_id"], row["partition_id"]] = created(row)
            case "Config":
                kind, resource, name, text = row.values()
                view.settings[kind, resource, name] = text or ""
            case _:
                pass
    return view


def view_of_image(image: Image) -> View:
    """The view in an image of the product."""
    brokers = {
        each.broker_id: Broker(
            each.broker_epoch, each.incarnation_id.hex, each.fenced, each.stopping_at is not None
        )
        for each in image.brokers.values()
    }
    topics = {topic_id.hex: topic.name for topic_id, topic in image.topics.items()}
    parts = {
        (topic_id.hex, number): _part(partition)
        for topic_id, topic in image.topics.items()
        for number, partition in topic.existing()
    }
    settings = {
        (kind, resource, name): value
        for (kind, resource), configs in image.configs.items()
        for name, value in configs.items()
        if value
    }
    return View(brokers, topics, parts, settings)


def _part(partition: PartitionRegistration) -> Part:
    values = {name: getattr(partition, name) for name in _PLAIN}
    return Part(**values, base=partition.stage.base)


class ClusterHistory(History):
    """The committed log of one run; it only grows."""

    def __init__(self) -> None:
        super().__init__()
        self.model = MetadataInvariants(has_proposals=True)
        self.keys = IdempotencyInvariant()
        self.on_facts: list[Callable[[list[ParsedRecord]], None]] = []
        """Called with each batch once it is folded."""
        self._plans = StepPlans(self.model)

    def view_at(self, offset: int) -> View:
        """The view at a batch boundary."""
        found = self.state_at(offset) if offset else NOTHING
        assert isinstance(found, View)
        return found

    def contradiction(self, end: int, values: list[bytes]) -> tuple[str, str] | None:
        """See `History`."""
        difference = view_of_snapshot(values).difference(self.view_at(end))
        return ("P22", f"in which {difference}") if difference else None

    def _state_after(self, batch: StoredBatch) -> View:
        if batch.is_control:
            return self.view_at(batch.base)
        found = records(batch.data)
        facts = [fact(batch.base + place, value) for place, (_, value) in enumerate(found)]
        self._plans.take(facts)
        self.keys.take(facts)
        for tell in self.on_facts:
            tell(facts)
        return view_of_model(self.model)

    def around(self, offset: int) -> tuple[View, ...]:
        """The view at an offset; within a batch, the views before and after it.

        Several decisions that were written together are one batch.
        """
        if self.is_boundary(offset):
            return (self.view_at(offset),)
        after = bisect_left(self._ends, offset)
        return self.view_at(self._ends[after - 1] if after else 0), self.view_at(self._ends[after])

    def was_no_replica(self, broker_id: int, key: PartitionKey, since: int, end: int) -> bool:
        """True if the broker was not a replica at some boundary from `since` to `end`."""
        name = (key.topic_id.hex, key.number)
        for offset in [since, *(each.end for each in self.between(since, end))]:
            part = self.view_at(offset).parts.get(name)
            if part is None or broker_id not in part.replicas:
                return True
        return False
