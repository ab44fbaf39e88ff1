"""The process of a controller: the composition root.

Settings become ports, the controller and its listeners; here the quorum meets the state machine
and both listeners.
"""

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from admin.capabilities.registry import handle
from admin.config import Config
from admin.formatted import Formatted, formatted
from admin.http.app import make_app
from admin.http.gateway import Gateway
from admin.http.start import http_exposures, listen_http
from admin.monitoring.controller_monitor import ControllerMonitor
from admin.monitoring.exposition import text_of
from admin.recent_log import RecentLog
from controller.apis.brokers import BrokerApis
from controller.apis.controller_apis import OFFERED, ControllerApis
from controller.apis.router import Router
from controller.authorization import ControllerAuthorization, Loaded, authorization
from controller.event_queue import Later
from controller.quorum_controller import QuorumController
from controller.registration import ControllerRegistrationManager
from controller.service import Host, Service, TopicDefaults
from quorum.bootstrap import Opened, open_quorum
from quorum.clocks import monotonic_ms, wall_ms
from quorum.driver import FAREWELL_SECONDS_MAX
from quorum.log_events import LogEvent
from quorum.persistent_state import QuorumConfig
from quorum.process import StartError, binding, run_process, stop_event
from quorum.process_log import RECENT
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.request_limits import METADATA_LOG_FETCH_BYTES_MAX
from quorum.transport.audit_log import AuditLog
from quorum.transport.exposure import exposures
from quorum.transport.limits import DESCRIPTORS_RESERVED, ServerLimits
from quorum.transport.listener import Listener, listen_at, named
from quorum.transport.security.credentials import ImageCredentials, LateCredentials
from quorum.transport.security.token_hmacs import DelegationTokens
from quorum.transport.server import Server
from statemachine.commands import RegisterController
from statemachine.features.features import FEATURES, RANGES
from statemachine.records.kafka_records import Endpoint
from statemachine.vocabulary import LEVEL_KRAFT_VERSION

logger = logging.getLogger("controller")

SUPPORTED_FEATURES: Final = {
    feature.name: VersionRange(feature.lowest, feature.highest) for feature in FEATURES.values()
}
"""Levels that this code supports; the levels in force are in the log."""

CLOSE_MS: Final = 500
"""Time for each listener to finish its responses when the node stops."""
STOP_MS_MAX: Final = 2_000
"""A node has ended this long after SIGTERM, unless its disk or processor is overloaded."""

# Farewell, the HTTP listener and Kafka's, one after the other; the rest is for the last flush.
assert FAREWELL_SECONDS_MAX * 1_000 + 2 * CLOSE_MS < STOP_MS_MAX


def main(config: Config) -> int:
    """Run a controller until SIGTERM or SIGINT; return the exit code of the process."""
    return run_process(lambda: _run(config), log=config.log)


