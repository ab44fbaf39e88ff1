"""The states that can be watched: what each has, and how this node reads it.

Everything comes from this node's own image, so a follower's stream may be a little behind; the
offset says how far it has come. What only the leader knows, the lag of replicas and what is left to
copy, comes from the last report (`leader_report`); without one it is unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from admin.capabilities.brokers import BROKER_US, ListBrokers, broker_of
from admin.capabilities.copy_progress import MOVES_MAX, CopyProgress, MoveWait, example_of
from admin.capabilities.moves import (
    BASE,
    DescribeMove,
    ListMoves,
    MoveProgress,
    PauseOfAll,
    move_of,
    pause_of,
)
from admin.capabilities.quorum import DescribeQuorum, Quorum, Replica, quorum_of
from admin.capabilities.schema import Answer, Request
from admin.http.events.feed import Key, Sample, Section
from controller.service import Service
from statemachine.image.image import Image
from statemachine.partitions.partition_health import under_replicated
from statemachine.reassignment.move_queries import SUMMARY_US, recent_moves, summaries
from statemachine.slices import PASSED_US, Slices, sort_in_slices
from statemachine.vocabulary import NO_LEADER

RUNNING_MOVES_MAX: Final = 200
ENDED_MOVES_MAX: Final = 50
"""Moves of a state: the first ones that run and the last ones that ended."""
OVERVIEW: Final = "/v1/overview"
EVENT_STREAM: Final = "text/event-stream"
LAST_EVENT_ID: Final = "Last-Event-ID"

Reading: TypeAlias = Slices[dict[Key, Struct]]
"""The items of a section, read from the image."""


@dataclass(frozen=True, slots=True)
class LeaderNews:
    """The knowledge of the leader beyond the log; nothing if it has not answered lately."""

    quorum: Quorum | None = None
    copies: Mapping[int, CopyProgress] = field(default_factory=dict)


NO_NEWS: Final = LeaderNews()


class WatchedMove(MoveProgress, frozen=True, kw_only=True):
    """A move, what is left to copy for it, and one of its partitions as an example."""

    example: MoveWait | None = None


class PartitionCounts(Answer, frozen=True, kw_only=True):
    """The numbers of partitions in the whole cluster."""

    partitions: int
    without_leader: int
    under_replicated: Annotated[int, Meta(description="Without those whose step is under way")]
    moving: int
    topics: int


class AllPaused(Answer, frozen=True, kw_only=True):
    """The pause of all moves, if any, and how many moves are listed."""

    all_paused: PauseOfAll
    moves_total: int


@dataclass(frozen=True, slots=True)
class Resource:
    """A state that can be watched."""

    path: str
    event: str
    sections: tuple[Section, ...]
    needs: type[Request]  # type: ignore[type-arg]
    """The request of the same right."""
    is_plain: bool = False
    """True if the only item is the data of an event."""

    @property
    def has_records_only(self) -> bool:
        """True if its state only changes by records that change something."""
        return not any(each.name == "quorum" for each in self.sections)

    def of(self, image: Image, move_id: int | None) -> Slices[dict[Key, Struct]]:
        """Read the sections that the image has."""
        found: dict[Key, Struct] = {}
        for section in self.sections:
            if (reading := _READINGS.get(section.name)) is not None:
                found |= yield from reading(image, move_id)
        return found


def _steady(quorum: Quorum) -> object:
    """The quorum without what changes by itself, as time goes by."""
    return replace(
        quorum,
        max_follower_lag_time_ms=0,
        leaderless_since_ms=None,
        current_voters=tuple(map(_still, quorum.current_voters)),
        observers=tuple(map(_still, quorum.observers)),
    )


def _still(replica: Replica) -> Replica:
    return replace(replica, last_fetch_timestamp=0, last_caught_up_timestamp=0)


_QUORUM: Final = Section("quorum", is_list=False, has_offset=True, compared=_steady)
_BROKERS: Final = Section("brokers")
_MOVES: Final = Section("moves")
_PAUSE: Final = Section("pause", is_list=False)
_MOVE: Final = Section("reassignment", is_list=False)
_PARTITIONS: Final = Section("partitions", is_list=False)

RESOURCES: Final[Mapping[str, Resource]] = {
    each.path: each
    for each in (
        Resource("/v1/quorum", "quorum", (_QUORUM,), DescribeQuorum, is_plain=True),
        Resource("/v1/brokers", "brokers", (_BROKERS,), ListBrokers),
        Resource(BASE, "reassignments", (_MOVES, _PAUSE), ListMoves),
        Resource(f"{BASE}/{{id}}", "reassignment", (_MOVE,), DescribeMove, is_plain=True),
        Resource(
            OVERVIEW,
            "overview",
            (_QUORUM, _BROKERS, _MOVES, _PAUSE, _PARTITIONS),
            DescribeQuorum,
        ),
    )
}
"""The resources by the paths of their routes."""


async def sample(
    service: Service, resource: Resource, move_id: int | None, news: LeaderNews
) -> Sample:
    """Read the state of a resource on this node; raises `NotActive` while it cannot be read."""
    items: dict[Key, Struct] = {}
    if any(each.name == "quorum" for each in resource.sections):
        items[Key("quorum")] = await _quorum(service, news.quorum)
    if len(items) == len(resource.sections):
        return Sample(service.quorum.node.high_watermark or 0, items)
    found = await service.read_long(lambda image: resource.of(image, move_id), stale=True)
    items |= {key: _with(news.copies, item) for key, item in found.value.items()}
    return Sample(found.offset, items)


def _with(copies: Mapping[int, CopyProgress], item: Struct) -> Struct:
    if not isinstance(item, WatchedMove) or (left := copies.get(item.move_id)) is None:
        return item
    # The example is of the same offset as the move; the leader's may be a second older.
    return replace(item, **{**asdict(left), "example": item.example})


async def _quorum(service: Service, reported: Quorum | None) -> Quorum:
    own = quorum_of(await service.describe_quorum(stale=True))
    is_of_now = reported is not None and (reported.leader_id, reported.leader_epoch) == (
        own.leader_id,
        own.leader_epoch,
    )
    if service.controller.is_active or reported is None or not is_of_now:
        return own
    return replace(
        reported,
        cluster_id=own.cluster_id,
        high_watermark=own.high_watermark,
        as_of_offset=own.as_of_offset,
        full_disks=tuple(sorted({*own.full_disks, *reported.full_disks})),
    )


# --- sections of an image ------------------------------------------------------------------------


def _brokers(image: Image, _move_id: int | None) -> Reading:
    found: dict[Key, Struct] = {}
    for broker_id in (yield from sort_in_slices(image.brokers)):
        found[Key("brokers", broker_id)] = broker_of(image, image.brokers[broker_id])
        yield BROKER_US
    return found


def _moves(image: Image, _move_id: int | None) -> Reading:
    ids = yield from recent_moves(image, RUNNING_MOVES_MAX, ENDED_MOVES_MAX)
    moves = yield from _watched(image, ids)
    return {Key("moves", each.move_id): each for each in moves}


def _one_move(image: Image, move_id: int | None) -> Reading:
    ids = [each for each in (move_id,) if each is not None and each in image.moves]
    moves = yield from _watched(image, ids)
    return {Key("reassignment", each.move_id): each for each in moves}


def _watched(image: Image, ids: Sequence[int]) -> Slices[list[WatchedMove]]:
    shown = {each for each in ids if image.moves[each].ended is None}
    with_example = sorted(shown)[:MOVES_MAX]
    found = []
    for each in (yield from summaries(image, ids)):
        example = example_of(image, each.move.id) if each.move.id in with_example else None
        found.append(WatchedMove(**asdict(move_of(image, each)), example=example))
        yield SUMMARY_US
    return found


def _pause(image: Image, _move_id: int | None) -> Reading:
    yield PASSED_US
    return {Key("pause"): AllPaused(all_paused=pause_of(image), moves_total=len(image.moves))}


def _partitions(image: Image, _move_id: int | None) -> Reading:
    index = image.index
    lacking = yield from under_replicated(index)
    counts = PartitionCounts(
        partitions=index.partition_count,
        without_leader=index.count(index.leader_of, NO_LEADER),
        under_replicated=len(lacking - index.stepping),
        moving=len(index.moving),
        topics=len(image.topics),
    )
    return {Key("partitions"): counts}


_READINGS: Final[Mapping[str, Callable[[Image, int | None], Reading]]] = {
    "brokers": _brokers,
    "moves": _moves,
    "reassignment": _one_move,
    "pause": _pause,
    "partitions": _partitions,
}
"""The reading of each section from the image; that of the quorum is not in it."""
