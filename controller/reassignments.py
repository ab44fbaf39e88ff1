"""Reassignments and moves on the active controller: a part of the service.

A command with an idempotency key is carried out once; a key that belongs to another request raises
`RequestRefused`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from controller.move_requests import with_idempotency_key
from controller.service import AsOf, Service
from statemachine.commands import (
    AlterMove,
    BeginMove,
    CancelMoves,
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    PauseMoves,
    ResumeMoves,
    RollBackMove,
)
from statemachine.image.image import Image
from statemachine.queries import Underway, reassigned
from statemachine.reassignment.copies import Told, partition_copies, untold
from statemachine.reassignment.progress import position
from statemachine.slices import Slices, whole

MoveCommand: TypeAlias = (
    BeginMove | PauseMoves | ResumeMoves | CancelMoves | RollBackMove | AlterMove
)
MoveAnswer: TypeAlias = MovesAltered | MovesCancelled | MoveStarted

LISTED_AT_ONCE_MAX: Final = 500
"""Partitions that are listed without a pause; a longer list waits for its turn among decisions."""

PARTITIONS_SHOWN_MAX: Final = 200
"""Partitions of a list with their progress. Each holds up the controller's loop: by 50 µs, or on a
busy machine, if it waits behind limits, by 280 µs."""
_LISTED_US: Final = 10
"""To list one."""
_PROGRESS_US: Final = 100
"""To list one with its progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingReassignment:
    """A partition under reassignment (KIP-455); of the first ones in a list also the progress."""

    topic: str
    partition: int
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    target: Sequence[int] = ()
    """The replicas in the end, in order."""
    move_id: int = 0
    """The move that it belongs to; 0 for none."""
    step: int = 0
    """The step under way or the next one, from 1 on; 0 without progress."""
    step_count: int = 0
    state: str = ""
    reason: str | None = None
    """The reason why it waits, as a word for programs."""
    detail: str = ""
    reason_brokers: Sequence[int] = ()
    since_ms: int = 0
    """0 if nobody noted it."""
    bytes_left: int = -1
    """To be copied for this step, as brokers report; -1 if they do not."""
    bytes_per_s: int = -1


async def alter_moves(
    service: Service,
    who: str,
    command: MoveCommand,
    key: str = "",
    of_request: bytes | None = None,
) -> MoveAnswer:
    """Begin, pause, resume, cancel, roll back or alter moves.

    `of_request` is the fingerprint of the request that the command is a part of, if it is not all.
    """
    command_with_key = with_idempotency_key(command, key, of_request)
    answer = await service.carry_out(command_with_key, object, who=who)
    assert isinstance(answer, MovesAltered | MovesCancelled | MoveStarted), (
        f"{answer} answers {command}"
    )
    return answer


async def list_reassignments(
    service: Service,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool = True,
    stale: bool = False,
) -> AsOf[tuple[OngoingReassignment, ...]]:
    """List all partitions under reassignment or those wanted; `detailed` adds their progress."""
    told = service.controller.reported_copies()
    moving = service.controller.image.index.moving
    count = len(moving) if wanted is None else sum(map(len, wanted.values()))
    if count < LISTED_AT_ONCE_MAX:
        return await service.read(
            lambda image: whole(listing(image, wanted, detailed=detailed, told=told)), stale=stale
        )
    return await service.read_long(
        lambda image: listing(image, wanted, detailed=detailed, told=told), stale=stale
    )


def listing(
    image: Image,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool,
    told: Told = untold,
) -> Slices[tuple[OngoingReassignment, ...]]:
    """List all partitions under reassignment or those wanted, in order.

    With `detailed`, each has its current step, and the first ones have their progress, which costs
    the controller time. Without it, they are as Kafka's tools expect, which know of no steps.
    `told` are the brokers' reports of their copies.
    """
    named = None
    if wanted is not None:
        named = [(name, number) for name, numbers in wanted.items() for number in numbers]
    listed: list[OngoingReassignment] = []
    for each in reassigned(image, named):
        if detailed and len(listed) < PARTITIONS_SHOWN_MAX:
            listed.append(_ongoing(each, **_progress(image, each, told)))
            yield _PROGRESS_US
        else:
            listed.append(_ongoing(each if detailed else _whole(each)))
            yield _LISTED_US
    return tuple(listed)


def _whole(found: Underway) -> Underway:
    """Describe a reassignment as if all the rest of it were one step, as it is with Kafka.

    Kafka's `--cancel` takes back what adds or removes a replica (4.2.0), or what adds none or
    removes one (3.9.1): one of them would pass over a partition that waits or a step that only
    adds.
    """
    replicas, target = found.replicas, found.target
    coming = tuple([each for each in target if each not in replicas])
    return replace(
        found,
        replicas=replicas + coming,
        adding=tuple([each for each in target if each in coming or each in found.adding]),
        removing=tuple([each for each in replicas if each not in target]),
    )


def _ongoing(found: Underway, **progress: Any) -> OngoingReassignment:
    return OngoingReassignment(
        topic=found.topic,
        partition=found.partition,
        replicas=found.replicas,
        adding=found.adding,
        removing=found.removing,
        target=found.target,
        move_id=found.move_id,
        **progress,
    )


def _progress(image: Image, found: Underway, told: Told) -> dict[str, Any]:
    """Return the fields with the progress of a partition."""
    topic = image.topics[found.topic_id]
    partition = topic.partition(found.partition)
    where = position(image, topic, found.partition, told)
    assert partition is not None
    assert where is not None, f"{found.topic}-{found.partition} is listed, and does not move"
    copies = partition_copies(topic.topic_id, found.partition, partition, told)
    return {
        "step": where.step,
        "step_count": where.of,
        "state": where.state.value,
        "reason": None if where.reason is None else where.reason.value,
        "detail": where.detail,
        "reason_brokers": where.brokers,
        "since_ms": where.since_ms,
        "bytes_left": -1 if copies is None else copies.bytes_left,
        "bytes_per_s": -1 if copies is None else copies.bytes_per_s,
    }
