"""Features over the Kafka protocol: described, changed by UpdateFeatures, enforced."""

import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from admin.client.admin_client import AdminClient
from admin.faults import Refused
from quorum.discovery.address_book import AddressBook
from quorum.discovery.gossip import Gossip
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from statemachine.commands import UpgradeType
from statemachine.features.features import FEATURES
from tests.controller.apis.samples import controller_registration, update_features, wrapped
from tests.support.broker_requests import joined, registration
from tests.support.controllers import CLUSTER_ID, Node, a_controller, active, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client

UPGRADE, SAFE, UNSAFE = 1, 2, 3
AT_30 = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


async def offered(client: KafkaClient, version: int = 4) -> Any:
    """The answer to ApiVersions."""
    return await client.ask(
        ApiKey.API_VERSIONS, version, client_software_name="test", client_software_version="1"
    )


async def levels(client: KafkaClient) -> dict[str, int]:
    """The features in force."""
    answer = await offered(client)
    return {each.name: each.max_version_level for each in answer.finalized_features}


async def test_every_feature_is_offered_and_every_level_in_force(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answer = await offered(client)
        ranges = {e.name: (e.min_version, e.max_version) for e in answer.supported_features}
        assert ranges == {name: (each.lowest, each.highest) for name, each in FEATURES.items()}
        assert await levels(client) == AT_30
        assert answer.finalized_features_epoch == node.controller.committed


async def test_an_older_client_is_not_told_of_features_that_may_be_at_zero(tmp_path: Path) -> None:
    """KAFKA-17492: it could not read them."""
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answer = await offered(client, 3)
        assert [each.name for each in answer.supported_features] == ["metadata.version"]


@pytest.mark.parametrize("level", [0, 1])
async def test_the_level_of_the_quorums_own_feature_is_shown_where_it_is_one(
    tmp_path: Path, level: int
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        node.controller.kraft_version = level
        assert (await levels(client)).get("kraft.version", 0) == level


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_feature_goes_down_and_up_again(tmp_path: Path, version: int) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.UPDATE_FEATURES, version)
        for level, upgrade in ((1, SAFE), (2, UPGRADE)):
            updates = update_features(form, ("transaction.version", level, upgrade))
            answer = await client.send(form, updates)
            assert answer.error_code.value == 0
            assert answer.error_message is None
            assert [each.error_code.value for each in results(answer)] == [0] * (version < 2)
            assert (await levels(client))["transaction.version"] == level


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_impossible_update_is_refused_for_all_features_with_one_reason(
    tmp_path: Path, version: int
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.UPDATE_FEATURES, version)
        updates = update_features(
            form, ("group.version", 0, SAFE), ("metadata.version", 20, UPGRADE)
        )
        answer = await client.send(form, updates)
        assert answer.error_code.value == 95
        assert answer.error_message.startswith(
            "The update failed for all features since the following feature had an error: Invalid"
            " update version 20 for feature metadata.version. Can't downgrade the version"
        )
        assert [each.error_code.value for each in results(answer)] == [95, 95][: 2 * (version < 2)]
        assert await levels(client) == AT_30


def results(answer: Any) -> Any:
    """The levels of each feature, in versions that have them."""
    return getattr(answer, "results", ())


@pytest.mark.parametrize("version", [1, 2])
async def test_validated_features_stay_unchanged(tmp_path: Path, version: int) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.UPDATE_FEATURES, version)
        updates = update_features(form, ("group.version", 0, SAFE), validate_only=True)
        assert (await client.send(form, updates)).error_code.value == 0
        assert await levels(client) == AT_30


async def test_an_unknown_kind_of_change_is_refused(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.UPDATE_FEATURES, 2)
        answer = await client.send(form, update_features(form, ("group.version", 0, 9)))
        assert answer.error_code.value == 95
        assert "does not support the given upgrade type" in answer.error_message


