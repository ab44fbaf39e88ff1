"""The composition root of a broker: open its parts, start them in order, stop them in reverse.

Start: lock the folder, open the metadata log, bind the listener, run everything; the listener
serves requests once the controller has unfenced the broker. Stop: hand leadership over, close the
listener, sync the logs, and only then write the clean-shutdown file.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from uuid import UUID

from broker.alter_partition_manager import AlterPartitionManager
from broker.apis.api_versions import OFFERED, VersionsApi
from broker.apis.broker_apis import BrokerApis, StartupGate
from broker.apis.cluster_metadata import ClusterApi
from broker.apis.configs import ConfigsApi
from broker.apis.fetch import FetchApi
from broker.apis.forwarding import ForwardingManager
from broker.apis.log_dirs import LogDirsApi
from broker.apis.offsets import OffsetsApi
from broker.apis.partition_lookup import PartitionLookup
from broker.apis.produce import ProduceApi
from broker.apis.producer_ids import ProducerIdManager
from broker.apis.purgatory import FetchPurgatory
from broker.assignments_manager import AssignmentsManager
from broker.config import BrokerConfig
from broker.controller_channel import NodeToControllerChannelManager
from broker.lifecycle import BrokerLifecycleManager, Identity
from broker.limits import LISTENER_CLOSE_MS, REQUEST_BYTES_MAX
from broker.metadata import MetadataFollower
from broker.replica_manager import ReplicaManager
from broker.replication.replica_fetcher import ReplicaFetcherManager
from broker.storage.disk_thread import DiskThread
from broker.storage.log_dir import take_clean_shutdown, write_clean_shutdown
from quorum.bootstrap import Opened, open_quorum
from quorum.clocks import monotonic_ms, wall_ms
from quorum.core.vocabulary import ReplicaId
from quorum.log.meta_properties import load_or_create
from quorum.persistent_state import QuorumConfig
from quorum.transport.limits import ServerLimits
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The broker cannot start; the message names the cause and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts that are open before anything runs."""

    opened: Opened
    server: Server
    gate: StartupGate
    port: int
    metadata: MetadataFollower
    manager: ReplicaManager
    disk: DiskThread
    heartbeat_channel: NodeToControllerChannelManager
    """For heartbeats alone, so that they never wait behind other requests."""
    controller_channel: NodeToControllerChannelManager
    forwarding_channel: NodeToControllerChannelManager
    """For forwarded client requests, which may take long and must not delay the broker's own."""
    previous_epoch: int


