"""The JSON files of `reassign-partitions`: read strictly, checked as a whole, written again.

`{"version": 1, "partitions": [{"topic": t, "partition": n, "replicas": [ids]}]}`, with the
optional `log_dirs` of Kafka's script, and over HTTP with name, priority and throttle of a move; and
`{"version": 1, "topics": [{"topic": t}]}`, the topics that a plan is to be made for. Everything
that can be judged without a cluster is judged in `parse_plan`, and what needs one in `check_plan`,
before anything is sent. Kafka's script ignores fields that it does not know; here they are errors,
for they are mostly misspelt.
"""

import difflib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from admin.capabilities.moves import PRIORITY_MAX, PRIORITY_MIN
from admin.capabilities.plan_steps import PLAN_FILE_VERSION
from admin.capabilities.reassignments import BeginMove
from admin.model import Assignment, PartitionId, TopicDescription
from admin.units import excerpt
from controller.move_requests import wrong_name
from statemachine.limits import THROTTLE_BYTES_PER_S_MAX

PLAN_BYTES_MAX: Final = 64 * 1024 * 1024
ANY_LOG_DIR: Final = "any"
ID_MAX: Final = 2**31 - 1
NAMED_MAX: Final = 20
"""Partitions, brokers or faults that a message names one by one."""

_PLAN_FIELDS: Final = ("version", "partitions")
_MOVE_FIELDS: Final = (*_PLAN_FIELDS, "name", "priority", "throttle_bytes_per_s", "dry_run")
_TOPICS_FIELDS: Final = ("version", "topics")
_TOPIC_FIELDS: Final = ("topic",)
_PARTITION_FIELDS: Final = ("topic", "partition", "replicas", "log_dirs")


class InvalidPlan(ValueError):
    """The plan cannot be carried out as it stands; the message says what is wrong in it."""


def parse_plan(text: str) -> tuple[Assignment, ...]:
    """The assignments in the order of the file, each partition once; raises `InvalidPlan`."""
    return _assignments(_entries(_object(_json(text), "the plan", _PLAN_FIELDS), "the plan"))


def parse_move(text: str) -> BeginMove:
    """A plan with what it is to be known by beside it, as over HTTP; raises `InvalidPlan`.

    That is `name`, `priority`, `throttle_bytes_per_s` and `dry_run`; each may be left out.
    """
    found = _object(_json(text), "the plan", _MOVE_FIELDS)
    dry_run = found.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise InvalidPlan(f"dry_run is {excerpt(dry_run)}; it is true or false")
    return BeginMove(
        assignments=_assignments(_entries(found, "the plan")),
        name=_name(found.get("name", "")),
        priority=priority_of(found.get("priority", 0)),
        throttle_bytes_per_s=throttle_of(found.get("throttle_bytes_per_s", 0)),
        dry_run=dry_run,
    )


def priority_of(value: Any) -> int:
    """The priority of a move, as JSON has it; raises `InvalidPlan`."""
    limits = f"a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}"
    return _whole(value, "priority", PRIORITY_MIN, PRIORITY_MAX, limits)


def throttle_of(value: Any) -> int:
    """The throttle of a move in bytes a second, as JSON has it; raises `InvalidPlan`."""
    limits = f"a whole number from 1 to {THROTTLE_BYTES_PER_S_MAX}, or 0 for none"
    return _whole(value, "throttle_bytes_per_s", 0, THROTTLE_BYTES_PER_S_MAX, limits)


