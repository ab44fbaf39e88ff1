"""What the cluster is at one offset: by the judges' own fold, and by an image of the product.

The two must be equal (P22). Values only, and no judgement.
"""

from collections.abc import Iterable
from typing import NamedTuple

from chaos.cluster.facts import fact
from chaos.cluster.model import Broker, Model
from chaos.cluster.parts import Key, Part, created
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
        """What is in one of them and not in the other, in words; empty if they are equal."""
        if self == other:
            return ""
        for name in self._fields:
            mine, its = getattr(self, name), getattr(other, name)
            for key in {**mine, **its}:
                if mine.get(key) != its.get(key):
                    return f"{name} {key} is {mine.get(key)}, not {its.get(key)}"
        raise AssertionError("what differs is in none of them")


NOTHING = View({}, {}, {}, {})


def view_of_model(model: Model) -> View:
    """What the judges make of the log as far as they have folded it."""
    settings = {key: value for key, value in model.settings.items() if value}
    return View(dict(model.brokers), dict(model.topics), dict(model.parts), settings)


def view_of_snapshot(values: Iterable[bytes]) -> View:
    """What the records of a snapshot say."""
    view = View({}, {}, {}, {})
    for place, value in enumerate(values):
        found = fact(place, value)
        said = found.said
        match found.type:
            case "RegisterBroker":
                stops = bool(said.get("in_controlled_shutdown"))
                broker = Broker(
                    said["broker_epoch"], said["incarnation_id"], bool(said["fenced"]), stops
                )
                view.brokers[said["broker_id"]] = broker
            case "Topic":
                view.topics[said["topic_id"]] = said["name"]
            case "Partition":
                view.parts[said["topic_id"], said["partition_id"]] = created(said)
            case "Config":
                kind, resource, name, text = said.values()
                view.settings[kind, resource, name] = text or ""
            case _:
                pass
    return view


def view_of_image(image: Image) -> View:
    """What the product makes of the log."""
    brokers = {
        each.broker_id: Broker(
            each.epoch, each.incarnation_id.hex, each.fenced, each.stopping_at is not None
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
    told = {name: getattr(partition, name) for name in _PLAIN}
    return Part(**told, base=partition.stage.base)
