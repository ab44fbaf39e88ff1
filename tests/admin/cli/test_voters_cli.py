"""`metadata-quorum alter`, `add-controller`, `remove-controller` against real controllers."""

import asyncio
import json
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from admin.client.admin_client import AdminClient
from admin.client.retrying_client import Call
from quorum.core.vocabulary import uuid_to_text
from quorum.protocol.apis import ApiKey
from statemachine.features.features import RANGES
from tests.support.controllers import Node, active, controllers

NOBODY = ("--bootstrap-controller", "127.0.0.1:1", "--timeout", "50ms")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["metadata-quorum", *arguments])


async def run(node: Node, *arguments: str) -> Result:
    """The output of the command for this node, run in a thread beside the loop of the node."""
    whom = ("--bootstrap-controller", str(node.address))
    return await asyncio.to_thread(invoke, *arguments, *whom)


async def test_one_command_changes_the_voters_and_waits_for_the_end(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3, observers=(4, 5), kraft_version=1) as nodes:
        await active(nodes.values())
        result = await run(nodes[4], "alter", "--voters", "3,4,5")
        assert result.exit_code == 0, result.output
        assert result.stdout == "CurrentVoters: [3, 4, 5]\n"
        seeds = await run(nodes[4], "--alter", "--voters", "3,4")
        assert (seeds.exit_code, seeds.stdout) == (0, "CurrentVoters: [3, 4]\n")


async def test_a_target_that_is_not_reached_in_time_goes_on_and_can_be_cancelled(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        await active(nodes.values())
        result = await run(nodes[1], "alter", "--voters", "1,7", "--timeout", "1s")
        assert result.exit_code == 3
        assert result.stdout == "CurrentVoters: [1]\nTargetVoters: [1, 7]\n"
        waits = "voters [1], target [1, 7]; waiting for 7: they do not fetch from the leader"
        assert waits in result.stderr
        plain = await run(nodes[1], "alter", "--voters", "1,7", "--timeout", "1s", "-o", "json")
        assert (plain.exit_code, json.loads(plain.stdout)["target_voters"]) == (3, [1, 7])
        status = await run(nodes[1], "describe", "--status")
        assert status.stdout.splitlines()[-2:] == [
            "TargetVoters:           [1, 7]",
            "WaitsFor:               7: they do not fetch from the leader",
        ]
        cancelled = await run(nodes[1], "alter", "--cancel")
        assert (cancelled.exit_code, cancelled.stdout) == (0, "CurrentVoters: [1]\n")


async def register(node: Node, *, through: Node) -> None:
    """Announce the address of a controller, as its process does (KIP-919)."""
    address = node.address
    place = {"name": "CONTROLLER", "host": address.host, "port": address.port}
    call = Call(
        api_key=ApiKey.CONTROLLER_REGISTRATION,
        fill=lambda form: form.request(
            controller_id=node.node_id,
            incarnation_id=UUID(int=1 << 64),
            zk_migration_ready=False,
            listeners=[{**place, "security_protocol": 0}],
            features=[
                {
                    "name": each.name,
                    "min_supported_version": each.min_supported,
                    "max_supported_version": each.max_supported,
                }
                for each in RANGES
            ],
        ),
        failing="the controller cannot be registered",
        status_command=None,
    )
    async with AdminClient([through.address], is_controller=True) as client:
        await client.carry_out(call)


async def test_controllers_are_added_and_removed_in_the_words_of_kafkas_tool(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3, observers=(4,), kraft_version=1) as nodes:
        await active(nodes.values())
        await register(nodes[4], through=nodes[2])
        four = uuid_to_text(nodes[4].opened.directory_id)
        one = uuid_to_text(nodes[1].opened.directory_id)
        listener = str(nodes[4].address)
        it = ("--controller-id", "4", "--controller-directory-id", four)
        added = await run(nodes[2], "add-controller", *it, "--listener", listener)
        assert added.output == (
            f"Added controller 4 with directory id {four} and endpoints: CONTROLLER://{listener}\n"
        )
        removed = await run(nodes[2], "remove-controller", "--controller-id", "1")
        assert removed.output == f"Removed  KRaft controller 1 with directory id {one}\n"
        stranger = await run(nodes[2], "remove-controller", "--controller-id", "9")
        assert stranger.exit_code == 1
        assert "controller 9: it is not a voter" in stranger.output
        again = ("add-controller", "--controller-id", "2", "--listener", listener)
        assert "it is not an observer but a voter" in (await run(nodes[2], *again)).output


async def test_a_controller_that_has_registered_its_address_is_added_by_its_id_alone(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3, observers=(4,), kraft_version=1) as nodes:
        await active(nodes.values())
        await register(nodes[4], through=nodes[2])
        four = uuid_to_text(nodes[4].opened.directory_id)
        added = await run(nodes[2], "add-controller", "--controller-id", "4")
        assert added.output == (
            f"Added controller 4 with directory id {four} and endpoints: "
            f"CONTROLLER://{nodes[4].address}\n"
        )
        unknown = ("--controller-id", "7", "--controller-directory-id", four)
        missing = await run(nodes[2], "add-controller", *unknown)
        assert "controller 7 has registered no address; give --listener" in missing.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("alter",), "give --voters 4,5,6, or --cancel"),
        (("alter", "--voters", "1", "--cancel"), "give --voters 4,5,6, or --cancel"),
        (("alter", "--voters", "1,x"), "'x' is not an id"),
        (("alter", "--voters", "1,1"), "1 is given twice"),
        (("alter", "--voters", "1:zz"), "'zz' has 2 characters"),
        (("--voters", "1"), "--voters goes with --alter"),
        (("--alter", "--describe", "--voters", "1"), "not both"),
        (("add-controller", "--controller-id", "4", "--listener", "a:1,b:2"), "name one address"),
    ],
)
def test_invalid_options_for_voters_are_usage_errors(arguments: tuple[str, ...], said: str) -> None:
    result = invoke(*arguments, *NOBODY)
    assert result.exit_code == 2
    assert said in result.output
