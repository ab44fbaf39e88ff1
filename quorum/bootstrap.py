"""Open the folder of a replica and assemble the replica from its parts.

Opening repairs what a crash left (`quorum.log.recovery`) and refuses a folder of another node.
Errors are `StorageError`s that say what to do.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import UUID

from quorum.cluster_id import ClusterIdentity
from quorum.core.events import DiscoveryDone, EndpointsUpdated
from quorum.core.node import QuorumNode
from quorum.core.state import DiscoveryState
from quorum.core.vocabulary import ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint, Voter, VoterSet
from quorum.discovery.address_book import AddressBook, pseudo_ids
from quorum.discovery.discover_brokers import DiscoverBrokersService
from quorum.discovery.gossip import BOOT_AHEAD_MS_MAX, Advertisement, Gossip
from quorum.discovery.schedule import DiscoverySchedule
from quorum.driver import Quorum
from quorum.log.disk_thread import DiskLatency, DiskThread
from quorum.log.errors import FolderUnusable
from quorum.log.filesystem import OS, FileSystem, is_full
from quorum.log.meta_properties import load_or_create, next_boot, raise_boot
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.log_events import LogEvent
from quorum.persistent_state import (
    PersistentState,
    QuorumConfig,
    load_persistent_state,
)
from quorum.ports import Clock, Disk, DiskFull, StateMachine
from quorum.protocol.raft_types import LocalNode
from quorum.raft_rpc import RaftRpc
from quorum.records.control import KRAFT_VERSION
from quorum.replica import Replica
from quorum.transport.controller_channel import NodeToControllerChannelManager
from quorum.transport.limits import ChannelLimits
from quorum.transport.peers import Peers
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.security.protocols import ClientSecurity
from quorum.transport.sweeper import Sweeper
from quorum.version import VERSION

logger = logging.getLogger("quorum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The parts of a replica that is ready to run."""

    quorum: Quorum
    raft_rpc: RaftRpc
    gossiper: DiscoverBrokersService
    addresses: AddressBook
    cluster: ClusterIdentity
    directory_id: UUID
    disk: DiskThread
    log: SegmentedLog
    sweeper: Sweeper
    security: ClientSecurity
    """Of the connections to other nodes of the quorum."""

    def controller_channel(
        self, client_id: str, rng: random.Random
    ) -> NodeToControllerChannelManager:
        """Return a channel to the active controller; the caller closes it."""
        return NodeToControllerChannelManager(
            lambda: self.addresses.address_of(self.quorum.leader),
            client_id=client_id,
            sweeper=self.sweeper,
            rng=rng,
            security=self.security,
        )


def open_quorum(
    config: QuorumConfig,
    state_machine: StateMachine,
    stack: AsyncExitStack,
    *,
    clock: Clock,
    wall_clock: Clock,
    rng: random.Random,
    fs: FileSystem = OS,
) -> Opened:
    """Open the replica of this folder, inside a running event loop.

    `stack` releases its sockets and files; for an orderly end call `Quorum.stop` before. If the log
    continues a checkpoint, the state machine gets that before this returns. Raises `StorageError`
    for a folder that is damaged, in use, not accessible or another node's.
    """
    stored = load_persistent_state(config, rng=rng, wall_clock=wall_clock, fs=fs)
    stack.callback(stored.log.close)
    stored.tell(state_machine)
    node = make_node(config, stored, rng=_fork(rng), now_ms=clock())
    addresses = address_book(config, stored.key, wall_ms=wall_clock(), fs=fs)
    sweeper = Sweeper(clock)
    peers = _peers(config, addresses, sweeper, _fork(rng), on_gone=lambda each: quorum.gone(each))
    rpc = RaftRpc(
        LocalNode(cluster_id=stored.elections.cluster_id, replica=stored.key),
        node,
        peers,
        addresses=addresses,
        on_request=lambda asker, request: replica.asked(asker, request),
        timeout_ms=config.timeouts.request_timeout_ms,
        refusal_log=RefusalLog("quorum", clock),
        endpoints=() if config.place is None else (Endpoint(config.listener_name, *config.place),),
    )
    disk = DiskThread(
        asyncio.get_running_loop(),
        on_failure=lambda failure: replica.fail(failure),
        on_room=lambda exists: replica.room(exists),
        pace=DiskLatency(),
    )
    stack.callback(disk.close)
    stack.callback(sweeper.close)
    stack.push_async_callback(peers.close)
    cluster = cluster_of(
        stored.elections, config.node_id, folder=config.folder, disk=disk, rng=rng, fs=fs
    )
    cluster.on_known.append(rpc.know_cluster)
    replica = Replica(
        node,
        log=stored.log,
        elections=stored.elections,
        disk=disk,
        rpc=rpc,
        state_machine=state_machine,
        clock=clock,
        wall_clock=wall_clock,
        wake=lambda: quorum.wake(),
        cluster=cluster,
        store=stored.store,
        snapshot_limits=config.snapshots,
    )
    quorum = Quorum(replica, disk=disk, rpc=rpc, clock=clock, wall_clock=wall_clock)
    discovery = discovery_of(
        config,
        stored,
        replica,
        cluster=cluster,
        book=addresses,
        disk=disk,
        fs=fs,
        clock=clock,
        rng=rng,
    )
    return Opened(
        quorum=quorum,
        raft_rpc=rpc,
        gossiper=_gossiper(config, discovery, sweeper, (clock, wall_clock), _fork(rng)),
        addresses=addresses,
        cluster=cluster,
        directory_id=stored.key.directory_id,
        disk=disk,
        log=stored.log,
        sweeper=sweeper,
        security=config.security,
    )


