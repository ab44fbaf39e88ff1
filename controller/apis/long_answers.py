"""Answers that are made in slices while decisions go on (`quorum.transport.long_responses`)."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias

from controller.apis.request import KafkaRequest
from controller.service import AsOf, Service
from quorum.transport.address import network_of

Reading: TypeAlias = Callable[[Callable[[Any], Any]], Awaitable[AsOf[Any]]]
"""Reads the image that a request may see, as the methods of `Service` do."""


async def answer_in_slices(
    request: KafkaRequest,
    service: Service,
    read: Reading,
    encoded: Callable[[Any], Generator[None, None, bytes]],
) -> AsOf[bytes]:
    """Return the response that `encoded` makes from the image.

    The image changes meanwhile, and the answer is as of its end.
    """

    def begin(image: Any) -> Any:
        made = service.long_responses.make(encoded(image), network_of(request.host))
        return epoch_now(), made

    def epoch_now() -> int:
        return service.quorum.node.epoch

    while True:
        begun = await read(begin)
        epoch, made = begun.value
        if made.done():
            return AsOf(made.result(), begun.offset)
        body = await made
        # It may show changes that are younger than that read, and not committed yet. In a new epoch
        # some of them may have been undone.
        ended = await read(lambda _: epoch_now())
        if ended.value == epoch:
            return AsOf(body, ended.offset)
