"""Kafka's controllers, formatted and started according to its documentation, under the same load.

Kafka's controllers do not answer Metadata, so the description of a topic comes from the response to
its creation, and the records on the followers are read from their logs.
"""

import asyncio
import contextlib
import random
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from admin.client.channels import Channels, Form
from admin.tools.kafka_runtime import Runtime
from admin.tools.local_plan import log_dir
from bench import agreement
from bench.brokers import TIMEOUT_MS, Brokers
from bench.commits import TOPIC, turns_of
from bench.faults import RunFailed
from bench.isr_connection import Claim, IsrConnection
from bench.load import Make
from bench.peers import controllers
from bench.peers.controllers import Controllers
from bench.peers.figures import KAFKA
from bench.rivals import HEAP, Rival, Side
from quorum.log.segment_reader import batches_of
from quorum.persistent_state import LOG_FOLDER
from quorum.protocol.apis import ApiKey
from quorum.records.batch import CorruptBatch
from quorum.records.decode import decode as decode_records
from quorum.transport.address import Address
from statemachine.records.codec import decode
from statemachine.records.kafka_records import PartitionChange

FORMAT_SECONDS_MAX: Final = 60

Committed = dict[int, tuple[int, tuple[int, ...]]]
"""By partition: the number of ISR changes, and the ISR."""


class Kafka(Controllers):
    """Three Kafka controllers, each a process with the heap and flags of its start script."""

    name = KAFKA

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime
        self._rival: Rival | None = None

    @property
    def rival(self) -> Rival:
        assert self._rival is not None, "prepare comes first"
        return self._rival

    def prepare(self, folder: Path, addresses: Sequence[Address]) -> None:
        self._plan = controllers.plan_of(addresses)
        self._rival = Rival(
            side=Side.KAFKAS, folder=folder, plan=self.plan, runtime=self._runtime, heap=HEAP
        )
        rng = random.SystemRandom()
        self.rival.write_files(rng)
        commands = self.rival.format_commands(rng)
        with ThreadPoolExecutor(len(commands)) as pool:
            for _ in pool.map(_format, commands):
                pass

    def command(self, node: int) -> list[str]:
        return self.rival.command(self.node(node))

    async def has_everything(self, node: int) -> bool:
        quorum = await controllers.quorum_of(self.addresses)
        if quorum is None:
            return False
        ends = {each.id: each.log_end_offset for each in quorum.voters}
        return ends.get(node, -1) >= quorum.high_watermark > 0

    @contextlib.asynccontextmanager
    async def work(self, leader: int, connections: int) -> AsyncIterator[Sequence[Make]]:
        at = self.client_address(leader)
        async with controllers.living_brokers(at, self.plan.cluster_id) as brokers:
            claims = await _claims(at, brokers, connections)
            yield [partial(IsrConnection, claim) for claim in claims]
            await agreement.check_epochs(at, claims)
            for node in self.plan.controllers:
                await _check_log(log_dir(self.rival.folder, node) / LOG_FOLDER, claims)


def _format(command: Sequence[str]) -> None:
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=FORMAT_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"Kafka's storage tool cannot be started: {error}") from None
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
        raise RunFailed(f"Kafka's storage tool failed: {said}")


async def _claims(leader: Address, brokers: Brokers, count: int) -> list[Claim]:
    """Create the topic and return a claim for each partition, from the response."""
    turns = turns_of(count)
    assignments = [
        {"partition_index": number, "broker_ids": turn} for number, turn in sorted(turns.items())
    ]
    topic_values = {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
        "configs": (),
    }

    def fill(form: Form) -> Any:
        return form.request(topics=[topic_values])

    channels = Channels("bench-claims")
    try:
        answer = await channels.ask(leader, ApiKey.CREATE_TOPICS, fill, timeout_ms=TIMEOUT_MS)
    finally:
        await channels.close()
    (topic,) = answer.value.topics
    if topic.error_code.value:
        raise RunFailed(f"CreateTopics failed: {topic.error_code.name}")
    return [
        Claim(
            number=number,
            topic_id=topic.topic_id,
            replicas=replicas,
            broker_epochs=brokers.epochs,
            isr=replicas,
        )
        for number, replicas in turns.items()
    ]


async def _check_log(folder: Path, claims: Sequence[Claim]) -> None:
    """Raise `RunFailed` unless the log in this folder holds every change of `claims`, once."""
    answered: Committed = {each.number: (each.partition_epoch, each.isr) for each in claims}
    for _ in range(agreement.TRIES):
        held = await asyncio.to_thread(changes_held, folder, claims)
        if held == answered:
            return
        await asyncio.sleep(agreement.PAUSE_MS / 1_000)
    wrong = next(each for each in answered if held.get(each) != answered[each])
    raise RunFailed(
        f"the log in {folder} has {held.get(wrong)} of partition {wrong}, answered was "
        f"{answered[wrong]}"
    )


def changes_held(folder: Path, claims: Sequence[Claim]) -> Committed:
    """The log's records about the partitions of `claims`, which belong to one topic."""
    held: Committed = {each.number: (0, each.replicas) for each in claims}
    for segment in sorted(folder.glob("*.log")):
        # The end of the log may be incomplete while Kafka writes to it.
        with contextlib.suppress(CorruptBatch):
            for batch in batches_of(segment):
                for change in _changes(batch.data, claims[0].topic_id):
                    changes, isr = held[change.partition_id]
                    held[change.partition_id] = (changes + 1, change.isr or isr)
    return held


def _changes(batch: bytes, topic_id: UUID) -> Iterator[PartitionChange]:
    # Earlier loads used other topics. Only records that contain the topic id are decoded.
    if topic_id.bytes not in batch:
        return
    for record in decode_records(batch):
        if record.value is not None and topic_id.bytes in record.value:
            found = decode(record.value)
            if isinstance(found, PartitionChange):
                yield found