def _peers(
    config: QuorumConfig,
    addresses: AddressBook,
    sweeper: Sweeper,
    rng: random.Random,
    *,
    on_gone: Callable[[ReplicaId], None],
) -> Peers:
    return Peers(
        addresses,
        client_id=f"replica-{config.node_id}",
        sweeper=sweeper,
        rng=rng,
        limits=ChannelLimits(
            retry_backoff_ms=config.timeouts.retry_backoff_ms,
            retry_backoff_ms_max=config.timeouts.retry_backoff_ms_max,
        ),
        security=config.security,
        on_gone=on_gone,
    )


def _gossiper(
    config: QuorumConfig,
    discovery: DiscoverySchedule,
    sweeper: Sweeper,
    clocks: tuple[Clock, Clock],
    rng: random.Random,
) -> DiscoverBrokersService:
    clock, wall_clock = clocks
    return DiscoverBrokersService(
        discovery,
        client_id=f"replica-{config.node_id}",
        sweeper=sweeper,
        clock=clock,
        wall_clock=wall_clock,
        rng=rng,
        timeout_ms=config.timeouts.request_timeout_ms,
        refusal_log=RefusalLog("gossip", clock),
        security=config.security,
    )


def _fork(rng: random.Random) -> random.Random:
    """Return an independent random source, seeded from `rng`."""
    return random.Random(rng.getrandbits(64))


def configured_voters(config: QuorumConfig) -> VoterSet:
    """Return the voters for a log that does not record any; their directories are unknown."""
    addresses = dict(config.voters)
    if config.node_id in addresses:
        addresses[config.node_id] = config.place
    return VoterSet(
        tuple(
            Voter(
                ReplicaKey(each),
                () if address is None else (Endpoint(config.listener_name, *address),),
            )
            for each, address in addresses.items()
        )
    )


def make_node(
    config: QuorumConfig, stored: PersistentState, *, rng: random.Random, now_ms: int
) -> QuorumNode:
    """Return the node for the stored state, or for a new log with the configured voters."""
    founders, level = configured_voters(config), config.kraft_version
    founding = stored.founding
    if founding is not None and founding.voters is not None:
        founders, level = founding.voters.current, founding.kraft_version
        config = replace(config, voters={})
    return QuorumNode(
        stored.key,
        founders,
        election=stored.election,
        log=stored.view,
        timeouts=config.timeouts,
        bounds=config.bounds,
        rng=rng,
        now_ms=now_ms,
        records_voters=level >= KRAFT_VERSION,
        discovery=discovery_state(config, has_log=stored.has_log),
        received=stored.store.partial,
    )


