"""Open a folder and assemble the replica that runs on it.

Opening reads and repairs what a crash left (`quorum.log.recovery`), and refuses a folder that is
another node's. Errors are `StorageError`s that say what to do.
"""

import asyncio
import logging
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from uuid import UUID

from quorum.cluster_id import ClusterIdentity
from quorum.core.node import QuorumNode
from quorum.core.state import DiscoveryState
from quorum.core.vocabulary import ReplicaKey
from quorum.core.voter_set import Endpoint, Voter, VoterSet
from quorum.discovery.address_book import AddressBook, pseudo_ids
from quorum.discovery.discover_brokers import DiscoverBrokersService
from quorum.discovery.gossip import Advertisement, Gossip
from quorum.discovery.wiring import cluster_of, discovery_of
from quorum.driver import Quorum
from quorum.log.disk_thread import DiskLatency, DiskThread
from quorum.log.filesystem import OS, FileSystem
from quorum.log.meta_properties import next_boot
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import (
    PersistentState,
    QuorumConfig,
    load_persistent_state,
)
from quorum.ports import Clock, StateMachine
from quorum.protocol.raft_types import LocalNode
from quorum.raft_rpc import RaftRpc
from quorum.records.control import KRAFT_VERSION
from quorum.replica import Replica
from quorum.transport.controller_channel import NodeToControllerChannelManager
from quorum.transport.limits import ChannelLimits
from quorum.transport.peers import Peers
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.sweeper import Sweeper

logger = logging.getLogger("quorum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The parts of a replica that is ready to run."""

    quorum: Quorum
    raft_calls: RaftRpc
    gossiper: DiscoverBrokersService
    addresses: AddressBook
    cluster: ClusterIdentity
    directory_id: UUID
    disk: DiskThread
    log: SegmentedLog
    sweeper: Sweeper

    def controller_channel(
        self, client_id: str, rng: random.Random
    ) -> NodeToControllerChannelManager:
        """Return a channel to the active controller; the caller closes it."""

        def leader_address() -> tuple[str, int] | None:
            leader = self.quorum.leader
            return None if leader is None else self.addresses.address_of(leader)

        return NodeToControllerChannelManager(
            leader_address, client_id=client_id, sweeper=self.sweeper, rng=rng
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
    """Open the replica whose folder this is, inside a running event loop.

    `stack` releases its sockets and files, after `Quorum.stop` if it is to end in good order.

    A log that does not begin at 0 goes on from a checkpoint, which the state machine is given
    before this returns. Raises `StorageError` for a folder that is another's, in use, damaged or
    not usable.
    """
    past = load_persistent_state(config, rng=rng, wall_clock=wall_clock, fs=fs)
    stack.callback(past.log.close)
    past.tell(state_machine)
    node = make_node(config, past, rng=_fork(rng), now_ms=clock())
    addresses = address_book(config, past.key, wall_ms=wall_clock(), fs=fs)
    addresses.voters = lambda: node.voters
    sweeper = Sweeper(clock)
    peers = Peers(
        addresses,
        client_id=f"replica-{config.node_id}",
        sweeper=sweeper,
        rng=_fork(rng),
        limits=ChannelLimits(
            retry_backoff_ms=config.timeouts.retry_backoff_ms,
            retry_backoff_ms_max=config.timeouts.retry_backoff_ms_max,
        ),
        on_gone=lambda each: quorum.gone(each),
    )
    calls = RaftRpc(
        LocalNode(cluster_id=past.cluster_id, replica=past.key),
        node,
        peers,
        addresses=addresses,
        timeout_ms=config.timeouts.request_timeout_ms,
        complaints=RefusalLog("quorum", clock),
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
        past.cluster_id,
        me=past.key,
        folder=config.folder,
        elections=past.elections,
        disk=disk,
        rng=rng,
        fs=fs,
    )
    cluster.on_known.append(calls.know_cluster)
    replica = Replica(
        node,
        log=past.log,
        elections=past.elections,
        disk=disk,
        rpc=calls,
        state_machine=state_machine,
        clock=clock,
        wall_clock=wall_clock,
        wake=lambda: quorum.wake(),
        cluster=cluster,
        store=past.store,
        snapshot_limits=config.snapshots,
    )
    quorum = Quorum(replica, disk=disk, rpc=calls, clock=clock, wall_clock=wall_clock)
    calls.hand_to(replica.asked)
    discovery = discovery_of(
        addresses,
        cluster,
        node,
        has_log=past.view.end.offset > 0,
        tell=replica.heard,
        listener_name=config.listener_name,
        folder=config.folder,
        disk=disk,
        fs=fs,
        clock=clock,
        rng=rng,
    )
    gossiper = DiscoverBrokersService(
        discovery,
        client_id=f"replica-{config.node_id}",
        sweeper=sweeper,
        clock=clock,
        rng=_fork(rng),
        timeout_ms=config.timeouts.request_timeout_ms,
        complaints=RefusalLog("gossip", clock),
    )
    return Opened(
        quorum=quorum,
        raft_calls=calls,
        gossiper=gossiper,
        addresses=addresses,
        cluster=cluster,
        directory_id=past.key.directory_id,
        disk=disk,
        log=past.log,
        sweeper=sweeper,
    )


def _fork(rng: random.Random) -> random.Random:
    """Return a random source of its own, seeded from `rng`."""
    return random.Random(rng.getrandbits(64))


def configured_voters(config: QuorumConfig) -> VoterSet:
    """The voters as long as the log does not name any; their directories are unknown."""
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
    config: QuorumConfig, past: PersistentState, *, rng: random.Random, now_ms: int
) -> QuorumNode:
    """The node that goes on from there, or begins with the voters that its folder names."""
    has_log = past.view.end.offset > 0
    founders, level = configured_voters(config), config.kraft_version
    founding = past.founding
    if founding is not None and founding.voters is not None:
        founders, level = founding.voters.current, founding.kraft_version
        config = replace(config, voters={})
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
        beginning=beginning_of(config, has_log=has_log),
        received=past.store.partial,
    )


def address_book(
    config: QuorumConfig, me: ReplicaKey, *, wall_ms: int, fs: FileSystem = OS
) -> AddressBook:
    """Return the address book of this node as it boots, with a boot timestamp of its own.

    Raises `StorageError`.
    """
    sighting = None
    if config.place is not None:
        host, port = config.place
        sighting = Advertisement(
            id=me.id,
            boot_timestamp=next_boot(config.folder, wall_ms, fs=fs),
            host=host,
            port=port,
            directory_id=me.directory_id,
        )
    return AddressBook(
        Gossip(sighting),
        configured={
            each: address for each, address in config.voters.items() if address is not None
        },
        bootstrap=config.bootstrap,
    )


def beginning_of(config: QuorumConfig, *, has_log: bool) -> DiscoveryState:
    """Return the discovery state of the node before it has heard of any other."""
    unlocated = frozenset(
        each
        for each, address in config.voters.items()
        if address is None and each != config.node_id
    )
    if 2 * len(unlocated) >= len(config.voters) > 0 and not has_log and not config.bootstrap:
        logger.warning(
            "where voters %s are is not known, and there are no servers to ask: this node founds "
            "nothing before they have found it; name bootstrap.servers, or write quorum.voters "
            "as id@host:port",
            ", ".join(map(str, sorted(unlocated))),
        )
    return DiscoveryState(
        unlocated=unlocated,
        bootstrap=pseudo_ids(len(config.bootstrap)),
        has_surveyed=has_log or not config.bootstrap,
    )
