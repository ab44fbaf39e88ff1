"""Topic a, of which something is planned, and how that is asked for at each door."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from click.testing import CliRunner, Result

from admin.cli.main import group
from controller.quorum_controller import QuorumController
from quorum.protocol.apis import ApiKey
from statemachine.vocabulary import Replicas
from tests.admin.http.test_http_api import Http, http_door
from tests.controller.controller_commands import asked, join, topic, topic_id
from tests.support.controllers import Node, a_controller
from tests.support.kafka_client import kafka_client

EMPTYING: Final = "/v1/brokers/102/decommission"
BACK: Final = "/v1/brokers/102/recommission"
FACTOR: Final = "/v1/reassignments:replication-factor"
INVALID_REQUEST: Final = 42


async def three_brokers(controller: QuorumController, *replicas: int, partitions: int = 1) -> None:
    """Brokers 101, 102 and 103, and the topic on these of them."""
    await join(controller, 101, 102, 103)
    await asked(controller, topic("a", *replicas, partitions=partitions))


@asynccontextmanager
async def planned_over_http(folder: Path) -> AsyncIterator[tuple[Node, Http]]:
    """A controller with three brokers, two of which have the topic; and its door."""
    async with a_controller(folder) as node, http_door(node) as http:
        await three_brokers(node.controller, 101, 102)
        yield node, http


def replicas(node: Node, name: str = "a") -> Replicas:
    """Those that the partition has now."""
    partition = node.controller.image.topics[topic_id(name)].partition(0)
    assert partition is not None
    return partition.replicas


async def put(http: Http, path: str) -> Any:
    """The body of the answer, which is no problem."""
    answer = await http._send("PUT", path)
    assert answer.status in (200, 202), answer.body
    return answer.body


async def altered(node: Node, name: str, *arguments: str) -> Result:
    """The output of `metaquorum topics alter`, run in a thread beside the controller's loop."""
    whom = ("--bootstrap-controller", str(node.address))
    words = ["topics", "alter", name, *arguments, *whom]
    return await asyncio.to_thread(CliRunner().invoke, group, words)


async def check_refused(folder: Path, name: str, wrong: dict[str, Any], words: str) -> None:
    """The capability refuses these fields, and these words say why."""
    async with a_controller(folder) as node, kafka_client(node.address) as client:
        body, timeout = msgspec.msgpack.encode(wrong), timedelta(seconds=1)
        answer = await client.ask(ApiKey.CAPABILITY, 0, timeout=timeout, name=name, body=body)
        assert answer.error_code == INVALID_REQUEST
        assert words in answer.error_message


def check_misused(cases: Iterable[tuple[tuple[str, ...], str]]) -> None:
    """Each of these commands is refused before anything is sent, and the words say why."""
    for arguments, words in cases:
        done = CliRunner().invoke(group, [*arguments, "--bootstrap-controller", "h:1"])
        assert done.exit_code == 2
        assert words in done.stderr
