"""Brokers and a controller in one event loop: real logs, real sockets, and time as it passes.

The controller decides with the state machine and keeps its log in memory: what it decides is
replayed into the image of every broker at once, unless that broker is held back. Elections, disks
of the quorum and processes are tested elsewhere.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from broker.alter_partition_manager import AlterPartitionManager
from broker.apis.broker_apis import OFFERED, BrokerApis
from broker.apis.fetch import FetchApi
from broker.apis.forwarding import ForwardingManager
from broker.apis.producer_ids import ProducerIdManager
from broker.assignments_manager import AssignmentsManager
from broker.authorization import broker_rights
from broker.config import BrokerConfig
from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition as HeldPartition
from broker.replica_manager import ReplicaManager
from broker.replication.replica_fetcher import ReplicaFetcherManager
from broker.storage.disk_thread import DiskThread
from quorum.clocks import monotonic_ms, wall_ms
from quorum.core.vocabulary import ReplicaId
from quorum.log.meta_properties import new_directory_id
from quorum.persistent_state import QuorumConfig
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.controller_channel import NodeToControllerChannelManager
from quorum.transport.listener import Listener
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper
from statemachine.image.image import Image
from statemachine.replay import replay
from statemachine.security.authorization import AuthorizerConfig
from tests.controller.controller_in_memory import (
    CLUSTER,
    CONTROLLER_APIS,
    LEVEL,
    RNG,
    TheController,
)
from tests.support.kio_values import make_known

WAIT_SECONDS = 20.0


class Node:
    """One broker without its quorum: everything behind the front door, and the door."""

    def __init__(
        self,
        broker_id: int,
        log_dir: Path,
        directory_id: UUID,
        controller: TheController,
        authorizer: AuthorizerConfig | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.log_dir = log_dir
        self.directory_id = directory_id
        self.controller = controller
        self.image = Image()
        self.image.watch()
        self.rights = broker_rights(authorizer, self.image, lambda: True)
        self.is_held_back = False
        self.sweeper = Sweeper(monotonic_ms)
        self.disk = DiskThread()
        self.manager = ReplicaManager(
            broker_id=broker_id,
            log_dir=log_dir,
            segment_bytes_max=1 << 20,
            replica_lag_time_max_ms=30_000,
            image=self.image,
            disk=self.disk,
            clock=monotonic_ms,
            sweeper=self.sweeper,
        )
        self._controllers = NodeToControllerChannelManager(
            lambda: ("127.0.0.1", controller.port),
            client_id=f"broker-{broker_id}",
            sweeper=self.sweeper,
            rng=RNG,
        )
        self.directories = AssignmentsManager(self.manager, self._controllers, directory_id)
        self.fetch_api = FetchApi(self.manager, self.sweeper, self.rights)
        self.port = 0
        self.client: Channel
        self.apis: BrokerApis
        self.server: Server
        self.fetchers: ReplicaFetcherManager
        self._closing = AsyncExitStack()

    async def start(self, group: asyncio.TaskGroup, *, copies: bool) -> None:
        """Listen, register as a new incarnation, and take part.

        One that does not know its broker epoch copies nothing.
        """
        self.log_dir.mkdir(exist_ok=True)
        controllers = self._controllers
        proposer = AlterPartitionManager(self.manager, controllers)
        self.fetchers = ReplicaFetcherManager(
            self.manager,
            self.disk,
            group,
            client_id="fetcher",
            sweeper=self.sweeper,
            rng=RNG,
            partition_bytes_max=1 << 20,
            listener="PLAINTEXT",
        )
        self.manager.listeners += [self.fetch_api, self.fetchers, proposer, self.directories]
        producer_ids = ProducerIdManager(self.manager, controllers, self.rights)
        forwarder = ForwardingManager(controllers, group, clock=monotonic_ms)
        self.apis = self._door(forwarder, producer_ids)
        self.server = server = Server(
            self.apis,
            offered=OFFERED,
            name=f"broker-{self.broker_id}",
            clock_ms=monotonic_ms,
        )
        self.port = await server.listen("127.0.0.1", self.port)
        tasks = [
            group.create_task(each)
            for each in (
                self.disk.run(),
                self.manager.run(),
                proposer.run(),
                self.directories.run(),
                producer_ids.run(),
            )
        ]
        self.client = self.connect()
        self._closing.callback(self.disk.close)
        self._closing.callback(self.sweeper.close)
        self._closing.push_async_callback(controllers.close)
        self._closing.push_async_callback(_end, tasks)
        self._closing.push_async_callback(self.fetchers.close)
        self._closing.push_async_callback(forwarder.close)
        self._closing.push_async_callback(server.close, within_ms=50)
        self._closing.callback(self.fetch_api.dismiss)
        self._closing.push_async_callback(self.client.close)
        incarnation = UUID(int=RNG.getrandbits(128), version=4)
        self.controller.nodes.append(self)
        self.learn()
        epoch = self.controller.register(self.broker_id, self.port, incarnation, self.directory_id)
        self.manager.broker_epoch = epoch if copies else None
        self.directories.registered()
        await self.manager.settled.wait()
        self.manager.start()

    async def stop(self, *, clean: bool = True) -> None:
        """End it in good order, or let it fall with what has been written so far."""
        self.controller.nodes.remove(self)
        if not clean:
            for partition in list(self.manager.partitions.values()):
                partition.close()
            self.manager.partitions.clear()
        await self.manager.close()
        await self._closing.aclose()

    def connect(self) -> Channel:
        """A client of this broker."""
        return Channel(
            lambda: ("127.0.0.1", self.port), client_id="test", sweeper=self.sweeper, rng=RNG
        )

    def learn(self) -> None:
        """Replay what the controller has decided, unless this broker is held back."""
        if self.is_held_back:
            return
        while self.image.end_offset < len(self.controller.log):
            at = self.image.end_offset
            replay(self.image, self.controller.log[at], at)
        touched = self.image.drain()
        self.manager.apply(touched)
        self.directories.apply(touched)

    def partition(self, topic: str, number: int = 0) -> HeldPartition:
        return self.manager.partitions[PartitionKey(self.image.topic_ids[topic], number)]

    async def call(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """The decoded answer to one request, which is kio's value of it."""
        body = codec.encode_request_body(api_key, version, request)
        reply = await self.client.call(api_key, body, timeout_ms=20_000, version=version)
        return reply.decode()

    async def ask(self, api_key: ApiKey, version: int, **values: Any) -> Any:
        """The decoded answer to the request with these fields."""
        return await self.call(
            api_key, version, make_known(codec.request_schema(api_key, version), **values)
        )

    def _door(self, forwarder: ForwardingManager, producer_ids: ProducerIdManager) -> BrokerApis:
        config = BrokerConfig(
            quorum=QuorumConfig(
                node_id=ReplicaId(self.broker_id),
                folder=self.log_dir,
                voters={ReplicaId(1_000): ("127.0.0.1", 1)},
            ),
            listeners=(Listener(Address("127.0.0.1", 9092)),),
        )
        return BrokerApis(
            config,
            self.manager,
            cluster_id=CLUSTER,
            fetch=self.fetch_api,
            producer_ids=producer_ids,
            forwarder=forwarder,
            discover=lambda request: request.reject("this broker is without its quorum"),
            wall_clock=wall_ms,
            rights=self.rights,
            kraft_version=lambda: 1,
        )


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@asynccontextmanager
async def cluster(
    tmp_path: Path,
    *broker_ids: int,
    level: int = LEVEL,
    authorizer: AuthorizerConfig | None = None,
) -> AsyncIterator["Brokers"]:
    """A controller and these brokers, all alive."""
    controller = TheController(level)
    server = Server(
        controller.handle,
        offered=CONTROLLER_APIS,
        name="controller",
        clock_ms=monotonic_ms,
    )
    controller.port = await server.listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        brokers = Brokers(controller, group, tmp_path, authorizer)
        try:
            for each in broker_ids:
                await brokers.start(each)
            yield brokers
        finally:
            # Nobody must connect to a listener that is about to go.
            for node in brokers.nodes.values():
                await node.fetchers.close()
            for node in list(brokers.nodes.values()):
                await node.stop()
            await server.close(within_ms=50)


