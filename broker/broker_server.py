"""The composition root of a broker: open its parts, start them in order, stop them in reverse.

Start: lock the folder, open the metadata log, bind the listener, run everything; the listener
serves requests once the controller has unfenced the broker. Stop: hand leadership over, close the
listener, sync the logs, and only then write the clean-shutdown file.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from uuid import UUID

from broker.alter_partition_manager import AlterPartitionManager
from broker.apis.broker_apis import OFFERED, BrokerApis, StartupGate
from broker.apis.fetch import FetchApi
from broker.apis.forwarding import ForwardingManager
from broker.apis.producer_ids import ProducerIdManager
from broker.assignments_manager import AssignmentsManager
from broker.authorization import BrokerRights, broker_rights
from broker.config import BrokerConfig
from broker.cordoned_log_dirs import CordonedLogDirs
from broker.lifecycle import BrokerLifecycleManager, RegistrationRejected
from broker.limits import LARGE_REQUESTS_BYTES_MAX, LISTENER_CLOSE_MS, REQUEST_BYTES_MAX
from broker.metadata import MetadataFollower
from broker.replica_manager import ReplicaManager
from broker.replication.replica_fetcher import ReplicaFetcherManager
from broker.storage.disk_thread import DiskThread
from broker.storage.log_dir import take_clean_shutdown, write_clean_shutdown
from quorum.bootstrap import open_quorum
from quorum.clocks import monotonic_ms, wall_ms
from quorum.core.vocabulary import Offset
from quorum.log_events import LogEvent
from quorum.process import binding, run_process, stop_event
from quorum.records.control import KRAFT_VERSION
from quorum.transport.controller_channel import NodeToControllerChannelManager
from quorum.transport.exposure import exposures
from quorum.transport.limits import DESCRIPTORS_RESERVED, ServerLimits
from quorum.transport.listener import Listener, listen_at, named
from quorum.transport.security.credentials import ImageCredentials
from quorum.transport.security.token_hmacs import DelegationTokens
from quorum.transport.server import Server
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image

logger = logging.getLogger("broker")


class BrokerServer:
    """A broker that is open and has not run yet; `run` runs it once."""

    def __init__(self, config: BrokerConfig, stack: AsyncExitStack, rng: random.Random) -> None:
        self.config = config
        self.image = Image()
        self.listeners: Sequence[Listener] = ()
        """The listeners, with their ports, once they are open."""
        self._rng = rng
        self._metadata = MetadataFollower(self.image)
        self._metadata.on_change = self._on_change
        config.credentials.source = ImageCredentials(
            lambda: self.image, DelegationTokens(config.tokens).hmac_or_none
        )
        self.opened = open_quorum(
            config.quorum,
            self._metadata,
            stack,
            clock=monotonic_ms,
            wall_clock=wall_ms,
            rng=rng,
        )
        self._metadata.read_from(self.opened.quorum.replica)
        previous_epoch = take_clean_shutdown(config.quorum.folder)
        self._disk = DiskThread()
        stack.callback(self._disk.close)
        self._gate = StartupGate()
        limits = ServerLimits(
            connections_max=config.connections_max,
            connections_per_address_max=config.connections_per_address_max,
            frame_bytes_max=REQUEST_BYTES_MAX,
            large_requests_bytes_max=LARGE_REQUESTS_BYTES_MAX,
            descriptors_reserved=DESCRIPTORS_RESERVED + config.other_connections_max,
        )
        self.server = Server(
            self._gate, offered=OFFERED, name="kafka", clock_ms=monotonic_ms, limits=limits
        )
        stack.push_async_callback(self.server.close, within_ms=LISTENER_CLOSE_MS)
        # Heartbeats never wait behind other requests; a forwarded client request, which may take
        # long, never delays those of the broker.
        heartbeats, self._controllers, self._forwarding = (
            self._controller_channel(stack) for _ in range(3)
        )
        self.manager = ReplicaManager(
            broker_id=config.quorum.node_id,
            log_dir=config.quorum.folder,
            segment_bytes_max=config.log_segment_bytes,
            replica_lag_time_max_ms=config.replica_lag_time_max_ms,
            message_bytes_max=config.message_bytes_max,
            image=self.image,
            disk=self._disk,
            clock=monotonic_ms,
            sweeper=self.opened.sweeper,
        )
        self.assignments = AssignmentsManager(
            self.manager,
            self._controllers,
            self.opened.directory_id,
            on_settled=self._on_settled,
        )
        self.cordoned = CordonedLogDirs(
            config.quorum.node_id, self.image, config.quorum.folder, config.cordoned_log_dirs
        )
        self.lifecycle = BrokerLifecycleManager(
            config,
            heartbeats,
            incarnation_id=UUID(int=rng.getrandbits(128), version=4),
            cluster=self.opened.cluster,
            directory_id=self.opened.directory_id,
            listeners=lambda: self.listeners,
            metadata_offset=lambda: self.image.end_offset - 1,
            on_epoch=self._on_epoch,
            make_ready=self._open_partitions,
            is_settled=lambda: self.assignments.is_settled,
            previous_epoch=previous_epoch,
            copies=self.manager.copy_reports,
            cordoned=lambda: self.cordoned.reported(self.opened.directory_id),
        )
        # Clients are served, and so the gate is opened, once the metadata is known.
        self.rights = broker_rights(config.authorizer, self.image, self.lifecycle.unfenced.is_set)

    @classmethod
    async def open(
        cls, config: BrokerConfig, stack: AsyncExitStack, *, rng: random.Random
    ) -> "BrokerServer":
        """Lock the folder and bind the port; `stack` closes everything that is opened.

        Raises `StorageError` for an unusable folder, `StartError` for an unavailable port and
        `TlsUnusable` for keys or certificates that cannot be used.
        """
        broker = cls(config, stack, rng)
        config.quorum.security.check()
        config.inter_broker.check()
        for each in config.listeners:
            with binding("listeners", each.address):
                broker.listeners = (*broker.listeners, await listen_at(broker.server, each))
        return broker

    @property
    def is_metadata_ready(self) -> bool:
        """True once the image has everything that was committed when this broker started."""
        return self._metadata.is_ready

    @property
    def port(self) -> int:
        """The port of the listener for other brokers."""
        return named(self.listeners, self.config.inter_broker_listener).address.port

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then shut down cleanly within two seconds.

        Raises `LogFailure` when a disk fails and `RegistrationRejected` when the controller refuses
        the broker for good.
        """
        opened, manager, disk = self.opened, self.manager, self._disk
        proposer = AlterPartitionManager(manager, self._controllers)
        rights = self.rights
        fetch = FetchApi(manager, opened.sweeper, rights)
        producer_ids = ProducerIdManager(manager, self._controllers, rights)
        async with asyncio.TaskGroup() as group:
            fetchers = ReplicaFetcherManager(
                manager,
                disk,
                group,
                client_id=f"broker-{self.config.quorum.node_id}-fetcher",
                sweeper=opened.sweeper,
                rng=random.Random(self._rng.getrandbits(64)),
                partition_bytes_max=self.config.replica_fetch_max_bytes,
                listener=self.config.inter_broker_listener,
                security=self.config.inter_broker,
            )
            forwarder = ForwardingManager(self._forwarding, group, clock=monotonic_ms)
            manager.listeners += [fetch, fetchers, proposer, self.assignments]
            manager.start()
            group.create_task(opened.quorum.run(), name="quorum")
            lifecycle = group.create_task(self.lifecycle.run(), name="lifecycle")
            work = [
                group.create_task(manager.run(), name="partitions"),
                group.create_task(proposer.run(), name="isr"),
                group.create_task(self.assignments.run(), name="directories"),
                group.create_task(producer_ids.run(), name="producer ids"),
                group.create_task(
                    self._open_gate(fetch, producer_ids, forwarder, rights), name="gate"
                ),
                group.create_task(disk.run(), name="disk"),
                group.create_task(opened.gossiper.run(), name="gossip"),
            ]
            at = ", ".join(str(each.address) for each in self.listeners)
            logger.info(
                "Broker %d listens at %s",
                self.config.quorum.node_id,
                at,
                extra=LogEvent.NODE_STARTED.extra,
            )
            for sentence in exposures(self.listeners):
                logger.warning("%s", sentence, extra=LogEvent.LISTENER_EXPOSED.extra)
            await stop.wait()
            logger.info(
                "Stopping broker %d", self.config.quorum.node_id, extra=LogEvent.NODE_STOPPING.extra
            )
            await _cancel([lifecycle])
            await self.lifecycle.controlled_shutdown()
            fetch.dismiss()
            await self.server.close(within_ms=LISTENER_CLOSE_MS)
            # From here on no change may open a partition or start a fetcher.
            self._metadata.on_change = None
            await forwarder.close()
            await fetchers.close()
            await _cancel(work)
            await manager.close()
            epoch = self.lifecycle.state.broker_epoch
            if epoch is not None:
                await disk.call(write_clean_shutdown, self.config.quorum.folder, epoch)
            await opened.quorum.stop()

    def _on_change(self, delta: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        self.manager.apply(delta)
        self.assignments.apply(delta)
        brokers = self.image.brokers
        changed = (brokers.get(each) for each in delta.brokers)
        if any(each is not None and each.stopping_at is not None for each in changed):
            # A stopping broker may leave once every live broker has seen its partitions led
            # elsewhere.
            self.lifecycle.heartbeat_soon()

    def _on_settled(self) -> None:
        """Send a heartbeat at once: the controller now knows every replica's directory."""
        if self.lifecycle.state.is_fenced:
            self.lifecycle.heartbeat_soon()

    def _on_epoch(self, epoch: int) -> None:
        self.manager.broker_epoch = epoch
        self.assignments.registered()

    async def _open_gate(
        self,
        fetch: FetchApi,
        producer_ids: ProducerIdManager,
        forwarder: ForwardingManager,
        rights: BrokerRights,
    ) -> None:
        """Serve clients once the broker is unfenced for the first time."""
        await self.lifecycle.unfenced.wait()
        self._gate.open(
            BrokerApis(
                self.config,
                self.manager,
                cluster_id=self.opened.cluster.id,
                fetch=fetch,
                producer_ids=producer_ids,
                forwarder=forwarder,
                discover=self.opened.gossiper.asked,
                wall_clock=wall_ms,
                rights=rights,
                kraft_version=self._kraft_version,
            )
        )
        logger.info(
            "Broker %d serves clients",
            self.config.quorum.node_id,
            extra=LogEvent.BROKER_SERVES.extra,
        )

    def _kraft_version(self) -> int:
        """The level of kraft.version in force: from level 1 on the log records the voters."""
        voters = self.opened.quorum.node.voters_at(Offset(self.image.end_offset))
        return 0 if voters is None else KRAFT_VERSION

    async def _open_partitions(self) -> None:
        """Open the local replicas: the metadata is known up to the broker's own registration."""
        self.config.credentials.tell_known()
        await self.manager.settled.wait()
        await self.manager.remove_strays()
        logger.info(
            "Broker %d has %d partitions",
            self.config.quorum.node_id,
            len(self.manager.partitions),
            extra=LogEvent.PARTITIONS_OPENED.extra,
        )

    def _controller_channel(self, stack: AsyncExitStack) -> NodeToControllerChannelManager:
        channel = self.opened.controller_channel(
            f"broker-{self.config.quorum.node_id}", random.Random(self._rng.getrandbits(64))
        )
        stack.push_async_callback(channel.close)
        return channel


Beside = Callable[[BrokerServer, AsyncExitStack], Awaitable[None]]
"""Starts something that runs beside a broker, and is closed by the stack after it."""


def main(config: BrokerConfig, beside: Beside | None = None) -> int:
    """Run a broker until SIGTERM or SIGINT; return the exit code of the process."""
    return run_process(lambda: _run(config, beside), RegistrationRejected, log=config.log)


async def _run(config: BrokerConfig, beside: Beside | None) -> None:
    async with AsyncExitStack() as stack:
        broker = await BrokerServer.open(config, stack, rng=random.SystemRandom())
        if beside is not None:
            await beside(broker, stack)
        await broker.run(stop_event())


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
