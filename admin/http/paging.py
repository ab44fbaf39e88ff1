"""Pages of partitions over HTTP: `page_size`, and `page_token`, which says where one begins."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import orjson
from aiohttp import web

from admin.http.problems import Problem
from admin.model import PartitionId
from admin.moves import PARTITIONS_SHOWN_MAX, Page

PARAMETERS: Final = ("page_size", "page_token")
PAGE_SIZE: Final = 100
"""Partitions in a page where nothing is said of it."""


def page_in(request: web.Request) -> Page:
    """The page that is asked for; a `Problem` where that cannot be meant."""
    token = request.query.get("page_token")
    after = None if token is None else _place_in(token)
    return Page(after=after, size=_size(request.query.get("page_size", str(PAGE_SIZE))))


def token_of(last: PartitionId) -> str:
    """By which the page behind this partition is asked for; it stays right if that is gone."""
    return urlsafe_b64encode(orjson.dumps([last.topic, last.partition])).decode().rstrip("=")


def _size(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) > 0):
        raise _problem(f"page_size is {text!r}; it is 1 to {PARTITIONS_SHOWN_MAX}")
    if int(text) > PARTITIONS_SHOWN_MAX:
        raise _problem(f"page_size is {text}; a page has at most {PARTITIONS_SHOWN_MAX} partitions")
    return int(text)


def _place_in(token: str) -> PartitionId:
    wrong = _problem(
        f"page_token {token!r} is none of ours; take next_page_token from the page before"
    )
    try:
        place = orjson.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except ValueError:
        raise wrong from None
    if not isinstance(place, list) or list(map(type, place)) != [str, int]:
        raise wrong
    if not 0 <= place[1] < 2**31:
        raise wrong
    return PartitionId(*place)


def _problem(detail: str) -> Problem:
    return Problem(400, "Invalid page", detail)
