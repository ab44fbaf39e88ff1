"""The JSON files of Kafka's scripts: read strictly, checked as a whole, written again.

Those of `reassign-partitions` are a plan,
`{"version": 1, "partitions": [{"topic": t, "partition": n, "replicas": [ids]}]}`, with the
optional `log_dirs` of Kafka's script, and over HTTP with the options of a move; and
`{"version": 1, "topics": [{"topic": t}]}`, the topics to plan for. `parse_plan` checks
everything that needs no cluster, `check_plan` the rest, before anything is sent. The partitions of
`elect-leaders` have no replicas, and those of `delete-records` an offset instead. Kafka's scripts
ignore unknown fields; here they are errors, because most of them are misspelt.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from admin.capabilities.plan_steps import PLAN_FILE_VERSION
from admin.capabilities.reassignments import BeginMove
from admin.capabilities.schema import BrokerId, Partition
from admin.model import Assignment, PartitionId, TopicDescription
from admin.units import invalid_field
from statemachine.near_name import near_name

ANY_LOG_DIR: Final = "any"
NAMED_MAX: Final = 20
"""Partitions, brokers or faults that a message names one by one."""


class InvalidPlan(ValueError):
    """The plan cannot be carried out as it stands; the message says what is wrong in it."""


class PlannedPartition(Partition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The target of one partition in a file."""

    replicas: tuple[BrokerId, ...]
    log_dirs: tuple[str, ...] | None = None


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = PLAN_FILE_VERSION


