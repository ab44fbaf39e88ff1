"""Quotas of controller mutations on the Kafka listener (KIP-599).

An exhausted quota refuses new versions of a request and only delays old ones, and the node that
the client is connected to takes no request of it for that time: the controller itself, or the
controller or broker that forwarded the request.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from tests.admin.embedded_brokers import embedded
from tests.controller.apis.samples import alter_quotas, metadata
from tests.controller.controller_commands import join
from tests.support.controllers import HOST, Node, a_controller, active, controllers
from tests.support.kafka_client import Form, kafka_client

OK, EXCEEDED = 0, 89
RATE = 2.0
"""22 partitions at once, by the window of eleven seconds."""
CREATE, DELETE, GROW = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS
METADATA = Form(ApiKey.METADATA, 12)


@dataclass
class Outcome:
    """The errors of the topics in their order, and the time to wait, in ms."""

    errors: list[int]
    throttle_ms: float


async def send(address: Address, form: Form, **counts: int) -> Outcome:
    """Create topics with so many partitions, give them so many, or delete them."""
    async with kafka_client(address) as client:
        return outcome(await client.send(form, request(form, counts)))


def request(form: Form, counts: Mapping[str, int], *, validate_only: bool = False) -> Any:
    fields: dict[str, Any] = {"timeout": timedelta(seconds=20), "validate_only": validate_only}
    if form.api_key == DELETE:
        fields["topic_names"] = tuple(counts)
        if form.version >= 6:
            fields["topics"] = tuple(
                form.part("DeleteTopicState", name=name, topic_id=None) for name in counts
            )
    elif form.api_key == GROW:
        fields["topics"] = tuple(
            form.part("CreatePartitionsTopic", name=name, count=count, assignments=None)
            for name, count in counts.items()
        )
    else:
        fields["topics"] = tuple(
            form.part(
                "CreatableTopic",
                name=name,
                num_partitions=count,
                replication_factor=1,
                assignments=(),
                configs=(),
            )
            for name, count in counts.items()
        )
    return form.request(**fields)


def outcome(answer: Any) -> Outcome:
    results = getattr(answer, "topics", None) or getattr(answer, "responses", None)
    results = answer.results if results is None else results
    errors = [each.error_code.value for each in results]
    return Outcome(errors, answer.throttle_time / timedelta(milliseconds=1))


async def limit(node: Node, rate: float, entity: dict[str, str | None] | None = None) -> None:
    """Set the quota of an entity; without one that of user ANONYMOUS, who all clients here are."""
    form = Form(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    quotas: dict[str, float | None] = {"controller_mutation_rate": rate}
    entry = entity or {"user": "ANONYMOUS"}, quotas
    async with kafka_client(node.address) as client:
        answer = await client.send(form, alter_quotas(form, entry, validate_only=False))
    assert [each.error_code.value for each in answer.entries] == [OK]


class Still:
    """A clock that only the test moves."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@asynccontextmanager
async def limited(folder: Path, clock: Still) -> AsyncIterator[Node]:
    """A controller with one broker and a quota, and topics a and b of one partition."""
    async with a_controller(folder, session_clock=clock) as node:
        await join(node.controller, 101)
        assert (await send(node.address, Form(CREATE, 7), a=1, b=1)).errors == [OK, OK]
        await limit(node, RATE)
        yield node


@pytest.mark.parametrize(
    ("api_key", "version", "counts", "errors", "throttle_ms"),
    [
        (CREATE, 7, {"c": 30, "d": 30}, [OK, EXCEEDED], 4_000),
        (CREATE, 6, {"c": 30, "d": 30}, [OK, EXCEEDED], 4_000),
        (CREATE, 5, {"c": 30, "d": 30}, [OK, OK], 19_000),
        (CREATE, 2, {"c": 30, "d": 30}, [OK, OK], 19_000),
        (GROW, 3, {"a": 31, "b": 31}, [OK, EXCEEDED], 4_000),
        (GROW, 2, {"a": 31, "b": 31}, [OK, OK], 19_000),
        (CREATE, 7, {"c": 22, "d": 1}, [OK, OK], 0),
        (CREATE, 5, {"c": 22, "d": 1}, [OK, OK], 500),
    ],
)
async def test_new_versions_are_refused_and_old_ones_delayed(
    tmp_path: Path,
    api_key: int,
    version: int,
    counts: dict[str, int],
    errors: list[int],
    throttle_ms: int,
) -> None:
    """KIP-599: strict from CreateTopics v6 and CreatePartitions v3 on."""
    async with limited(tmp_path, Still()) as node:
        found = await send(node.address, Form(api_key, version), **counts)
        assert found == Outcome(errors, throttle_ms)


