"""The process of a broker: logging, signals and exit codes.

Partition data is written before it is acknowledged and synced on a clean shutdown
(`broker.storage.disk_thread`); the metadata log is always synced (`quorum.driver`).
"""

import asyncio
import random
from contextlib import AsyncExitStack

from broker.broker_server import BrokerServer
from broker.config import BrokerConfig
from broker.lifecycle import RegistrationRejected
from quorum.process import run_process, stop_event


def main(config: BrokerConfig) -> int:
    """Run a broker until SIGTERM or SIGINT; return the exit code of the process."""
    return run_process(lambda: run(config), RegistrationRejected)


async def run(config: BrokerConfig, *, stop: asyncio.Event | None = None) -> None:
    """Run a broker until a signal or `stop`; raises the errors that `main` reports."""
    async with AsyncExitStack() as parts:
        broker = await BrokerServer.open(config, parts, rng=random.SystemRandom())
        await broker.run(stop or stop_event())
