"""The common requests to our controllers and Kafka's."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from admin.client.admin_client import AdminClient, AdminError
from admin.client.channels import Channels, Form, NoResponse
from admin.setting_kinds import Role
from admin.tools.local_plan import ClusterPlan, NodePlan
from bench.brokers import Brokers
from bench.commits import BROKER_IDS, TOPIC
from bench.peers.cluster import NODES, NotDone
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import uuid_to_text
from quorum.log.meta_properties import new_directory_id
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

PROBE_MS: Final = 1_000
WRITE_MS: Final = 10_000


def plan_of(addresses: Sequence[Address]) -> ClusterPlan:
    """The plan of a new cluster with only controllers, at these addresses."""
    return ClusterPlan(
        # Kafka's tools would parse an id that begins with a dash as an option.
        cluster_id=uuid_to_text(new_directory_id(random.SystemRandom())),
        nodes=[
            NodePlan(role=Role.CONTROLLER, id=node, kafka=address)
            for node, address in zip(NODES, addresses, strict=True)
        ],
    )


class Controllers:
    """Three controllers of either kind, with the queries that both answer."""

    def __init__(self) -> None:
        self.security: ClientSecurity = PLAIN_CLIENT
        """The security of the queries."""
        self._plan: ClusterPlan | None = None
        self._written = 0

    @property
    def plan(self) -> ClusterPlan:
        assert self._plan is not None, "prepare comes first"
        return self._plan

    @property
    def addresses(self) -> list[Address]:
        return [node.kafka for node in self.plan.controllers]

    def node(self, node: int) -> NodePlan:
        """The plan of a node."""
        return self.plan.controllers[NODES.index(node)]

    def client_address(self, node: int) -> Address:
        return self.node(node).kafka

    async def leader(self) -> int | None:
        quorum = await quorum_of(self.addresses, self.security)
        return None if quorum is None else quorum.leader_id

    async def write(self, node: int) -> None:
        self._written += 1
        await change_quota(self.client_address(node), self._written, self.security)


async def quorum_of(
    controllers: Sequence[Address], security: ClientSecurity = PLAIN_CLIENT
) -> QuorumDescription | None:
    """The leader's description of the quorum; None if the leader does not answer."""
    try:
        async with AdminClient(
            controllers, is_controller=True, timeout_ms=PROBE_MS, security=security
        ) as admin:
            return await admin.describe_quorum()
    except AdminError:
        return None


@contextlib.asynccontextmanager
async def living_brokers(leader: Address, cluster_id: str) -> AsyncIterator[Brokers]:
    """Registered brokers that send heartbeats; the exit of the context deletes their topic."""
    brokers = Brokers(leader, cluster_id)
    await brokers.register(BROKER_IDS)
    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(brokers.beat())
        yield brokers
        beating.cancel()
    await brokers.close()
    async with AdminClient([leader], is_controller=True) as admin:
        await admin.delete_topic(TOPIC)


async def change_quota(controller: Address, value: int, security: ClientSecurity) -> None:
    """Set the quota of a user: a record that needs no broker; raises `NotDone`."""
    channels = Channels("bench-write", security)
    try:
        answer = await channels.ask(
            controller, ApiKey.ALTER_CLIENT_QUOTAS, _quota(value), timeout_ms=WRITE_MS
        )
    except NoResponse as error:
        raise NotDone(str(error)) from None
    finally:
        await channels.close()
    for entry in answer.value.entries:
        if entry.error_code.value:
            raise NotDone(f"{entry.error_code.name}: {entry.error_message}")


def _quota(value: int) -> Any:
    def fill(form: Form) -> Any:
        entry = {
            "entity": ({"entity_type": "user", "entity_name": "bench"},),
            "ops": (
                {
                    "key": "request_percentage",
                    "value": float(value),
                    "remove": False,
                },
            ),
        }
        return form.request(entries=(entry,), validate_only=False)

    return fill
