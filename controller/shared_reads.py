"""Reads that give every caller the same answer, made once for those that ask at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedReads:
    """The reads of one node that have been asked for and have not begun.

    A read serves only callers that asked before it began, so each gets an answer that is as new as
    that of a read of its own. Whoever asks later begins another one. Nothing that is read may
    depend on the caller, whose right is checked before.
    """

    def __init__(self) -> None:
        self._due: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what the next `read` of this key returns, or raise its error."""
        due = self._due.get(key)
        if due is None:
            # It begins in the next turn of the event loop.
            due = asyncio.get_running_loop().create_task(self._begin(key, read))
            # Nobody may be left to hear of its error.
            due.add_done_callback(lambda read_: read_.cancelled() or read_.exception())
            self._due[key] = due
        # The others still want it if this caller gives up.
        return await asyncio.shield(due)

    async def _begin(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        del self._due[key]
        return await read()