@pytest.mark.parametrize(
    ("version", "errors", "throttle_ms"),
    [(6, [OK, EXCEEDED], 4_000), (5, [OK, EXCEEDED], 4_000), (4, [OK, OK], 19_000)],
)
async def test_deletions_use_the_quota_too(
    tmp_path: Path, version: int, errors: list[int], throttle_ms: int
) -> None:
    """KIP-599: strict from DeleteTopics v5 on."""
    async with a_controller(tmp_path, session_clock=Still()) as node:
        await join(node.controller, 101)
        assert (await send(node.address, Form(CREATE, 7), a=30, b=30)).errors == [OK, OK]
        await limit(node, RATE)
        found = await send(node.address, Form(DELETE, version), a=0, b=0)
        assert found == Outcome(errors, throttle_ms)


async def test_the_quota_fills_with_time_and_is_that_of_the_client(tmp_path: Path) -> None:
    clock = Still()
    async with limited(tmp_path, clock) as node:
        create = Form(CREATE, 7)
        assert await send(node.address, create, c=30) == Outcome([OK], 0)
        clock.now_ms += 3_999
        assert await send(node.address, create, d=1) == Outcome([EXCEEDED], 1)
        clock.now_ms += 1
        assert await send(node.address, create, d=1) == Outcome([OK], 0)
        assert await send(node.address, create, e=1) == Outcome([EXCEEDED], 500)
        # One for the client id, which is "test", comes first.
        await limit(node, 1_000, {"user": None, "client-id": "test"})
        assert await send(node.address, create, e=1) == Outcome([EXCEEDED], 500)
        await limit(node, 1_000, {"user": "ANONYMOUS", "client-id": "test"})
        assert await send(node.address, create, e=1) == Outcome([OK], 0)
        assert node.controller.throttled_mutations == 3


async def test_a_longer_window_allows_more_at_once(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, session_clock=Still(), mutation_window_seconds=20) as nodes:
        node = await active(nodes.values())
        await join(node.controller, 101)
        await limit(node, RATE)
        assert await send(node.address, Form(CREATE, 7), c=40, d=1) == Outcome([OK, OK], 0)
        assert await send(node.address, Form(CREATE, 7), e=1) == Outcome([EXCEEDED], 500)


async def test_a_request_that_only_validates_uses_the_quota(tmp_path: Path) -> None:
    async with limited(tmp_path, Still()) as node, kafka_client(node.address) as client:
        form = Form(CREATE, 7)
        found = await client.send(form, request(form, {"c": 30}, validate_only=True))
        assert outcome(found) == Outcome([OK], 0)
        assert await send(node.address, form, c=1) == Outcome([EXCEEDED], 4_000)


@dataclass
class Way:
    """The controller that is active, and the node to which the clients are connected."""

    leader: Node
    address: Address


@asynccontextmanager
async def to_the_leader(folder: Path) -> AsyncIterator[Way]:
    async with a_controller(folder) as node:
        await join(node.controller, 101)
        yield Way(node, node.address)


@asynccontextmanager
async def to_a_follower(folder: Path) -> AsyncIterator[Way]:
    async with controllers(folder, 1, 2) as nodes:
        leader = await active(nodes.values())
        await join(leader.controller, 101)
        (other,) = (each for each in nodes.values() if each is not leader)
        yield Way(leader, other.address)


@asynccontextmanager
async def to_a_broker(folder: Path) -> AsyncIterator[Way]:
    async with embedded(folder, 101) as it:
        yield Way(it.node, Address(HOST, it.brokers[101].port))


WAYS = pytest.mark.parametrize("way", [to_the_leader, to_a_follower, to_a_broker])


@WAYS
async def test_a_client_that_is_to_wait_is_not_served(tmp_path: Path, way: Any) -> None:
    """Others are, also by the connection by which its requests are forwarded."""
    async with way(tmp_path) as path:
        await limit(path.leader, 0.01)
        async with kafka_client(path.address) as client:
            form = Form(CREATE, 5)
            answer = outcome(await client.send(form, request(form, {"a": 1, "b": 1})))
            assert answer.errors == [OK, OK]
            assert 0 < answer.throttle_ms <= 200_000
            muted = asyncio.get_running_loop().create_task(
                client.send(METADATA, metadata(METADATA))
            )
            strict = await send(path.address, Form(CREATE, 7), c=1)
            assert strict.errors == [EXCEEDED]
            async with kafka_client(path.address) as other:
                await other.send(METADATA, metadata(METADATA))
            assert not muted.done()
            muted.cancel()
            await asyncio.wait({muted})


@WAYS
async def test_a_client_that_has_waited_is_served(tmp_path: Path, way: Any) -> None:
    async with way(tmp_path) as path:
        await limit(path.leader, 10)
        async with kafka_client(path.address) as client:
            form = Form(CREATE, 5)
            answer = outcome(await client.send(form, request(form, {"a": 112})))
            assert answer.errors == [OK]
            assert answer.throttle_ms <= 200
            await client.send(METADATA, metadata(METADATA))
