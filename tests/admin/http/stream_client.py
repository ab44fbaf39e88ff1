"""A client of event streams: events as they come, from the bytes of a chunked response."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.admin.http.raw_http import Connection, Listening
from tests.support.bell import PATIENCE_SECONDS


@dataclass(frozen=True)
class Event:
    """One event."""

    id: int | None
    name: str
    data: Any


@dataclass
class Stream:
    """One stream of events."""

    connection: Connection

    async def next(self) -> Event | None:
        """The next event, without comments; None at the end of the stream."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                block = await self._block()
                if block is None:
                    return None
                lines = [line.partition(": ") for line in block.splitlines() if ": " in line]
                fields = {name: value for name, _, value in lines if name}
                if "data" in fields:
                    number = int(fields["id"]) if "id" in fields else None
                    return Event(number, fields["event"], json.loads(fields["data"]))

    async def until(self, name: str, offset: int) -> list[Event]:
        """The events up to the first one as of this offset or a later one."""
        events: list[Event] = []
        while not events or events[-1].id is None or events[-1].id < offset:
            event = await self.next()
            assert event is not None
            assert event.name == name, event
            events.append(event)
        return events

    async def _block(self) -> str | None:
        """The next chunk: the node sends every event as one."""
        reader = self.connection.reader
        size = int((await reader.readline()).strip() or b"0", 16)
        data = await reader.readexactly(size + 2)
        return data.decode() if size else None


@asynccontextmanager
async def watching(
    http: Listening, path: str, last_event_id: int | None = None, **headers: str
) -> AsyncIterator[Stream]:
    """Watch a resource."""
    if last_event_id is not None:
        headers["Last_Event_ID"] = str(last_event_id)
    async with http.connected() as connection:
        connection.write("GET", path, Accept="text/event-stream", **headers)
        head = (await connection.reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 200 "), head
        assert "text/event-stream" in head
        yield Stream(connection)
