"""The client of the benchmark: its requests are valid, and no wrong answer counts."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

from bench.isr_connection import VERSION, Claim, IsrConnection, check_patching
from controller.apis import alter_partition
from quorum.clocks import monotonic_ms
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.transport.inbound import InboundRequest
from quorum.transport.server import Server
from statemachine.commands import AlterPartition, PartitionAltered, PartitionsAltered
from statemachine.errors import Error

Answering = Callable[[AlterPartition], PartitionsAltered]


def claim() -> Claim:
    return Claim(
        number=3,
        topic_id=UUID(int=9),
        replicas=(1, 2),
        broker_epochs={1: 10, 2: 20},
        leader_epoch=5,
        partition_epoch=7,
        isr=(1, 2),
    )


def committed(command: AlterPartition) -> PartitionsAltered:
    """The answer of a controller to which every change is right."""
    (proposal,) = command.proposals
    altered = PartitionAltered(
        topic_id=proposal.topic_id,
        partition=proposal.partition,
        leader=command.broker_id,
        leader_epoch=proposal.leader_epoch,
        isr=tuple(member.broker_id for member in proposal.isr),
        recovery=proposal.recovery,
        partition_epoch=proposal.partition_epoch + 1,
    )
    return PartitionsAltered(partitions=(altered,))


@asynccontextmanager
async def controller(answering: Answering) -> AsyncIterator[int]:
    """The port of a listener that answers each AlterPartition as told."""

    def handle(request: InboundRequest) -> None:
        command = alter_partition.read_request(request.api_version, request.body)
        request.respond(alter_partition.write_answer(answering(command)))

    offered: dict[int, VersionRange] = {ApiKey.ALTER_PARTITION: VersionRange(VERSION, VERSION)}
    server = Server(handle, offered=offered, name="controller", clock_ms=monotonic_ms)
    try:
        yield await server.listen("127.0.0.1", 0)
    finally:
        await server.close()


async def run(answering: Answering, *, changes: int) -> tuple[Claim, list[str], int]:
    """Ask until `changes` are committed or one failed; the claim, failures, and latencies."""
    held, failures = claim(), list[str]()
    ended = asyncio.get_running_loop().create_future()

    def fail(reason: str) -> None:
        failures.append(reason)
        ended.set_result(None)

    def answer(command: AlterPartition) -> PartitionsAltered:
        if held.changes == changes and not ended.done():
            ended.set_result(None)
        return answering(command)

    connection = IsrConnection(held, fail)
    connection.latencies = array("d")
    async with controller(answer) as port:
        await asyncio.get_running_loop().create_connection(connection.itself, "127.0.0.1", port)
        connection.go()
        await ended
        if not failures:
            await connection.halt()
        connection.close()
    return held, failures, len(connection.latencies)


def test_patched_frames_are_those_that_kio_would_have_written() -> None:
    check_patching()


async def test_each_answer_is_the_ground_of_the_next_request() -> None:
    held, failures, latencies = await run(committed, changes=10)
    assert failures == []
    assert held.changes == latencies == held.partition_epoch - 7
    assert held.isr == ((1,) if held.changes % 2 else (1, 2))


async def test_an_error_ends_the_run_and_is_not_counted() -> None:
    def refused(command: AlterPartition) -> PartitionsAltered:
        return PartitionsAltered(error=Error.NOT_CONTROLLER)

    held, failures, latencies = await run(refused, changes=10)
    assert (held.changes, latencies) == (0, 0)
    assert "partition 3, change 1, was answered" in failures[0]
    assert "not_controller" in failures[0]


async def test_an_answer_with_another_epoch_ends_the_run_too() -> None:
    def repeated(command: AlterPartition) -> PartitionsAltered:
        (proposal,) = command.proposals
        (altered,) = committed(command).partitions
        return PartitionsAltered(
            partitions=(
                PartitionAltered(
                    topic_id=altered.topic_id,
                    partition=altered.partition,
                    leader=altered.leader,
                    leader_epoch=altered.leader_epoch,
                    isr=altered.isr,
                    recovery=altered.recovery,
                    partition_epoch=proposal.partition_epoch,
                ),
            )
        )

    held, failures, _ = await run(repeated, changes=10)
    assert held.changes == 0
    assert "partition_epoch=7" in failures[0]
