"""What is to be cancelled over HTTP: partitions, topics and moves that a body names, or all."""

from typing import Any, Final

import orjson

from admin.http.problems import Problem
from admin.model import PartitionId
from admin.shown import shown

_FIELDS: Final = ("moves", "topics", "partitions")
_RIGHT: Final = '{"moves": [3], "topics": ["a"], "partitions": [{"topic": "b", "partition": 7}]}'
_ID_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


def named_in(body: bytes) -> dict[str, Any]:
    """The fields of a `MovesRequest` that say what; everything, where the body is empty."""
    if not body.strip():
        return {"everything": True}
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _problem(f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict) or not asked or not set(asked) <= set(_FIELDS):
        raise _problem(f"the body is to be like {_RIGHT}, each in it or not, or empty for all")
    for name, value in asked.items():
        if not isinstance(value, list) or not value:
            raise _problem(f"{name} is {shown(value)}; it is a list of at least one")
    return {
        "move_ids": tuple(_move(each) for each in asked.get("moves", ())),
        "topics": tuple(_topic(each) for each in asked.get("topics", ())),
        "partitions": tuple(_partition(each) for each in asked.get("partitions", ())),
    }


def _move(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _ID_MAX:
        raise _problem(f"{shown(value)} is no id of a move; write one like 3")
    return value


def _topic(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _problem(f"{shown(value)} is no name of a topic")
    return value


def _partition(value: Any) -> PartitionId:
    if not isinstance(value, dict) or set(value) != {"topic", "partition"}:
        raise _problem(f'{shown(value)} is no partition; write {{"topic": "b", "partition": 7}}')
    number = value["partition"]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _PARTITION_MAX:
        raise _problem(f"{shown(number)} is no number of a partition of {shown(value['topic'])}")
    return PartitionId(_topic(value["topic"]), number)


def _problem(detail: str) -> Problem:
    return Problem(400, "Invalid cancel", detail)