async def _run(config: Config) -> None:
    config.quorum.security.check()
    stop = stop_event()
    # Parts are closed in reverse order: first the listeners, last the files.
    async with AsyncExitStack() as parts:
        controller, opened = _open(config, parts)
        registrar = opened.controller_channel(
            f"registrar-{config.quorum.node_id}", random.SystemRandom()
        )
        parts.push_async_callback(registrar.close)
        registration = ControllerRegistrationManager(controller, opened.quorum, registrar)
        forget_tokens = partial(
            controller.forget_delegation_tokens, config.tokens.check_interval_ms
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(opened.quorum.run())
            periodic: list[Callable[[], int]] = [
                controller.sweep,
                controller.advance_moves,
                forget_tokens,
            ]
            if config.no_op_interval_ms:
                periodic.append(controller.append_no_op)
            background = (registration.run(), opened.gossiper.run(), *map(_repeat, periodic))
            work = [tasks.create_task(each) for each in background]
            late = await _listen(config, controller, opened, parts)
            work.append(tasks.create_task(late))
            # The objects of the program stay: scanning them in each full collection would be the
            # longest pause of all.
            gc.freeze()
            addresses = ", ".join(str(each.address) for each in config.listeners)
            logger.info(
                "controller %d listens at %s",
                config.quorum.node_id,
                addresses,
                extra=LogEvent.NODE_STARTED.extra,
            )
            for sentence in (*exposures(config.listeners), *http_exposures(config.http)):
                logger.warning("%s", sentence, extra=LogEvent.LISTENER_EXPOSED.extra)
            await stop.wait()
            logger.info("stopping", extra=LogEvent.NODE_STOPPING.extra)
            for each in work:
                each.cancel()
            await opened.quorum.stop()


def _open(config: Config, parts: AsyncExitStack) -> tuple[QuorumController, Opened]:
    ids = random.SystemRandom()
    found = formatted(config.quorum.folder)
    if found is not None:
        level = found.metadata_version
        logger.info(
            "%s: founding a cluster at metadata.version %d",
            found.path,
            level,
            extra=LogEvent.CLUSTER_FOUNDED.extra,
        )
        config = replace(config, metadata_version=level)

    def fail(failure: Exception) -> None:
        opened.quorum.replica.fail(failure)

    later = _later(asyncio.get_running_loop(), fail)
    controller = _controller(config, ids, found, later)
    opened = open_quorum(
        _quorum_config(config), controller, parts, clock=monotonic_ms, wall_clock=wall_ms, rng=ids
    )
    controller.attach(opened.quorum.replica)
    tokens = DelegationTokens(config.tokens)
    config.credentials.source = ImageCredentials(lambda: controller.image, tokens.hmac_or_none)
    return controller, opened


async def _listen(
    config: Config, controller: QuorumController, opened: Opened, parts: AsyncExitStack
) -> Coroutine[Any, Any, None]:
    """Start the listeners on one service; what is returned ends what waits for the log."""
    audit_log = AuditLog(wall_ms)
    node = opened.quorum.node
    is_loaded = Loaded(controller, lambda: node.high_watermark)
    rights = authorization(config.authorizer, controller.image, is_loaded, audit_log)
    scrub = config.scrubber.scrub
    service = Service(
        controller,
        opened.quorum,
        cluster=opened.cluster,
        addresses=opened.addresses,
        defaults=TopicDefaults(
            num_partitions=config.num_partitions,
            replication_factor=config.default_replication_factor,
        ),
        folder=config.quorum.folder,
        capability_handler=handle,
        tokens=config.tokens,
        authorization=rights,
        audit_log=audit_log,
        host=Host(settings=config.settings, scrub=scrub, log=RecentLog(RECENT, scrub).read),
    )
    router = Router(service, clock=monotonic_ms, security=config.quorum.security)
    parts.push_async_callback(router.close)
    apis = ControllerApis(
        service=service,
        raft_rpc=opened.raft_rpc,
        gossiper=opened.gossiper,
        router=router,
        broker_apis=BrokerApis(controller, opened.cluster, clock=monotonic_ms),
        supported_features=SUPPORTED_FEATURES,
    )
    parts.push_async_callback(apis.close)
    server = _server(config, apis, parts)
    late = await _listen_kafka(config, server, rights, is_loaded)
    http = config.http
    if http is not None:
        gateway = Gateway(service, router, security=config.quorum.security)
        monitor = ControllerMonitor(service, opened, server)

        async def metrics() -> bytes:
            return text_of(await monitor.samples())

        service.host.metrics = metrics
        await listen_http(
            http,
            lambda access: make_app(gateway, access, http.limits, monitor),
            parts,
            close_ms=CLOSE_MS,
        )
    return late


def _later(loop: asyncio.AbstractEventLoop, fail: Callable[[Exception], None]) -> Later:
    """Return a scheduler of slices; `fail` gets an unexpected error."""
    collector = GarbageCollector(loop)

    def go_on(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as failure:  # noqa: BLE001 - it is not swallowed: it ends the process
            fail(failure)

    def later(call: Callable[[], None]) -> None:
        collector.pause()
        loop.call_soon(go_on, call)

    return later


GC_PAUSE_SECONDS: Final = 1.0
"""Pause after the last slice, until its objects are committed and freed."""
GC_PAUSE_SECONDS_MAX: Final = 10.0
"""Longest pause, while one long decision follows another."""


class GarbageCollector:
    """The garbage collector of this process, paused during long decisions.

    A decision about a hundred thousand partitions creates half a million objects, which are freed
    when it is committed. Each collection before that would stop the event loop for a tenth of a
    second. The collector is paused until they are freed, but never for long.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, after_seconds: float = GC_PAUSE_SECONDS
    ) -> None:
        self._loop = loop
        self._after_seconds = after_seconds
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def pause(self) -> None:
        """Pause the collector: a long decision is under way."""
        now = self._loop.time()
        if self._timer is None:
            self._began = now
            gc.disable()
        elif now >= self._began + GC_PAUSE_SECONDS_MAX:
            # The pause ends now, and is not extended again.
            return
        else:
            self._timer.cancel()
        end = min(now + self._after_seconds, self._began + GC_PAUSE_SECONDS_MAX)
        self._timer = self._loop.call_at(end, self._resume)

    def _resume(self) -> None:
        self._timer = None
        gc.enable()


def _controller(
    config: Config, ids: random.Random, found: Formatted | None, later: Later
) -> QuorumController:
    registration = RegisterController(
        controller_id=config.quorum.node_id,
        incarnation_id=UUID(int=ids.getrandbits(128), version=4),
        endpoints=tuple(
            Endpoint(
                name=each.name,
                host=host,
                port=port,
                security_protocol=int(each.security.protocol),
            )
            for each, (host, port) in _places(config)
        ),
        features=RANGES,
    )
    return QuorumController(
        clock=monotonic_ms,
        wall_clock=wall_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
        metadata_version=config.metadata_version,
        features=() if found is None else found.features,
        scram_credentials=() if found is None else found.scram_credentials,
        registration=registration,
        default_min_isr=config.min_insync_replicas,
        no_op_interval_ms=config.no_op_interval_ms,
        later=later,
        mutation_window_seconds=config.mutation_window_seconds,
    )


def _quorum_config(config: Config) -> QuorumConfig:
    records_voters = config.metadata_version >= LEVEL_KRAFT_VERSION
    quorum = config.quorum
    if quorum.cluster_id is None and not records_voters and quorum.node_id in quorum.voters:
        raise StartError(
            f"cluster.id is not set: at metadata.version {config.metadata_version} no record says "
            f"it, so every voter needs the same 22-character id; from {LEVEL_KRAFT_VERSION} on "
            "the first leader makes one"
        )
    return replace(quorum, kraft_version=int(records_voters))


def _places(config: Config) -> Iterator[tuple[Listener, tuple[str, int]]]:
    """Yield the listeners with their advertised addresses, that of the quorum first."""
    main = named(config.listeners, config.quorum.listener_name)
    # Its address may be a wildcard, and the advertised one that in quorum.voters.
    assert config.quorum.advertised is not None
    yield main, config.quorum.advertised
    for each in config.listeners:
        if each is not main:
            yield each, each.place


def _server(config: Config, apis: ControllerApis, parts: AsyncExitStack) -> Server:
    http = None if config.http is None else config.http.limits
    http_connections_max = 0 if http is None else http.connections_max + http.streams_max
    limits = ServerLimits(
        connections_max=config.connections_max,
        connections_per_address_max=config.connections_per_address_max,
        descriptors_reserved=DESCRIPTORS_RESERVED + http_connections_max,
        request_bytes_of={ApiKey.FETCH: METADATA_LOG_FETCH_BYTES_MAX},
    )
    server = Server(
        apis.handle, offered=OFFERED, name="kafka", clock_ms=monotonic_ms, limits=limits
    )
    parts.push_async_callback(server.close, within_ms=CLOSE_MS)
    return server


async def _listen_kafka(
    config: Config,
    server: Server,
    rights: ControllerAuthorization,
    is_loaded: Callable[[], bool],
) -> Coroutine[Any, Any, None]:
    late = []
    for each in config.listeners:
        if rights.is_loaded or each.name in config.early_listeners:
            with binding("listeners", each.address):
                await listen_at(server, each)
        else:
            late.append(each)
    return _serve_once_loaded(server, late, config.credentials, is_loaded)


LOAD_CHECK_SECONDS: Final = 0.05
"""Time between two looks whether what is committed is loaded."""


async def _serve_once_loaded(
    server: Server,
    listeners: Sequence[Listener],
    credentials: LateCredentials,
    is_loaded: Callable[[], bool],
) -> None:
    """Let clients log in, and open these listeners, once credentials and ACLs are loaded."""
    while True:
        if is_loaded():
            break
        await asyncio.sleep(LOAD_CHECK_SECONDS)
    credentials.tell_known()
    for each in listeners:
        with binding("listeners", each.address):
            await listen_at(server, each)
        logger.info(
            "The ACLs are loaded; listening at %s", each, extra=LogEvent.LISTENER_OPENED.extra
        )


async def _repeat(work: Callable[[], int]) -> None:
    """Call `work` again and again, after the milliseconds that it returns each time."""
    while True:
        wait_ms = work()
        await asyncio.sleep(wait_ms / 1_000)
