"""The snapshots of the metadata log on one node: list them, and take one now (KIP-630)."""

import asyncio
from typing import Annotated, Final

from msgspec import Meta

from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER
from admin.capabilities.schema import Answer, Context, Request, Route
from quorum.core import vocabulary
from quorum.protocol.errors import ErrorCode, RequestRefused

BASE: Final = "/v1/snapshots"


class Snapshot(Answer, frozen=True, kw_only=True):
    """A complete snapshot, which has every record below its end."""

    end_offset: int
    epoch: Annotated[int, Meta(description="The epoch of the last record in it")]
    size_bytes: int


class Snapshots(Answer, frozen=True, kw_only=True):
    """The snapshots of the node that answers, the oldest first, and the log that it has."""

    node_id: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    snapshots: tuple[Snapshot, ...]


class TakenSnapshot(Snapshot, frozen=True, kw_only=True):
    """The newest snapshot of the node that answers."""

    node_id: int


class ListSnapshots(Request[Snapshots], frozen=True, kw_only=True):
    """List the snapshots of the node that is asked."""

    NAME = "snapshots.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    STALE = False
    LOCAL = True
    FAILING = "the snapshots cannot be listed"

    async def answer(self, context: Context) -> Snapshots:
        quorum = context.service.quorum
        node = quorum.node
        return Snapshots(
            node_id=node.me.id,
            log_start_offset=quorum.replica.log_start,
            log_end_offset=node.log_end.offset,
            high_watermark=node.high_watermark or 0,
            snapshots=tuple(
                Snapshot(end_offset=each.end, epoch=each.id.epoch, size_bytes=each.size_bytes)
                for each in quorum.replica.snapshots
            ),
        )


class TakeSnapshot(Request[TakenSnapshot], frozen=True, kw_only=True):
    """Take a snapshot now on the node that is asked, and answer when it is durable.

    If the newest snapshot has all that is committed, it is the answer.
    """

    NAME = "snapshots.take"
    NEEDS = ALTER_CLUSTER
    CHANGES = True
    LOCAL = True
    ROUTES = (Route("POST", BASE),)
    ERRORS = (ErrorCode.KAFKA_STORAGE_ERROR,)
    FAILING = "no snapshot can be taken"
    STATUS_COMMAND = "metaquorum snapshots list"

    async def answer(self, context: Context) -> TakenSnapshot:
        service = context.service
        try:
            async with asyncio.timeout(context.timeout_ms / 1_000):
                taken: vocabulary.Snapshot = await service.take_snapshot(context.who)
        except TimeoutError:
            reason = f"it takes longer than {context.timeout_ms} ms; GET {BASE} lists it when done"
            raise RequestRefused(ErrorCode.REQUEST_TIMED_OUT, reason) from None
        return TakenSnapshot(
            node_id=service.quorum.node.me.id,
            end_offset=taken.end,
            epoch=taken.id.epoch,
            size_bytes=taken.size_bytes,
        )
