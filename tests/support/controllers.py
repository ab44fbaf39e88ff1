"""Controllers inside the process of a test: the real parts, on loopback sockets and in folders.

They are put together as `admin.daemon` puts them together, but for two things: the listeners take
free ports, so that they come first; and nobody is at the other end of a signal.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from admin.capabilities.registry import handle
from admin.daemon import SUPPORTED_FEATURES
from controller.apis.brokers import BrokerApis
from controller.apis.controller_apis import OFFERED, ControllerApis
from controller.apis.router import Router
from controller.authorization import Loaded, authorization
from controller.quorum_controller import QuorumController
from controller.service import Service, TopicDefaults
from quorum.bootstrap import Opened, open_quorum
from quorum.clocks import monotonic_ms, wall_ms
from quorum.core.limits import SEGMENT_BYTES_MAX, Timeouts
from quorum.core.vocabulary import ReplicaId
from quorum.persistent_state import QuorumConfig
from quorum.ports import Clock
from quorum.snapshotting import SnapshotLimits
from quorum.transport.address import Address
from quorum.transport.audit_log import AuditLog
from quorum.transport.inbound import InboundRequest
from quorum.transport.security.protocols import (
    PLAIN_CLIENT,
    UNPROTECTED,
    ClientSecurity,
    ListenerSecurity,
)
from quorum.transport.server import Server
from statemachine.commands import RegisterController
from statemachine.features.features import RANGES
from statemachine.limits import METADATA_VERSION_MAX, MUTATION_WINDOW_NUM
from statemachine.records.kafka_records import Endpoint
from statemachine.security.authorization import AuthorizerConfig
from tests.support.bell import PATIENCE_SECONDS
from tests.support.own_time import OwnTime

TEST_SECONDS_MAX: Final = 300.0
"""The time limit of a test that waits for an answer. Some start two of Kafka's brokers in that
time, which take more than a minute to be up on a busy machine."""

HOST: Final = "127.0.0.1"
NOBODY: Final = Address(HOST, 1)
"""An address without a listener."""

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
SESSION_TIMEOUT_MS: Final = 9_000

TIMEOUTS: Final = Timeouts(
    # Whoever is asked for a vote must have had its turns, and written the vote down, or it is asked
    # again in the next epoch, for ever: with 60 ms, and of the time that all machines have, three
    # nodes took 48 epochs and 25 s at a load of 17 on two cores.
    election_timeout_ms=300,
    election_backoff_ms_max=300,
    # A machine that is busy for a second must not elect a new leader in the middle of a test.
    fetch_timeout_ms=6_000,
    request_timeout_ms=6_000,
    retry_backoff_ms=5,
    retry_backoff_ms_max=50,
)
ALONE: Final = replace(TIMEOUTS, election_timeout_ms=10)
"""The timeouts of a single voter, which has nobody to wait for."""


def registration(node_id: int, port: int) -> RegisterController:
    """The registration of a controller when it becomes the active one."""
    return RegisterController(
        controller_id=node_id,
        incarnation_id=UUID(int=0xC0 << 100 | node_id),
        endpoints=(Endpoint(name="CONTROLLER", host=HOST, port=port, security_protocol=0),),
        features=RANGES,
    )


@dataclass
class Place:
    """A listener that has its port before there is a node behind it."""

    server: Server
    address: Address
    handle: Callable[[InboundRequest], None] = field(default=lambda request: request.reject("no"))


@dataclass(frozen=True)
class Secured:
    """The security of a node's listener, and of its connections to others."""

    listener: ListenerSecurity = UNPROTECTED
    client: ClientSecurity = PLAIN_CLIENT


@dataclass(frozen=True)
class Node:
    """One running controller."""

    node_id: int
    address: Address
    listener: Server
    controller: QuorumController
    service: Service
    opened: Opened
    apis: ControllerApis
    router: Router
    running: "asyncio.Task[None]"

    async def stop(self) -> None:
        """Give the lead away and end the quorum; the listener goes on, with nobody behind it."""
        await self.opened.quorum.stop()
        await asyncio.wait({self.running})


async def a_place(security: ListenerSecurity = UNPROTECTED) -> Place:
    """A listener at a free port."""

    def handle(request: InboundRequest) -> None:
        place.handle(request)

    server = Server(handle, offered=OFFERED, name="kafka", clock_ms=monotonic_ms)
    place = Place(server, Address(HOST, await server.listen(HOST, 0, security)))
    return place


