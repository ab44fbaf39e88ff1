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
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final
from uuid import UUID

from broker.config import BrokerConfig
from broker.controller_channel import Backoff, NoActiveController, NodeToControllerChannelManager
from broker.limits import (
    CONTROLLED_SHUTDOWN_HEARTBEAT_MS,
    CONTROLLED_SHUTDOWN_MS,
    METADATA_VERSION_LEVELS,
    STARTING_HEARTBEAT_MS,
)
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.copy_reports import with_reports
from statemachine.features.features import FEATURES
from statemachine.reassignment.copies import CopyReport
from statemachine.vocabulary import METADATA_VERSION

logger = logging.getLogger("broker.lifecycle")

_PLAINTEXT: Final = 0
_ENDPOINT_CONTROLLERS: Final = 2
# The high watermark stands still below min ISR here, which is what the ELR asks of a broker; the
# features of group and transaction coordinators bind whoever is one.
_FEATURES: Final = (
    (METADATA_VERSION, *METADATA_VERSION_LEVELS),
    *(
        (feature.name, feature.lowest, feature.highest)
        for feature in FEATURES.values()
        if feature.name != METADATA_VERSION
    ),
)
STALE_BROKER_EPOCH: Final = 77


DUPLICATE_BROKER_REGISTRATION: Final = 101


BROKER_ID_NOT_REGISTERED: Final = 102


INCONSISTENT_CLUSTER_ID: Final = 104


UNSUPPORTED_VERSION: Final = 35


INVALID_REGISTRATION: Final = 119


REJECTIONS: Final = frozenset({INCONSISTENT_CLUSTER_ID, UNSUPPORTED_VERSION, INVALID_REGISTRATION})
"""Errors that no other try would turn into anything else."""


_UNKNOWN: Final = frozenset({STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED})


_FATAL: Final = {
    INCONSISTENT_CLUSTER_ID: "the controllers belong to another cluster",
    INVALID_REGISTRATION: "the registration contradicts another broker's, or itself",
    UNSUPPORTED_VERSION: (
        "the cluster runs at a level of a feature that this broker does not support"
    ),
}


class RegistrationRejected(Exception):
    """The controller will never register this broker as it is; the message says why."""


@dataclass(slots=True)
class Identity:
    """Who this broker is, as far as it is known by now."""

    cluster_id: str | None
    directory_id: UUID


class RegistrationOutcome(Enum):
    """What came of a registration."""

    DONE = auto()
    REJECTED = auto()
    """Never will this broker be registered as it is."""
    DUPLICATE = auto()
    """Another incarnation is registered, and has not been silent for a whole session yet."""
    FAILED = auto()
    """The controller could not do it now."""


class HeartbeatOutcome(Enum):
    """What came of a heartbeat."""

    DONE = auto()
    UNKNOWN = auto()
    """The controller knows nothing of this broker epoch: it is to be registered again."""
    FAILED = auto()
    """The controller could not do it now."""


class LifecycleState:
    """Where one process of a broker stands with its controller."""

    def __init__(self, *, heartbeat_interval_ms: int, previous_epoch: int) -> None:
        """`previous_epoch` is that of a clean end, -1 without one (KIP-966)."""
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self.previous_epoch = previous_epoch
        self.broker_epoch: int | None = None
        """Of the registration in force; None: registering comes next."""
        self.is_fenced = True
        self.is_ready = False
        """Whether what is to be here is open; set by the owner, once `becomes_ready`."""

    def registered(self, error_code: int, broker_epoch: int) -> RegistrationOutcome:
        """The registration was answered."""
        if error_code in REJECTIONS:
            return RegistrationOutcome.REJECTED
        if error_code == DUPLICATE_BROKER_REGISTRATION:
            return RegistrationOutcome.DUPLICATE
        if error_code != 0:
            return RegistrationOutcome.FAILED
        self.broker_epoch = self.previous_epoch = broker_epoch
        self.is_fenced = True
        return RegistrationOutcome.DONE

    def wants_fence(self, *, is_settled: bool) -> bool:
        """Whether the next heartbeat asks to stay fenced; `is_settled` is whether the controller
        knows in which directory every replica is (KIP-858)."""
        return not self.is_ready or (self.is_fenced and not is_settled)

    def beaten(self, error_code: int, *, is_fenced: bool) -> HeartbeatOutcome:
        """The heartbeat was answered."""
        if error_code in _UNKNOWN:
            self.broker_epoch = None
            self.is_fenced = True
            return HeartbeatOutcome.UNKNOWN
        if error_code != 0:
            return HeartbeatOutcome.FAILED
        self.is_fenced = is_fenced
        return HeartbeatOutcome.DONE

    def becomes_ready(self, *, is_caught_up: bool) -> bool:
        """Whether what is to be here has to be opened now: the metadata is known up to the broker's
        own registration."""
        return is_caught_up and not self.is_ready

    @property
    def wait_ms(self) -> int:
        """How long until the next request, in ms."""
        return STARTING_HEARTBEAT_MS if self.is_fenced else self._heartbeat_interval_ms

    def may_go(self, error_code: int, *, should_shut_down: bool) -> bool:
        """Whether a broker that has asked to stop may; one that is not known may as well."""
        return should_shut_down or error_code != 0


