"""Voters as JSON names them: those of a target by id or with a directory id, a leader by id."""

from typing import Any

import orjson

from admin.http.problems import Problem
from admin.shown import shown
from quorum.core.limits import VOTERS_MAX
from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, ReplicaKey
from quorum.log.uuids import uuid_from_text

_ID_MAX = 2**31 - 1


def target_in(body: bytes) -> tuple[ReplicaKey, ...]:
    """The voters in `{"target_voters": [4, {"id": 5, "directory_id": "..."}]}`, or a `Problem`."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _problem(f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict) or set(asked) != {"target_voters"}:
        raise _problem('the body is to be {"target_voters": [4, 5, 6]}')
    named = asked["target_voters"]
    if not isinstance(named, list) or not 0 < len(named) <= VOTERS_MAX:
        raise _problem(f"target_voters is to be a list of 1 to {VOTERS_MAX} voters")
    keys = tuple(_key(each) for each in named)
    ids = [each.id for each in keys]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is not None:
        raise _problem(f"target_voters names {twice} twice")
    return keys


def successor_in(body: bytes) -> ReplicaId | None:
    """The voter in `{"to": 3}`; None where the body is empty or names none; or a `Problem`."""
    try:
        asked = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Problem(400, "Invalid transfer", f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict) or not set(asked) <= {"to"}:
        right = 'the body is to be {"to": 3}, or empty for whichever voter suits best'
        raise Problem(400, "Invalid transfer", right)
    to = asked.get("to")
    if to is None:
        return None
    if not isinstance(to, int) or isinstance(to, bool) or not 0 <= to <= _ID_MAX:
        wrong = f"to is {shown(to)}; it is the id of a voter, like 3"
        raise Problem(400, "Invalid transfer", wrong)
    return ReplicaId(to)


def _key(named: Any) -> ReplicaKey:
    directory_id = NO_DIRECTORY
    if isinstance(named, dict) and set(named) == {"id", "directory_id"}:
        try:
            directory_id = uuid_from_text(str(named["directory_id"]))
        except ValueError as error:
            raise _problem(f"directory_id: {error}") from error
        named = named["id"]
    if not isinstance(named, int) or isinstance(named, bool) or not 0 <= named <= _ID_MAX:
        right = "give an id, or an object with id and directory_id"
        raise _problem(f"{shown(named)} is no voter: {right}")
    return ReplicaKey(ReplicaId(named), directory_id)


def _problem(detail: str) -> Problem:
    return Problem(400, "Invalid target", detail)
