"""Errors of the HTTP listener as problem details (RFC 9457)."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from math import ceil
from types import MappingProxyType
from typing import Any, Final

import orjson
from aiohttp import web
from msgspec import convert

from admin.capabilities.moves import PartitionError
from admin.capabilities.schema import Result, json_of
from admin.faults import Refused
from admin.http.caller import NotAllowed
from admin.http.gateway import NoAnswer
from quorum.log_events import LogEvent
from quorum.protocol.errors import ErrorCode, error_name
from statemachine.errors import Error
from statemachine.limits import REFUSED_SHOWN_MAX

logger = logging.getLogger("http")

CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = 2
"""Of a response 503 without a longer time of its own: an election takes less."""
PATHS_NEAR: Final = 0.8
"""How similar a path must be, from 0 to 1, to be named in the error of an unknown one."""
PATHS_NEAR_MAX: Final = 3
"""The most similar paths that such an error names."""
PATH_CHARACTERS_MAX: Final = 200
"""The longest path that is compared with others."""
_STATUS: Final[Mapping[int, int]] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR: 500,
        ErrorCode.REQUEST_TIMED_OUT: 504,
        ErrorCode.FENCED_LEADER_EPOCH: 409,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: 409,
        ErrorCode.ELECTION_NOT_NEEDED: 409,
        ErrorCode.DUPLICATE_RESOURCE: 422,
        ErrorCode.INVALID_UPDATE_VERSION: 409,
        ErrorCode.SECURITY_DISABLED: 409,
        ErrorCode.KAFKA_STORAGE_ERROR: 409,
        ErrorCode.RESOURCE_NOT_FOUND: 404,
        ErrorCode.BROKER_ID_NOT_REGISTERED: 404,
        Error.RESOURCE_NOT_FOUND.code: 404,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
        ErrorCode.TOPIC_ALREADY_EXISTS: 409,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    }
)
"""The HTTP status of a refusal that is not the fault of the request: 400 for all others."""

SECURITY_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        # Without it, aiohttp names its version and Python's.
        "Server": "metaquorum",
    }
)
"""Headers of every response: nothing may frame, embed, run or store it. No header allows a page of
another origin to read it."""

HAS_KEY: Final = web.RequestKey("has_key", bool)
REPEATED: Final = web.RequestKey("repeated", bool)
"""Set by a handler: the request has a key; an earlier request with it was carried out."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Problem(Exception):
    """An error response; `detail` says what is wrong and what to do."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        retry = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else {}
        self.headers = {**retry, **headers}
        self.body = {
            "type": type_of(title),
            "title": title,
            "status": status,
            "detail": detail,
            **members,
        }


def type_of(title: str) -> str:
    """The URI that identifies a kind of problem, for programs."""
    return "urn:metaquorum:problem:" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def kafka_problem(
    status: int, title: str, detail: str, code: int, *, retriable: bool = False, **members: Any
) -> Problem:
    """A problem with the error `code` of the Kafka protocol."""
    names: dict[str, Any] = {"kafka_error": error_name(code), "kafka_error_code": code}
    return Problem(status, title, detail, **names, retriable=retriable, **members)


def refused_part(status: int, result: Result, where: str = "", **members: Any) -> Problem:
    """A part of a request was refused; `where` names it."""
    detail = f"{where}{result.message or result.kafka_error}"
    return kafka_problem(status, "Refused", detail, result.kafka_error_code, **members)


def refused(status: int, results: Sequence[PartitionError], count: int) -> Problem:
    """All parts of a request were refused: `count`, of which these are the first."""
    first = results[0]
    # A message about a whole topic names it.
    where = "" if first.partition is None else f"{first.id}: "
    return refused_part(status, first, where, errors=refusals_data(results), refused=count)


def refusals_data(refused: Sequence[PartitionError]) -> list[dict[str, Any]]:
    """The first refused partitions, each with its reason; null stands for the whole topic."""
    shown = convert(refused[:REFUSED_SHOWN_MAX], list[PartitionError], from_attributes=True)
    return [json_of(each) for each in shown]


@web.middleware
async def as_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a problem, and mark a repeated answer."""
    try:
        response = await handler(request)
    except Exception as error:  # noqa: BLE001 - the client gets it, and the log if it is a bug
        response = problem_response(_problem(request, error))
    for name, value in SECURITY_HEADERS.items():
        # The page has a policy of its own.
        response.headers.setdefault(name, value)
    if request.get(REPEATED, False):
        response.headers["Idempotent-Replayed"] = "true"
    return response


