"""The event streams of one node: it reads each watched state once, and writes it to all watchers.

While somebody watches a resource, a task reads its state a few times a second, and the same bytes
go to every watcher that has read what it was sent. One that has not is passed over, and gets all
that it lacks in one event later; after half a minute it is cut off. So a stream holds one event at
most, whatever its client does, and reading and writing have a rate that does not depend on how much
is committed meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from time import thread_time
from typing import Final

from aiohttp import web

from admin.http.caller import Caller
from admin.http.events.feed import HEARTBEAT, EventFeed, closing
from admin.http.events.leader_report import ask_leader
from admin.http.events.resources import NO_NEWS, Resource, sample
from admin.http.gateway import Gateway
from controller.service import NotActive
from quorum.core.vocabulary import Offset
from quorum.log_events import LogEvent
from quorum.metadata_loader import next_records
from quorum.ports import OffsetOutOfRange
from statemachine.records.codec import decode
from statemachine.records.kafka_records import NoOp, RegisterController

logger = logging.getLogger("http")

PAUSE_SECONDS: Final = 0.25
"""Between two samples of a resource: a person sees no more than four a second."""
WRITING_SHARE_MAX: Final = 0.02
"""The part of a thread's time that writing events may take, since commits need the same thread. A
write takes some 40 µs, most of it in the kernel, so with more than 125 streams the pause is longer:
a second with 500, four with 2,000, and more on a slower machine."""
WRITES_AT_ONCE_MAX: Final = 50
"""Events in one turn of the event loop: two milliseconds."""
REPORT_SECONDS: Final = 1.0
"""Between two questions to the leader; brokers report every two seconds."""
HEARTBEAT_SECONDS: Final = 10.0
"""After so long without an event, a comment shows both sides that the connection works."""
UNREAD_SECONDS_MAX: Final = 30.0
"""The time for a client to read what it was sent."""
CATCH_UP_SECONDS_MAX: Final = 10.0
"""The time for this node to come as far as the event that a client brings along."""
CHECK_SECONDS: Final = 30.0
"""Between two checks that a watcher still may read."""
SKIPPED_RECORDS_MAX: Final = 1_000
"""Records that are looked through for a change since a client's last event."""


@dataclass(eq=False, slots=True, kw_only=True)
class Watcher:
    """One stream."""

    transport: asyncio.Transport
    caller: Caller
    is_still_allowed: Callable[[], str | None]
    """Return why the caller may not read any more, or None."""
    resumes_from: int | None
    """The offset of the last event before this stream, until this node has come as far."""
    ended: "asyncio.Future[str]"
    """The reason why the stream has ended; empty if its client has gone."""
    began: float
    written: float
    """When something was last written to it."""
    checked: float
    version: int = 0
    unread_since: float | None = None


@dataclass(eq=False, slots=True)
class _Watched:
    """A resource that is watched."""

    resource: Resource
    move_id: int | None
    feed: EventFeed
    watchers: set[Watcher] = field(default_factory=set)
    chunked: tuple[bytes, bytes] = b"", b""
    """The event that was written last, and the same as a chunk."""
    task: "asyncio.Task[None] | None" = None


