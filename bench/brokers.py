"""Simulated brokers: registered, unfenced, and kept alive by heartbeats.

They have no data and no listener. They send the controllers the same requests as a real broker
(KIP-631).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from admin.client.channels import Channels, Form, NoResponse
from bench.faults import RunFailed
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from statemachine.features.features import RANGES

HEARTBEAT_MS: Final = 1_000
TIMEOUT_MS: Final = 30_000
"""The time limit of a request, which may wait behind a hundred thousand partitions."""
UNFENCE_TRIES: Final = 100

# Incarnations and directories need distinct ids above the reserved ones.
_INCARNATION_BASE: Final = 0xBE_0000 << 64
_DIRECTORY_BASE: Final = 0xD1_0000 << 64
_ANY_PORT: Final = 9_092


class Brokers:
    """Brokers registered at the active controller `leader`; the task `beat` keeps them alive."""

    def __init__(
        self, leader: Address, cluster_id: str, security: ClientSecurity = PLAIN_CLIENT
    ) -> None:
        self._leader = leader
        self._cluster_id = cluster_id
        self._channels = Channels("bench-brokers", security)
        self.epochs: dict[int, int] = {}
        """The broker epoch of each broker, by id."""

    async def register(self, broker_ids: Sequence[int]) -> None:
        """Register the brokers with support for every level of every feature, and unfence them."""
        await self.register_fenced(broker_ids)
        for broker_id in broker_ids:
            for _ in range(UNFENCE_TRIES):
                if not (await self._heartbeat(broker_id)).is_fenced:
                    break
            else:
                raise RunFailed(
                    f"broker {broker_id} was not unfenced by {UNFENCE_TRIES} heartbeats"
                )

    async def register_fenced(self, broker_ids: Sequence[int]) -> None:
        """Register the brokers, and send no heartbeat."""
        for broker_id in broker_ids:
            fill = self._registration(broker_id)
            answer = await self._ask(ApiKey.BROKER_REGISTRATION, fill)
            self.epochs[broker_id] = int(answer.broker_epoch)

    async def beat(self) -> None:
        """Keep the brokers alive until cancelled; raises `RunFailed` if one is fenced."""
        while True:
            await asyncio.sleep(HEARTBEAT_MS / 1_000)
            # Concurrently: in sequence, the last heartbeat could be late if each one is slow.
            broker_ids = tuple(self.epochs)
            answers = await asyncio.gather(*map(self._heartbeat, broker_ids))
            for broker_id, answer in zip(broker_ids, answers, strict=True):
                if answer.is_fenced and broker_id in self.epochs:
                    raise RunFailed(f"broker {broker_id} was fenced during the run")

    async def close(self) -> None:
        """Close the connection."""
        await self._channels.close()

    async def _heartbeat(self, broker_id: int) -> Any:
        epoch = self.epochs[broker_id]

        def fill(form: Form) -> Any:
            return form.request(
                broker_id=broker_id,
                broker_epoch=epoch,
                # The broker must show only that it has applied its own registration.
                current_metadata_offset=epoch,
                want_fence=False,
                want_shut_down=False,
            )

        return await self._ask(ApiKey.BROKER_HEARTBEAT, fill)

    def _registration(self, broker_id: int) -> Any:
        def fill(form: Form) -> Any:
            return form.request(
                broker_id=broker_id,
                cluster_id=self._cluster_id,
                incarnation_id=UUID(int=_INCARNATION_BASE + broker_id),
                listeners=(
                    {
                        "name": "PLAINTEXT",
                        "host": "127.0.0.1",
                        "port": _ANY_PORT,
                        "security_protocol": 0,
                    },
                ),
                features=tuple(
                    {
                        "name": each.name,
                        "min_supported_version": each.min_supported,
                        "max_supported_version": each.max_supported,
                    }
                    for each in RANGES
                ),
                rack=None,
                is_migrating_zk_broker=False,
                log_dirs=(UUID(int=_DIRECTORY_BASE + broker_id),),
                previous_broker_epoch=-1,
            )

        return fill

    async def _ask(self, api_key: ApiKey, fill: Any) -> Any:
        try:
            found = await self._channels.ask(self._leader, api_key, fill, timeout_ms=TIMEOUT_MS)
        except NoResponse as error:
            raise RunFailed(f"{api_key}: {error}") from None
        answer = found.value
        if answer.error_code.value:
            raise RunFailed(f"{api_key} was answered with {answer.error_code.name}")
        return answer
