"""The lifecycle of a broker (KIP-631): register, heartbeat, unfence, controlled shutdown.

A broker registers its incarnation and receives a broker epoch. It heartbeats fenced until it has
read the metadata up to its own registration, its logs are open and the controller knows their
directories (KIP-858). Then it asks to be unfenced, and a heartbeat every two seconds keeps it
alive. A controller that does not know the epoch makes it register again as the same incarnation.
Before it stops, it asks to have its leaderships moved and waits a bounded time for that.

`LifecycleState` is pure: the simulation runs it too.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from broker.config import BrokerConfig
from broker.limits import (
    CONTROLLED_SHUTDOWN_HEARTBEAT_MS,
    CONTROLLED_SHUTDOWN_MS,
    REGISTERED_FEATURES,
    STARTING_HEARTBEAT_MS,
)
from quorum.cluster_id import ClusterIdentity
from quorum.log_events import LogEvent
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import Extension, encoded
from quorum.transport.controller_channel import (
    Backoff,
    NoActiveController,
    NodeToControllerChannelManager,
)
from quorum.transport.listener import Listener
from statemachine.reassignment.copies import CopyReport

logger = logging.getLogger("broker")

REJECTIONS: Final[Mapping[int, str]] = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controllers belong to another cluster",
    ErrorCode.INVALID_REGISTRATION: (
        "the registration contradicts itself or that of another broker"
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "the cluster runs at a level of a feature that this broker does not support"
    ),
}
"""Errors of a registration that no retry can change."""
_UNKNOWN: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


class RegistrationRejected(Exception):
    """The controller refuses this broker for good; the message says why."""


class LifecycleState:
    """The state of one broker process towards the controller."""

    def __init__(self, *, heartbeat_interval_ms: int, previous_epoch: int) -> None:
        """`previous_epoch` is the epoch of the last clean shutdown, or -1 (KIP-966)."""
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self.previous_epoch = previous_epoch
        self.broker_epoch: int | None = None
        """The broker epoch of the current registration; None: register next."""
        self.is_fenced = True
        """Whether the broker may neither lead nor be in sync."""
        self.is_ready = False
        """Whether the local replicas are open; the owner sets it after `becomes_ready`."""

    def on_registration(self, error_code: int, broker_epoch: int) -> bool:
        """Apply the response to a registration; return whether the broker is registered now.

        Raises `RegistrationRejected` if it cannot be registered with this configuration.
        """
        if error_code in REJECTIONS:
            raise RegistrationRejected(
                f"the controller rejected the registration of this broker: {REJECTIONS[error_code]}"
            )
        if error_code != 0:
            return False
        self.broker_epoch = self.previous_epoch = broker_epoch
        self.is_fenced = True
        return True

    def wants_fence(self, *, is_settled: bool) -> bool:
        """Return whether the next heartbeat asks to stay fenced.

        `is_settled`: the controller knows the directory of every replica (KIP-858).
        """
        return not self.is_ready or (self.is_fenced and not is_settled)

    def on_heartbeat(self, error_code: int, *, is_fenced: bool) -> bool:
        """Apply the response to a heartbeat; return whether the controller could process it.

        If it does not know the broker epoch, the broker has none any more and registers again.
        """
        if error_code in _UNKNOWN:
            self.broker_epoch = None
            self.is_fenced = True
        elif error_code == 0:
            self.is_fenced = is_fenced
        return error_code == 0 or error_code in _UNKNOWN

    def becomes_ready(self, *, is_caught_up: bool) -> bool:
        """Return whether to open the local replicas: the metadata covers its registration."""
        return is_caught_up and not self.is_ready

    @property
    def wait_ms(self) -> int:
        """The ms until the next heartbeat."""
        return STARTING_HEARTBEAT_MS if self.is_fenced else self._heartbeat_interval_ms

    def may_go(self, error_code: int, *, should_shut_down: bool) -> bool:
        """Return whether the broker may stop: it was released or is unknown there."""
        return should_shut_down or error_code != 0


class BrokerLifecycleManager:
    """The registration and heartbeat loop. `run` and `controlled_shutdown` do not overlap."""

    def __init__(
        self,
        config: BrokerConfig,
        controllers: NodeToControllerChannelManager,
        *,
        incarnation_id: UUID,
        cluster: ClusterIdentity,
        directory_id: UUID,
        listeners: Callable[[], Sequence[Listener]],
        metadata_offset: Callable[[], int],
        on_epoch: Callable[[int], None],
        make_ready: Callable[[], Awaitable[None]],
        is_settled: Callable[[], bool],
        previous_epoch: int,
        copies: Callable[[], Sequence[CopyReport]],
        cordoned: Callable[[], Sequence[UUID]],
    ) -> None:
        """While fenced, it asks to stay fenced until `is_settled`; see `heartbeat_soon`.

        `copies` returns the progress reports for the next heartbeat, `cordoned` the log directories
        that get no new replicas.
        """
        self._config = config
        self._controllers = controllers
        self._incarnation_id = incarnation_id
        self._cluster = cluster
        self._directory_id = directory_id
        self._listeners = listeners
        self._metadata_offset = metadata_offset
        self._on_epoch = on_epoch
        self._make_ready = make_ready
        self._is_settled = is_settled
        self.state = LifecycleState(
            heartbeat_interval_ms=config.heartbeat_interval_ms, previous_epoch=previous_epoch
        )
        self._copies = copies
        self._cordoned = cordoned
        self._backoff = Backoff()
        self._wake_up = asyncio.Event()
        self.unfenced = asyncio.Event()
        """Set when the controller unfences the broker for the first time."""

    async def run(self) -> None:
        """Register and send heartbeats until cancelled; raises `RegistrationRejected`."""
        while True:
            try:
                self._wake_up.clear()
                if self.state.broker_epoch is None:
                    await self._register()
                wait_ms = await self._send_heartbeat()
            except NoActiveController as reason:
                logger.info(
                    "No active controller: %s", reason, extra=LogEvent.CONTROLLER_UNREACHABLE.extra
                )
                await self._backoff.wait()
                continue
            self._backoff.reset()
            try:
                async with asyncio.timeout(wait_ms / 1_000):
                    await self._wake_up.wait()
            except TimeoutError:
                continue

    def heartbeat_soon(self) -> None:
        """Send the next heartbeat at once, with the current metadata offset."""
        self._wake_up.set()

    async def controlled_shutdown(self) -> bool:
        """Ask for a controlled shutdown; return whether the controller agreed in time."""
        if self.state.broker_epoch is None or self.state.is_fenced:
            return False
        try:
            async with asyncio.timeout(CONTROLLED_SHUTDOWN_MS / 1_000):
                may_go = await self._asked_to_stop()
                while not may_go:
                    await asyncio.sleep(CONTROLLED_SHUTDOWN_HEARTBEAT_MS / 1_000)
                    may_go = await self._asked_to_stop()
        except TimeoutError:
            logger.warning(
                "Stopping without a controlled shutdown: the controller did not agree within %d ms",
                CONTROLLED_SHUTDOWN_MS,
                extra=LogEvent.SHUTDOWN_UNCONTROLLED.extra,
            )
            return False
        return True

    async def _asked_to_stop(self) -> bool:
        try:
            answer = await self._heartbeat(want_fence=False, want_shut_down=True)
        except NoActiveController as reason:
            logger.info(
                "No active controller: %s", reason, extra=LogEvent.CONTROLLER_UNREACHABLE.extra
            )
            return False
        return self.state.may_go(
            answer.error_code.value, should_shut_down=bool(answer.should_shut_down)
        )

    async def _register(self) -> None:
        if self._cluster.id is None:
            raise NoActiveController("no node has named the cluster id yet")
        answer = await self._controllers.ask(
            ApiKey.BROKER_REGISTRATION,
            broker_id=self._config.quorum.node_id,
            cluster_id=self._cluster.id,
            incarnation_id=self._incarnation_id,
            listeners=[
                {
                    "name": each.name,
                    "host": each.place.host,
                    "port": each.place.port,
                    "security_protocol": int(each.security.protocol),
                }
                for each in self._listeners()
            ],
            features=[
                {
                    "name": name,
                    "min_supported_version": levels.lowest,
                    "max_supported_version": levels.highest,
                }
                for name, levels in REGISTERED_FEATURES.items()
            ],
            rack=self._config.rack,
            is_migrating_zk_broker=False,
            log_dirs=[self._directory_id],
            previous_broker_epoch=self.state.previous_epoch,
        )
        code = answer.error_code.value
        if self.state.on_registration(code, int(answer.broker_epoch)):
            self._on_epoch(answer.broker_epoch)
            logger.info(
                "Registered with broker epoch %d",
                answer.broker_epoch,
                extra=LogEvent.BROKER_REGISTERED.extra,
            )
        elif code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            raise NoActiveController(
                f"another process is registered as broker {self._config.quorum.node_id}, or was "
                f"until less than {self._config.session_timeout_ms} ms ago"
            )
        else:
            raise NoActiveController(f"registration failed: {answer.error_code.name}")

    async def _send_heartbeat(self) -> int:
        """Send one heartbeat; return the ms until the next one."""
        state = self.state
        waits = state.wants_fence(is_settled=self._is_settled())
        answer = await self._heartbeat(want_fence=waits, want_shut_down=False)
        was_fenced = state.is_fenced
        name = answer.error_code.name
        if not state.on_heartbeat(answer.error_code.value, is_fenced=bool(answer.is_fenced)):
            raise NoActiveController(f"heartbeat failed: {name}")
        if self.state.broker_epoch is None:
            logger.warning(
                "Heartbeat failed with %s: registering again",
                name,
                extra=LogEvent.HEARTBEAT_REFUSED.extra,
            )
            return state.wait_ms
        self._note_fenced(was_fenced)
        if state.becomes_ready(is_caught_up=bool(answer.is_caught_up)):
            await self._make_ready()
            state.is_ready = True
            return 0
        return state.wait_ms

    def _note_fenced(self, was_fenced: bool) -> None:
        is_fenced = self.state.is_fenced
        if is_fenced != was_fenced:
            logger.info(
                "The controller %s this broker",
                "fenced" if is_fenced else "unfenced",
                extra=LogEvent.BROKER_STATE.extra,
            )
        if not is_fenced:
            self.unfenced.set()

    async def _heartbeat(self, *, want_fence: bool, want_shut_down: bool) -> Any:
        reports = self._copies()
        # Before it has read the metadata, the broker does not know their value in the log.
        cordoned = self._cordoned() if self.state.is_ready else None

        def body(version: int) -> bytes:
            return codec.request_body(
                ApiKey.BROKER_HEARTBEAT,
                version,
                broker_id=self._config.quorum.node_id,
                broker_epoch=self.state.broker_epoch,
                current_metadata_offset=self._metadata_offset(),
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                cordoned_log_dirs=cordoned,
                extension=encoded(Extension.with_details(reports)) if reports else b"",
            )

        return await self._controllers.send(
            ApiKey.BROKER_HEARTBEAT, body, timeout_ms=self._config.session_timeout_ms // 2
        )
