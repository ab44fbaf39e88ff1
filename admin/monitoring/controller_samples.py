"""The samples of a controller: brokers, topics, partitions and moves in its image."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from admin.monitoring.metric_table import Sample
from controller.quorum_controller import QuorumController
from statemachine.image.image import Image
from statemachine.partitions.partition_health import PartitionHealth
from statemachine.vocabulary import NO_LEADER, MoveState

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"


def controller_samples(
    controller: QuorumController, health: PartitionHealth | None
) -> Iterator[Sample]:
    """Yield the samples; those of `health`, which is counted elsewhere, only if it is known.

    Nothing here walks over partitions: lengths of tables and bitmaps, and the brokers.
    """
    image = controller.image
    yield Sample(f"{_CONTROLLER}activecontrollercount", int(controller.is_active))
    yield Sample(f"{_CONTROLLER}lastappliedrecordoffset", image.end_offset - 1)
    yield Sample(f"{_CONTROLLER}lastcommittedrecordoffset", controller.committed - 1)
    throttled = controller.throttled_mutations
    yield Sample("quorum_throttled_mutation_requests_total", throttled)
    yield from _cluster(image)
    yield from _moves(image)
    if health is not None:
        yield Sample("quorum_under_replicated_partitions", health.under_replicated)
        yield Sample("quorum_under_min_isr_partitions", health.under_min_isr)
        if controller.is_active:
            yield Sample("reassignment_stalled_partitions", health.stalled)


def _cluster(image: Image) -> Iterator[Sample]:
    fenced = sum(each.fenced for each in image.brokers.values())
    yield Sample(f"{_CONTROLLER}activebrokercount", len(image.brokers) - fenced)
    yield Sample(f"{_CONTROLLER}fencedbrokercount", fenced)
    yield Sample(f"{_CONTROLLER}globaltopiccount", len(image.topics))
    yield Sample(f"{_CONTROLLER}globalpartitioncount", image.index.partition_count)
    offline = image.index.count(image.index.leader_of, NO_LEADER)
    yield Sample(f"{_CONTROLLER}offlinepartitionscount", offline)


def _moves(image: Image) -> Iterator[Sample]:
    index = image.index
    states = Counter(each.state for each in image.moves.values() if each.ended is None)
    for state in MoveState:
        yield Sample("reassignment_moves", states[state], (state.name.lower(),))
    yield Sample("reassignment_partitions", len(index.stepping), ("stepping",))
    yield Sample("reassignment_partitions", len(index.waiting), ("waiting",))
    yield Sample("reassignment_replicas_adding", index.adding_total)
