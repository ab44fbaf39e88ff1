"""The event loop of a benchmark's own process: uvloop where it is installed."""

import asyncio


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """What `asyncio.Runner` makes its loop with; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
