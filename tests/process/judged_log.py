"""The metadata log of a cluster that has ended, read from its disks and judged.

Whether the logs are one log is asked as after any fire; what its records make of partitions and
moves is judged by the judges of the simulation, who have a parser and a model of their own.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from admin.model import Assignment
from admin.tools.local_plan import NodePlan, log_dir
from chaos.cluster.invariants.metadata import MetadataInvariants
from chaos.cluster.invariants.record_parser import ParsedRecord, fact
from chaos.processes.log_checker import committed_log, disagreements
from quorum.records.batch import headers
from quorum.records.decode import decode as records_of
from statemachine.records import own_records
from statemachine.records.codec import decode
from statemachine.vocabulary import MoveState

REPLICAS_A_STEP: Final = "parallel.replica.count"

Batch = list[tuple[ParsedRecord, bytes]]
"""The records of a batch, and its bytes."""


def judge(
    folder: Path, controllers: Iterable[NodePlan], end: int, asked: Iterable[Assignment]
) -> None:
    """Fail unless all controllers have one log up to `end`, and every record of it may be there.

    `asked` is whatever anybody wanted of partitions; a log that moved them elsewhere is wrong.
    """
    logs = {node.id: committed_log(log_dir(folder, node), end) for node in controllers}
    assert disagreements(logs, end) == []
    start, log = min(logs.values())
    assert start == 0, f"the log begins at {start}; nobody can judge what came before"
    model = MetadataInvariants()
    for one in asked:
        model.ask(one.topic, one.partition, one.replicas or ())
    pauses = Pauses()
    for batch in batches(log):
        model.take([said for said, _ in batch])
        for said, value in batch:
            pauses.take(said, value)
            assert not adds_too_many(model, said), f"{said} adds more than a step may"


def batches(log: bytes) -> Iterator[Batch]:
    """The records of each batch, in the order of the log."""
    for position, header in headers(log):
        data = log[position : position + header.size_bytes]
        yield [
            (fact(each.offset, each.value), each.value)
            for each in records_of(data)
            if not each.control and each.value is not None
        ]


def adds_too_many(model: MetadataInvariants, said: ParsedRecord) -> bool:
    """True if a step adds more replicas than are allowed, and min ISR does not need them.

    The model, which has the whole batch behind it, does not judge the first limit: rule 4 of
    KIP-435 may pass it.
    """
    adding = said.fields.get("adding", ())
    if said.type != "PartitionChange" or len(adding) <= model.limit(REPLICAS_A_STEP):
        return False
    key = (said.fields["topic_id"], said.fields["partition_id"])
    part = model.parts.get(key)
    return part is not None and len(part.isr) >= model.min_isr(key, part.replicas)


class Pauses:
    """The moves that an operator has paused; no step of theirs may begin meanwhile."""

    def __init__(self) -> None:
        self._paused: set[int] = set()
        self._moves: dict[object, int] = {}

    def take(self, said: ParsedRecord, value: bytes) -> None:
        """Fail if the record begins a step of a move that is paused."""
        if said.type == "NoOp":
            self._note(decode(value))
        elif said.type == "PartitionChange":
            self._check(said, said.fields)

    def _note(self, record: object) -> None:
        if isinstance(record, own_records.MoveChanged):
            is_paused = record.state == MoveState.PAUSED
            (self._paused.add if is_paused else self._paused.discard)(record.id)

    def _check(self, change: ParsedRecord, said: Mapping[str | int, object]) -> None:
        key = (said["topic_id"], said["partition_id"])
        move = said.get("move", self._moves.get(key, 0))
        assert isinstance(move, int)
        self._moves[key] = move
        begins = bool(said.get("step"))
        assert not (begins and move in self._paused), f"move {move} is paused, and yet {change}"
