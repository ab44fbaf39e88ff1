"""Producers and consumers of a simulated cluster.

A producer is idempotent (KIP-98): it sends one batch at a time to a partition, and repeats it until
all in-sync replicas acknowledge it. A consumer repeatedly reads the committed records from the
beginning.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from broker.partition.assignment import PartitionKey
from broker.partition.partition import Appended, Partition
from chaos.cluster.broker.process import BrokerProcess
from chaos.cluster.environment import ClusterEnvironment
from chaos.cluster.profile import KEPT
from chaos.cluster.rpc import Respond, Serve, Server
from chaos.invariants.disk_format import StoredBatch, batches
from chaos.violation import Violation
from quorum.core.vocabulary import Offset, ReplicaId
from quorum.protocol.errors import ErrorCode
from quorum.records.encode import ClientRecord, encode_client
from statemachine.vocabulary import NO_LEADER

PRODUCER_IDS: Final = 5_000
PRODUCE_TIMEOUT_MS: Final = 2_000
PATIENCE_MS: Final = 5_000
"""The timeout of a request."""
PAUSE_MS: Final = (20, 300)
"""The pause before the next attempt, at the same or another broker."""
READ_BYTES: Final = 2_000


class Written(NamedTuple):
    """The position of an acknowledged batch."""

    topic_id: UUID
    base_offset: int


class OutOfOrder(NamedTuple):
    """The answer of a leader that lacks the preceding batch; a deposed leader may lack it."""

    key: PartitionKey
    leader: int
    leader_epoch: int


class Read(NamedTuple):
    """The batches that a consumer got."""

    topic_id: UUID
    batches: tuple[StoredBatch, ...]


class _Asker(ABC):
    """A client of brokers; see `chaos.cluster.rpc.Caller`."""

    def __init__(self, world: ClusterEnvironment, number: int, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self._id = ReplicaId(2_000 + number)
        self.is_done = False
        """True if it sends no more requests."""

    @property
    def id(self) -> ReplicaId:
        """See `Caller`."""
        return self._id

    def enter(self, happen: Callable[[], None]) -> None:
        """See `Caller`."""
        happen()

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """See `Caller`."""
        self.world.timeline.after(delay_ms, happen)

    def begin(self) -> None:
        """Send one request after the other from now on."""
        self.later(self.rng.randrange(*PAUSE_MS), self._go_on)

    @abstractmethod
    def _go_on(self) -> None:
        """Send the next request."""

    def find_leader(self, number: int, then: Callable[[ReplicaId | None], None]) -> None:
        """Ask any broker for the leader of this partition."""

        def on_answer(answer: Any) -> None:
            then(None if answer is None or answer == NO_LEADER else ReplicaId(answer))

        to = self.rng.choice(self.world.brokers)
        self.world.rpc.ask(self, to, _leader_of(number), on_answer, timeout_ms=PATIENCE_MS)


class Producer(_Asker):
    """A producer that writes to random partitions of the topic."""

    def __init__(self, world: ClusterEnvironment, number: int, rng: random.Random) -> None:
        super().__init__(world, number, rng)
        self._producer_id = PRODUCER_IDS + number
        self._sequences: dict[int, int] = {}
        self._values = 0

    def _go_on(self) -> None:
        if self.is_done:
            return
        number = self.rng.randrange(self.world.settings.partitions)
        sequence, count = self._sequences.get(number, 0), self.rng.randrange(1, 4)
        values = [f"{self._producer_id}/{self._values + each}".encode() for each in range(count)]
        self._values += count
        now_ms = self.world.timeline.now_ms
        batch = encode_client(
            [ClientRecord(now_ms, None, value) for value in values],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        self._sequences[number] = sequence + count
        self._send(number, bytes(batch), values)

    def _send(self, number: int, batch: bytes, values: list[bytes]) -> None:
        """Repeat the batch until it is acknowledged or the run ends."""
        if self.is_done:
            return

        def found(leader: ReplicaId | None) -> None:
            if leader is None:
                self._again(number, batch, values)
                return
            answered = partial(self._answered, number, batch, values)
            serve = _produce(number, batch)
            self.world.rpc.ask(self, leader, serve, answered, timeout_ms=PATIENCE_MS)

        self.find_leader(number, found)

    def _again(self, number: int, batch: bytes, values: list[bytes]) -> None:
        self.later(self.rng.randrange(*PAUSE_MS), partial(self._send, number, batch, values))

    def _answered(self, number: int, batch: bytes, values: list[bytes], answer: Any) -> None:
        if isinstance(answer, Written):
            self.world.note("a batch is acknowledged")
            self.world.records.acknowledged(number, answer.base_offset, values)
            self.begin()
        elif isinstance(answer, OutOfOrder) and self._leads(answer):
            raise Violation(
                "P18",
                f"acknowledged batches of {self._id} in {number} before {values} are lost",
            )
        else:
            self._again(number, batch, values)

    def _leads(self, answer: OutOfOrder) -> bool:
        """True if the answering broker leads, by the committed metadata."""
        key = answer.key
        part = self.world.history.model.parts.get((key.topic_id.hex, key.number))
        led = None if part is None else (part.leader, part.leader_epoch)
        return led == (answer.leader, answer.leader_epoch)


class Consumer(_Asker):
    """A consumer that reads random partitions to their end, and again."""

    def __init__(self, world: ClusterEnvironment, number: int, rng: random.Random) -> None:
        super().__init__(world, number, rng)
        self._positions: dict[int, int] = {}

    def _go_on(self) -> None:
        if self.is_done:
            return
        number = self.rng.randrange(self.world.settings.partitions)

        def found(leader: ReplicaId | None) -> None:
            if leader is None:
                self.begin()
                return
            serve = _consume(number, self._positions.get(number, 0))
            read = partial(self._read, number)
            self.world.rpc.ask(self, leader, serve, read, timeout_ms=PATIENCE_MS)

        self.find_leader(number, found)

    def _read(self, number: int, answer: Any) -> None:
        if isinstance(answer, Read):
            self.world.records.read(number, answer.batches)
            end = answer.batches[-1].end if answer.batches else 0
            self._positions[number] = end
        self.begin()


# --- the requests at the broker --------------------------------------------------------------


def _leader_of(number: int) -> Serve:
    def serve(process: Server, respond: Respond) -> None:
        assert isinstance(process, BrokerProcess)
        topic = process.image.topic_named(KEPT)
        found = None if topic is None else topic.partition(number)
        respond(NO_LEADER if found is None else found.leader)

    return serve


def _partition(process: BrokerProcess, number: int) -> Partition | None:
    topic_id = process.image.topic_ids.get(KEPT)
    if topic_id is None:
        return None
    return process.fetch_handler.partition(PartitionKey(topic_id, number))


def _produce(number: int, batch: bytes) -> Serve:
    def serve(process: Server, respond: Respond) -> None:
        assert isinstance(process, BrokerProcess)
        partition = _partition(process, number)
        if partition is None:
            respond(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        result = partition.produce(batch, for_all=True, wall_ms=process.now_wall_ms())
        if result is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            leader = int(process.id)
            respond(OutOfOrder(partition.key, leader, partition.leader_epoch))
            return
        if not isinstance(result, Appended):
            respond(result)
            return
        written = Written(partition.key.topic_id, result.base_offset)
        deadline_ms = process.now_ms() + PRODUCE_TIMEOUT_MS

        def on_committed(refusal: ErrorCode | None) -> None:
            respond(written if refusal is None else refusal)

        partition.when_committed(result.end_offset, deadline_ms, on_committed)

    return serve


def _consume(number: int, offset: int) -> Serve:
    def serve(process: Server, respond: Respond) -> None:
        assert isinstance(process, BrokerProcess)
        partition = _partition(process, number)
        refusal = None if partition is None else partition.fetch_refusal(-1)
        if partition is None or refusal is not None:
            respond(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if refusal is None else refusal)
            return
        start, end = Offset(offset), Offset(partition.high_watermark)
        data = partition.log.read(start, end, READ_BYTES) if end > start else b""
        respond(Read(partition.key.topic_id, tuple(batches(data))))

    return serve
