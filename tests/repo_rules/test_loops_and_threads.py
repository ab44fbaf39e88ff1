"""Tests refuse calls of an event loop from other threads, which asyncio would accept."""

import asyncio

import pytest


async def test_a_loop_is_not_called_from_another_thread() -> None:
    loop = asyncio.get_running_loop()
    for call in (lambda: loop.call_soon(str), lambda: loop.call_later(60, str)):
        with pytest.raises(RuntimeError, match="Non-thread-safe operation"):
            await asyncio.to_thread(call)
