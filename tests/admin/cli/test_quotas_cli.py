"""`metaquorum quotas` against a real controller."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from tests.support.controllers import Node, a_controller

NOBODY = ("--bootstrap-controller", "127.0.0.1:1")


async def run(node: Node, *arguments: str) -> Result:
    """The output of the command, run in a thread beside the loop of the controller."""
    words = ["quotas", *arguments, "--bootstrap-controller", str(node.address)]
    return await asyncio.to_thread(CliRunner().invoke, group, words)


async def test_quotas_are_set_listed_and_deleted(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        assert (await run(node, "describe")).stdout == ""

        async def altered(*arguments: str) -> str:
            done = await run(node, "alter", *arguments)
            assert (done.exit_code, done.stdout) == (0, ""), done.output
            return done.stderr

        rates = ("--set", "producer_byte_rate=1024", "--set", "request_percentage=12.5")
        assert await altered("--user", "alice", *rates, "--dry-run") == (
            "Would change producer_byte_rate, request_percentage of user alice.\n"
        )
        assert (await run(node, "describe")).stdout == ""
        await altered("--user", "alice", *rates)
        assert await altered("--user", "alice", "--client", "app", *rates[:2]) == (
            "Changed producer_byte_rate of user alice and client app.\n"
        )
        await altered("--user-defaults", "--set", "consumer_byte_rate=7")
        await altered("--ip-defaults", "--set", "connection_creation_rate=3")
        lines = (await run(node, "describe")).stdout.splitlines()
        assert [line.split() for line in lines] == [
            ["User", "Client", "Ip", "Quota", "Value"],
            ["<default>", "-", "-", "consumer_byte_rate", "7"],
            ["alice", "app", "-", "producer_byte_rate", "1024"],
            ["alice", "-", "-", "producer_byte_rate", "1024"],
            ["alice", "-", "-", "request_percentage", "12.5"],
            ["-", "-", "<default>", "connection_creation_rate", "3"],
        ]
        found = await run(node, "describe", "--client", "app", "-o", "json")
        assert json.loads(found.stdout) == {
            "entities": [
                {
                    "entity": {"client_id": "app", "user": "alice"},
                    "quotas": {"producer_byte_rate": 1024.0},
                }
            ]
        }
        await altered("--user", "alice", "--delete", "producer_byte_rate")
        lines = (await run(node, "describe", "--user", "alice")).stdout.splitlines()
        assert [line.split()[-2:] for line in lines[1:]] == [
            ["producer_byte_rate", "1024"],
            ["request_percentage", "12.5"],
        ]


async def test_a_refused_quota_names_the_right_ones(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        done = await run(node, "alter", "--ip", "10.0.0.1", "--set", "producer_byte_rate=1")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: the quotas of ip 10.0.0.1 cannot be changed: ")
    assert "which may have connection_creation_rate" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("alter", "--set", "a=1"), "name the entity: --user, --client or both, or --ip"),
        (("alter", "--user", "a"), "nothing to change: give --set name=value or --delete name"),
        (("alter", "--user", "a", "--set", "r=1", "--delete", "r"), "r is given twice"),
        (("alter", "--user", "a", "--set", "r=fast"), "--set r: 'fast' is no number"),
        (("describe", "--user", "a", "--user-defaults"), "give --user or --user-defaults, not"),
        (("describe", "--client", ""), "--client is empty; --client-defaults is the default"),
        (("describe", "--ip", "a", "--user", "b"), "--ip has quotas of its own: omit --user"),
    ],
)
def test_asking_for_quotas_wrongly(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(group, ["quotas", *arguments, *NOBODY])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
