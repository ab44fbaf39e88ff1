"""Events of a feed: what a watcher lacks, as of one offset, whatever it has missed."""

import json
import random
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from admin.http.events.feed import EventFeed, Key, Sample, Section

LIST = Section("things")
ONE = Section("head", is_list=False)


class Thing(Struct, frozen=True):
    id: int
    value: int


def sample(offset: int, **values: int) -> Sample:
    """The things by their ids, without the letter in front; `head` is the head."""
    items = {
        Key("head") if name == "head" else Key("things", int(name[1:])): Thing(0, value)
        if name == "head"
        else Thing(int(name[1:]), value)
        for name, value in values.items()
    }
    return Sample(offset, items)


def parsed(event: bytes | None) -> tuple[int, Any] | None:
    if event is None:
        return None
    fields = dict(line.split(": ", 1) for line in event.decode().strip().splitlines())
    return int(fields["id"]), json.loads(fields["data"])


def test_an_event_has_what_changed_since_the_last_one() -> None:
    feed = EventFeed("things", (LIST, ONE))
    feed.take(sample(5, t1=1, t2=2, head=7))
    assert parsed(feed.since(0)) == (
        5,
        {
            "as_of_offset": 5,
            "complete": True,
            "things": [{"id": 1, "value": 1}, {"id": 2, "value": 2}],
            "head": {"id": 0, "value": 7},
        },
    )
    assert not feed.take(sample(6, t1=1, t2=2, head=7))
    assert feed.since(feed.version) is None
    before = feed.version
    assert feed.take(sample(8, t1=1, t3=3, head=7))
    assert parsed(feed.since(before)) == (
        8,
        {
            "as_of_offset": 8,
            "complete": False,
            "things": [{"id": 3, "value": 3}],
            "things_gone": [2],
        },
    )


def test_a_node_that_has_fallen_behind_itself_shows_nothing_older() -> None:
    feed = EventFeed("things", (LIST,))
    feed.take(sample(8, t1=1))
    assert not feed.take(sample(7, t1=2))
    assert feed.since(feed.version) is None


def test_a_client_that_comes_back_gets_what_changed_after_its_offset() -> None:
    feed = EventFeed("things", (LIST,))
    feed.take(sample(10, t1=1, t2=1))
    feed.take(sample(12, t1=2, t2=1))
    feed.take(sample(15, t1=2))
    assert feed.version_at(15, never) == feed.version
    _, data = parsed(feed.since(feed.version_at(12, never))) or (0, {})
    assert data == {"as_of_offset": 15, "complete": False, "things_gone": [2]}
    # Between two samples, the log says whether anything changed.
    assert feed.version_at(11, never) == 0
    assert feed.version_at(11, lambda start, end: (start, end) == (11, 12)) == 2
    assert feed.version_at(9, lambda start, end: (start, end) == (9, 10)) == 1


def never(_start: int, _end: int) -> bool:
    return False


def test_watchers_of_all_speeds_and_nodes_reach_the_state() -> None:
    """A client that follows events, with pauses and on another node, has what the node has."""
    for seed in range(300):
        client = Client(random.Random(seed))
        for _ in range(30):
            client.change()
            client.go_on()


class Client:
    """A client, the two nodes that it watches in turn, and the state that they read."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.offset = 1
        self.state: dict[int, int] = {}
        self.changed_at: list[int] = []
        self.feeds = [EventFeed("things", (LIST,)) for _ in range(2)]
        self.node = self.version = self.last = 0
        self.held: dict[int, int] = {}

    def change(self) -> None:
        """Change the state a few times; each node reads it now and then."""
        for _ in range(self.rng.randrange(3)):
            self.state[self.rng.randrange(4)] = self.rng.randrange(3)
            if self.rng.random() < 0.3:
                self.state.pop(self.rng.randrange(4), None)
            self.offset += 1
            self.changed_at.append(self.offset)
        for feed in self.feeds:
            if self.rng.random() < 0.7:
                feed.take(sample(self.offset, **{f"t{k}": v for k, v in self.state.items()}))

    def go_on(self) -> None:
        """Read an event, after going to the other node if that is not behind."""
        other = self.feeds[1 - self.node]
        if self.rng.random() < 0.2 and other.version and other.offset >= self.last:
            self.node = 1 - self.node
            self.version = other.version_at(self.last, self.is_unchanged)
        feed = self.feeds[self.node]
        if self.rng.random() < 0.6 and (found := parsed(feed.since(self.version))) is not None:
            self.version = feed.version
            assert found[0] >= self.last
            self.last = found[0]
            apply(self.held, found[1])
            if feed.offset == self.offset:
                assert self.held == self.state

    def is_unchanged(self, start: int, end: int) -> bool:
        return not any(start < each <= end for each in self.changed_at)


def apply(held: dict[int, int], data: Mapping[str, Any]) -> None:
    """Apply an event to what a client holds."""
    if data["complete"]:
        held.clear()
    held.update({each["id"]: each["value"] for each in data.get("things", ())})
    for gone in data.get("things_gone", ()):
        held.pop(gone, None)
