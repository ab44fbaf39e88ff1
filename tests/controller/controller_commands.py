"""Commands for a controller, their answers, and a disk that can be kept busy under it."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from controller.ports import Unavailable
from controller.quorum_controller import QuorumController
from quorum.log.disk_thread import DiskThread
from statemachine import commands
from statemachine.commands import Answer, Command
from statemachine.features.features import RANGES
from statemachine.image.image import Image
from statemachine.vocabulary import Replicas
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import CLUSTER_ID

Outcome = Answer | Unavailable


def asked(controller: QuorumController, command: Command) -> "asyncio.Future[Outcome]":
    """The outcome of a command, as soon as the controller tells it."""
    outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    controller.submit(command, outcome.set_result)
    return outcome


def looked(
    controller: QuorumController, read: Callable[[Image], Any], *, stale: bool = False
) -> "asyncio.Future[Any]":
    """The result of a query, as soon as the controller answers."""
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    controller.query(read, found.set_result, stale=stale)
    return found


@asynccontextmanager
async def busy(disk: DiskThread) -> AsyncIterator[None]:
    """Let the disk thread do nothing meanwhile: what is to be committed waits behind this."""
    loop = asyncio.get_running_loop()
    begun, holding, ended = loop.create_future(), loop.create_future(), threading.Event()

    def hold() -> None:
        loop.call_soon_threadsafe(begun.set_result, None)
        assert ended.wait(PATIENCE_SECONDS)

    disk.perform(hold, holding.set_result)
    await begun
    try:
        yield
    finally:
        ended.set()
        await holding


def topic(
    name: str, *replicas: int, partitions: int = 1, configs: tuple[tuple[str, str], ...] = ()
) -> commands.CreateTopics:
    """A topic of this name, its partitions all on these brokers."""
    return commands.CreateTopics(
        topics=(
            commands.NewTopic(
                name=name,
                topic_id=topic_id(name),
                assignments=tuple((number, replicas) for number in range(partitions)),
                configs=configs,
            ),
        )
    )


def topic_id(name: str) -> UUID:
    """The id that a topic of this name gets."""
    return UUID(bytes=name.encode().rjust(15, b"-")[-15:] + b"-")


def move(name: str, *replicas: int, partition: int = 0) -> commands.AlterReassignments:
    """The replicas that a partition is to have."""
    asked_for = commands.Reassignment(topic=name, partition=partition, replicas=replicas)
    return commands.AlterReassignments(reassignments=(asked_for,))


def registration(broker_id: int) -> commands.RegisterBroker:
    """A broker wants to belong to the cluster."""
    return commands.RegisterBroker(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        our_cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=0xB0 << 100 | broker_id),
        endpoints=(),
        features=RANGES,
        log_dirs=(UUID(int=0xD1 << 100 | broker_id),),
    )


def heartbeat(controller: QuorumController, broker_id: int) -> commands.BrokerHeartbeat:
    """A broker that has applied all of the log lives."""
    return commands.BrokerHeartbeat(
        broker_id=broker_id,
        broker_epoch=controller.image.brokers[broker_id].broker_epoch,
        metadata_offset=controller.image.end_offset,
    )


async def join(controller: QuorumController, *broker_ids: int) -> None:
    """These brokers register, and are unfenced."""
    for broker_id in broker_ids:
        registered = await asked(controller, registration(broker_id))
        assert isinstance(registered, commands.BrokerRegistered)
        assert not registered.error.code, registered
        answer = await asked(controller, heartbeat(controller, broker_id))
        assert isinstance(answer, commands.HeartbeatAnswered)
        assert not answer.fenced


def isr(
    controller: QuorumController, name: str, members: Replicas, numbers: Iterable[int] = (0,)
) -> commands.AlterPartition:
    """The leader of these partitions, one and the same, wants this ISR for each."""
    image, topic = controller.image, controller.image.topics[topic_id(name)]
    found = {number: topic.partition(number) for number in numbers}
    partitions = {number: each for number, each in found.items() if each is not None}
    (leader,) = {each.leader for each in partitions.values()}
    assert partitions.keys() == found.keys()
    return commands.AlterPartition(
        broker_id=leader,
        broker_epoch=image.brokers[leader].broker_epoch,
        proposals=tuple(
            commands.IsrProposal(
                topic_id=topic.topic_id,
                partition=number,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                isr=tuple(
                    commands.IsrMember(each, image.brokers[each].broker_epoch) for each in members
                ),
            )
            for number, partition in partitions.items()
        ),
    )


def anything(controller: QuorumController, rng: random.Random) -> Command:
    """Some command, most often one that changes something."""
    name = f"topic-{rng.randrange(6)}"
    brokers = rng.sample((101, 102, 103, 104), 3)
    match rng.randrange(7):
        case 0 | 1:
            return topic(name, *brokers, partitions=3, configs=(("retention.ms", "1000"),))
        case 2:
            return commands.DeleteTopics(topics=(name,))
        case 3 | 4:
            return move(name, *brokers, partition=rng.randrange(3))
        case 5:
            return commands.FenceBrokers(broker_ids=(rng.choice(brokers),))
        case _:
            return heartbeat(controller, brokers[0])
