"""Topics: list their names and sizes, page by page."""

from heapq import nsmallest
from typing import Annotated, Final

from msgspec import Meta

from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.schema import Answer, AsOfOffset, Context, Request, Route
from statemachine.image.image import Image

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 1_000


class ListedTopic(Answer, frozen=True, kw_only=True):
    """A topic and its size."""

    name: str
    partitions: int
    replication_factor: Annotated[int, Meta(description="Replicas of its first partition")]


class Topics(Answer, frozen=True, kw_only=True):
    """Topics in the order of their names."""

    as_of_offset: AsOfOffset
    total: Annotated[int, Meta(description="Topics whose names begin like this")]
    topics: tuple[ListedTopic, ...]
    next_after: Annotated[str | None, Meta(description="null: this is the last page")]


class ListTopics(Request[Topics], frozen=True, kw_only=True):
    """List topics by name, page by page."""

    prefix: Annotated[str, Meta(description="The beginning of the names")] = ""
    after: Annotated[str, Meta(description="`next_after` of the page before")] = ""
    page_size: Annotated[int, Meta(ge=1, le=PAGE_SIZE_MAX)] = PAGE_SIZE

    NAME = "topics.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/topics", query=("prefix", "after", "page_size")),)
    FAILING = "the topics cannot be listed"

    async def answer(self, context: Context) -> Topics:
        return await context.read(self._page)

    def _page(self, image: Image) -> Topics:
        begins = [name for name in image.topic_ids if name.startswith(self.prefix)]
        names = nsmallest(self.page_size + 1, (name for name in begins if name > self.after))
        shown = names[: self.page_size]
        return Topics(
            as_of_offset=image.end_offset,
            total=len(begins),
            topics=tuple([_listed(image, name) for name in shown]),
            next_after=shown[-1] if len(names) > len(shown) else None,
        )


def _listed(image: Image, name: str) -> ListedTopic:
    topic = image.topic_named(name)
    assert topic is not None
    first = topic.partition(0)
    return ListedTopic(
        name=name,
        partitions=len(topic.partitions),
        replication_factor=0 if first is None else len(first.replicas),
    )
