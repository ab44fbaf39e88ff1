"""A report of nodes under full load: it ends, and shows complete batches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import crc32c
import pytest

from admin.client.admin_client import AdminClient
from lag.progress import Steps
from lag.request import ReportRequest
from lag.results import Results, Row
from quorum.records.batch import CRC_START, header_at
from tests.process.joining_nodes import Nodes

pytestmark = [pytest.mark.process, pytest.mark.long]

VOTERS: Final = (1, 2, 3)
AT_ONCE: Final = 16
SECONDS_MAX: Final = 280
PATIENCE_MS: Final = 60_000
CLIENT_METRICS: Final = 16
"""The kind of configuration that is committed: it needs no broker."""


@dataclass
class Load:
    """Commits, one after the other, several at once."""

    client: AdminClient
    done: int = 0

    async def commit(self, name: str) -> None:
        """Go on until cancelled."""
        while True:
            await self.client.alter_configs(CLIENT_METRICS, name, {"metrics": f"n{self.done}"})
            self.done += 1


@asynccontextmanager
async def under_load(folder: Path) -> AsyncIterator[Load]:
    """Three nodes, which commit what they are asked to, without a pause."""
    async with asyncio.timeout(SECONDS_MAX), Nodes(folder) as nodes:
        nodes.reserve(*VOTERS)
        voters = ",".join(f"{node}@{nodes.address(node)}" for node in VOTERS)
        for node in VOTERS:
            # Who leads stays, however busy the machine is: nothing is truncated meanwhile.
            await nodes.start(
                node,
                quorum_voters=voters,
                quorum_fetch_timeout_ms=str(PATIENCE_MS),
                quorum_request_timeout_ms=str(PATIENCE_MS),
            )
        addresses = [nodes.address(node) for node in VOTERS]
        async with AdminClient(addresses, is_controller=True, timeout_ms=PATIENCE_MS) as client:
            await client.alter_configs(CLIENT_METRICS, "first", {"metrics": "n"})
            load = Load(client)
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(load.commit(f"m{at}")) for at in range(AT_ONCE)]
                yield load
                for task in running:
                    task.cancel()


@dataclass(frozen=True)
class Seen:
    """The results that were read during writes."""

    made: Results
    batches: list[Row]
    commits: int
    """The number of answers meanwhile."""


async def look(spark: Any, folder: Path) -> Seen:
    from lag.runner import collect, read
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    asked = ReportRequest(paths=(str(folder),))

    def rows() -> list[Row]:
        return [row.asDict() for row in read(spark, asked, "batches", source="log").collect()]

    async with under_load(folder) as load:
        before = load.done
        made = await asyncio.to_thread(collect, spark, asked, Steps(None))
        batches = await asyncio.to_thread(rows)
        return Seen(made, batches, load.done - before)


def is_whole(row: Row) -> bool:
    """True if these bytes of the file are the batch shown, by its own checksum."""
    with Path(row["path"]).open("rb") as file:
        file.seek(row["position"])
        data = file.read(row["bytes"])
    header = header_at(data)
    there = (header.base_offset, header.end_offset - 1, header.epoch, header.size_bytes)
    shown = (row["base_offset"], row["last_offset"], row["epoch"], row["bytes"])
    return there == shown and crc32c.crc32c(data[CRC_START:]) == header.crc


def test_a_report_under_load_ends_and_every_batch_it_shows_was_whole(
    spark: Any, tmp_path: Path
) -> None:
    seen = asyncio.run(look(spark, tmp_path))
    assert seen.commits > 0
    # The end of a log may have been cut off by the moment at which it was read, and nothing else.
    assert {row["kind"] for row in seen.made.rows("problems")} <= {"torn_tail"}
    assert [row["replica"] for row in seen.made.rows("status")] == ["1", "2", "3"]
    assert sum(row["records"] for row in seen.made.rows("commits")) > 0
    assert all(row["log_end"] > 0 for row in seen.made.rows("replica_lag"))
    logs = [
        sorted((row for row in seen.batches if row["replica"] == name), key=offset)
        for name in ("1", "2", "3")
    ]
    for log in logs:
        assert offset(log[0]) == 0
        assert all(one["last_offset"] + 1 == offset(other) for one, other in pairwise(log))
        assert all(is_whole(row) for row in log)
    assert max(len(log) for log in logs) > AT_ONCE


def offset(row: Row) -> int:
    """The offset of the first record of a batch."""
    return int(row["base_offset"])
