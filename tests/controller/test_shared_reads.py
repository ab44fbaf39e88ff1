"""Reads are shared by those who ask before one begins, and by nobody else."""

import asyncio
import gc

from controller.shared_reads import SharedReads


class Source:
    """A value that is read at once, and told when the test lets it."""

    def __init__(self) -> None:
        self.value = 0
        self.reads = 0
        self.told = asyncio.Event()

    async def read(self) -> int:
        self.reads += 1
        found = self.value
        await self.told.wait()
        return found


async def begun(source: Source, reads: int) -> None:
    async with asyncio.timeout(5):
        while source.reads < reads:  # noqa: ASYNC110 - it begins in the next turn
            await asyncio.sleep(0)


async def test_those_who_ask_at_the_same_time_share_a_read() -> None:
    shared, source = SharedReads(), Source()
    source.told.set()
    assert await asyncio.gather(*[shared.read("a", source.read) for _ in range(3)]) == [0] * 3
    assert source.reads == 1


async def test_a_read_that_has_begun_serves_nobody_who_asks_later() -> None:
    """The read misses what was answered after it began."""
    shared, source = SharedReads(), Source()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(shared.read("a", source.read))
        await begun(source, 1)
        source.value = 1
        later = tasks.create_task(shared.read("a", source.read))
        await begun(source, 2)
        source.told.set()
    assert (first.result(), later.result()) == (0, 1)


async def test_different_reads_are_not_shared() -> None:
    shared, one, other = SharedReads(), Source(), Source()
    other.value = 1
    for each in (one, other):
        each.told.set()
    reads = shared.read("one", one.read), shared.read("other", other.read)
    assert list(await asyncio.gather(*reads)) == [0, 1]


async def test_a_caller_that_gives_up_leaves_the_read_to_the_others() -> None:
    shared, source = SharedReads(), Source()
    async with asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(shared.read("a", source.read)) for _ in range(2))
        await begun(source, 1)
        first.cancel()
        await asyncio.wait({first})
        source.told.set()
    assert first.cancelled()
    assert (second.result(), source.reads) == (0, 1)


async def test_an_error_reaches_everyone_and_ends_with_its_read() -> None:
    shared, source = SharedReads(), Source()

    async def failing() -> int:
        raise OSError("no disk")

    found = await asyncio.gather(
        *[shared.read("a", failing) for _ in range(2)], return_exceptions=True
    )
    assert [str(each) for each in found] == ["no disk", "no disk"]
    source.told.set()
    assert await shared.read("a", source.read) == 0


async def test_an_error_that_nobody_waits_for_is_not_logged() -> None:
    shared, told = SharedReads(), asyncio.Event()
    loop, logged = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: logged.append(context["message"]))

    async def failing() -> int:
        await told.wait()
        raise OSError("no disk")

    caller = loop.create_task(shared.read("a", failing))
    for _ in range(3):
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    told.set()
    for _ in range(3):
        await asyncio.sleep(0)
    del caller  # Its traceback holds the read, which tells of a lost error when it is gone.
    gc.collect()
    assert logged == []
