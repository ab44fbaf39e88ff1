"""Check that the state of the cluster matches the answers; otherwise the figures are worthless."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from admin.client.admin_client import AdminClient
from admin.client.channels import Channels, Form
from bench.brokers import TIMEOUT_MS
from bench.faults import RunFailed
from bench.isr_connection import Claim
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

TRIES: Final = 100
PAUSE_MS: Final = 20
"""The time limit for followers to apply the last commits, after the leader has answered them."""


async def check(
    topic: str,
    controllers: Sequence[Address],
    leader: Address,
    claims: Sequence[Claim],
    security: ClientSecurity = PLAIN_CLIENT,
) -> None:
    """Raise `RunFailed` unless every controller has the ISRs of `claims` and the leader has their
    epochs."""
    await check_epochs(leader, claims, security)
    for controller in controllers:
        async with AdminClient([controller], is_controller=True, security=security) as admin:
            await _check_isrs(admin, controller, topic, claims)


async def _check_isrs(
    admin: AdminClient, controller: Address, topic: str, claims: Sequence[Claim]
) -> None:
    wrong: list[str] = []
    for _ in range(TRIES):
        partitions = (await admin.describe_topics([topic]))[topic].partitions
        wrong = [
            f"partition {claim.number} has {found.isr}@{found.leader_epoch}, answered was "
            f"{claim.isr}@{claim.leader_epoch}"
            for claim, found in zip(claims, partitions, strict=True)
            if (tuple(found.isr), found.leader_epoch) != (claim.isr, claim.leader_epoch)
        ]
        if not wrong:
            return
        await asyncio.sleep(PAUSE_MS / 1_000)
    raise RunFailed(f"controller at {controller}: {wrong[0]} ({len(wrong)} partitions differ)")


async def check_epochs(
    leader: Address, claims: Sequence[Claim], security: ClientSecurity = PLAIN_CLIENT
) -> None:
    """Raise `RunFailed` unless the leader has the ISRs and the epochs of `claims`.

    It requests the ISR that each partition already has. The request changes nothing, and the leader
    refuses it if an epoch is wrong.
    """
    channels = Channels("bench-check", security)
    try:
        for broker_id in sorted({claim.leader for claim in claims}):
            of_broker = [claim for claim in claims if claim.leader == broker_id]
            answer = await channels.ask(
                leader, ApiKey.ALTER_PARTITION, _asking(of_broker), timeout_ms=TIMEOUT_MS
            )
            found = {
                each.partition_index: (each.error_code.name, each.partition_epoch)
                for topic in answer.value.topics
                for each in topic.partitions
            }
            for claim in of_broker:
                if found.get(claim.number) != ("none", claim.partition_epoch):
                    raise RunFailed(
                        f"partition {claim.number} answers {found.get(claim.number)} for epoch "
                        f"{claim.partition_epoch}, which was its last"
                    )
    finally:
        await channels.close()


def _asking(claims: Sequence[Claim]) -> Any:
    def fill(form: Form) -> Any:
        partitions = tuple(
            {
                "partition_index": claim.number,
                "leader_epoch": claim.leader_epoch,
                "new_isr_with_epochs": tuple(
                    {"broker_id": each, "broker_epoch": claim.broker_epochs[each]}
                    for each in claim.isr
                ),
                "leader_recovery_state": 0,
                "partition_epoch": claim.partition_epoch,
            }
            for claim in claims
        )
        topic = {"topic_id": claims[0].topic_id, "partitions": partitions}
        leader = claims[0].leader
        return form.request(
            broker_id=leader, broker_epoch=claims[0].broker_epochs[leader], topics=(topic,)
        )

    return fill
