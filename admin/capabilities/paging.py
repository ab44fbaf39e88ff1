"""Pages of lists: a size, a token, a total, and filters.

A list is asked for by a `PageRequest`, or a request that is `Paged` in another way. Its filters are
fields with the names of the fields of an item that they compare; a filter of several values keeps
the items that have one of them, and filters of several fields those that all of them keep. Over
HTTP every field is a query parameter.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from admin.capabilities.schema import A_co, Answer, AsOfOffset, Request, Route
from statemachine.slices import SORTED_US, Slices, first_in_slices

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 1_000

P = TypeVar("P")
Q = TypeVar("Q", bound="Page")


class Page(Answer, frozen=True, kw_only=True):
    """A page of a list."""

    as_of_offset: AsOfOffset
    total: Annotated[int, Meta(description="Items on all pages together")]
    next_page_token: Annotated[str | None, Meta(description="null: this is the last page")]


@dataclass(frozen=True, slots=True)
class Cut(Generic[P]):
    """The positions of the items on a page."""

    shown: Sequence[P]
    total: int
    next_page_token: str | None


class Paged:
    """The part of a request for a page of a list, whose items have positions in a fixed order.

    A token has the position of the last item, so it stays valid if that item is gone.
    """

    __slots__ = ()

    page_size: int
    page_token: str | None

    ITEMS: ClassVar[str]
    """The field of the answer that has the items."""
    POSITION: ClassVar[Any] = int
    """The type of a position."""

    @classmethod
    def parameters(cls, route: Route) -> Mapping[str, str]:
        """The query parameters: every field that is not in the path, the filters first."""
        names: tuple[str, ...] = cls.__struct_fields__  # type: ignore[attr-defined]
        filters = [each for each in names if each not in (*_PAGE, route.id)]
        return {each: each for each in (*filters, *_PAGE)}

    @property
    def after(self) -> Any:
        """The position in front of the page, None for the first page; raises `ValueError`."""
        if self.page_token is None:
            return None
        try:
            place = urlsafe_b64decode(self.page_token + "=" * (-len(self.page_token) % 4))
        except binascii.Error as error:
            raise ValueError(str(error)) from None
        return msgspec.json.decode(place, type=self.POSITION)

    def contradiction(self) -> str | None:
        """Return why the token is none, or None."""
        try:
            _ = self.after
        except ValueError:
            right = "take next_page_token from the page before"
            return f"page_token {self.page_token!r} is invalid; {right}"
        return None

    def cut(self, positions: Iterable[P | None], cost_us: int = SORTED_US) -> Slices[Cut[P]]:
        """The page among the positions of all items, which come in any order.

        None stands for an item that the filters leave out; `cost_us` is the cost of a position.
        What the positions are read from must not change until the last slice.
        """
        after, total = self.after, 0

        def behind() -> Iterator[Any]:
            nonlocal total
            for each in positions:
                total += each is not None
                yield None if each is None or (after is not None and each <= after) else each

        found = yield from first_in_slices(behind(), self.page_size + 1, cost_us)
        return self.cut_off(found, total)

    def cut_off(self, found: Sequence[P], total: int) -> Cut[P]:
        """The page that begins with these positions, of which one more shows that it is not last.

        `total` is the number of all items.
        """
        shown = found[: self.page_size]
        return Cut(shown, total, token_of(shown[-1]) if len(found) > len(shown) else None)


_PAGE: Final = ("page_size", "page_token")
PageSize = Annotated[int, Meta(ge=1, le=PAGE_SIZE_MAX, description="Items on a page, at most")]
PageToken = Annotated[
    str | None, Meta(description="`next_page_token` of the page before; null: the first page")
]


class PageRequest(Paged, Request[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A request for a page of a list."""

    page_size: PageSize = PAGE_SIZE
    page_token: PageToken = None


def token_of(position: object) -> str:
    """The token of the page after this position."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


async def every_page(ask: Callable[[PageRequest[Q]], Awaitable[Q]], request: PageRequest[Q]) -> Q:
    """Read all pages, one after the other, and return them as one."""
    items: list[Any] = []
    while True:
        found = await ask(request)
        items += getattr(found, request.ITEMS)
        if found.next_page_token is None:
            return replace(found, **{request.ITEMS: tuple(items)})
        request = replace(request, page_token=found.next_page_token)