class PlanFile(_File, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan of `reassign-partitions`."""

    partitions: tuple[PlannedPartition, ...]


_OF_MOVE: Final = [
    each
    for each in msgspec.structs.fields(BeginMove)
    if each.name not in ("assignments", "may_change_factor", "key")
]
MoveFile = cast(
    "type[PlanFile]",
    msgspec.defstruct(
        "MoveFile",
        [(each.name, each.type, each.default) for each in _OF_MOVE],
        bases=(PlanFile,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    ),
)
"""A plan over HTTP, with the options of its move."""


class _Topic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: Annotated[str, Meta(min_length=1)]


class _Topics(_File, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topics: tuple[_Topic, ...]


class _Partitions(_File, frozen=True, kw_only=True, forbid_unknown_fields=True):
    partitions: tuple[Partition, ...]


class PartitionOffset(Partition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The offset of a partition before which records are deleted; -1: its high watermark."""

    offset: Annotated[int, Meta(ge=-1, le=2**63 - 1)]


class _Offsets(_File, frozen=True, kw_only=True, forbid_unknown_fields=True):
    partitions: tuple[PartitionOffset, ...]


_ENTRIES: Final[Mapping[type[Struct], type[Struct]]] = MappingProxyType(
    {_Topics: _Topic, _Partitions: Partition, _Offsets: PartitionOffset}
)
"""The entries of the files that are no plan."""

F = TypeVar("F", bound=_File)


def parse_plan(text: str) -> tuple[Assignment, ...]:
    """The assignments in the order of the file, each partition once; raises `InvalidPlan`."""
    return _assignments(_parse(text, PlanFile).partitions)


def parse_move(text: str) -> BeginMove:
    """The request that begins the move of a plan over HTTP; raises `InvalidPlan`.

    The options of the move are optional fields of the plan.
    """
    return move_of(parse_move_file(text))


def parse_move_file(text: str) -> PlanFile:
    """A plan over HTTP with the options of its move; raises `InvalidPlan`."""
    return _parse(text, MoveFile)


def move_of(found: PlanFile) -> BeginMove:
    """The request that begins the move of a plan over HTTP; raises `InvalidPlan`."""
    options = {each.name: getattr(found, each.name) for each in _OF_MOVE}
    asked = BeginMove(assignments=_assignments(found.partitions), **options)
    if reason := asked.contradiction():
        raise InvalidPlan(reason)
    return asked


def parse_topics(text: str) -> tuple[str, ...]:
    """The topics that the file names, each once and in its order; raises `InvalidPlan`."""
    topics = tuple(each.topic for each in _parse(text, _Topics).topics)
    if not topics:
        raise InvalidPlan("the list of topics is empty; name at least one")
    twice = sorted(set(_repeats(topics)))
    if twice:
        raise InvalidPlan(
            f"List of topics to reassign contains duplicate entries: {','.join(twice)}"
        )
    return topics


def parse_partitions(text: str) -> tuple[PartitionId, ...]:
    """The partitions that the file names, each once and in its order; raises `InvalidPlan`."""
    return _each_once(_parse(text, _Partitions).partitions)


def parse_offsets(text: str) -> dict[PartitionId, int]:
    """The offset for each partition of the file, in its order; raises `InvalidPlan`."""
    found = _parse(text, _Offsets).partitions
    ids = _each_once(found)
    return {id: each.offset for id, each in zip(ids, found, strict=True)}


def _each_once(entries: Sequence[Partition]) -> tuple[PartitionId, ...]:
    if not entries:
        raise InvalidPlan("the list of partitions is empty; name at least one")
    ids = tuple(PartitionId(each.topic, each.partition) for each in entries)
    if twice := sorted(set(_repeats(ids))):
        raise InvalidPlan(f"The list of partitions contains duplicate entries: {_some(twice)}")
    return ids


def check_plan(
    plan: Iterable[Assignment],
    *,
    brokers: Collection[int],
    topics: Mapping[str, TopicDescription],
) -> None:
    """Raise `InvalidPlan` for brokers, topics and partitions that the cluster does not have.

    It names all of them, and for each the first partitions of the plan that are wrong by it.
    """
    numbers = {name: {one.partition for one in topic.partitions} for name, topic in topics.items()}
    there = _some(sorted(brokers)) or "none"
    wrong: dict[str, list[PartitionId]] = {}
    for one in plan:
        for broker in one.replicas or ():
            if broker not in brokers:
                reason = f"Unknown broker id {broker}; the brokers are {there}; it is wanted for"
                wrong.setdefault(reason, []).append(one.id)
        if one.topic not in numbers:
            wrong.setdefault(f"Topic {one.topic} not found. The plan names", []).append(one.id)
        elif one.partition not in numbers[one.topic]:
            wrong.setdefault("Unable to find partition:", []).append(one.id)
    if wrong:
        reasons = [f"{reason} {_some(ids)}" for reason, ids in wrong.items()]
        raise InvalidPlan("\n".join(_first(reasons)))


def missing(plan: Iterable[Assignment], existing: Collection[PartitionId]) -> list[str]:
    """Describe the partitions of the plan that the cluster does not have."""
    ids = [one.id for one in plan if one.id not in existing]
    return [f"Unable to find partition: {_some(ids)}"] if ids else []


def render_plan(replicas: Mapping[PartitionId, Sequence[int]]) -> str:
    """The plan for these replicas, sorted, as Kafka's script prints it."""
    partitions = [
        PlannedPartition(
            topic=topic, partition=number, replicas=tuple(ids), log_dirs=(ANY_LOG_DIR,) * len(ids)
        )
        for (topic, number), ids in sorted(replicas.items())
    ]
    return msgspec.json.encode(PlanFile(partitions=tuple(partitions))).decode()


def _parse(text: str, kind: type[F]) -> F:
    """Return the file of this kind; raises `InvalidPlan`, which names the field that is wrong."""
    try:
        # First in Python: it names the line of a syntax error, and sees fields that are repeated.
        json.loads(text, object_pairs_hook=_check_unrepeated, parse_int=str)
        found = msgspec.json.decode(text, type=kind)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidPlan(f"not valid JSON at {where}: {error.msg}") from None
    except msgspec.DecodeError as error:
        raise InvalidPlan(invalid_field(error) + _hint(str(error), kind)) from None
    except RecursionError:
        raise InvalidPlan("its JSON is nested deeper than any plan") from None
    if found.version != PLAN_FILE_VERSION:
        raise InvalidPlan(
            f"Not supported version field value {found.version}; write {PLAN_FILE_VERSION}"
        )
    return found


def _check_unrepeated(pairs: list[tuple[str, Any]]) -> None:
    """Raise `InvalidPlan` for a field that an object has twice."""
    for key in _repeats(key for key, _ in pairs):
        raise InvalidPlan(f"the field {key!r} is there twice in one object")


def _hint(message: str, kind: type[Struct]) -> str:
    """Return the rest of a message about an unknown field: the field that was probably meant."""
    unknown = re.search("unknown field `([^`]{1,40})`( - at)?", message)
    if unknown is None:
        return ""
    entry = _ENTRIES.get(kind, PlannedPartition)
    there = (entry if unknown[2] else kind).__struct_fields__
    near = near_name(unknown[1], there)
    return f"; did you mean `{near}`?" if near else f"; known are {', '.join(there)}"


def _assignments(entries: Sequence[PlannedPartition]) -> tuple[Assignment, ...]:
    if not entries:
        raise InvalidPlan("Partition reassignment list cannot be empty")
    for each in entries:
        _check_entry(each, PartitionId(each.topic, each.partition))
    assignments = tuple(
        [
            Assignment(topic=each.topic, partition=each.partition, replicas=each.replicas)
            for each in entries
        ]
    )
    _check_repeats(assignments)
    return assignments


def _check_entry(entry: PlannedPartition, id: PartitionId) -> None:
    if not entry.replicas:
        raise InvalidPlan(f"Partition replica list cannot be empty: {id}")
    log_dirs = entry.log_dirs
    if log_dirs is None:
        return
    if len(log_dirs) != len(entry.replicas):
        count = len(entry.replicas)
        raise InvalidPlan(f"{id} has {count} replica(s) and {len(log_dirs)} log_dirs; name as many")
    for log_dir in log_dirs:
        if log_dir != ANY_LOG_DIR:
            raise InvalidPlan(
                f'{id} names the log dir "{log_dir}"; a broker has one, so write "{ANY_LOG_DIR}"'
            )


def _check_repeats(assignments: Sequence[Assignment]) -> None:
    twice = sorted(set(_repeats(assignment.id for assignment in assignments)))
    if twice:
        raise InvalidPlan(
            "Partition reassignment contains duplicate topic partitions: "
            + ",".join(_first(list(map(str, twice))))
        )
    found = [
        f"{assignment.id} contains multiple entries for {','.join(map(str, repeated))}"
        for assignment in assignments
        if (repeated := sorted(set(_repeats(assignment.replicas or ()))))
    ]
    if found:
        raise InvalidPlan(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(_first(found))}"
        )


def _repeats(values: Iterable[Any]) -> Iterator[Any]:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            yield value
        seen.add(value)


def _some(values: Sequence[object]) -> str:
    return ", ".join(_first(list(map(str, values))))


def _first(words: list[str]) -> list[str]:
    """The first words and the number of the others."""
    if len(words) <= NAMED_MAX:
        return words
    return [*words[:NAMED_MAX], f"and {len(words) - NAMED_MAX:,} more"]
