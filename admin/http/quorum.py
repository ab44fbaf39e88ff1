"""HTTP responses about the quorum that are not just an answer."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from admin.capabilities.quorum import AlterVoters, Voters
from admin.capabilities.schema import Request, json_of
from admin.http.capability_routes import Respond, as_json


async def altered(_request: web.Request, asked: AlterVoters, answer: Voters) -> web.Response:
    """The voters: 202 while the change to the target is under way."""
    is_done = asked.target_voters is None or answer.is_at_rest
    return as_json(json_of(answer), status=200 if is_done else 202)


RESPONSES: Final[Mapping[type[Request[Any]], Respond]] = {AlterVoters: altered}
