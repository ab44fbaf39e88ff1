"""A hostile node in a whole cluster: it forges the requests of brokers to controllers as well.

Without authentication it knows everything but broker epochs, which only the controller and the
broker itself know. Registrations are left out then: an id whose broker is not alive belongs to
whoever registers it, with Kafka as well, and the endpoints of a controller to whoever names them.

P23: a request in the name of a broker is refused if it does not have the epoch of the broker.
"""

import random
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final
from uuid import UUID

from broker.authorization import BrokerRights
from chaos.cluster.process import ControllerProcess
from chaos.cluster.world import ClusterWorld
from chaos.hostile.listener import AuthorizingListener, authorization_by
from chaos.hostile.node import HostileNode
from chaos.network.connection import Message
from chaos.simulation.process import Process
from chaos.simulation.profile import Hostility
from chaos.violation import Violation
from controller.apis.brokers import SUBMITTED, BrokerApis
from controller.apis.controller_apis import OFFERED
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.frames import LENGTH_BYTES
from quorum.protocol.headers import response_body_start
from quorum.transport.inbound import Handler, InboundRequest

MADE_UP: Final = UUID(int=1 << 100)
ENDPOINT: Final = {"name": "EXTERNAL", "host": "nowhere", "port": 1, "security_protocol": 0}
WAITING_MAX: Final = 1_000
"""Requests whose answers are looked at later; of more the oldest are forgotten."""


class HostileClusterNode(HostileNode):
    """The hostile node of one run of a cluster."""

    def __init__(self, world: ClusterWorld, hostility: Hostility, rng: random.Random) -> None:
        super().__init__(world, hostility, rng)
        self._cluster = world
        self._waiting: deque[InboundRequest] = deque(maxlen=WAITING_MAX)

    def _messages(self, process: Process) -> Iterator[Message]:
        messages = super()._messages(process)
        if isinstance(process, ControllerProcess):
            yield from messages
            yield from self._of_brokers()
        else:
            # The listener of a broker serves no requests of the quorum.
            yield from (each for each in messages if each.api_key == ApiKey.DISCOVER_BROKERS)

    def _handlers(self, process: Process) -> dict[int, Handler]:
        self._check_answers()
        if not isinstance(process, ControllerProcess):
            return {}
        apis = BrokerApis(process.controller, process.cluster, clock=process.now_ms)
        return {
            ApiKey.ALTER_PARTITION: partial(self._keep, apis.alter_partition),
            **dict.fromkeys(SUBMITTED, partial(self._keep, apis.submit)),
        }

    def _authorizing(self, process: Process) -> AuthorizingListener:
        if isinstance(process, ControllerProcess):
            return AuthorizingListener(process.image)
        return BrokerListener()

    def _keep(self, serve: Handler, request: InboundRequest) -> None:
        self._waiting.append(request)
        serve(request)

    def _check_answers(self) -> None:
        """P23: check what has been answered since the last time."""
        answered = [each for each in self._waiting if each.answer_parts is not None]
        for each in answered:
            self._waiting.remove(each)
            frame = b"".join(each.answer_parts or ())[LENGTH_BYTES:]
            body = frame[response_body_start(frame, each.api_key, each.api_version) :]
            answer = codec.decode_response(each.api_key, each.api_version, body)
            if not answer.error_code.value:
                raise Violation("P23", f"{each} is granted without the epoch of a broker: {answer}")
            self._cluster.note("a forged request of a broker is refused")

    def _of_brokers(self) -> Iterator[Message]:
        """The requests of one broker."""
        rng, world = self._rng, self._cluster
        broker = int(rng.choice(world.brokers))
        found = world.history.model.brokers.get(broker)
        known = -1 if found is None else found.epoch
        epoch = known if self._knows_all else rng.choice((-1, 0, known - 1, known + 1, 1 << 40))
        sender = {"broker_id": broker, "broker_epoch": epoch}
        yield _message(
            ApiKey.BROKER_HEARTBEAT,
            **sender,
            current_metadata_offset=1 << 40,
            want_fence=rng.randrange(2) == 0,
            want_shut_down=rng.randrange(2) == 0,
        )
        yield _message(ApiKey.ALLOCATE_PRODUCER_IDS, **sender)
        yield _message(ApiKey.ASSIGN_REPLICAS_TO_DIRS, **sender, directories=())
        if world.history.model.parts:
            yield self._alter_partition(sender)
        if self._knows_all:
            yield from _registrations(broker, int(rng.choice(world.voters)))

    def _alter_partition(self, sender: dict[str, int]) -> Message:
        parts = self._cluster.history.model.parts
        topic, number = self._rng.choice([*parts])
        part = parts[topic, number]
        proposed = {
            "partition_index": number,
            "leader_epoch": part.leader_epoch,
            "new_isr_with_epochs": (sender,),
            "leader_recovery_state": 0,
            "partition_epoch": part.partition_epoch,
        }
        topics = ({"topic_id": UUID(hex=topic), "partitions": (proposed,)},)
        return _message(ApiKey.ALTER_PARTITION, **sender, topics=topics)


class BrokerListener(AuthorizingListener):
    """The same for a broker (`BrokerRights`), which serves DiscoverBrokers to nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._rights = BrokerRights(authorization_by(None))

    def _handle(self, request: InboundRequest) -> None:
        refusal = self._rights.refusal(request)
        if refusal is None:
            self._reached.append(request)
        else:
            request.respond(b"")


def _registrations(broker: int, controller: int) -> Iterator[Message]:
    yield _message(
        ApiKey.BROKER_REGISTRATION,
        broker_id=broker,
        cluster_id="",
        incarnation_id=MADE_UP,
        listeners=(ENDPOINT,),
        features=(),
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=(MADE_UP,),
        previous_broker_epoch=-1,
    )
    yield _message(
        ApiKey.CONTROLLER_REGISTRATION,
        controller_id=controller,
        incarnation_id=MADE_UP,
        zk_migration_ready=False,
        listeners=(ENDPOINT,),
        features=(),
    )


def _message(key: ApiKey, **values: object) -> Message:
    version = OFFERED[key].highest
    return Message(key, version, codec.request_body(key, version, **values))
