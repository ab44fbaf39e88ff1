"""Invalid reassignments are refused one by one, with the same message on every listener.

The message names the topic, the partition, the brokers and the error. In Kafka's protocol topic and
partition are fields beside the message, which Kafka's tools print before it; HTTP and the command
line print them themselves.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from admin.cli.main import group
from quorum.protocol.apis import ApiKey
from statemachine import commands
from tests.admin.cli.test_reassign_partitions import brokers
from tests.admin.http.test_http_api import http_door, plan
from tests.controller.apis.samples import alter_reassignments
from tests.controller.controller_commands import asked, move, topic
from tests.support.controllers import Node
from tests.support.kafka_client import Form, kafka_client

FORM: Final = Form(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1)
Part = tuple[str, int, tuple[int, ...] | None]
MIN_ISR: Final = (("min.insync.replicas", "2"),)

WRONG: Final[list[tuple[Part, int, tuple[str, ...]]]] = [
    (("a", 0, (101, 109)), 39, ("broker 109", "no such broker is registered")),
    (("a", 0, (101, 104)), 39, ("broker 104 is cordoned", "uncordon it, or name another")),
    (("a", 9, (101, 102)), 3, ("topic a has no partition 9",)),
    (("nope", 0, (101,)), 3, ("there is no topic nope",)),
    (("a", 0, None), 85, ("a-0 is not being reassigned",)),
    (("b", 0, None), 39, ("101, 102", "1 in sync where 2 must be", "not in sync: 102")),
]
"""The request (None cancels), Kafka's error, and words of the message."""
WRONG_IN_ITSELF: Final[list[tuple[Part, int, tuple[str, ...]]]] = [
    (("a", 0, ()), 39, ("the replica list is empty",)),
    (("a", 0, (101, -7)), 39, ("broker ids are not negative: -7",)),
    (("a", 0, (101, 101)), 39, ("101, 101 names more than once: 101",)),
]
"""A file, or a body, with it is refused as a whole, before anything is asked."""


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Node]:
    """Topic a stands still, b is moved and lacks 102, c is right; 104 is cordoned."""
    async with brokers(folder, dict.fromkeys((101, 102, 103, 104))) as node:
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 101, 102, configs=MIN_ISR))
        await asked(node.controller, topic("c", 101))
        await asked(node.controller, commands.CordonBrokers(broker_ids=(104,), cordoned=True))
        await asked(node.controller, move("b", 101, 103))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(102,)))
        yield node


def check(said: str, part: Part, words: tuple[str, ...]) -> None:
    """The sentence, in one line, names the partition and all that is meant."""
    assert len(said.splitlines()) == 1, said
    for word in (f"{part[0]}-{part[1]}", *words):
        assert word in said


@pytest.mark.parametrize(("part", "error", "words"), WRONG + WRONG_IN_ITSELF)
async def test_over_kafkas_protocol(
    tmp_path: Path, part: Part, error: int, words: tuple[str, ...]
) -> None:
    async with cluster(tmp_path) as node, kafka_client(node.address) as client:
        asked_for = alter_reassignments(FORM, part, ("c", 0, (103,)))
        answer = await client.send(FORM, asked_for)
        wrong, right = (
            (topic.name, each) for topic in answer.responses for each in topic.partitions
        )
        name, found = wrong
        assert (int(found.error_code), int(right[1].error_code)) == (error, 0)
        check(f"{name}-{found.partition_index}: {found.error_message}", part, words)


@pytest.mark.parametrize(("part", "error", "words"), WRONG)
async def test_over_http(tmp_path: Path, part: Part, error: int, words: tuple[str, ...]) -> None:
    name, number, replicas = part
    async with cluster(tmp_path) as node, http_door(node) as http:
        if replicas is None:
            named = {"partitions": [{"topic": name, "partition": number}]}
            alone = await http.post("/v1/reassignments:cancel", named)
        else:
            wrong = (name, number, list(replicas))
            alone = await http.post("/v1/reassignments", plan(wrong))
            beside = await http.post("/v1/reassignments", plan(wrong, ("c", 0, [103])))
            assert (beside.status, beside.body["accepted"], beside.body["refused"]) == (202, 1, 1)
            assert beside.body["errors"] == alone.body["errors"]
        assert alone.status in (400, 409)
        (told,) = alone.body["errors"]
        assert (told["topic"], told["partition"], told["kafka_error_code"]) == (name, number, error)
        check(alone.body["detail"], part, words)


@pytest.mark.parametrize(("part", "words"), [(part, words) for part, _, words in WRONG])
async def test_on_the_command_line(tmp_path: Path, part: Part, words: tuple[str, ...]) -> None:
    """The check of the whole plan reports missing partitions, in Kafka's opening words."""
    name, number, replicas = part
    async with cluster(tmp_path) as node:
        if replicas is None:
            command = ["moves", "cancel", "--partition", f"{name}-{number}"]
        else:
            text = str(plan((name, number, list(replicas)))).replace("'", '"')
            (tmp_path / "plan.json").write_text(text, encoding="utf-8")
            file = ["--reassignment-json-file", str(tmp_path / "plan.json")]
            command = ["reassign-partitions", "--execute", "--additional", *file]
        whom = ["--bootstrap-controller", str(node.address)]
        done = await asyncio.to_thread(CliRunner().invoke, group, [*command, *whom])
    assert done.exit_code == 1, done.output
    said = done.stderr.splitlines()[-1]
    absent = {109: ("Unknown broker id 109",), 9: ("Unable to find partition",)}
    if name == "nope":
        words = ("Topic nope not found",)
    check(said, part, absent.get(number or (replicas or (0,))[-1], words))
