"""Register a controller with the active one (KIP-919).

Admin clients find the controllers by their registrations, and the level of a feature rises only if
every controller has said that it supports it. The active controller registers itself when it begins
to lead; all others do it here.
"""

import logging
import random
from typing import Any, Final

from controller.quorum_controller import QuorumController
from quorum.driver import Quorum
from quorum.ports import Clock, PeerAddresses
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.malformed import Malformed
from quorum.transport.channel import Channel
from quorum.transport.outcomes import RequestFailed
from quorum.transport.sweeper import Sweeper
from statemachine.commands import RegisterController
from statemachine.vocabulary import LEVEL_CONTROLLER_REGISTRATION

logger = logging.getLogger("controller")

VERSION: Final = 0
REQUEST_TIMEOUT_MS: Final = 5_000
BACKOFF_MS: Final = 100
BACKOFF_MS_MAX: Final = 5_000
CHECK_MS: Final = 5_000
"""Interval between two checks of a registered controller."""
_NOT_YET: Final = "has not registered this controller yet, and is asked again"


class ControllerRegistrationManager:
    """Sends the registration until the image contains it."""

    def __init__(
        self,
        controller: QuorumController,
        quorum: Quorum,
        registration: RegisterController,
        addresses: PeerAddresses,
        *,
        clock: Clock,
    ) -> None:
        self._controller = controller
        self._quorum = quorum
        self._registration = registration
        self._addresses = addresses
        self._clock = clock
        self._told = ""

    async def run(self) -> None:
        """Keep this controller registered until cancelled."""
        backoff_ms = BACKOFF_MS
        while True:
            if self._is_done():
                backoff_ms = BACKOFF_MS
                await self._quorum.leader_changed(within_seconds=CHECK_MS / 1_000)
                continue
            # Before the log is read up to its founding, nobody can say whether it is needed.
            asks = self._controller.image.level >= LEVEL_CONTROLLER_REGISTRATION
            if asks:
                await self._ask()
            # What is granted is in the image a moment later.
            await self._quorum.leader_changed(within_seconds=backoff_ms / 1_000)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MS_MAX) if asks else BACKOFF_MS

    def _is_done(self) -> bool:
        known = self._controller.image.controllers.get(self._registration.controller_id)
        return self._controller.is_active or (
            known is not None and known.incarnation_id == self._registration.incarnation_id
        )

    async def _ask(self) -> None:
        leader = self._quorum.leader
        address = None if leader is None else self._addresses.address_of(leader)
        if address is None:
            return
        sweeper = Sweeper(self._clock)
        channel = Channel(
            lambda: address,
            client_id=f"registrar-{self._registration.controller_id}",
            sweeper=sweeper,
            rng=random.SystemRandom(),
        )
        try:
            reply = await channel.call(
                ApiKey.CONTROLLER_REGISTRATION,
                registration_body(self._registration),
                timeout_ms=REQUEST_TIMEOUT_MS,
                version=VERSION,
            )
            self._heard(f"node {leader}", reply.decode())
        except (RequestFailed, Malformed) as error:
            self._tell(f"node {leader} {_NOT_YET}: {error}")
        finally:
            await channel.close()
            sweeper.close()

    def _heard(self, who: str, response: Any) -> None:
        if response.error_code.value != 0:
            reason = response.error_message or response.error_code.name
            self._tell(f"{who} {_NOT_YET}: {reason}")
            return
        self._told = ""
        logger.info("%s registered this controller", who)

    def _tell(self, what: str) -> None:
        """Log a message unless it is the last one."""
        if what != self._told:
            logger.warning("%s", what)
            self._told = what


def registration_body(registration: RegisterController) -> bytes:
    """Encode a ControllerRegistration request (70)."""
    return codec.request_body(
        ApiKey.CONTROLLER_REGISTRATION,
        VERSION,
        controller_id=registration.controller_id,
        incarnation_id=registration.incarnation_id,
        zk_migration_ready=False,
        listeners=[
            {
                "name": each.name,
                "host": each.host,
                "port": each.port,
                "security_protocol": each.security_protocol,
            }
            for each in registration.endpoints
        ],
        features=[
            {
                "name": each.name,
                "min_supported_version": each.min_supported,
                "max_supported_version": each.max_supported,
            }
            for each in registration.features
        ],
    )
