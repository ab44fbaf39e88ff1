"""The bytes left to copy for moves: brokers report it to the active controller alone."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from admin.capabilities.moves import copies_of
from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.schema import Answer, AsOfOffset, Context, MoveId, Request
from controller.move_requests import BytesPerS, KnownBytes, TimeLeftMs
from statemachine.image.image import Image
from statemachine.reassignment.copies import CopyLookup

MOVES_MAX: Final = 10
"""Moves of one answer. Of each, up to `COPIES_LOOKED_AT_MAX` partitions are looked at."""


class CopyProgress(Answer, frozen=True, kw_only=True):
    """The bytes left to copy for one move."""

    move_id: int
    bytes_left: KnownBytes
    bytes_per_s: BytesPerS
    time_left_ms: TimeLeftMs
    partitions_bytes_unknown: int
    partitions_falling_behind: int


class CopiesLeft(Answer, frozen=True, kw_only=True):
    """The bytes left to copy, as the active controller knows it."""

    as_of_offset: AsOfOffset
    moves: Annotated[
        tuple[CopyProgress, ...], Meta(description="Without those that do not run any more")
    ]


class DescribeCopies(Request[CopiesLeft], frozen=True, kw_only=True):
    """Describe what is left to copy for moves, without their partitions.

    Controllers ask each other, for the event streams.
    """

    moves: Annotated[tuple[MoveId, ...], Meta(max_length=MOVES_MAX)]

    NAME = "moves.copies"
    NEEDS = DESCRIBE_CLUSTER
    FAILING = "what is left to copy cannot be described"

    async def answer(self, context: Context) -> CopiesLeft:
        report_of = context.service.controller.reported_copies()
        return await context.read(
            lambda image: CopiesLeft(
                as_of_offset=image.end_offset, moves=copies_left(image, self.moves, report_of)
            )
        )


def copies_left(
    image: Image, moves: Sequence[int], report_of: CopyLookup
) -> tuple[CopyProgress, ...]:
    """The bytes left to copy for those of these moves that run."""
    running = [
        each for each in moves if (move := image.moves.get(each)) is not None and not move.ended
    ]
    return tuple(
        [CopyProgress(move_id=each, **copies_of(image, each, report_of)) for each in running]
    )
