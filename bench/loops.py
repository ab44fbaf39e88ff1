"""The event loop of a benchmark's own process: uvloop where it is installed."""

import asyncio


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """The loop factory for `asyncio.Runner`; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
