"""Register a controller with the active one (KIP-919).

Admin clients find the controllers by their registrations, and the level of a feature rises only if
every controller has said that it supports it. The active controller registers itself when it begins
to lead; all others do it here.
"""

import logging
from typing import Any, Final

from msgspec.structs import asdict

from controller.quorum_controller import QuorumController
from quorum.driver import Quorum
from quorum.log_events import LogEvent
from quorum.protocol.apis import ApiKey
from quorum.transport.controller_channel import (
    Backoff,
    NoActiveController,
    NodeToControllerChannelManager,
)
from statemachine.commands import RegisterController
from statemachine.vocabulary import LEVEL_CONTROLLER_REGISTRATION

logger = logging.getLogger("controller")

BACKOFF_MS_MAX: Final = 5_000
CHECK_SECONDS: Final = 5.0
"""Interval between two checks of a registered controller."""
_NOT_YET: Final = "has not registered this controller; retrying"


class ControllerRegistrationManager:
    """Sends the registration until the image contains it."""

    def __init__(
        self,
        controller: QuorumController,
        quorum: Quorum,
        channel: NodeToControllerChannelManager,
    ) -> None:
        self._controller = controller
        self._quorum = quorum
        self._registration = controller.registration
        self._channel = channel
        self._told = ""

    async def run(self) -> None:
        """Keep this controller registered until cancelled."""
        backoff = Backoff(BACKOFF_MS_MAX)
        while True:
            if self._is_done():
                backoff.reset()
                await self._quorum.leader_changed(within_seconds=CHECK_SECONDS)
                continue
            # Until the image has a level, it is unknown whether the cluster has registrations.
            is_founded = self._controller.image.level >= LEVEL_CONTROLLER_REGISTRATION
            if is_founded and self._quorum.leader is not None:
                await self._ask()
            else:
                backoff.reset()
            # After a success the image has the registration a moment later.
            await self._quorum.leader_changed(within_seconds=backoff.next_seconds())

    def _is_done(self) -> bool:
        known = self._controller.image.controllers.get(self._registration.controller_id)
        return self._controller.is_active or (
            known is not None and known.incarnation_id == self._registration.incarnation_id
        )

    async def _ask(self) -> None:
        who = f"node {self._quorum.leader}"
        try:
            response = await self._channel.ask(
                ApiKey.CONTROLLER_REGISTRATION, **registration_fields(self._registration)
            )
        except NoActiveController as error:
            self._tell(f"{who} {_NOT_YET}: {error}")
            return
        if response.error_code.value != 0:
            reason = response.error_message or response.error_code.name
            self._tell(f"{who} {_NOT_YET}: {reason}")
            return
        self._told = ""
        logger.info(
            "%s registered this controller", who, extra=LogEvent.CONTROLLER_REGISTERED.extra
        )

    def _tell(self, what: str) -> None:
        """Log a message unless it is the last one."""
        if what != self._told:
            logger.warning("%s", what, extra=LogEvent.CONTROLLER_NOT_REGISTERED.extra)
            self._told = what


def registration_fields(registration: RegisterController) -> dict[str, Any]:
    """Return the fields of a ControllerRegistration request (70)."""
    return {
        "controller_id": registration.controller_id,
        "incarnation_id": registration.incarnation_id,
        "zk_migration_ready": False,
        "listeners": [asdict(each) for each in registration.endpoints],
        "features": [
            {
                "name": each.name,
                "min_supported_version": each.min_supported,
                "max_supported_version": each.max_supported,
            }
            for each in registration.features
        ],
    }
