"""The progress of moves: the bytes left to copy, and an example of what they wait for.

Brokers report bytes to the active controller alone.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from admin.capabilities.moves import BASE, copies_of
from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.schema import Answer, AsOfOffset, Context, MoveId, Request, Route
from controller.apis.reassignments import PROGRESS_US
from controller.move_requests import BytesLeftPartial, BytesPerS, KnownBytes, TimeLeftMs
from statemachine.image.image import Image
from statemachine.reassignment.copies import CopyLookup, no_report
from statemachine.reassignment.progress import progress_of
from statemachine.slices import Slices

MOVES_MAX: Final = 10
"""Moves of one answer. Of each, up to `COPIES_LOOKED_AT_MAX` partitions are looked at."""


class MoveWait(Answer, frozen=True, kw_only=True):
    """A partition of a move that shows what the move is at, and what holds that up."""

    topic: str
    partition: int
    state: str
    step: int
    steps: int
    reason: Annotated[str | None, Meta(description="null: nothing is known to hold it up")]
    detail: str | None
    since_ms: int


class CopyProgress(Answer, frozen=True, kw_only=True):
    """The bytes left to copy for one move, and an example of what it waits for."""

    move_id: int
    bytes_left: KnownBytes
    bytes_per_s: BytesPerS
    time_left_ms: TimeLeftMs
    partitions_bytes_unknown: int
    partitions_falling_behind: int
    example: Annotated[MoveWait | None, Meta(description="null: no partition is left in it")]
    bytes_left_is_partial: BytesLeftPartial = False


class CopiesLeft(Answer, frozen=True, kw_only=True):
    """The progress of moves, as the active controller knows it."""

    as_of_offset: AsOfOffset
    moves: Annotated[
        tuple[CopyProgress, ...], Meta(description="Without those that do not run any more")
    ]


class DescribeCopies(Request[CopiesLeft], frozen=True, kw_only=True):
    """Describe what is left to copy for moves, and what they wait for, without their partitions.

    Controllers ask each other too, for the event streams.
    """

    moves: Annotated[
        tuple[MoveId, ...], Meta(min_length=1, max_length=MOVES_MAX, description="Ids of moves")
    ]

    NAME = "moves.copies"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", f"{BASE}:progress", ids="moves"),)
    FAILING = "what is left to copy cannot be described"

    async def answer(self, context: Context) -> CopiesLeft:
        report_of = context.service.controller.reported_copies()
        return await context.read_long(lambda image: copies_left(image, self.moves, report_of))


def copies_left(image: Image, moves: Sequence[int], report_of: CopyLookup) -> Slices[CopiesLeft]:
    """The progress of those of these moves that run."""
    running = [
        each for each in moves if (move := image.moves.get(each)) is not None and not move.ended
    ]
    found = []
    for each in running:
        copies = yield from copies_of(image, each, report_of)
        example = example_of(image, each, report_of)
        found.append(CopyProgress(move_id=each, example=example, **copies))
        yield PROGRESS_US
    return CopiesLeft(as_of_offset=image.end_offset, moves=tuple(found))


def example_of(image: Image, move_id: int, report_of: CopyLookup = no_report) -> MoveWait | None:
    """One partition of a move: one that waits for its next step, or else one whose step goes on."""
    index = image.index
    keys = index.keys_of_move(move_id)
    found = next(iter((keys & index.waiting)[:1] or keys[:1]), None)
    place = None if found is None else index.at(found)
    if place is None:
        return None
    topic, number = place
    progress = progress_of(image, topic, number, report_of)
    if progress is None:
        return None
    return MoveWait(
        topic=topic.name,
        partition=number,
        state=progress.state.value,
        step=progress.step,
        steps=progress.of,
        reason=None if progress.reason is None else progress.reason.value,
        detail=progress.detail or None,
        since_ms=progress.since_ms,
    )