class BrokerServer:
    """A broker that is open and has not run yet; `run` runs it once."""

    def __init__(self, config: BrokerConfig, parts: _Parts, rng: random.Random) -> None:
        self.config = config
        self._parts = parts
        self._rng = rng
        self._sweeper = parts.opened.sweeper
        self.manager = parts.manager
        self.image = parts.metadata.image
        self.identity = Identity(parts.opened.cluster.id, parts.opened.directory_id)
        self.cluster = ClusterApi(config.node_id, self.image)
        self.directories = AssignmentsManager(
            parts.manager,
            parts.controller_channel,
            self.identity.directory_id,
            on_settled=self._on_settled,
        )
        self.lifecycle = self._lifecycle()
        parts.metadata.on_change = self._on_change

    @classmethod
    async def open(
        cls, config: BrokerConfig, stack: AsyncExitStack, *, rng: random.Random
    ) -> "BrokerServer":
        """Lock the folder and bind the port; `stack` closes everything that is opened.

        Raises `StorageError` for an unusable folder and `StartError` for an unavailable port.
        """
        image = Image()
        metadata = MetadataFollower(image)
        opened = open_quorum(
            _quorum_config(config), metadata, clock=monotonic_ms, wall_clock=wall_ms, rng=rng
        )
        stack.push_async_callback(opened.close)
        metadata.read_from(opened.quorum)
        previous_epoch = take_clean_shutdown(config.log_dir)
        disk = DiskThread()
        stack.callback(disk.close)
        manager = _manager(config, image, disk, opened.sweeper)
        gate = StartupGate()
        server = _server(config, gate)
        stack.push_async_callback(server.close, within_ms=LISTENER_CLOSE_MS)
        port = await _listen(config, server)
        heartbeat_channel, controller_channel, forwarding_channel = (
            _controllers(config, opened, rng) for _ in range(3)
        )
        for each in (heartbeat_channel, controller_channel, forwarding_channel):
            stack.push_async_callback(each.close)
        parts = _Parts(
            opened=opened,
            server=server,
            gate=gate,
            port=port,
            metadata=metadata,
            manager=manager,
            disk=disk,
            heartbeat_channel=heartbeat_channel,
            controller_channel=controller_channel,
            forwarding_channel=forwarding_channel,
            previous_epoch=previous_epoch,
        )
        return cls(config, parts, rng)

    @property
    def port(self) -> int:
        """The port of the listener."""
        return self._parts.port

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then shut down cleanly.

        Raises `LogFailure` when a disk fails and `RegistrationRejected` when the controller refuses
        the broker for good.
        """
        async with asyncio.TaskGroup() as group:
            running = self._start(group)
            await stop.wait()
            logger.info("Stopping broker %d", self.config.node_id)
            await self._stop(running)

    def _start(self, group: asyncio.TaskGroup) -> "_Running":
        parts, manager = self._parts, self.manager
        proposer = AlterPartitionManager(manager, parts.controller_channel)
        manager.proposer = proposer
        purgatory = FetchPurgatory(self._sweeper)
        fetchers = self._fetchers(group)
        manager.listeners += [purgatory, fetchers, self.directories]
        producer_ids = ProducerIdManager(manager, parts.controller_channel)
        forwarder = ForwardingManager(parts.forwarding_channel, group, clock=monotonic_ms)
        apis = self._apis(purgatory, producer_ids, forwarder)
        manager.start()
        group.create_task(parts.opened.quorum.run(), name="quorum")
        lifecycle = group.create_task(self.lifecycle.run(), name="lifecycle")
        work = [
            group.create_task(parts.metadata.run(), name="metadata"),
            group.create_task(manager.run(), name="partitions"),
            group.create_task(proposer.run(), name="isr"),
            group.create_task(self.directories.run(), name="directories"),
            group.create_task(producer_ids.run(), name="producer ids"),
            group.create_task(self._open_gate(apis), name="gate"),
            group.create_task(_failure_of(parts.disk), name="disk"),
            group.create_task(parts.opened.gossiper.run(), name="gossip"),
        ]
        logger.info("Broker %d listens at %s:%d", self.config.node_id, self.config.host, self.port)
        return _Running(lifecycle, work, purgatory, fetchers, forwarder)

    async def _stop(self, running: "_Running") -> None:
        """Shut down cleanly within two seconds; give up on whatever takes longer."""
        parts = self._parts
        await _cancel([running.lifecycle])
        await self.lifecycle.controlled_shutdown()
        running.purgatory.dismiss()
        await parts.server.close(within_ms=LISTENER_CLOSE_MS)
        await running.forwarder.close()
        await running.fetchers.close()
        await _cancel(running.work)
        await self.manager.close()
        if self.lifecycle.broker_epoch is not None:
            await parts.disk.call(
                write_clean_shutdown, self.config.log_dir, self.lifecycle.broker_epoch
            )
        await parts.opened.quorum.stop()

    def _on_change(self, touched: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        self.manager.apply(touched)
        self.directories.learn(touched)
        brokers = self.image.brokers
        changed = (brokers.get(each) for each in touched.brokers)
        if any(each is not None and each.stopping_at is not None for each in changed):
            # A stopping broker may leave once every live broker has seen its partitions led
            # elsewhere.
            self.lifecycle.heartbeat_soon()

    def _on_settled(self) -> None:
        """Send a heartbeat at once: the controller now knows every replica's directory."""
        if self.lifecycle.is_fenced:
            self.lifecycle.heartbeat_soon()

    async def _open_gate(self, apis: BrokerApis) -> None:
        await self.lifecycle.unfenced.wait()
        self.cluster.cluster_id = self.identity.cluster_id
        self._parts.gate.open(apis)
        logger.info("Broker %d serves clients", self.config.node_id)

    async def _open_partitions(self) -> None:
        """Open the local replicas: the metadata is known up to the broker's own registration."""
        config = self.config
        await self._parts.disk.call(self._remember_cluster)
        await self.manager.settled()
        await self.manager.remove_strays()
        logger.info("Broker %d has %d partitions", config.node_id, len(self.manager.partitions))

    def _remember_cluster(self) -> None:
        config, rng = self.config, self._rng
        load_or_create(config.log_dir, self.identity.cluster_id, ReplicaId(config.node_id), rng=rng)

    def _lifecycle(self) -> BrokerLifecycleManager:
        config, parts = self.config, self._parts

        def on_epoch(epoch: int) -> None:
            self.manager.broker_epoch = epoch
            self.directories.registered()

        return BrokerLifecycleManager(
            config,
            parts.heartbeat_channel,
            incarnation_id=UUID(int=self._rng.getrandbits(128), version=4),
            identity=self.identity,
            listener=(
                config.advertised_host or config.host,
                config.advertised_port or parts.port,
            ),
            metadata_offset=lambda: self.image.end_offset - 1,
            on_epoch=on_epoch,
            make_ready=self._open_partitions,
            is_settled=lambda: self.directories.is_settled,
            previous_epoch=parts.previous_epoch,
            copies=self.manager.copy_reports,
        )

    def _fetchers(self, group: asyncio.TaskGroup) -> ReplicaFetcherManager:
        return ReplicaFetcherManager(
            self.manager,
            self._parts.disk,
            group,
            client_id=f"broker-{self.config.node_id}-fetcher",
            sweeper=self._sweeper,
            rng=random.Random(self._rng.getrandbits(64)),
            partition_bytes_max=self.config.replica_fetch_max_bytes,
        )

    def _apis(
        self,
        purgatory: FetchPurgatory,
        producer_ids: ProducerIdManager,
        forwarder: ForwardingManager,
    ) -> BrokerApis:
        leaders = PartitionLookup(self.manager)
        return BrokerApis(
            versions=VersionsApi(self.image),
            produce=ProduceApi(self.manager, leaders, clock=monotonic_ms, wall_clock=wall_ms),
            fetch=FetchApi(leaders, purgatory, clock=monotonic_ms),
            offsets=OffsetsApi(leaders),
            cluster=self.cluster,
            configs=ConfigsApi(self.config, self.image),
            log_dirs=LogDirsApi(self.config.log_dir, self.manager.partitions.values),
            producer_ids=producer_ids,
            forwarder=forwarder,
            discover=self._parts.opened.gossiper.asked,
        )


