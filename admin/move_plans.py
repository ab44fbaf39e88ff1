"""What a move asked for and what there was before, as values, and how an image tells it.

A plan never changes, so it can be read part by part; 100,000 partitions are a hundred parts.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from admin.model import PartitionId
from admin.moves import not_listed
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.reassignment.move_queries import plan_part


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """What a move asked for, or a part of it."""

    targets: Mapping[PartitionId, Sequence[int]]
    """In the order asked."""
    originals: Mapping[PartitionId, Sequence[int]]
    """What these had then: the plan that leads back."""
    gone: int = 0
    """Partitions that are left out, for their topics are deleted."""
    part_count: int = 1


def plan(image: Image, move_id: int, part: int) -> MovePlan | Refusal:
    """A part of the plan of a move, the first one being 0; or why there is none."""
    move = image.moves.get(move_id)
    if move is None:
        return Refusal(Error.INVALID_REQUEST, not_listed(move_id))
    if not 0 <= part < len(move.parts):
        reason = f"the plan of move {move_id} has {len(move.parts)} part(s), counted from 0"
        return Refusal(Error.INVALID_REQUEST, f"{reason}; there is no part {part}")
    found = plan_part(image, move, part)
    there = {
        PartitionId(each.topic, each.partition): each for each in found if each.topic is not None
    }
    return MovePlan(
        targets={id: each.target for id, each in there.items()},
        originals={id: each.original for id, each in there.items()},
        gone=len(found) - len(there),
        part_count=len(move.parts),
    )


async def whole(part_of: Callable[[int, int], Awaitable[MovePlan]], move_id: int) -> MovePlan:
    """All parts of the plan, one after the other."""
    first = await part_of(move_id, 0)
    targets, originals, gone = dict(first.targets), dict(first.originals), first.gone
    for part in range(1, first.part_count):
        more = await part_of(move_id, part)
        targets.update(more.targets)
        originals.update(more.originals)
        gone += more.gone
    return MovePlan(targets=targets, originals=originals, gone=gone)
