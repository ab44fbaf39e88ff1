"""Many clients of event streams in a process of their own, for `bench.event_streams`.

Prints a line once every client has its first event, and at the end of its input the events that all
of them have received, as JSON.
"""

import asyncio
import json
import sys
from typing import Final

from quorum.process import loop_factory

MARK: Final = b"\nevent: "


class Watcher(asyncio.Protocol):
    """One client, which counts events and keeps none."""

    def __init__(self, request: bytes, first: "asyncio.Future[None]") -> None:
        self.events = 0
        self._request = request
        self._first = first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.events += data.count(MARK)
        if self.events and not self._first.done():
            self._first.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._first.done():
            self._first.set_exception(ConnectionError("the node closed a stream"))


async def watch(host: str, port: int, path: str, count: int) -> None:
    """Watch with so many clients until the end of the input."""
    loop = asyncio.get_running_loop()
    head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\n\r\n"
    firsts = [loop.create_future() for _ in range(count)]
    watchers = [Watcher(head.encode(), first) for first in firsts]
    for watcher in watchers:
        await loop.create_connection(lambda watcher=watcher: watcher, host, port)  # type: ignore[misc]
    await asyncio.gather(*firsts)
    print("all watch", flush=True)  # noqa: T201 - its parent reads it
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps({"events": sum(each.events for each in watchers)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(watch(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
