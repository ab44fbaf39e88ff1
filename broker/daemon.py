"""The process of a broker: logging, signals and exit codes.

Partition data is written before it is acknowledged and synced on a clean shutdown
(`broker.storage.disk_thread`); the metadata log is always synced (`quorum.driver`).
"""

import asyncio
import logging
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack

from broker.broker_server import BrokerServer, StartError
from broker.config import BrokerConfig
from broker.lifecycle import RegistrationRejected
from quorum.log.errors import StorageError
from quorum.ports import LogFailure

logger = logging.getLogger(__name__)


def main(config: BrokerConfig) -> int:
    """Run a broker until SIGTERM or SIGINT; return the exit code of the process."""
    if not __debug__:
        # The assertions guard safety, and `python -O` removes them.
        sys.stderr.write("metaquorum does not run under python -O: its assertions must hold\n")
        return 1
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    failed = False
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(run(config))
    except* (StartError, StorageError, LogFailure, RegistrationRejected) as group:
        failed = True
        for error in _flat(group):
            sys.stderr.write(f"Error: {error}\n")
    return int(failed)


async def run(config: BrokerConfig, *, stop: asyncio.Event | None = None) -> None:
    """Run a broker until a signal or `stop`; raises the errors that `main` reports."""
    if stop is None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as parts:
        broker = await BrokerServer.open(config, parts, rng=random.SystemRandom())
        await broker.run(stop)


def _flat(group: BaseExceptionGroup[Exception]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop if it is installed (the extra `fast`), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
