"""`metaquorum leader transfer` against real controllers."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.support.controllers import Node, controllers

NOBODY = ("--bootstrap-controller", "127.0.0.1:1", "--timeout", "50ms")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["leader", *arguments])


async def run(node: Node, *arguments: str) -> Result:
    """The output of the command for this node, run in a thread beside the loop of the node."""
    whom = ("--bootstrap-controller", str(node.address))
    return await asyncio.to_thread(invoke, *arguments, *whom)


async def test_the_command_says_who_leads_in_which_epoch_and_how_long_it_took(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        wanted, other = (each for each in nodes.values() if each is not leader)
        epoch = leader.opened.quorum.node.epoch + 1
        result = await run(other, "transfer", "--to", str(wanted.node_id))
        assert result.exit_code == 0, result.output
        told = rf"Controller {wanted.node_id} leads in epoch {epoch}, \d+ ms after the request\.\n"
        assert re.fullmatch(told, result.stdout)
        await at_rest(nodes.values())
        same = await run(other, "transfer", "--to", str(wanted.node_id))
        assert (same.exit_code, same.stdout) == (
            0,
            f"Controller {wanted.node_id} leads already, in epoch {epoch}: nothing was changed.\n",
        )
        again = await run(other, "transfer", "-o", "json")
        assert again.exit_code == 0, again.output
        found = json.loads(again.stdout)
        assert found["leader_id"] != wanted.node_id
        assert found["leader_epoch"] == epoch + 1


async def test_a_refused_transfer_is_one_sentence(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2) as nodes:
        await at_rest(nodes.values())
        result = await run(nodes[1], "transfer", "--to", "7")
        assert result.exit_code == 1
        assert result.output == (
            "Error: the lead cannot be transferred to 7: 7 is no voter; voters are 1, 2 "
            "(VOTER_NOT_FOUND)\n"
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("transfer",), "give --bootstrap-server or --bootstrap-controller"),
        (("transfer", "--to", "x", *NOBODY), "'x' is not a whole number from 0 to 2147483647"),
        (("transfer", "--to", "-1", *NOBODY), "'-1' is not a whole number from 0 to 2147483647"),
        (("take", *NOBODY), "No such command 'take'"),
    ],
)
def test_invalid_options_of_a_transfer_are_usage_errors(
    arguments: tuple[str, ...], said: str
) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_a_transfer_without_an_answer_names_the_asked_nodes() -> None:
    result = invoke("transfer", "--to", "2", *NOBODY)
    assert result.exit_code == 1
    assert "the lead cannot be transferred to 2: no answer from 127.0.0.1:1" in result.output
