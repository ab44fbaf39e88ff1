"""A controller, as probes and scrapes see it."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from admin.monitoring.controller_samples import controller_samples
from admin.monitoring.metric_table import Sample
from admin.monitoring.monitor import unready
from admin.monitoring.quorum_samples import leader_samples, listener_samples, quorum_samples
from controller.service import NotActive, Service
from quorum.bootstrap import Opened
from quorum.transport.audit_log import Requester
from quorum.transport.server import Server
from statemachine.partitions.partition_health import PartitionHealth, partition_health
from statemachine.security.rights import Access

COUNT_SECONDS_MAX: Final = 0.02
"""How long a scrape waits for the count of partitions that are not as they should be."""


class ControllerMonitor:
    """The monitor of a controller."""

    def __init__(self, service: Service, opened: Opened, server: Server) -> None:
        self._service = service
        self._opened = opened
        self._server = server
        self._count = PartitionCount(service)

    def unready(self) -> Sequence[str]:
        controller = self._service.controller
        return unready(self._opened.quorum, controller.committed, is_ready=controller.is_ready)

    async def samples(self) -> Iterable[Sample]:
        health = await self._count.latest()
        return self._collect(health)

    def _collect(self, health: PartitionHealth | None) -> Iterator[Sample]:
        controller, opened = self._service.controller, self._opened
        yield from quorum_samples(opened.quorum, opened.disk, opened.log, controller.committed)
        yield from leader_samples(opened.quorum)
        if controller.is_ready:
            yield from controller_samples(controller, health)
        yield from listener_samples(self._server)

    def access(self, requester: Requester) -> Access:
        return self._service.authorization.access(requester)


class PartitionCount:
    """The count of partitions that are not as they should be.

    It runs in slices between other work, one at a time. In a cluster of ordinary size it is done
    at once; where it is not, a scrape shows the result of the last one.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._latest: PartitionHealth | None = None
        self._counting: asyncio.Task[None] | None = None

    async def latest(self) -> PartitionHealth | None:
        """Begin a count unless one is under way; return the last result, None before the first."""
        if self._counting is None or self._counting.done():
            # Kept here, and its errors are raised below.
            self._counting = asyncio.get_running_loop().create_task(self._count())
        done, _ = await asyncio.wait({self._counting}, timeout=COUNT_SECONDS_MAX)
        for each in done:
            each.result()
        return self._latest

    async def _count(self) -> None:
        report_of = self._service.controller.reported_copies()
        try:
            found = await self._service.read_long(
                lambda image: partition_health(image, report_of), stale=True
            )
        except NotActive:
            # It starts, or is overloaded: there is no count of now.
            self._latest = None
        else:
            self._latest = found.value