def _whole(value: Any, what: str, lowest: int, highest: int, right: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise InvalidPlan(f"{what} is {excerpt(value)}; it must be {right}")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidPlan(f"name is {excerpt(value)}; it is a text")
    reason = wrong_name(value)
    if reason is not None:
        raise InvalidPlan(reason)
    return value


def _assignments(entries: Sequence[Any]) -> tuple[Assignment, ...]:
    if not entries:
        raise InvalidPlan("Partition reassignment list cannot be empty")
    assignments = tuple(_assignment(entry, place) for place, entry in enumerate(entries))
    _check_repeats(assignments)
    return assignments


def parse_topics(text: str) -> tuple[str, ...]:
    """The topics that the file names, each once and in its order; raises `InvalidPlan`."""
    entries = _entries(_object(_json(text), "the file", _TOPICS_FIELDS), "the file", "topics")
    if not entries:
        raise InvalidPlan("the list of topics is empty; name at least one")
    topics = []
    for place, entry in enumerate(entries):
        what = f"topics[{place}]"
        fields = _object(entry, what, _TOPIC_FIELDS)
        if "topic" not in fields:
            raise InvalidPlan(f'{what} has no field "topic"')
        topics.append(_topic(fields["topic"], what))
    twice = sorted(set(_repeats(topics)))
    if twice:
        raise InvalidPlan(
            f"List of topics to reassign contains duplicate entries: {','.join(twice)}"
        )
    return tuple(topics)


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
    """A sentence for the partitions of the plan that the cluster has not, or not any more."""
    ids = [one.id for one in plan if one.id not in existing]
    return [f"Unable to find partition: {_some(ids)}"] if ids else []


def render_plan(replicas: Mapping[PartitionId, Sequence[int]]) -> str:
    """The plan that puts these replicas there, sorted, as Kafka's script prints it."""
    partitions = [
        {
            "topic": id.topic,
            "partition": id.partition,
            "replicas": list(replicas[id]),
            "log_dirs": [ANY_LOG_DIR] * len(replicas[id]),
        }
        for id in sorted(replicas)
    ]
    return json.dumps(
        {"version": PLAN_FILE_VERSION, "partitions": partitions}, separators=(",", ":")
    )


def _entries(found: Mapping[str, Any], what: str, name: str = "partitions") -> list[Any]:
    """The list of this name, which is there beside the version."""
    version = found.get("version", PLAN_FILE_VERSION)
    if version != PLAN_FILE_VERSION or isinstance(version, bool):
        raise InvalidPlan(
            f"Not supported version field value {excerpt(version)}; write {PLAN_FILE_VERSION}"
        )
    if name not in found:
        raise InvalidPlan(f'{what} has no field "{name}"')
    entries = found[name]
    if not isinstance(entries, list):
        raise InvalidPlan(f'"{name}" is {excerpt(entries)}; it must be a list')
    return entries


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidPlan(f"not valid JSON at {where}: {error.msg}") from None
    except InvalidPlan:
        raise
    except ValueError:
        # Python reads no number of thousands of digits.
        raise InvalidPlan("a number in it has more digits than any id can have") from None
    except RecursionError:
        raise InvalidPlan("its JSON is nested far deeper than a plan is") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidPlan(f'the field "{key}" is there twice in one object')
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    raise InvalidPlan(f"not valid JSON: {text} is not a number")


def _object(value: Any, what: str, fields: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidPlan(f"{what} is {excerpt(value)}; it must be an object")
    for name in value:
        if name not in fields:
            # Whatever is longer than any field is not one that is misspelt.
            near = difflib.get_close_matches(name, fields, n=1) if len(name) < 40 else []
            hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(fields)}"
            raise InvalidPlan(f"{what} has an unknown field {excerpt(name)}; {hint}")
    return value


def _assignment(entry: Any, place: int) -> Assignment:
    what = f"partitions[{place}]"
    fields = _object(entry, what, _PARTITION_FIELDS)
    for name in ("topic", "partition", "replicas"):
        if name not in fields:
            raise InvalidPlan(f'{what} has no field "{name}"')
    topic = _topic(fields["topic"], what)
    number = _id(fields["partition"], f"the partition of {what}")
    id = PartitionId(topic, number)
    replicas = fields["replicas"]
    if not isinstance(replicas, list):
        raise InvalidPlan(f"the replicas of {id} are {excerpt(replicas)}; they must be a list")
    if not replicas:
        raise InvalidPlan(f"Partition replica list cannot be empty: {id}")
    brokers = tuple(_id(replica, f"a replica of {id}") for replica in replicas)
    _check_log_dirs(fields.get("log_dirs"), id, brokers)
    return Assignment(topic=topic, partition=number, replicas=brokers)


def _topic(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value or not _is_unicode(value):
        raise InvalidPlan(f"the topic of {what} is {excerpt(value)}; it must be a name")
    return value


def _is_unicode(text: str) -> bool:
    """Return whether the text can be encoded: JSON can escape a lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _id(value: Any, what: str) -> int:
    return _whole(value, what, 0, ID_MAX, f"a whole number from 0 to {ID_MAX}")


def _check_log_dirs(log_dirs: Any, id: PartitionId, brokers: Sequence[int]) -> None:
    if log_dirs is None:
        return
    if not isinstance(log_dirs, list) or not all(isinstance(one, str) for one in log_dirs):
        raise InvalidPlan(f"the log_dirs of {id} are {excerpt(log_dirs)}; write a list of texts")
    if len(log_dirs) != len(brokers):
        raise InvalidPlan(
            f"Size of replicas list {list(brokers)} is different from size of log dirs list "
            f"{excerpt(log_dirs)} for partition {id}"
        )
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
    """As many as a message names one by one, and how many more there are."""
    if len(words) <= NAMED_MAX:
        return words
    return [*words[:NAMED_MAX], f"and {len(words) - NAMED_MAX:,} more"]
