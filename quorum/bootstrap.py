"""From a folder to a running replica: who it is, what it remembers, and what it is made of.

Opening reads and repairs what a crash left (`quorum.log.recovery`), and refuses a folder that is
another node's. Errors are `StorageError`s that say what to do.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from quorum.cluster_id import ClusterIdentity
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter, VoterSet
from quorum.discovery.address_book import AddressBook
from quorum.discovery.discover_brokers import DiscoverBrokersService
from quorum.discovery.wiring import (
    DiscoveryConfig,
    address_book,
    beginning_of,
    cluster_of,
    discovery_of,
    gossiper,
    peers_of,
    standing_of,
)
from quorum.driver import Quorum
from quorum.log.disk_thread import DiskLatency, DiskThread
from quorum.log.filesystem import OS, FileSystem
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import (
    PersistentState,
    QuorumConfig,
    load_persistent_state,
)
from quorum.ports import Clock, StateMachine
from quorum.protocol.raft_types import LeaderAndEpoch, LocalNode
from quorum.raft_rpc import Handed, RaftRpc
from quorum.records.control import KRAFT_VERSION
from quorum.transport.peers import Peers
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.sweeper import Sweeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A replica that is ready to run, and what has to be closed after it."""

    quorum: Quorum
    raft_calls: RaftRpc
    gossiper: DiscoverBrokersService
    addresses: AddressBook
    cluster: ClusterIdentity
    directory_id: UUID
    disk: DiskThread
    log: SegmentedLog
    peers: Peers
    sweeper: Sweeper

    async def close(self) -> None:
        """Release sockets and files; `Quorum.stop` has come before, if it was to be in order."""
        await self.peers.close()
        self.sweeper.close()
        self.disk.close()
        self.log.close()


def open_quorum(
    config: QuorumConfig,
    state_machine: StateMachine,
    *,
    clock: Clock,
    wall_clock: Clock,
    rng: random.Random,
    fs: FileSystem = OS,
) -> Opened:
    """The replica whose folder this is; call it inside a running event loop.

    A log that does not begin at 0 goes on from a checkpoint, which the state machine is given
    before this returns. Raises `StorageError` for a folder that is another's, in use, damaged or
    not usable.
    """
    world = _World(clock=clock, rng=rng, fs=fs)
    past = load_persistent_state(config, rng=rng, wall_clock=wall_clock, fs=fs)
    past.tell(state_machine)
    node = make_node(config, past, rng=random.Random(rng.getrandbits(64)), now_ms=clock())
    addresses = address_book(past.key, whereabouts(config), wall_ms=wall_clock(), fs=fs)
    addresses.voters = lambda: node.voters
    others = _others(config, past, world, addresses, on_gone=lambda each: quorum.gone(each))
    disk = DiskThread(
        asyncio.get_running_loop(),
        on_failure=lambda failure: quorum.fail(failure),
        on_room=lambda exists: quorum.room(exists),
        pace=DiskLatency(),
    )
    cluster = cluster_of(
        past.cluster_id,
        me=past.key,
        folder=config.folder,
        elections=past.elections,
        disk=disk,
        rng=rng,
        fs=fs,
    )
    cluster.on_known.append(others.calls.know_cluster)
    quorum = Quorum(
        node,
        log=past.log,
        elections=past.elections,
        disk=disk,
        rpc=others.calls,
        state_machine=state_machine,
        clock=clock,
        wall_clock=wall_clock,
        cluster=cluster,
        store=past.store,
        snapshot_limits=config.snapshots,
    )
    others.calls.hand_to(
        Handed(
            asked=quorum.asked,
            standing=lambda: _standing(quorum, addresses),
            epoch=lambda: quorum.node.epoch,
        )
    )
    return Opened(
        quorum=quorum,
        raft_calls=others.calls,
        gossiper=_gossiper(config, past, world, others, disk, cluster, quorum),
        addresses=addresses,
        cluster=cluster,
        directory_id=past.key.directory_id,
        disk=disk,
        log=past.log,
        peers=others.peers,
        sweeper=others.sweeper,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """The dependencies of a replica: clocks, file system and random source."""

    clock: Clock
    rng: random.Random
    fs: FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class _Others:
    """The other replicas: where they are, and how they are asked."""

    addresses: AddressBook
    peers: Peers
    calls: RaftRpc
    sweeper: Sweeper


def _others(
    config: QuorumConfig,
    past: PersistentState,
    world: _World,
    addresses: AddressBook,
    *,
    on_gone: Callable[[ReplicaId], None],
) -> _Others:
    place = whereabouts(config).place
    sweeper = Sweeper(world.clock)
    peers = peers_of(
        addresses, config.node_id, config.timeouts, sweeper=sweeper, rng=world.rng, on_gone=on_gone
    )
    calls = RaftRpc(
        LocalNode(cluster_id=past.cluster_id, replica=past.key),
        peers,
        addresses=addresses,
        timeout_ms=config.timeouts.request_timeout_ms,
        complaints=RefusalLog("quorum", world.clock),
        endpoints=() if place is None else (Endpoint(config.listener_name, *place),),
    )
    return _Others(addresses=addresses, peers=peers, calls=calls, sweeper=sweeper)


def _gossiper(
    config: QuorumConfig,
    past: PersistentState,
    world: _World,
    others: _Others,
    disk: DiskThread,
    cluster: ClusterIdentity,
    quorum: Quorum,
) -> DiscoverBrokersService:
    discovery = discovery_of(
        others.addresses,
        cluster,
        standing=standing_of(quorum.node, has_log=past.view.end.offset > 0),
        tell=quorum.heard,
        listener_name=config.listener_name,
        folder=config.folder,
        disk=disk,
        fs=world.fs,
        clock=world.clock,
        rng=world.rng,
    )
    return gossiper(
        discovery,
        client_id=f"replica-{config.node_id}",
        sweeper=others.sweeper,
        clock=world.clock,
        rng=world.rng,
        timeout_ms=config.timeouts.request_timeout_ms,
    )


def configured_voters(config: QuorumConfig) -> VoterSet:
    """The voters as long as the log does not name any; their directories are unknown."""
    addresses = dict(config.voters)
    if config.node_id in addresses:
        addresses[config.node_id] = whereabouts(config).place
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
    config: QuorumConfig, past: PersistentState, *, rng: random.Random, now_ms: int
) -> QuorumNode:
    """The node that goes on from there, or begins with the voters that its folder names."""
    has_log = past.view.end.offset > 0
    where = whereabouts(config)
    founders, level = configured_voters(config), config.kraft_version
    if past.founders is not None and past.founding is not None:
        founders, level = past.founders, past.founding.kraft_version
        where = replace(where, configured={})
    return QuorumNode(
        past.key,
        founders,
        election=past.election,
        log=past.view,
        timeouts=config.timeouts,
        bounds=config.bounds,
        rng=rng,
        now_ms=now_ms,
        records_voters=level >= KRAFT_VERSION,
        beginning=beginning_of(where, me=config.node_id, has_log=has_log),
        received=past.store.partial,
    )


def whereabouts(config: QuorumConfig) -> DiscoveryConfig:
    """The address of this replica and the servers that it may ask for the others."""
    return DiscoveryConfig(
        folder=config.folder,
        place=config.advertised or config.voters.get(config.node_id),
        configured=config.voters,
        bootstrap=config.bootstrap,
    )


def _standing(quorum: Quorum, addresses: AddressBook) -> LeaderAndEpoch:
    leader = quorum.leader
    address = None if leader is None else addresses.address_of(leader)
    return LeaderAndEpoch(quorum.node.epoch, leader, address)
