"""The history of each topic: created, grown, deleted, and its configurations changed.

The records of Kafka do not say who asked for a change. The log has a name only where a move of ours
set a configuration, for its throttle (KIP-73). Plain values, no Spark; the partitions that were
created are counted by Spark (`partitions_added`).

A hole of the log may hide events of every topic that existed then. Counts over it are unknown, and
so is, behind it, which topic has a name, and which move holds a configuration.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lag.reports.holes import NONE, Holes, names
from lag.reports.quorum_log import Hole
from lag.reports.schemas import TOPIC_EVENTS, TOPICS

OWNED: Final = "ConfigOwned"
"""The type of the record with which a move takes over a configuration, or gives it back."""
TYPES: Final = ("TopicRecord", "RemoveTopicRecord", OWNED)
"""The record types that are used, besides configurations and the begins of moves."""
THROTTLES: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
"""Configurations whose values are long lists; the values are left out."""
_RELEASED, _OWNED = 0, 1
"""The `state` of a `ConfigOwned`; any other is that a user has taken the configuration back."""

CREATION_MS_MAX: Final = 1_000
"""The records of a large topic are in several batches: partitions whose records directly follow
the first ones so soon were created with them."""

_EVER: Final = 1 << 62

Row = dict[str, Any]


class PartitionsAdded(NamedTuple):
    """Partitions of one topic that were created with one append time."""

    topic_id: str
    first: int
    """Offset of the first record."""
    last: int
    partitions: int
    append_ms: int | None


class _Topic:
    """A topic while the log is followed."""

    def __init__(self, topic_id: str | None, name: str | None, partitions: int | None) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions = partitions
        """None if it is unknown how many there were at the start of the log."""
        self.created: Row | None = None
        """The event of its creation."""
        self.created_to: int | None = None
        """The offset of the last partition that was created with it."""
        self.deleted: int | None = None
        """The offset of its deletion."""

    def is_created_by(self, added: PartitionsAdded) -> bool:
        """True for the first partitions of the topic, and for those that directly follow them."""
        if self.created is None or self.created_to is None:
            return self.created is not None
        late_ms = (added.append_ms or 0) - (self.created["at_ms"] or 0)
        return added.first == self.created_to + 1 and late_ms <= CREATION_MS_MAX

    def created_beside(self, holes: Holes) -> list[Hole]:
        """The holes that may have partitions that were created with it."""
        if self.created is None:
            return holes.before(_EVER if self.deleted is None else self.deleted)
        first = self.created["offset"]
        last = first if self.created_to is None else self.created_to
        return holes.between(first, last + 2)

    def during(self, holes: Holes) -> list[Hole]:
        """The holes that may have events of this topic."""
        first = 0 if self.created is None else self.created["offset"]
        return holes.between(first, _EVER if self.deleted is None else self.deleted)

    def event(self, record: Mapping[str, Any], event: str | None, **said: Any) -> Row:
        """An event of this topic by this record."""
        row = {
            "topic_id": self.topic_id,
            "topic": self.name,
            "offset": record["offset"],
            "at_ms": record["append_ms"],
            "event": event,
            **said,
        }
        return {name: row.get(name) for name in TOPIC_EVENTS.names}


class _Owners:
    """The moves that hold configurations, and the people who began these moves."""

    def __init__(self) -> None:
        self._who: dict[int, str] = {}
        self._holders: dict[tuple[str, str], list[int]] = {}
        self._released: dict[tuple[str, str], tuple[int, int]] = {}
        """The last move that gave a configuration back, and the offset of the record."""
        self._amended: set[tuple[str, str]] = set()
        self._is_sure = True
        self._begun_since: set[int] = set()
        """The moves that began since the last hole."""

    def forget(self) -> None:
        """A hole: other moves may hold the configurations behind it."""
        self._holders, self._released, self._amended = {}, {}, set()
        self._is_sure, self._begun_since = False, set()

    def is_known(self, record: Mapping[str, Any], found: Row) -> bool:
        """True if a move that holds this configuration would be known."""
        if self._is_sure or record["name"] not in THROTTLES:
            return True
        return found.get("move_id") in self._begun_since

    def begun(self, record: Mapping[str, Any]) -> None:
        """A move begins."""
        self._who[record["said"]["id"]] = record["said"]["who"]
        self._begun_since.add(record["said"]["id"])

    def owned(self, record: Mapping[str, Any]) -> None:
        """A `ConfigOwned` of a topic."""
        key, move_id = (record["topic"], record["name"]), record["move_id"]
        holders = self._holders.setdefault(key, [])
        if record["state"] == _OWNED and move_id in holders:
            # A user has changed a list that the move holds.
            self._amended.add(key)
        elif record["state"] == _OWNED:
            holders.append(move_id)
        else:
            if move_id in holders:
                holders.remove(move_id)
            if record["state"] == _RELEASED:
                self._released[key] = move_id, record["offset"]

    def of(self, record: Mapping[str, Any]) -> Row:
        """The move that wrote this configuration, and who asked for it; nothing if unknown."""
        key = (record["topic"], record["name"])
        if key in self._amended:
            self._amended.discard(key)
            return {}
        move_id, at = self._released.get(key, (None, None))
        if at is None or record["offset"] != at + 1:
            holders = self._holders.get(key)
            move_id = holders[-1] if holders else None
        return {} if move_id is None else {"move_id": move_id, "who": self._who.get(move_id)}


class TopicHistory(NamedTuple):
    """The two reports about topics."""

    topics: list[Row]
    events: list[Row]


def topic_history(
    records: Iterable[Mapping[str, Any]],
    added: Iterable[PartitionsAdded],
    start: int,
    holes: Holes = NONE,
) -> TopicHistory:
    """The reports `topics` and `topic_events`.

    `records` are those of the quorum's log in order, with their fields in `said`; before the offset
    `start` they are the state at the start of the log, and no events.
    """
    follower = _Follower(start, holes)
    things: list[tuple[int, int, int, Any]] = [
        (row["offset"], 0, number, row) for number, row in enumerate(records)
    ]
    things += [(each.first, 1, number, each) for number, each in enumerate(sorted(added))]
    for number, hole in enumerate(holes.holes):
        # The state at the start is that behind the holes before it.
        at = hole.first if hole.end <= start else max(hole.first, start)
        things.append((at, -1, number, hole))
    for *_, thing in sorted(things, key=lambda each: each[:3]):
        if isinstance(thing, PartitionsAdded):
            follower.add(thing)
        elif isinstance(thing, Hole):
            follower.skip(thing)
        else:
            follower.take(thing)
    return TopicHistory(_topics(follower.topics, follower.events, holes), follower.events)


class _Follower:
    """Follow the log and note the events."""

    def __init__(self, start: int, holes: Holes) -> None:
        self._start = start
        self._holes = holes
        self._owners = _Owners()
        self._current: dict[str, _Topic] = {}
        """The topics that exist, by name."""
        self._by_id: dict[str, _Topic] = {}
        self.topics: list[_Topic] = []
        self.events: list[Row] = []

    def take(self, record: Mapping[str, Any]) -> None:
        """A record that is not about a partition."""
        match record["type"]:
            case "TopicRecord":
                self._create(record)
            case "RemoveTopicRecord":
                topic = self._topic(record["topic_id"])
                self._current.pop(topic.name or "", None)
                topic.deleted = record["offset"]
                before = names(topic.during(self._holes)) if topic.partitions is None else None
                self.events.append(
                    topic.event(record, "deleted", partitions=topic.partitions, hole=before)
                )
            case "ConfigRecord" if record["topic"] is not None and record["offset"] >= self._start:
                self._configure(record)
            case "MoveBegun":
                self._owners.begun(record)
            case "ConfigOwned" if record["topic"] is not None:
                self._owners.owned(record)
            case _:
                pass

    def skip(self, hole: Hole) -> None:
        """Pass a hole: any topic may have changed in it."""
        self._owners.forget()
        self._current.clear()
        for topic in self.topics:
            if topic.deleted is None:
                topic.partitions = None

    def add(self, added: PartitionsAdded) -> None:
        """Partitions are created: with their topic, or later."""
        topic = self._topic(added.topic_id)
        if topic.name is not None:
            self._current[topic.name] = topic
        beside = [
            hole for hole in self._holes.holes if added.append_ms in (hole.before_ms, hole.after_ms)
        ]
        if beside:
            # Some may have been created in the hole.
            topic.partitions = None
        elif topic.partitions is not None:
            topic.partitions += added.partitions
        if added.first < self._start:
            return
        hidden = self._holes.before(added.last) if topic.partitions is None else []
        hidden += [hole for hole in beside if hole not in hidden]
        record = {"offset": added.first, "append_ms": added.append_ms}
        if self._is_unclear(topic, added):
            self.events.append(topic.event(record, None, hole=names(hidden)))
        elif topic.is_created_by(added):
            assert topic.created is not None
            topic.created["partitions"] = topic.partitions
            topic.created_to = added.last
        else:
            said = {"partitions": topic.partitions, "hole": names(hidden)}
            self.events.append(topic.event(record, "grown", **said))

    def _is_unclear(self, topic: _Topic, added: PartitionsAdded) -> bool:
        """True if a hole may hide that these are a part of the topic's creation, or of a growth."""
        before = self._holes.before(added.first)
        if any(hole.after_ms == added.append_ms for hole in before):
            return True
        return bool(before) and (topic.created is None or bool(topic.created_beside(self._holes)))

    def _create(self, record: Mapping[str, Any]) -> None:
        topic = self._new(record["topic_id"], record["topic"], 0)
        self._current[record["topic"]] = topic
        if record["offset"] >= self._start:
            topic.created = topic.event(record, "created", partitions=0)
            self.events.append(topic.created)

    def _configure(self, record: Mapping[str, Any]) -> None:
        topic = self._current.get(record["topic"]) or _Topic(None, record["topic"], None)
        value, by = record["said"].get("value"), self._owners.of(record)
        is_known = self._owners.is_known(record, by)
        hidden = self._holes.before(record["offset"])
        self.events.append(
            topic.event(
                record,
                "config_removed" if value is None else "config_set",
                config=record["name"],
                value=None if record["name"] in THROTTLES else value,
                **(by if is_known else {}),
                hole=names(hidden) if topic.topic_id is None or not is_known else None,
            )
        )

    def _topic(self, topic_id: str) -> _Topic:
        """A known topic, or one whose creation is not in the log."""
        known = self._by_id.get(topic_id)
        return known if known is not None else self._new(topic_id, None, None)

    def _new(self, topic_id: str, name: str | None, partitions: int | None) -> _Topic:
        topic = self._by_id[topic_id] = _Topic(topic_id, name, partitions)
        self.topics.append(topic)
        return topic