class BrokerLifecycleManager:
    """Registers, beats and says good-bye. `run` and `say_goodbye` do not overlap."""

    def __init__(
        self,
        config: BrokerConfig,
        controllers: NodeToControllerChannelManager,
        *,
        incarnation_id: UUID,
        identity: Identity,
        listener: tuple[str, int],
        metadata_offset: Callable[[], int],
        on_epoch: Callable[[int], None],
        make_ready: Callable[[], Awaitable[None]],
        is_settled: Callable[[], bool],
        previous_epoch: int,
        copies: Callable[[], Sequence[CopyReport]] = tuple,
    ) -> None:
        """While it is fenced it asks to stay so until `is_settled`; `beat_soon` says that it is.

        `copies` is asked before each heartbeat what is to be said in it of replicas to be added.
        """
        self._config = config
        self._controllers = controllers
        self._incarnation_id = incarnation_id
        self._identity = identity
        self._listener = listener
        self._metadata_offset = metadata_offset
        self._on_epoch = on_epoch
        self._make_ready = make_ready
        self._is_settled = is_settled
        self._living = LifecycleState(
            heartbeat_interval_ms=config.heartbeat_interval_ms, previous_epoch=previous_epoch
        )
        self._copies = copies
        self._backoff = Backoff()
        self._stirred = asyncio.Event()
        self.unfenced = asyncio.Event()
        """Set as soon as the controller first lets this broker lead and be in sync."""

    @property
    def broker_epoch(self) -> int | None:
        """Of the registration in force; None before there is one."""
        return self._living.broker_epoch

    @property
    def is_fenced(self) -> bool:
        """Whether the controller lets this broker neither lead nor be in sync."""
        return self._living.is_fenced

    async def run(self) -> None:
        """Be registered and alive until cancelled; raises `RegistrationRejected`."""
        while True:
            try:
                self._stirred.clear()
                if self.broker_epoch is None:
                    await self._register()
                wait_ms = await self._beat()
            except NoActiveController as reason:
                logger.info("no active controller: %s", reason)
                await self._backoff.wait()
                continue
            self._backoff.reset()
            try:
                async with asyncio.timeout(wait_ms / 1_000):
                    await self._stirred.wait()
            except TimeoutError:
                continue

    def beat_soon(self) -> None:
        """Tell the controller now how far the metadata is known here: somebody waits for it."""
        self._stirred.set()

    async def say_goodbye(self) -> bool:
        """Let the leaderships be moved away; returns whether the controller let us go in time."""
        if self.broker_epoch is None or self.is_fenced:
            return False
        try:
            async with asyncio.timeout(CONTROLLED_SHUTDOWN_MS / 1_000):
                may_go = await self._asked_to_stop()
                while not may_go:
                    await asyncio.sleep(CONTROLLED_SHUTDOWN_HEARTBEAT_MS / 1_000)
                    may_go = await self._asked_to_stop()
        except TimeoutError:
            logger.warning(
                "the controller did not let this broker go within %d ms", CONTROLLED_SHUTDOWN_MS
            )
            return False
        return True

    async def _asked_to_stop(self) -> bool:
        try:
            answer = await self._heartbeat(want_fence=False, want_shut_down=True)
        except NoActiveController as reason:
            logger.info("no active controller: %s", reason)
            return False
        return self._living.may_go(
            answer.error_code.value, should_shut_down=bool(answer.should_shut_down)
        )

    async def _learn_cluster(self) -> None:
        """A folder that belongs to no cluster yet takes the one of the controllers."""
        answer = await self._controllers.ask(ApiKey.DESCRIBE_CLUSTER, _describe_controllers)
        if answer.error_code != 0 or not answer.cluster_id:
            raise NoActiveController(f"it does not name its cluster: {answer.error_code.name}")
        self._identity.cluster_id = str(answer.cluster_id)
        logger.info("the cluster is %s", answer.cluster_id)

    async def _register(self) -> None:
        if self._identity.cluster_id is None:
            await self._learn_cluster()
        answer = await self._controllers.ask(ApiKey.BROKER_REGISTRATION, self._registration)
        code = answer.error_code.value
        match self._living.registered(code, int(answer.broker_epoch)):
            case RegistrationOutcome.REJECTED:
                raise RegistrationRejected(
                    f"the controller refused to register this broker: {_FATAL[code]}"
                )
            case RegistrationOutcome.DUPLICATE:
                raise NoActiveController(
                    f"another process is registered as broker {self._config.node_id}, or was "
                    f"until less than {self._config.session_timeout_ms} ms ago"
                )
            case RegistrationOutcome.FAILED:
                raise NoActiveController(
                    f"the registration was answered with {answer.error_code.name}"
                )
            case RegistrationOutcome.DONE:
                self._on_epoch(answer.broker_epoch)
                logger.info("registered with broker epoch %d", answer.broker_epoch)

    async def _beat(self) -> int:
        """One heartbeat; returns how long to wait until the next, ms."""
        living = self._living
        waits = living.wants_fence(is_settled=self._is_settled())
        answer = await self._heartbeat(want_fence=waits, want_shut_down=False)
        was_fenced = living.is_fenced
        match living.beaten(answer.error_code.value, is_fenced=bool(answer.is_fenced)):
            case HeartbeatOutcome.UNKNOWN:
                name = answer.error_code.name
                logger.warning("the controller answered %s, registering again", name)
                return living.wait_ms
            case HeartbeatOutcome.FAILED:
                raise NoActiveController(
                    f"the heartbeat was answered with {answer.error_code.name}"
                )
            case HeartbeatOutcome.DONE:
                self._note_fenced(was_fenced)
        if living.becomes_ready(is_caught_up=bool(answer.is_caught_up)):
            await self._make_ready()
            living.is_ready = True
            return 0
        return living.wait_ms

    def _note_fenced(self, was_fenced: bool) -> None:
        is_fenced = self._living.is_fenced
        if is_fenced != was_fenced:
            logger.info("the controller has %s this broker", "fenced" if is_fenced else "unfenced")
        if not is_fenced:
            self.unfenced.set()

    async def _heartbeat(self, *, want_fence: bool, want_shut_down: bool) -> Any:
        reports = self._copies()

        def body(version: int) -> bytes:
            payload = codec.make_known(
                codec.request_schema(ApiKey.BROKER_HEARTBEAT, version),
                broker_id=self._config.node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._metadata_offset(),
                want_fence=want_fence,
                want_shut_down=want_shut_down,
            )
            written = codec.encode_request_body(ApiKey.BROKER_HEARTBEAT, version, payload)
            return with_reports(written, reports)

        return await self._controllers.ask(
            ApiKey.BROKER_HEARTBEAT, body, timeout_ms=self._config.session_timeout_ms // 2
        )

    def _registration(self, version: int) -> bytes:
        schema = codec.request_schema(ApiKey.BROKER_REGISTRATION, version)
        of_listener = codec.nested(schema, "Listener")
        of_feature = codec.nested(schema, "Feature")
        identity = self._identity
        host, port = self._listener
        payload = codec.make_known(
            schema,
            broker_id=self._config.node_id,
            cluster_id=identity.cluster_id or "",
            incarnation_id=self._incarnation_id,
            listeners=(
                codec.make(
                    of_listener,
                    name=self._config.listener_name,
                    host=host,
                    port=port,
                    security_protocol=_PLAINTEXT,
                ),
            ),
            features=tuple(
                codec.make(
                    of_feature, name=name, min_supported_version=low, max_supported_version=high
                )
                for name, low, high in _FEATURES
            ),
            rack=self._config.rack,
            is_migrating_zk_broker=False,
            log_dirs=(identity.directory_id,),
            previous_broker_epoch=self._living.previous_epoch,
        )
        return codec.encode_request_body(ApiKey.BROKER_REGISTRATION, version, payload)


def _describe_controllers(version: int) -> bytes:
    schema = codec.request_schema(ApiKey.DESCRIBE_CLUSTER, version)
    payload = codec.make_known(
        schema, include_cluster_authorized_operations=False, endpoint_type=_ENDPOINT_CONTROLLERS
    )
    return codec.encode_request_body(ApiKey.DESCRIBE_CLUSTER, version, payload)