def problem_response(problem: Problem) -> web.Response:
    """The response to a request that has failed."""
    return web.Response(
        body=orjson.dumps(problem.body),
        status=problem.status,
        content_type=CONTENT_TYPE,
        headers={**SECURITY_HEADERS, **problem.headers},
    )


def _problem(request: web.Request, error: Exception) -> Problem:
    """The problem that an error is; an unexpected one is logged."""
    match error:
        case Problem():
            # An unknown action looks like an id.
            return error if error.status != 400 else _no_action(request) or error
        case Refused():
            return _refused(error)
        case NotAllowed():
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return kafka_problem(403, "Not authorized", str(error), code)
        case NoAnswer():
            return _unanswered(request, error)
        case web.HTTPException():
            return _no_action(request) or Problem(
                error.status, error.reason, _detail(request, error)
            )
        case _:
            # The path as it came: decoded, it may have line breaks.
            logger.error(
                "failed at %s %s",
                request.method,
                request.raw_path,
                exc_info=error,
                extra=LogEvent.REQUEST_FAILED.extra,
            )
            return Problem(500, "Internal error", "the controller failed; see its log")


def _refused(error: Refused) -> Problem:
    retriable = error.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    status = _STATUS.get(error.code, 400)
    problem = kafka_problem(status, "Refused", str(error), error.code, retriable=retriable)
    if error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        problem.headers = {"Retry-After": str(max(1, ceil(error.throttle_ms / 1_000)))}
    return problem


def _unanswered(request: web.Request, error: NoAnswer) -> Problem:
    if not error.may_be_done:
        detail = f"no active controller could answer in time: {error}"
        code, leader = ErrorCode.NOT_CONTROLLER, error.leader_id
        return kafka_problem(
            503, "No active controller", detail, code, leader_id=leader, retriable=True
        )
    then = f"check GET {shown_at(request)} before a retry"
    if has_key := request.get(HAS_KEY, False):
        then = "retry with the same Idempotency-Key: it is carried out once"
    code = ErrorCode.REQUEST_TIMED_OUT
    return kafka_problem(504, "Outcome unknown", f"{error}; {then}", code, retriable=has_key)


def shown_at(request: web.Request) -> str:
    """The path of what a request changes: its own or a shorter one, the first that GET takes."""
    known = {each.resource for each in request.app.router.routes() if each.method == "GET"}
    paths = [_of_any_id(each.canonical.rstrip("/")) for each in known if each is not None]
    stem, _, name = request.rel_url.raw_path.rstrip("/").rpartition("/")
    found = f"{stem}/{name.partition(':')[0]}"
    while found and not any(re.fullmatch(path, found) for path in paths):
        found = found.rpartition("/")[0]
    return found


def _of_any_id(path: str) -> str:
    """The regular expression of the paths that a route takes."""
    return re.sub(r"\{\w+\}", "[^/]+", path)


def _detail(request: web.Request, error: web.HTTPException) -> str:
    if error.status == 404:
        paths = sorted(_paths(request))
        asked = request.path.rstrip("/")[:PATH_CHARACTERS_MAX]
        near = get_close_matches(asked, paths, n=PATHS_NEAR_MAX, cutoff=PATHS_NEAR)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(paths)}"
        return f"there is no {request.path}; {hint}"
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return f"{request.path} takes {allowed}, not {request.method}{_takers(request)}"
    return error.text or error.reason


def _no_action(request: web.Request) -> Problem | None:
    """The problem of a path that ends with an action, such as `:pause`, which does not exist."""
    stem, separator, action = request.path.rstrip("/").rpartition(":")
    if not separator or "/" in action:
        return None
    known = set()
    for path in _paths(request):
        resource, _, name = path.rpartition(":")
        if resource and re.fullmatch(_of_any_id(resource), stem):
            known.add(name)
    if not known or action in known:
        return None
    there = ", ".join(f":{name}" for name in sorted(known))
    return Problem(404, "No such action", f"{stem} has no action :{action}; there are {there}")


def _paths(request: web.Request) -> set[str]:
    """The paths of all routes, each without a trailing slash, which changes nothing."""
    return {resource.canonical.rstrip("/") or "/" for resource in request.app.router.resources()}


def _takers(request: web.Request) -> str:
    """Name similar paths that take the method."""
    kind = request.path.split("/")[:3]
    takers = {
        route.resource.canonical.rstrip("/")
        for route in request.app.router.routes()
        if route.resource is not None and route.method == request.method
    }
    similar = sorted(each for each in takers if each.partition(":")[0].split("/")[:3] == kind)
    return f"; {request.method} is taken by {', '.join(similar)}" if similar else ""