_COUNTED: Final = ("partitions", "grown", "config_changes", "last_change_ms")
"""The columns that are unknown if a hole may have events of a topic."""


def _topics(topics: Iterable[_Topic], events: Sequence[Row], holes: Holes) -> list[Row]:
    of_topic: dict[str | None, list[Row]] = {}
    for event in events:
        of_topic.setdefault(event["topic_id"], []).append(event)
    found = []
    for topic in topics:
        own = of_topic.get(topic.topic_id, [])
        times = {
            name: [row["at_ms"] for row in own if row["event"] == name]
            for name in ("created", "grown", "deleted", "config_set", "config_removed")
        }
        row = {
            "topic_id": topic.topic_id,
            "topic": topic.name,
            "created_ms": next(iter(times["created"]), None),
            "deleted_ms": next(iter(times["deleted"]), None),
            "partitions": topic.partitions,
            "partitions_at_first": None if topic.created is None else topic.created["partitions"],
            "grown": len(times["grown"]),
            "config_changes": len(times["config_set"]) + len(times["config_removed"]),
            "last_change_ms": own[-1]["at_ms"] if own else None,
        }
        during = topic.during(holes)
        if during:
            row |= dict.fromkeys(_COUNTED)
        beside = topic.created_beside(holes)
        if beside:
            row["partitions_at_first"] = None
        if beside and topic.created is not None:
            topic.created |= {"partitions": None, "hole": names(beside)}
        row["hole"] = names(during)
        found.append({name: row[name] for name in TOPICS.names})
    return found
