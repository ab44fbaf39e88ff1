"""A second account of topics: the image before and after every record."""

from collections.abc import Sequence
from typing import Any, Final

from quorum.core.vocabulary import uuid_to_text
from statemachine.image.image import Image
from statemachine.records import kafka_records, own_records
from statemachine.replay import replay
from statemachine.vocabulary import TOPIC_RESOURCE
from tests.lag.twins.slow_reading import SlowRecord

CREATION_MS_MAX: Final = 1_000
RELEASED, OWNED = 0, 1

Row = dict[str, Any]


def events(log: Sequence[SlowRecord]) -> list[Row]:
    """The table `topic_events`."""
    image = Image()
    found: list[Row] = []
    for number, each in enumerate(log):
        said = each.said
        before = {id_: topic.name for id_, topic in image.topics.items()}
        sizes = _sizes(image)
        replay(image, said, each.offset)
        match said:
            case kafka_records.Topic():
                found.append(_event(each, said.topic_id, said.name, "created", partitions=0))
            case kafka_records.Partition():
                _add(found, each, image, log[number - 1])
            case kafka_records.RemoveTopic():
                name, size = before[said.topic_id], sizes[said.topic_id]
                found.append(_event(each, said.topic_id, name, "deleted", partitions=size))
            case kafka_records.Config(resource_type=kind) if kind == TOPIC_RESOURCE:
                id_ = next((i for i, name in before.items() if name == said.resource_name), None)
                found.append(
                    _event(
                        each,
                        id_,
                        said.resource_name,
                        "config_removed" if said.value is None else "config_set",
                        config=said.name,
                        value=None if "throttled.replicas" in said.name else said.value,
                        **_by_whom(log[:number], each),
                    )
                )
            case _:
                pass
    return found


def _by_whom(before: Sequence[SlowRecord], config: SlowRecord) -> Row:
    """The move that holds the configuration, or gives it back with this record."""
    said = config.said
    assert isinstance(said, kafka_records.Config)
    holders: list[int] = []
    is_users = False
    for each in before:
        match each.said:
            case own_records.ConfigOwned(resource_type=kind, resource_name=of, name=name) if (
                kind,
                of,
                name,
            ) == (said.resource_type, said.resource_name, said.name):
                is_users = each.said.owned == OWNED and each.said.move in holders
                holders = [one for one in holders if one != each.said.move]
                holders += [each.said.move] * (each.said.owned == OWNED)
                if each.said.owned == RELEASED and each.offset == config.offset - 1:
                    holders.append(each.said.move)
            case kafka_records.Config(resource_type=kind, resource_name=of, name=name) if (
                kind,
                of,
                name,
            ) == (said.resource_type, said.resource_name, said.name):
                is_users = False
            case _:
                pass
    if not holders or is_users:
        return {}
    begun = [each.said for each in before if isinstance(each.said, own_records.MoveBegun)]
    who = [each.who for each in begun if each.id == holders[-1]]
    return {"move_id": holders[-1], "who": who[0] if who else None}


def _sizes(image: Image) -> dict[Any, int]:
    return {id_: len(list(topic.existing())) for id_, topic in image.topics.items()}


def _event(each: SlowRecord, topic_id: Any, name: str, event: str, **said: Any) -> Row:
    columns = ("partitions", "config", "value", "move_id", "who")
    return {
        "topic_id": None if topic_id is None else uuid_to_text(topic_id),
        "topic": name,
        "offset": each.offset,
        "at_ms": each.at_ms,
        "event": event,
        **dict.fromkeys(columns),
        **said,
    }


def _add(found: list[Row], each: SlowRecord, image: Image, before: SlowRecord) -> None:
    """A partition more: of its topic's creation, of the same growth as the one before, or anew."""
    said = each.said
    assert isinstance(said, kafka_records.Partition)
    topic_id, size = uuid_to_text(said.topic_id), _sizes(image)[said.topic_id]
    own = [row for row in found if row["topic_id"] == topic_id and row["config"] is None]
    last = own[-1]
    goes_on = (
        isinstance(before.said, kafka_records.Partition)
        and before.said.topic_id == said.topic_id
        and before.offset == each.offset - 1
    )
    is_soon = goes_on and each.at_ms - last["at_ms"] <= CREATION_MS_MAX
    is_of_creation = last["event"] == "created" and (is_soon or last["partitions"] == 0)
    is_of_growth = last["event"] == "grown" and goes_on and last["at_ms"] == each.at_ms
    if is_of_creation or is_of_growth:
        last["partitions"] = size
    else:
        name = image.topics[said.topic_id].name
        found.append(_event(each, said.topic_id, name, "grown", partitions=size))


def topics(events_: Sequence[Row]) -> list[Row]:
    """The table `topics`."""
    found = []
    for created in (row for row in events_ if row["event"] == "created"):
        own = [row for row in events_ if row["topic_id"] == created["topic_id"]]
        sizes = [row["partitions"] for row in own if row["partitions"] is not None]
        gone = [row["at_ms"] for row in own if row["event"] == "deleted"]
        found.append(
            {
                "topic_id": created["topic_id"],
                "topic": created["topic"],
                "created_ms": created["at_ms"],
                "deleted_ms": gone[0] if gone else None,
                "partitions": sizes[-1],
                "partitions_at_first": created["partitions"],
                "grown": sum(row["event"] == "grown" for row in own),
                "config_changes": sum(row["config"] is not None for row in own),
                "last_change_ms": own[-1]["at_ms"],
            }
        )
    return found