async def test_a_broker_may_pass_the_request_on(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        inner = Form(ApiKey.UPDATE_FEATURES, 2)
        body = wrapped(inner, update_features(inner, ("share.version", 0, SAFE)))
        answer = await client.send_bytes(Form(ApiKey.ENVELOPE, 0), body)
        assert answer.error_code.value == 0
        assert "share.version" not in await levels(client)


async def test_our_own_client_describes_and_changes_features(tmp_path: Path) -> None:
    async with (
        a_controller(tmp_path) as node,
        AdminClient([Address(*node.address)], is_controller=True) as client,
    ):
        await client.update_features(
            {"share.version": 0}, upgrade_type=UpgradeType.SAFE_DOWNGRADE, dry_run=True
        )
        found = await client.describe_features()
        assert {each.name: each.level for each in found.features if each.level} == AT_30
        await client.update_features({"share.version": 0}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        found = await client.describe_features()
        assert next(e for e in found.features if e.name == "share.version").level == 0
        with pytest.raises(Refused, match=r"INVALID_UPDATE_VERSION"):
            await client.update_features({"share.version": 2}, upgrade_type=UpgradeType.UPGRADE)


# --- brokers are held to what is in force ------------------------------------------------------


async def test_a_refused_registration_is_told_once_for_each_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker asks every second until it gives up; the operator reads it once."""
    caplog.set_level(logging.WARNING, "controller")
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.BROKER_REGISTRATION, 4)
        too_old = form.part(
            "Feature", name="metadata.version", min_supported_version=1, max_supported_version=21
        )
        for _ in range(3):
            answer = await client.send(
                form, registration(form, 101, CLUSTER_ID, features=(too_old,))
            )
            assert answer.error_code.value == 35
        for _ in range(2):
            answer = await client.send(form, registration(form, 101, "AAAAAAAAAAAAAAAAAAAAAg"))
            assert answer.error_code.value == 104
        await joined(client, 101, CLUSTER_ID)
        await client.send(form, registration(form, 101, CLUSTER_ID, features=(too_old,)))
    messages = [each.getMessage() for each in caplog.records]
    told = [each for each in messages if each.startswith("Registration of broker")]
    assert told == [
        "Registration of broker 101 refused: metadata.version 30 is in force,"
        " broker 101 supports 1 to 21 of it (UNSUPPORTED_VERSION 35)",
        "Registration of broker 101 refused: this is cluster 4L6g3nShT-eMCtK--X86sw,"
        " the broker is of AAAAAAAAAAAAAAAAAAAAAg (INCONSISTENT_CLUSTER_ID 104)",
        "Registration of broker 101 refused: metadata.version 30 is in force,"
        " broker 101 supports 1 to 21 of it (UNSUPPORTED_VERSION 35)",
    ]


async def test_a_broker_must_support_the_voters_of_the_log_where_they_are_in_it(
    tmp_path: Path,
) -> None:
    """KIP-853: kraft.version is in force too, though no metadata record says so."""
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        node.controller.kraft_version = 1
        form = Form(ApiKey.BROKER_REGISTRATION, 4)
        request = registration(form, 101, CLUSTER_ID)
        without = tuple(each for each in request.features if each.name != "kraft.version")
        answer = await client.send(form, registration(form, 101, CLUSTER_ID, features=without))
        assert answer.error_code.value == 35
        assert (await client.send(form, request)).error_code.value == 0


# --- controllers register ----------------------------------------------------------------------


async def test_a_controller_registers_and_is_listed_where_it_says_it_is(tmp_path: Path) -> None:
    """KIP-919."""
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.CONTROLLER_REGISTRATION, 0)
        answer = await client.send(form, controller_registration(form))
        assert (answer.error_code.value, answer.error_message) == (0, None)
        known = node.controller.image.controllers[901]
        assert known.incarnation_id == UUID(int=0xC1 << 100 | 901)
        assert await listed(client) == (1, {1: node.address.port, 901: 9093})


async def test_a_negative_controller_id_is_refused(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.CONTROLLER_REGISTRATION, 0)
        answer = await client.send(form, controller_registration(form, controller_id=-2))
        assert answer.error_code.value == 42
        assert "not negative" in answer.error_message


async def test_a_controller_that_is_not_active_registers_nobody(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        other = next(each for each in nodes.values() if each is not leader)
        async with kafka_client(other.address) as client:
            form = Form(ApiKey.CONTROLLER_REGISTRATION, 0)
            answer = await client.send(form, controller_registration(form))
            assert answer.error_code.value == 41


async def test_voters_that_have_not_registered_are_listed_where_the_settings_say(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes, AsyncExitStack() as parts:
        ports = {each.node_id: each.address.port for each in nodes.values()}
        clients = [
            await parts.enter_async_context(kafka_client(node.address)) for node in nodes.values()
        ]
        leader, named = await active(nodes.values()), set[int]()
        # Others hear of a new leader a moment after it leads.
        while named != {leader.node_id}:
            leader = await active(nodes.values())
            said = [await listed(client) for client in clients]
            assert all(known == ports for _, known in said)
            named = {active_id for active_id, _ in said}


async def listed(client: KafkaClient) -> tuple[int, dict[int, int]]:
    """The active controller, and the port of every controller by its id."""
    answer = await client.ask(
        ApiKey.DESCRIBE_CLUSTER,
        1,
        include_cluster_authorized_operations=False,
        endpoint_type=2,
    )
    assert (answer.error_code.value, answer.endpoint_type) == (0, 2)
    return answer.controller_id, {each.broker_id: each.port for each in answer.brokers}


async def test_an_active_controller_that_is_not_listed_is_not_named(tmp_path: Path) -> None:
    """A client that is told of an id without an address waits for ever."""
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        unlisted(node)
        assert await listed(client) == (-1, {})


def unlisted(node: Node) -> None:
    """As if it had neither registered nor stood in the settings."""
    node.service.addresses = AddressBook(Gossip(None))
    node.controller.image.controllers.clear()