async def start(
    node_id: int,
    place: Place,
    voters: Mapping[int, Address],
    folder: Path,
    parts: AsyncExitStack,
    *,
    session_clock: Clock,
    metadata_version: int = METADATA_VERSION_MAX,
    kraft_version: int = 0,
    snapshots: SnapshotLimits | None = None,
    timeouts: Timeouts = TIMEOUTS,
    security: ClientSecurity = PLAIN_CLIENT,
    authorizer: AuthorizerConfig | None = None,
    mutation_window_seconds: int = MUTATION_WINDOW_NUM,
) -> Node:
    """A controller behind `place`; `parts` ends it."""
    controller = QuorumController(
        clock=session_clock,
        wall_clock=wall_ms,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        metadata_version=metadata_version,
        registration=registration(node_id, place.address.port),
        mutation_window_seconds=mutation_window_seconds,
    )
    clock = OwnTime()
    parts.callback(clock.stop)
    opened = open_quorum(
        QuorumConfig(
            node_id=ReplicaId(node_id),
            cluster_id=CLUSTER_ID,
            folder=folder,
            voters={ReplicaId(each): address for each, address in voters.items()},
            advertised=place.address,
            timeouts=timeouts,
            kraft_version=kraft_version,
            security=security,
            snapshots=snapshots or SnapshotLimits(),
            segment_bytes=SEGMENT_BYTES_MAX if snapshots is None else snapshots.bytes_between,
        ),
        controller,
        parts,
        clock=clock,
        wall_clock=wall_ms,
        rng=random.Random(node_id),
    )
    controller.attach(opened.quorum.replica)
    running = asyncio.get_running_loop().create_task(opened.quorum.run())
    parts.push_async_callback(_end, running)
    gossiping = asyncio.get_running_loop().create_task(opened.gossiper.run())
    parts.push_async_callback(_end, gossiping)
    node = opened.quorum.node
    audit_log = AuditLog(wall_ms)
    rights = authorization(
        authorizer, controller.image, Loaded(controller, lambda: node.high_watermark), audit_log
    )
    service = Service(
        controller,
        opened.quorum,
        cluster=opened.cluster,
        addresses=opened.addresses,
        defaults=TopicDefaults(num_partitions=1, replication_factor=1),
        folder=folder,
        capability_handler=handle,
        authorization=rights,
        audit_log=audit_log,
    )
    router = Router(service, clock=monotonic_ms, security=security)
    parts.push_async_callback(router.close)
    apis = ControllerApis(
        service=service,
        raft_rpc=opened.raft_rpc,
        gossiper=opened.gossiper,
        router=router,
        broker_apis=BrokerApis(controller, opened.cluster, clock=session_clock),
        supported_features=SUPPORTED_FEATURES,
    )
    parts.push_async_callback(apis.close)
    place.handle = apis.handle
    return Node(
        node_id, place.address, place.server, controller, service, opened, apis, router, running
    )


async def _end(running: "asyncio.Task[None]") -> None:
    """End a task as if the process had been killed; raises what it had failed with."""
    running.cancel()
    await asyncio.wait({running})
    if not running.cancelled():
        running.result()


@asynccontextmanager
async def controllers(
    folder: Path,
    *ids: int,
    voters: Collection[int] = (),
    observers: Collection[int] = (),
    session_clock: Clock = monotonic_ms,
    metadata_version: int = METADATA_VERSION_MAX,
    kraft_version: int = 0,
    snapshots: SnapshotLimits | None = None,
    timeouts: Timeouts | None = None,
    security: Callable[[int], Secured] = lambda _: Secured(),
    authorizer: AuthorizerConfig | None = None,
    mutation_window_seconds: int = MUTATION_WINDOW_NUM,
) -> AsyncIterator[dict[int, Node]]:
    """Controllers with these ids; `voters` that are not among them do not run.

    They are the founding voters, and `observers` run beside them.

    `session_clock` tells the time by which brokers have fallen silent; the levels are those of a
    cluster that is founded here.
    """
    async with asyncio.timeout(TEST_SECONDS_MAX), AsyncExitStack() as parts:
        places = {each: await a_place(security(each).listener) for each in (*ids, *observers)}
        addresses = dict.fromkeys(voters, NOBODY)
        addresses |= {node_id: places[node_id].address for node_id in ids}
        timeouts = timeouts or (ALONE if len(addresses) == 1 else TIMEOUTS)
        nodes = {
            node_id: await start(
                node_id,
                place,
                addresses,
                folder / f"node-{node_id}",
                parts,
                session_clock=session_clock,
                metadata_version=metadata_version,
                kraft_version=kraft_version,
                snapshots=snapshots,
                timeouts=timeouts,
                security=security(node_id).client,
                authorizer=authorizer,
                mutation_window_seconds=mutation_window_seconds,
            )
            for node_id, place in places.items()
        }
        for place in places.values():
            parts.push_async_callback(place.server.close, within_ms=100)
        yield nodes


@asynccontextmanager
async def a_controller(
    folder: Path,
    *,
    session_clock: Clock = monotonic_ms,
    metadata_version: int = METADATA_VERSION_MAX,
    kraft_version: int = 0,
    snapshots: SnapshotLimits | None = None,
    authorizer: AuthorizerConfig | None = None,
) -> AsyncIterator[Node]:
    """One controller, which is the whole quorum, and active."""
    async with controllers(
        folder,
        1,
        session_clock=session_clock,
        metadata_version=metadata_version,
        kraft_version=kraft_version,
        snapshots=snapshots,
        authorizer=authorizer,
    ) as nodes:
        await active(nodes.values())
        yield nodes[1]


async def active(nodes: Collection[Node]) -> Node:
    """The active controller among these, once all of them that run follow it.

    Before that, one that has not heard of it may yet be elected in its place; afterwards a lead
    ends only when somebody was silent for `fetch_timeout_ms`, or gives it up. It has founded its
    cluster by then.
    """
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            running = [each for each in nodes if not each.running.done()]
            for node in running:
                if node.controller.is_active and all(_follows(each, node) for each in running):
                    await node.service.read(lambda image: image.level)
                    return node
            await next(iter(nodes)).opened.quorum.leader_changed(within_seconds=0.01)


def _follows(node: Node, leader: Node) -> bool:
    """True if the node knows that this one leads; the leader itself does."""
    quorum = node.opened.quorum
    return quorum.leader == leader.node_id and quorum.node.epoch == leader.opened.quorum.node.epoch
