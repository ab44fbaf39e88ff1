"""Registration, heartbeats and controlled shutdown, against a real controller."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.config import BrokerConfig
from broker.lifecycle import BrokerLifecycleManager, RegistrationRejected
from quorum.clocks import monotonic_ms
from quorum.cluster_id import ClusterIdentity
from quorum.core.vocabulary import ReplicaId
from quorum.persistent_state import QuorumConfig
from quorum.protocol import codec
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import SPOKEN, ApiKey
from quorum.transport.address import Address
from quorum.transport.controller_channel import NodeToControllerChannelManager
from quorum.transport.inbound import InboundRequest
from quorum.transport.listener import Listener
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper
from statemachine.commands import (
    BrokerHeartbeat,
    BrokerRegistered,
    CreateTopics,
    FenceBrokers,
    FoundCluster,
    HeartbeatAnswered,
    NewTopic,
    RegisterBroker,
    UnregisterBroker,
)
from statemachine.decide import decide
from statemachine.image.image import Image
from statemachine.records import kafka_records
from statemachine.replay import replay
from tests.broker.embedded_cluster import until
from tests.controller.controller_in_memory import CLUSTER, RNG
from tests.support.kio_values import make_known

APIS = {
    int(key): SPOKEN[key]
    for key in (
        ApiKey.API_VERSIONS,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
    )
}
NODE = 7


class Registrar:
    """A controller as far as the life of brokers goes."""

    def __init__(self) -> None:
        self.image = Image()
        self.seen: list[Any] = []
        self.not_controller = 0
        """Requests that are to be answered NOT_CONTROLLER first."""
        self.port = 0
        self.decide(FoundCluster(metadata_version=25))

    def decide(self, command: Any) -> Any:
        decision = decide(self.image, command)
        for record in decision.records:
            replay(self.image, record, self.image.end_offset)
        return decision.answer

    def handle(self, request: InboundRequest) -> None:
        if request.api_key == ApiKey.API_VERSIONS:
            request.respond(write_offer(request.api_version, APIS))
            return
        message = codec.decode_request(request.api_key, request.api_version, request.body)
        self.seen.append(message)
        if self.not_controller:
            self.not_controller -= 1
            return self._respond(request, 41)
        match request.api_key:
            case ApiKey.BROKER_REGISTRATION:
                answer = self.register(message)
                self._respond(request, answer.error.code, broker_epoch=answer.broker_epoch)
            case _:
                self._heartbeat(request, message)

    def register(self, message: Any) -> BrokerRegistered:
        answer = self.decide(
            RegisterBroker(
                broker_id=message.broker_id,
                cluster_id=message.cluster_id,
                our_cluster_id=CLUSTER,
                incarnation_id=message.incarnation_id,
                endpoints=tuple(
                    kafka_records.Endpoint(
                        name=each.name, host=each.host, port=each.port, security_protocol=0
                    )
                    for each in message.listeners
                ),
                features=tuple(
                    kafka_records.FeatureRange(
                        name=each.name,
                        min_supported=each.min_supported_version,
                        max_supported=each.max_supported_version,
                    )
                    for each in message.features
                ),
                rack=message.rack,
                log_dirs=message.log_dirs,
            )
        )
        assert isinstance(answer, BrokerRegistered)
        return answer

    def _heartbeat(self, request: InboundRequest, message: Any) -> None:
        answer = self.decide(
            BrokerHeartbeat(
                broker_id=message.broker_id,
                broker_epoch=message.broker_epoch,
                metadata_offset=message.current_metadata_offset,
                want_fence=message.want_fence,
                want_shut_down=message.want_shut_down,
            )
        )
        assert isinstance(answer, HeartbeatAnswered)
        self._respond(
            request,
            answer.error.code,
            is_caught_up=answer.caught_up,
            is_fenced=answer.fenced,
            should_shut_down=answer.should_shut_down,
        )

    def _respond(self, request: InboundRequest, code: int, **values: Any) -> None:
        schema = codec.response_schema(request.api_key, request.api_version)
        payload = make_known(
            schema, throttle_time=timedelta(0), error_code=codec.error_code(code), **values
        )
        request.respond(codec.encode_response_body(request.api_key, request.api_version, payload))


class Life:
    """A lifecycle, with what it told its broker."""

    def __init__(self, registrar: Registrar, tmp_path: Path, cluster_id: str | None) -> None:
        self.sweeper = Sweeper(monotonic_ms)
        self.controllers = NodeToControllerChannelManager(
            lambda: ("127.0.0.1", registrar.port),
            client_id="broker",
            sweeper=self.sweeper,
            rng=RNG,
        )
        self.cluster = ClusterIdentity(
            cluster_id, keep=lambda _, done: done(), make=lambda: "none is made"
        )
        self.epochs: list[int] = []
        self.readied = 0
        self.is_settled = True
        self.offset: Callable[[], int] = lambda: registrar.image.end_offset - 1
        self.cycle = BrokerLifecycleManager(
            BrokerConfig(
                quorum=QuorumConfig(
                    node_id=ReplicaId(NODE),
                    folder=tmp_path,
                    voters={ReplicaId(1): ("127.0.0.1", 1)},
                ),
                listeners=(Listener(Address("127.0.0.1", 9092)),),
                rack="r",
            ),
            self.controllers,
            incarnation_id=UUID(int=RNG.getrandbits(128), version=4),
            cluster=self.cluster,
            directory_id=UUID(int=1 << 100),
            listeners=lambda: (Listener(Address("here", 9_092)),),
            metadata_offset=lambda: self.offset(),
            on_epoch=self.epochs.append,
            make_ready=self._make_ready,
            is_settled=lambda: self.is_settled,
            previous_epoch=5,
            copies=tuple,
            cordoned=tuple,
        )

    async def _make_ready(self) -> None:
        self.readied += 1


@asynccontextmanager
async def living(
    tmp_path: Path, *, cluster_id: str | None = CLUSTER
) -> AsyncIterator[tuple[Registrar, Life, Callable[[], asyncio.Task[None]]]]:
    """A controller, a life, and how to begin it."""
    registrar = Registrar()
    server = Server(registrar.handle, offered=APIS, name="controller", clock_ms=monotonic_ms)
    registrar.port = await server.listen("127.0.0.1", 0)
    life = Life(registrar, tmp_path, cluster_id)
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:

        def begin() -> asyncio.Task[None]:
            tasks.append(group.create_task(life.cycle.run()))
            return tasks[-1]

        try:
            yield registrar, life, begin
        finally:
            for task in tasks:
                task.cancel()
            await life.controllers.close()
            await server.close(within_ms=50)
            life.sweeper.close()


async def test_a_broker_registers_catches_up_and_is_unfenced(tmp_path: Path) -> None:
    async with living(tmp_path) as (registrar, life, begin):
        life.offset = lambda: 0
        begin()
        await until(lambda: len(registrar.seen) >= 4)
        registration, *beats = registrar.seen
        assert (registration.broker_id, registration.rack) == (NODE, "r")
        assert registration.previous_broker_epoch == 5
        # It has not read up to its own registration: it stays fenced, and asks for no more.
        assert all(beat.want_fence for beat in beats)
        assert life.readied == 0
        life.offset = lambda: registrar.image.end_offset - 1
        await life.cycle.unfenced.wait()
        assert life.readied == 1
        assert not registrar.image.brokers[NODE].fenced
        assert life.epochs == [registrar.image.brokers[NODE].broker_epoch]


async def test_a_broker_stays_fenced_until_the_controller_knows_where_its_replicas_are(
    tmp_path: Path,
) -> None:
    """KIP-858. By then it may be in sync, and may be the only one that is."""
    async with living(tmp_path) as (registrar, life, begin):
        life.is_settled = False
        begin()
        await until(lambda: life.readied == 1)
        seen = len(registrar.seen)
        life.cycle.heartbeat_soon()
        await until(lambda: len(registrar.seen) >= seen + 2)
        assert all(beat.want_fence for beat in registrar.seen[1:])
        assert registrar.image.brokers[NODE].fenced
        life.is_settled = True
        life.cycle.heartbeat_soon()
        await life.cycle.unfenced.wait()
        # What is to be told later fences nobody.
        life.is_settled = False
        seen = len(registrar.seen)
        life.cycle.heartbeat_soon()
        await until(lambda: len(registrar.seen) > seen)
        assert not registrar.seen[-1].want_fence


async def test_the_levels_of_the_metadata_that_are_understood_are_registered(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as (registrar, life, begin):
        begin()
        await life.cycle.unfenced.wait()
        features = {each.name: each for each in registrar.seen[0].features}
        level = features["metadata.version"]
        assert (level.min_supported_version, level.max_supported_version) == (1, 30)


async def test_a_folder_of_no_cluster_waits_until_its_cluster_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker")
    async with living(tmp_path, cluster_id=None) as (registrar, life, begin):
        begin()
        await until(lambda: "no node has named the cluster id yet" in caplog.text)
        assert not registrar.seen
        life.cluster.learn(CLUSTER)
        await life.cycle.unfenced.wait()
        assert registrar.seen[0].cluster_id == CLUSTER


async def test_one_who_is_not_the_controller_is_asked_again_later(tmp_path: Path) -> None:
    async with living(tmp_path) as (registrar, life, begin):
        registrar.not_controller = 2
        begin()
        await life.cycle.unfenced.wait()
        assert len(life.epochs) == 1


async def test_a_broker_of_another_cluster_gives_up(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with living(tmp_path, cluster_id="AAAAAAAAAAAAAAAAAAAAAA") as (_, _, begin):
            await begin()
    assert raised.group_contains(RegistrationRejected, match="another cluster")


async def test_a_broker_that_is_forgotten_registers_again(tmp_path: Path) -> None:
    async with living(tmp_path) as (registrar, life, begin):
        begin()
        await life.cycle.unfenced.wait()
        registrar.decide(FenceBrokers(broker_ids=(NODE,)))
        registrar.decide(UnregisterBroker(broker_id=NODE))
        life.cycle.heartbeat_soon()
        await until(lambda: len(life.epochs) == 2 and not life.cycle.state.is_fenced)
        assert life.epochs[1] == registrar.image.brokers[NODE].broker_epoch > life.epochs[0]


async def test_a_fenced_broker_asks_to_be_unfenced_again(tmp_path: Path) -> None:
    async with living(tmp_path) as (registrar, life, begin):
        begin()
        await life.cycle.unfenced.wait()
        registrar.decide(FenceBrokers(broker_ids=(NODE,)))
        life.cycle.heartbeat_soon()
        await until(lambda: not registrar.image.brokers[NODE].fenced)
        assert len(life.epochs) == 1


async def test_a_broker_that_stops_gives_its_leaderships_away_first(tmp_path: Path) -> None:
    async with living(tmp_path) as (registrar, life, begin):
        running = begin()
        await life.cycle.unfenced.wait()
        topic = NewTopic(name="t", topic_id=UUID(int=9 << 90), assignments=((0, (NODE,)),))
        registrar.decide(CreateTopics(topics=(topic,)))
        running.cancel()
        await asyncio.wait({running})
        # It is the only replica: the lead has nowhere to go, but nobody leads in the end.
        await life.cycle.controlled_shutdown()
        broker = registrar.image.brokers[NODE]
        assert broker.stopping_at is not None or broker.fenced


async def test_a_broker_without_leaderships_goes_at_once(tmp_path: Path) -> None:
    async with living(tmp_path) as (registrar, life, begin):
        running = begin()
        await life.cycle.unfenced.wait()
        running.cancel()
        await asyncio.wait({running})
        assert await life.cycle.controlled_shutdown()
        assert registrar.image.brokers[NODE].fenced
