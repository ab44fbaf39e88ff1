"""The addresses of all nodes by client, command line and HTTP."""

import json
from pathlib import Path
from uuid import UUID

from click.testing import CliRunner

from admin.capabilities.quorum import NodeAddress, Nodes
from admin.cli import quorum_text
from admin.cli.main import group
from admin.client.admin_client import AdminClient
from quorum.core.vocabulary import NO_DIRECTORY, uuid_to_text
from quorum.transport.address import Address
from tests.admin.http.test_http_api import http_door
from tests.support.controllers import CLUSTER_ID, a_controller, controllers

FOUND = Nodes(
    cluster_id="C",
    leader_id=1,
    leader_epoch=3,
    brokers=(
        NodeAddress(
            replica_id=1,
            host="c1.example",
            port=9093,
            boot_timestamp=1_795_236_537_164,
            directory_id=uuid_to_text(UUID(int=7)),
        ),
        NodeAddress(
            replica_id=101,
            host="::1",
            port=9092,
            boot_timestamp=2**62,
            directory_id=uuid_to_text(NO_DIRECTORY),
        ),
    ),
)


def test_a_table_has_a_line_for_each_node() -> None:
    assert quorum_text.nodes_table(FOUND).splitlines() == [
        "NodeId  Address          Booted                  DirectoryId             Version  Status",
        "1       c1.example:9093  2026-11-21T04:48:57Z    AAAAAAAAAAAAAAAAAAAABw  -        Leader",
        "101     [::1]:9092       4611686018427387904 ms  -                       -",
    ]


def test_as_data_it_has_all_that_is_known() -> None:
    found = json.loads(json.dumps(quorum_text.nodes_data(FOUND)))
    assert (found["cluster_id"], found["leader_id"], found["leader_epoch"]) == ("C", 1, 3)
    assert [node["port"] for node in found["nodes"]] == [9093, 9092]


async def test_client_and_http_say_the_same_without_a_leader(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes:
        node = nodes[1]
        async with AdminClient([node.address], is_controller=True) as client, http_door(node) as h:
            found = await client.discover_brokers()
            answer = await h.get("/v1/quorum/brokers")
        assert (found.cluster_id, found.leader_id) == (CLUSTER_ID, -1)
        assert answer.status == 200
        assert answer.body["leader_id"] == -1
        (own,), (shown,) = found.brokers, answer.body["brokers"]
        assert own.address == node.address == Address(shown["host"], shown["port"])
        assert own.boot_timestamp == shown["boot_timestamp"]


async def test_the_leader_is_named(tmp_path: Path) -> None:
    async with (
        a_controller(tmp_path) as node,
        AdminClient([node.address], is_controller=True) as client,
    ):
        assert (await client.discover_brokers()).leader_id == 1


def test_addresses_of_nodes_are_separate_from_the_state_of_the_quorum() -> None:
    command = ["metadata-quorum", "describe", "--brokers", "--bootstrap-controller", "h:1"]
    for more in (["--status"], ["--human-readable"], ["--stale"]):
        done = CliRunner().invoke(group, [*command, *more])
        assert done.exit_code == 2, more
        assert "--brokers" in done.stderr