class Brokers:
    """The brokers of a test, by id."""

    def __init__(
        self,
        controller: TheController,
        group: asyncio.TaskGroup,
        tmp_path: Path,
        authorizer: AuthorizerConfig | None,
    ) -> None:
        self._authorizer = authorizer
        self.controller = controller
        self.nodes: dict[int, Node] = {}
        self._group = group
        self._tmp_path = tmp_path
        self._directory_ids: dict[Path, UUID] = {}

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    async def start(self, broker_id: int, *, disk: str = "", copies: bool = True) -> Node:
        """Start a broker on its folder, or on another disk."""
        log_dir = self._tmp_path / f"broker-{broker_id}{disk}"
        # A folder keeps its directory id, another disk has another.
        if log_dir not in self._directory_ids:
            self._directory_ids[log_dir] = new_directory_id(RNG)
        directory_id = self._directory_ids[log_dir]
        node = self.nodes[broker_id] = Node(
            broker_id, log_dir, directory_id, self.controller, self._authorizer
        )
        await node.start(self._group, copies=copies)
        return node

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let something happen meanwhile; the test awaits it."""
        return self._group.create_task(work)

    async def stop(self, broker_id: int, *, clean: bool = True) -> None:
        await self.nodes.pop(broker_id).stop(clean=clean)

    async def create(self, topic: str, *replicas: tuple[int, ...], **configs: str) -> None:
        """A topic, open wherever it is held."""
        self.controller.create(topic, *replicas, **configs)
        for node in self.nodes.values():
            await node.manager.settled.wait()


async def until(condition: Callable[[], bool]) -> None:
    """Return when `condition` holds; fails when it does not within some seconds."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing says when the log of a broker has grown
            await asyncio.sleep(0)