@dataclass(frozen=True, slots=True)
class _Running:
    """The tasks and parts to end when the broker stops."""

    lifecycle: asyncio.Task[None]
    work: list[asyncio.Task[None]]
    purgatory: FetchPurgatory
    fetchers: ReplicaFetcherManager
    forwarder: ForwardingManager


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _failure_of(disk: DiskThread) -> None:
    # Shielded: a cancelled wait must not count as a result.
    await asyncio.shield(disk.failure)


def _quorum_config(config: BrokerConfig) -> QuorumConfig:
    return QuorumConfig(
        node_id=ReplicaId(config.node_id),
        cluster_id=config.cluster_id,
        folder=config.log_dir,
        voters={ReplicaId(each): address for each, address in config.voters.items()},
        bootstrap=config.bootstrap,
        advertised=_advertised(config),
        timeouts=config.timeouts,
        snapshots=config.snapshots,
    )


def _advertised(config: BrokerConfig) -> tuple[str, int] | None:
    """The advertised address; None if the system chooses the port."""
    port = config.advertised_port or config.port
    return (config.advertised_host or config.host, port) if port else None


def _manager(
    config: BrokerConfig, image: Image, disk: DiskThread, sweeper: Sweeper
) -> ReplicaManager:
    return ReplicaManager(
        broker_id=config.node_id,
        log_dir=config.log_dir,
        segment_bytes_max=config.log_segment_bytes,
        replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        message_bytes_max=config.topic_defaults.max_message_bytes,
        image=image,
        disk=disk,
        clock=monotonic_ms,
        sweeper=sweeper,
    )


def _server(config: BrokerConfig, gate: StartupGate) -> Server:
    limits = ServerLimits(connections_max=config.connections_max, frame_bytes_max=REQUEST_BYTES_MAX)
    return Server(gate, offered=OFFERED, name="kafka", clock_ms=monotonic_ms, limits=limits)


async def _listen(config: BrokerConfig, server: Server) -> int:
    try:
        return await server.listen(config.host, config.port)
    except OSError as error:
        raise StartError(
            f"cannot listen at {config.host}:{config.port} (listeners): "
            f"{error.strerror or error}; end what listens there, or choose another port"
        ) from error


def _controllers(
    config: BrokerConfig, opened: Opened, rng: random.Random
) -> NodeToControllerChannelManager:
    def leader_address() -> tuple[str, int] | None:
        leader = opened.quorum.leader
        return None if leader is None else opened.addresses.address_of(leader)

    return NodeToControllerChannelManager(
        leader_address,
        client_id=f"broker-{config.node_id}",
        sweeper=opened.sweeper,
        rng=random.Random(rng.getrandbits(64)),
    )
