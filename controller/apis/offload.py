"""Long requests are read, and long answers made and written, beside the loop: in a thread.

A request about a hundred thousand partitions takes a few tenths of a second to read, and its answer
as long to write. It is the work of pure functions over values that nobody changes, so a thread may
do it while the loop serves others. What is short is done at once, for the way there costs more.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from controller.service import AsOf

LONG_BODY_BYTES: Final = 32 * 1024
"""Of a request: some thousand partitions, a few milliseconds to read."""
LONG_PARTS: Final = 500
"""Of a request or an answer: partitions, a few milliseconds to make and write."""

T = TypeVar("T")


class Late:
    """An answer that is made where it is written; `make` looks at nothing that changes."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def late(make: Callable[[], Any], parts: int) -> Any:
    """The answer of `make`, now or, if it has many parts, where it is written."""
    return make() if parts < LONG_PARTS else Late(make)


def made(payload: Any) -> Any:
    """What is to be written."""
    if isinstance(payload, AsOf):
        return AsOf(made(payload.value), payload.offset)
    return payload.make() if isinstance(payload, Late) else payload


async def written(write: Callable[[Any], bytes], payload: Any) -> bytes:
    """The bytes of an answer."""
    value = payload.value if isinstance(payload, AsOf) else payload
    if isinstance(value, Late):
        return await asyncio.to_thread(lambda: write(made(payload)))
    return write(payload)


async def done(work: Callable[[], T], parts: int) -> T:
    """What `work` on so many parts comes to; it looks at nothing that changes."""
    return work() if parts < LONG_PARTS else await asyncio.to_thread(work)
