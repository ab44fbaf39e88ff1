"""What can be asked of moves and reassignments, at the active controller: a part of the service.

Each function answers there, and raises what those of `controller.service` do. What has a key is
carried out once, however often it is asked; where the key belongs to another request, it is
`Refused`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from admin.faults import Refused
from admin.keys import keyed
from admin.model import Reassignment
from admin.underway import listing, underway
from controller.service import AsOf, Service
from statemachine.commands import (
    AlterMove,
    AlterReassignments,
    Answer,
    BeginMove,
    CancelMoves,
    Done,
    KeyedCommand,
    MovesAltered,
    MovesCancelled,
    MoveStarted,
    PauseMoves,
    ReassignmentsAltered,
    ResumeMoves,
    RollBackMove,
)

MoveCommand: TypeAlias = (
    BeginMove | PauseMoves | ResumeMoves | CancelMoves | RollBackMove | AlterMove
)
MoveAnswer: TypeAlias = MovesAltered | MovesCancelled | MoveStarted

LISTED_AT_ONCE_MAX: Final = 500
"""Partitions that are listed without a pause; a longer list waits for its turn among decisions."""


async def alter_reassignments(
    service: Service, who: str, command: AlterReassignments, key: str = ""
) -> ReassignmentsAltered:
    """Begin, change or cancel reassignments (KIP-455), as a move of whoever asks."""
    answer = await _carried_out(service, who, replace(command, who=who), key)
    assert isinstance(answer, ReassignmentsAltered), f"{answer} answers {command}"
    return answer


async def alter_moves(
    service: Service,
    who: str,
    command: MoveCommand,
    key: str = "",
    of_request: bytes | None = None,
) -> MoveAnswer:
    """Begin, pause, resume, cancel, roll back or order moves.

    `of_request` is the fingerprint of what the command is a part of, and has the key.
    """
    answer = await _carried_out(service, who, command, key, of_request)
    assert isinstance(answer, MovesAltered | MovesCancelled | MoveStarted), (
        f"{answer} answers {command}"
    )
    return answer


async def _carried_out(
    service: Service, who: str, command: KeyedCommand, key: str, of_request: bytes | None = None
) -> Answer:
    answer = await service.carry_out(who, keyed(command, key, of_request))
    if isinstance(answer, Done):
        raise Refused("the request was not carried out", answer.error.code, answer.message)
    return answer


async def list_reassignments(
    service: Service,
    wanted: Mapping[str, Sequence[int]] | None,
    *,
    detailed: bool = True,
    stale: bool = False,
) -> AsOf[tuple[Reassignment, ...]]:
    """The partitions under way, all or those wanted; `detailed` with why they are not further."""
    told = service.controller.told_of_copies()
    moving = service.controller.image.index.moving
    count = len(moving) if wanted is None else sum(map(len, wanted.values()))
    if count < LISTED_AT_ONCE_MAX:
        return await service.read(
            lambda image: underway(image, wanted, detailed=detailed, told=told), stale=stale
        )
    return await service.read_long(
        lambda image: listing(image, wanted, detailed=detailed, told=told), stale=stale
    )
