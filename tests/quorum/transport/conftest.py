import asyncio
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any

import pytest

LOOPS = ["asyncio", "uvloop"] if find_spec("uvloop") else ["asyncio"]

Run = Callable[[Coroutine[Any, Any, None]], None]


def _new_loop(name: str) -> asyncio.AbstractEventLoop:
    if name == "asyncio":
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a test's coroutine on each kind of event loop; nothing may reach the loop's handler."""

    def run(test: Coroutine[Any, Any, None]) -> None:
        raised: list[dict[str, Any]] = []

        async def bounded() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: raised.append(context))
            async with asyncio.timeout(20):
                await test

        with asyncio.Runner(loop_factory=lambda: _new_loop(request.param)) as runner:
            runner.run(bounded())
        assert not raised

    return run