class EventHub:
    """All streams of one node."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._watched: dict[tuple[str, int | None], _Watched] = {}
        self._news = NO_NEWS
        self._reporting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return sum(len(each.watchers) for each in self._watched.values())

    def watch(self, resource: Resource, move_id: int | None, watcher: Watcher) -> None:
        """Write events to a watcher until its `ended` is done."""
        key = resource.path, move_id
        watched = self._watched.get(key)
        if watched is None:
            feed = EventFeed(resource.event, resource.sections, is_plain=resource.is_plain)
            watched = self._watched[key] = _Watched(resource, move_id, feed)
            watched.task = self._start(self._sample(watched))
        if self._reporting is None:
            self._reporting = self._start(self._report())
        watched.watchers.add(watcher)
        watcher.ended.add_done_callback(lambda _: watched.watchers.discard(watcher))
        self._write(watched, watcher, _now())

    async def close(self) -> None:
        """End every stream: the node stops."""
        for watched in tuple(self._watched.values()):
            self._end_all(watched, "this node stops; ask it again later, or another one")
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- tasks -------------------------------------------------------------------------------

    async def _sample(self, watched: _Watched) -> None:
        """Read a resource as long as somebody watches it."""
        feed = watched.feed
        try:
            while watched.watchers:
                try:
                    found = await sample(
                        self._gateway.service, watched.resource, watched.move_id, self._news
                    )
                    feed.take(found)
                except NotActive:
                    # It replays its log, or has just lost the lead; watchers get a heartbeat.
                    logger.debug("no sample of %s", watched.resource.path)
                spent = await self._write_all(watched)
                await asyncio.sleep(pause_after(spent, len(self._watched)))
        except Exception:
            logger.exception(
                "failed to read %s for its streams",
                watched.resource.path,
                extra=LogEvent.REQUEST_FAILED.extra,
            )
            self._end_all(watched, "the controller failed; see its log")
        finally:
            self._watched.pop((watched.resource.path, watched.move_id), None)

    async def _write_all(self, watched: _Watched) -> float:
        """Write to all watchers, and let commits go on meanwhile.

        Returns the seconds of processor time that it took.
        """
        watchers = tuple(watched.watchers)
        spent = 0.0
        for start in range(0, len(watchers), WRITES_AT_ONCE_MAX):
            now, began = _now(), thread_time()
            for watcher in watchers[start : start + WRITES_AT_ONCE_MAX]:
                self._write(watched, watcher, now)
            spent += thread_time() - began
            await asyncio.sleep(0)
        return spent

    async def _report(self) -> None:
        """Ask the leader what it knows, as long as somebody watches anything."""
        try:
            while watchers := [one for each in self._watched.values() for one in each.watchers]:
                self._news = await ask_leader(self._gateway, watchers[0].caller)
                await asyncio.sleep(REPORT_SECONDS)
        except Exception:
            logger.exception(
                "failed to ask the leader for the event streams",
                extra=LogEvent.REQUEST_FAILED.extra,
            )
        finally:
            self._news, self._reporting = NO_NEWS, None

    # --- one watcher -------------------------------------------------------------------------

    def _write(self, watched: _Watched, watcher: Watcher, now: float) -> None:
        """Write to a watcher what it lacks, if it has read everything before."""
        if watcher.ended.done():
            return
        reason = self._reason_to_end(watched, watcher, now)
        if reason is not None:
            _end(watcher, reason)
        elif watcher.unread_since is None:
            event = self._next_event(watched, watcher)
            if event is None and now - watcher.written > HEARTBEAT_SECONDS:
                event = HEARTBEAT
            if event is not None:
                watcher.written = now
                if event is not watched.chunked[0]:
                    watched.chunked = event, chunk(event)
                watcher.transport.write(watched.chunked[1])

    def _reason_to_end(self, watched: _Watched, watcher: Watcher, now: float) -> str | None:
        transport = watcher.transport
        if transport.is_closing():
            return ""
        if not transport.get_write_buffer_size():
            watcher.unread_since = None
        elif watcher.unread_since is None:
            watcher.unread_since = now
        elif now - watcher.unread_since > UNREAD_SECONDS_MAX:
            return f"nothing was read for {UNREAD_SECONDS_MAX:.0f} s"
        if watcher.resumes_from is not None and now - watcher.began > CATCH_UP_SECONDS_MAX:
            return _behind(watched.feed, watcher.resumes_from)
        if now - watcher.checked > CHECK_SECONDS:
            watcher.checked = now
            return watcher.is_still_allowed()
        return None

    def _next_event(self, watched: _Watched, watcher: Watcher) -> bytes | None:
        """The event that a watcher lacks, which it has from now on; None if it lacks nothing."""
        feed, last = watched.feed, watcher.resumes_from
        if not feed.version:
            return None
        if last is not None:
            if feed.offset < last:
                return None
            is_unchanged = partial(self._is_unchanged, watched.resource)
            watcher.version = feed.version_at(last, is_unchanged)
            watcher.resumes_from = None
        event = feed.since(watcher.version)
        watcher.version = feed.version
        return event

    def _is_unchanged(self, resource: Resource, start: int, end: int) -> bool:
        """True if the log has only records without effect between two offsets.

        It is looked through for a client that was away for a moment. After a longer time, it gets
        the whole state.
        """
        if not resource.has_records_only or end - start > SKIPPED_RECORDS_MAX:
            return False
        try:
            for run in next_records(self._gateway.service.quorum.replica, Offset(start)):
                if not all(
                    isinstance(decode(value), NoOp | RegisterController) for value in run.values
                ):
                    return False
                if run.end >= end:
                    return True
        except (OffsetOutOfRange, ValueError):
            # A snapshot has replaced it.
            return False
        return False

    def _end_all(self, watched: _Watched, reason: str) -> None:
        for watcher in tuple(watched.watchers):
            _end(watcher, reason)


def pause_after(spent_seconds: float, resources: int) -> float:
    """Return the seconds until the next sample of one of so many watched resources."""
    return max(PAUSE_SECONDS, spent_seconds * resources / WRITING_SHARE_MAX)


def _end(watcher: Watcher, reason: str) -> None:
    """End a stream; its client is told why, if there is a reason."""
    if watcher.ended.done():
        return
    if reason and not watcher.transport.is_closing():
        watcher.transport.write(chunk(closing(reason)))
    watcher.ended.set_result(reason)


def _behind(feed: EventFeed, offset: int) -> str:
    return (
        f"this node has come to offset {feed.offset}, and the last event that was received is as "
        f"of {offset}; ask again, or ask another node"
    )


def chunk(data: bytes) -> bytes:
    """A chunk of a response (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _now() -> float:
    return asyncio.get_running_loop().time()


HUB: Final = web.AppKey("event_hub", EventHub)
