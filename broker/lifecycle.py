"""The life of a broker as its controller sees it: registered, fenced, unfenced, stopping.

KIP-631. A broker registers its incarnation and gets a broker epoch. It beats fenced until it has
read the metadata up to its own registration, its logs are open and the controller knows in which
directory they are (KIP-858), then asks to be unfenced, and from then on a heartbeat every two
seconds keeps it alive. A controller that knows nothing of this epoch makes it register again, as
the same incarnation. Before it stops it asks for its leaderships to be moved away, and waits for
that as long as a stopping process may.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from broker.config import BrokerConfig
from broker.controller import Backoff, Controllers, NoController
from broker.limits import (
    CONTROLLED_SHUTDOWN_HEARTBEAT_MS,
    CONTROLLED_SHUTDOWN_MS,
    METADATA_VERSION_LEVELS,
)
from broker.living import (
    INCONSISTENT_CLUSTER_ID,
    INVALID_REGISTRATION,
    UNSUPPORTED_VERSION,
    Beaten,
    Living,
    Registered,
)
from broker.report_bytes import with_reports
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from statemachine.copies import CopyReport
from statemachine.features import FEATURES
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
_FATAL: Final = {
    INCONSISTENT_CLUSTER_ID: "the controllers belong to another cluster",
    INVALID_REGISTRATION: "the registration contradicts another broker's, or itself",
    UNSUPPORTED_VERSION: (
        "the cluster runs at a level of a feature that this broker does not support"
    ),
}


class Rejected(Exception):
    """The controller will never register this broker as it is; the message says why."""


@dataclass(slots=True)
class Identity:
    """Who this broker is, as far as it is known by now."""

    cluster_id: str | None
    directory_id: UUID


class Lifecycle:
    """Registers, beats and says good-bye. `run` and `say_goodbye` do not overlap."""

    def __init__(
        self,
        config: BrokerConfig,
        controllers: Controllers,
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
        self._living = Living(
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
        """Be registered and alive until cancelled; raises `Rejected`."""
        while True:
            try:
                self._stirred.clear()
                if self.broker_epoch is None:
                    await self._register()
                wait_ms = await self._beat()
            except NoController as reason:
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
        except NoController as reason:
            logger.info("no active controller: %s", reason)
            return False
        return self._living.may_go(
            answer.error_code.value, should_shut_down=bool(answer.should_shut_down)
        )

    async def _learn_cluster(self) -> None:
        """A folder that belongs to no cluster yet takes the one of the controllers."""
        answer = await self._controllers.ask(ApiKey.DESCRIBE_CLUSTER, _describe_controllers)
        if answer.error_code != 0 or not answer.cluster_id:
            raise NoController(f"it does not name its cluster: {answer.error_code.name}")
        self._identity.cluster_id = str(answer.cluster_id)
        logger.info("the cluster is %s", answer.cluster_id)

    async def _register(self) -> None:
        if self._identity.cluster_id is None:
            await self._learn_cluster()
        answer = await self._controllers.ask(ApiKey.BROKER_REGISTRATION, self._registration)
        code = answer.error_code.value
        match self._living.registered(code, int(answer.broker_epoch)):
            case Registered.REJECTED:
                raise Rejected(f"the controller refused to register this broker: {_FATAL[code]}")
            case Registered.DUPLICATE:
                raise NoController(
                    f"another process is registered as broker {self._config.node_id}, or was "
                    f"until less than {self._config.session_timeout_ms} ms ago"
                )
            case Registered.FAILED:
                raise NoController(f"the registration was answered with {answer.error_code.name}")
            case Registered.DONE:
                self._on_epoch(answer.broker_epoch)
                logger.info("registered with broker epoch %d", answer.broker_epoch)

    async def _beat(self) -> int:
        """One heartbeat; returns how long to wait until the next, ms."""
        living = self._living
        waits = living.wants_fence(is_settled=self._is_settled())
        answer = await self._heartbeat(want_fence=waits, want_shut_down=False)
        was_fenced = living.is_fenced
        match living.beaten(answer.error_code.value, is_fenced=bool(answer.is_fenced)):
            case Beaten.UNKNOWN:
                name = answer.error_code.name
                logger.warning("the controller answered %s, registering again", name)
                return living.wait_ms
            case Beaten.FAILED:
                raise NoController(f"the heartbeat was answered with {answer.error_code.name}")
            case Beaten.DONE:
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
