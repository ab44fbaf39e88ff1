"""Whole brokers and their controller in the event loop of a test: real logs, sockets and quorum."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.broker_server import BrokerServer
from broker.config import BrokerConfig
from quorum.core.vocabulary import ReplicaId
from quorum.persistent_state import QuorumConfig
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from quorum.transport.listener import Listener
from tests.broker.client_requests import produce_request
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import HOST, Node, a_controller
from tests.support.kafka_client import Form, kafka_client

HEARTBEAT_MS = 50


@dataclass
class Embedded:
    """The controller, and the brokers by id."""

    node: Node
    brokers: dict[int, BrokerServer]

    async def produce(self, broker_id: int, topic: str, records: bytes) -> None:
        """One batch into partition 0, once the broker that leads it knows that it does."""
        form = Form(ApiKey.PRODUCE, 9)
        request = produce_request(9, topic, records, acks=-1)
        async with kafka_client(Address(HOST, self.brokers[broker_id].port)) as client:
            while True:
                answer: Any = await client.send(form, request)
                (found,) = answer.responses[0].partition_responses
                if not found.error_code:
                    return


@asynccontextmanager
async def embedded(folder: Path, *broker_ids: int) -> AsyncIterator[Embedded]:
    """A controller and these brokers, all of them unfenced; a fetch brings one batch at most."""
    async with (
        asyncio.timeout(2 * PATIENCE_SECONDS),
        a_controller(folder) as node,
        AsyncExitStack() as parts,
        asyncio.TaskGroup() as group,
    ):
        stop, brokers = asyncio.Event(), {}
        for broker_id in broker_ids:
            log_dir = folder / f"broker-{broker_id}"
            log_dir.mkdir()
            config = BrokerConfig(
                quorum=QuorumConfig(
                    node_id=ReplicaId(broker_id),
                    folder=log_dir,
                    voters={ReplicaId(1): (node.address.host, node.address.port)},
                ),
                listeners=(Listener(Address("127.0.0.1", 0)),),
                heartbeat_interval_ms=HEARTBEAT_MS,
                replica_fetch_max_bytes=1,
            )
            broker = await BrokerServer.open(config, parts, rng=random.Random(broker_id))
            brokers[broker_id] = broker
            group.create_task(broker.run(stop))
        for broker in brokers.values():
            await broker.lifecycle.unfenced.wait()
        try:
            yield Embedded(node, brokers)
        finally:
            stop.set()