def address_book(
    config: QuorumConfig, me: ReplicaKey, *, wall_ms: int, fs: FileSystem = OS
) -> AddressBook:
    """Return the address book of this node as it boots, with a boot timestamp of its own.

    Raises `StorageError`.
    """
    advertisement = None
    if config.place is not None:
        host, port = config.place
        advertisement = Advertisement(
            id=me.id,
            boot_timestamp=next_boot(config.folder, wall_ms, ahead_ms_max=BOOT_AHEAD_MS_MAX, fs=fs),
            host=host,
            port=port,
            directory_id=me.directory_id,
            software_version=VERSION,
        )
    return AddressBook(
        Gossip(advertisement),
        configured={
            each: address for each, address in config.voters.items() if address is not None
        },
        bootstrap=config.bootstrap,
    )


def discovery_state(config: QuorumConfig, *, has_log: bool) -> DiscoveryState:
    """Return the discovery state of the node before it has heard of any other."""
    unlocated = frozenset(
        each
        for each, address in config.voters.items()
        if address is None and each != config.node_id
    )
    if 2 * len(unlocated) >= len(config.voters) > 0 and not has_log and not config.bootstrap:
        logger.warning(
            "The addresses of voters %s are unknown, and no bootstrap.servers are configured: this "
            "node waits until they contact it. Set bootstrap.servers, or write quorum.voters as "
            "id@host:port",
            ", ".join(map(str, sorted(unlocated))),
            extra=LogEvent.VOTERS_UNLOCATED.extra,
        )
    return DiscoveryState(
        unlocated=unlocated,
        bootstrap=pseudo_ids(len(config.bootstrap)),
        has_surveyed=has_log or not config.bootstrap,
    )


def cluster_of(
    elections: QuorumStateFile,
    me: ReplicaId,
    *,
    folder: Path,
    disk: Disk,
    rng: random.Random,
    fs: FileSystem = OS,
) -> ClusterIdentity:
    """Return the cluster id, which is stored in `meta.properties` first; `rng` may create one."""

    def write(learned: str) -> None:
        try:
            load_or_create(folder, learned, me, rng=rng, fs=fs)
        except FolderUnusable as error:
            if isinstance(error.__cause__, OSError) and is_full(error.__cause__):
                raise DiskFull(str(error)) from error
            raise
        elections.cluster_id = learned

    def keep(learned: str, done: Callable[[], None]) -> None:
        def kept(_: None) -> None:
            logger.info(
                "This node belongs to cluster %s", learned, extra=LogEvent.CLUSTER_JOINED.extra
            )
            done()

        disk.perform(partial(write, learned), kept)

    return ClusterIdentity(
        elections.cluster_id,
        keep=keep,
        make=lambda: uuid_to_text(UUID(int=rng.getrandbits(128), version=4)),
    )


def discovery_of(
    config: QuorumConfig,
    stored: PersistentState,
    replica: Replica,
    *,
    cluster: ClusterIdentity,
    book: AddressBook,
    disk: Disk,
    fs: FileSystem,
    clock: Clock,
    rng: random.Random,
) -> DiscoverySchedule:
    """Return the discovery schedule of `replica`."""

    def advertise_again(rival: Advertisement) -> None:
        boot = rival.boot_timestamp + 1
        logger.warning(
            "Other nodes know another address for the id of this node, from a lost folder or from "
            "a second node with the id: %s; advertising this node with boot timestamp %d",
            rival.text,
            boot,
            extra=LogEvent.ADDRESS_CONTESTED.extra,
        )
        work = partial(raise_boot, config.folder, boot, fs=fs)
        disk.perform(work, lambda _: discovery.advertised_again(boot))

    def locate(news: Sequence[Advertisement]) -> None:
        for each in news:
            endpoint = Endpoint(config.listener_name, *each.address)
            replica.heard(EndpointsUpdated(each.key, (endpoint,)))

    def survey(found: bool) -> None:
        if found:
            logger.info(
                "A bootstrap server knows a quorum: this node founds no other one",
                extra=LogEvent.QUORUM_FOUND.extra,
            )
        replica.heard(DiscoveryDone(found))

    book.voters = lambda: replica.node.voters
    book.on_news = locate
    if book.gossip.me is not None:
        # A voter that has moved and is elected records its own new address as well.
        locate([book.gossip.me])
    discovery = DiscoverySchedule(
        book,
        cluster,
        replica.node,
        has_log=stored.has_log,
        surveyed=survey,
        advertise_again=advertise_again,
        rng=_fork(rng),
        now_ms=clock(),
    )
    return discovery
