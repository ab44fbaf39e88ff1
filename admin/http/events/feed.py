"""The events of one resource: its state as of an offset of the log, and what changed in it since.

A feed takes samples of a state and tells a watcher what it lacks. It holds no clock, task or
socket. A state is a set of items, each in a section and with an id: the brokers, the moves, the
quorum. An event has every item that changed since the watcher's last event, as of one offset. So
nothing has to wait in a queue: a watcher that was slow gets one event with the latest state.

Two marks say what a watcher has. `version` counts the samples that changed something; a connected
watcher has it. The offset of the last event is what a watcher brings along that comes back, to this
node or to another one. It has the version of the first sample at or after that offset, if the log
has no change between the two: a state that came and went between two samples of this node may have
been shown by another one. In every other case it has nothing, and gets the whole state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

GONE_REMEMBERED_MAX: Final = 1_000
"""Ids of items that are no more. A watcher that is further behind gets the whole state."""


SAMPLES_REMEMBERED_MAX: Final = 1_000
"""Four minutes at the highest rate. A watcher that was away for longer gets the whole state."""
RENDERED_MAX: Final = 8
"""Events that are kept until the next sample: nearly all watchers are at the same version."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a state: a list of items, or one item."""

    name: str
    is_list: bool = True
    has_offset: bool = False
    """True if its item names the offset itself."""
    compared: Callable[[Any], object] = lambda item: item
    """The part of an item whose change makes an event."""


class Key(NamedTuple):
    """One item."""

    section: str
    id: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A state that contains all records below `offset`, and none above."""

    offset: int
    items: Mapping[Key, Struct]


class _Item(NamedTuple):
    compared: object
    body: bytes
    version: int


class EventFeed:
    """The state of one resource, and the events that lead to it."""

    def __init__(self, name: str, sections: Sequence[Section], *, is_plain: bool = False) -> None:
        """`name` is that of the events. The only item of a `is_plain` feed is the event's data."""
        assert not is_plain or len(sections) == 1
        self.name = name
        self.sections = {each.name: each for each in sections}
        self.is_plain = is_plain
        self.version = 0
        """The number of samples that changed something; 0 without any sample."""
        self.offset = 0
        """The offset of the last sample."""
        self._samples: dict[int, int] = {}
        """The version of the first sample at each offset, the last ones in order."""
        self._items: dict[Key, _Item] = {}
        self._gone: dict[Key, int] = {}
        """Items that are no more, and the version since then."""
        self._forgotten = 0
        """The version of the last entry that was dropped from `_gone`."""
        self._rendered: dict[int, bytes] = {}
        """Events for watchers that have these versions."""

    def take(self, sample: Sample) -> bool:
        """Take the next sample; return True if it changed something."""
        if sample.offset < self.offset:
            # A node never goes back behind what it has shown.
            return False
        version = self.version + 1
        found: dict[Key, _Item] = {}
        is_changed = not self.version
        for key, item in sample.items.items():
            before = self._items.get(key)
            compared = self.sections[key.section].compared(item)
            if before is None or before.compared != compared:
                is_changed = True
                body = msgspec.json.encode(item)
                before = _Item(compared, body, version)
                self._gone.pop(key, None)
            found[key] = before
        for key in self._items.keys() - found.keys():
            is_changed = True
            self._gone[key] = version
        self._items = found
        if is_changed or sample.offset > self.offset:
            self._rendered.clear()
        self.offset = sample.offset
        if is_changed:
            self.version = version
        self._samples.setdefault(sample.offset, self.version)
        self._forget()
        return is_changed

    def _forget(self) -> None:
        while len(self._gone) > GONE_REMEMBERED_MAX:
            dropped = self._gone.pop(next(iter(self._gone)))
            self._forgotten = max(self._forgotten, dropped)
        if len(self._samples) > SAMPLES_REMEMBERED_MAX:
            del self._samples[next(iter(self._samples))]

    def version_at(self, offset: int, is_unchanged: Callable[[int, int], bool]) -> int:
        """Return the version that a watcher has whose last event was as of `offset`.

        0 stands for a watcher that has nothing. `is_unchanged` says whether the log has no change
        of this resource between two offsets. The feed must have come as far as `offset`.
        """
        assert offset <= self.offset
        at = next(each for each in self._samples if each >= offset)
        return self._samples[at] if at == offset or is_unchanged(offset, at) else 0

    def since(self, version: int) -> bytes | None:
        """Return the event for a watcher that has this version; None if it lacks nothing."""
        if version >= self.version:
            return None
        if version < self._forgotten:
            version = 0
        found = self._rendered.get(version)
        if found is None:
            found = self._render(version)
            if len(self._rendered) < RENDERED_MAX:
                self._rendered[version] = found
        return found

    def _render(self, version: int) -> bytes:
        is_whole = version == 0
        newer = {key: each for key, each in self._items.items() if each.version > version}
        if self.is_plain:
            data = self._plain(newer)
        else:
            gone = [] if is_whole else [key for key, at in self._gone.items() if at > version]
            fields = [f'"as_of_offset":{self.offset}', f'"complete":{_json(is_whole)}']
            for section in self.sections.values():
                fields += _section(section, newer, gone, is_whole=is_whole)
            data = f"{{{','.join(fields)}}}".encode()
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (self.offset, self.name.encode(), data)

    def _plain(self, items: Mapping[Key, _Item]) -> bytes:
        """The only item with the offset; null if it is no more."""
        (section,) = self.sections.values()
        for each in items.values():
            if section.has_offset:
                return each.body
            return b'{"as_of_offset":%d,%b' % (self.offset, each.body[1:])
        return b"null"


def _section(
    section: Section, newer: Mapping[Key, _Item], gone: Sequence[Key], *, is_whole: bool
) -> list[str]:
    bodies = [each.body.decode() for key, each in newer.items() if key.section == section.name]
    ids = [key.id for key in gone if key.section == section.name]
    if section.is_list:
        fields = [f'"{section.name}":[{",".join(bodies)}]'] if bodies or is_whole else []
        return [*fields, f'"{section.name}_gone":{ids}'] if ids else fields
    if bodies:
        return [f'"{section.name}":{bodies[0]}']
    return [f'"{section.name}":null'] if ids or is_whole else []


def _json(flag: bool) -> str:
    return "true" if flag else "false"


def closing(reason: str) -> bytes:
    """The last event of a stream that the node ends."""
    return b"event: closed\ndata: %b\n\n" % msgspec.json.encode({"reason": reason})


HEARTBEAT: Final = b": still here\n\n"
