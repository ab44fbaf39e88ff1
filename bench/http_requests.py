"""Requests a second of `GET /v1/quorum` at the leader of a local cluster.

    python -m bench.http_requests [--connections N] [--seconds N] [--path PATH]

Each connection sends a request once it has the answer to the one before. The client runs on the
same cores as the cluster, so a machine with two of them has little more than one for the node.
"""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, cast

import click

from admin.client.admin_client import AdminClient, AdminError
from admin.client.channels import NoResponse
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import LocalError, Wanted, settle
from bench import machine
from bench.faults import RunFailed
from bench.load import Load
from bench.one_connection import OneConnection
from bench.options import folder_option, workplace
from bench.report import Processes, Row
from quorum.transport.address import Address

PATH: Final = "/v1/quorum"
CONNECTIONS: Final = 16
CONNECTIONS_MAX: Final = 200
MUST: Final = 3_000
AIM: Final = 6_000
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


class GetConnection(OneConnection):
    """One HTTP connection that is kept alive."""

    def __init__(self, node: Address, path: str, fail: Callable[[str], None]) -> None:
        super().__init__("an HTTP client", fail)
        self._request = f"GET {path} HTTP/1.1\r\nHost: {node}\r\n\r\n".encode()
        self._received = b""

    def go(self) -> None:
        """Send the next request."""
        assert self._transport is not None
        self._asked_at = perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer; once it is whole, ask again."""
        self._received += data
        head, ended, body = self._received.partition(_HEAD_END)
        if not ended:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._fail(f"a request was answered with {head[:80]!r}")
            return
        (length,) = [
            int(line[len(_LENGTH) :])
            for line in head.splitlines()
            if line.lower().startswith(_LENGTH)
        ]
        if len(body) < length:
            return
        self._received = body[length:]
        if self.latencies is not None:
            self.latencies.append(perf_counter() - self._asked_at)
        if self._halted is not None:
            self._halted.set_result(None)
        else:
            self.go()


async def measure(folder: Path, connections: int, seconds: float, path: str) -> Row:
    """Start a cluster of three controllers and ask its leader."""
    plan = settle(folder, Wanted(controllers=3, brokers=0, base_port=0), random.Random())
    async with LocalCluster(folder, plan) as cluster:
        async with AdminClient(cluster.controllers, is_controller=True) as admin:
            leader_id = (await admin.describe_quorum()).leader_id
        (leader,) = [node for node in plan.controllers if node.id == leader_id]
        pids = {node.id: cluster.pid(node.name) or 0 for node in plan.controllers}
        processes = Processes(pids.pop(leader_id), tuple(pids.values()))
        node = cast(Address, leader.http)
        return await Load(node, [partial(GetConnection, node, path)] * connections, processes).run(
            seconds
        )


@click.command()
@click.option(
    "--connections",
    type=click.IntRange(1, CONNECTIONS_MAX),
    default=CONNECTIONS,
    show_default=True,
)
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=4.0, show_default=True)
@click.option("--path", default=PATH, show_default=True)
@folder_option
def command(connections: int, seconds: float, path: str, folder: Path | None) -> None:
    """Measure the requests that one node answers in a second."""
    try:
        machine.check()
        with workplace(folder) as (place, runner):
            row = runner.run(measure(place, connections, seconds, path))
    except* (RunFailed, LocalError, AdminError, NoResponse) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    asked = row.commits_per_second
    met = "aim" if asked >= AIM else "must" if asked >= MUST else "no"
    click.echo(
        f"GET {path}, {connections} connections: {asked:,.0f} a second (must {MUST:,}, aim {AIM:,}:"
        f" {met}); p50 {row.p50_ms:.1f} ms, p99 {row.p99_ms:.1f} ms; {row.leader_us:.0f} us of the"
        f" node each, {row.leader:.2f} cores; client {row.client:.2f}, others {row.others:.2f}"
    )


if __name__ == "__main__":
    command()
