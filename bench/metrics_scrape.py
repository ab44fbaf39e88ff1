"""The cost of a scrape of `/metrics` at a controller of a very large cluster.

    python -m bench.metrics_scrape [--partitions N] [--brokers N] [--write docs/metrics.md]

The benchmark puts a snapshot (`bench.scale`) into the folder of a controller that is alone, starts
it, and scrapes it over HTTP. Times are from the request to the last byte, the client's work
included; the processor time is what the controller itself counts meanwhile. Stalls of its event
loop are recorded (`bench.stops`).
"""

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Final

import click
import msgspec

from admin.tools import local_plan
from bench import machine, stops
from bench.faults import RunFailed
from bench.options import document_option, folder_option
from bench.report import Section
from bench.scale import BROKERS, PARTITIONS, a_cluster, write_snapshot
from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile

SECTION: Final = "scrape"
SCRAPES: Final = 200
CPU: Final = "process_cpu_seconds_total"
START_SECONDS_MAX: Final = 120
CHECK_SECONDS: Final = 0.2
TIMEOUT_SECONDS: Final = 10
MUST_MS: Final = 50
AIM_MS: Final = 10


class Scraped(msgspec.Struct, kw_only=True):
    """The results of a run."""

    partitions: int
    """As the metrics themselves have it."""
    size_bytes: int
    median_ms: float
    highest_ms: float
    processor_ms: float
    """Of the controller, for one scrape."""
    stall_ms: float
    """The longest time that the event loop was busy, of all that it computed meanwhile."""


def run(partitions: int, brokers: int, folder: Path) -> Scraped:
    """Start a controller with so many partitions, and scrape it."""
    # Nobody sends heartbeats for the brokers of the snapshot.
    wanted = local_plan.Wanted(controllers=1, brokers=0, base_port=0)
    plan = local_plan.settle(folder / "cluster", wanted, random.SystemRandom())
    local_plan.write_settings(folder / "cluster", plan, {"broker.session.timeout.ms": "1h"})
    node = plan.controllers[0]
    log = local_plan.log_dir(folder / "cluster", node) / "__cluster_metadata-0"
    log.mkdir(parents=True)
    load_or_create(log.parent, plan.cluster_id, ReplicaId(node.id), rng=random.Random(0))
    click.echo(f"writing a snapshot of {partitions:,} partitions on {brokers:,} brokers", err=True)
    write_snapshot(a_cluster(partitions, brokers), log)
    # The log has records of epoch 1, and a node without that epoch would not trust its folder.
    QuorumStateFile(log, cluster_id=plan.cluster_id).write(ElectionState(Epoch(1)))
    settings = folder / "cluster" / node.name / local_plan.SETTINGS_FILE
    stalls = folder / "stalls"
    argv = [sys.executable, "-m", "bench.stops", str(stalls), "start", "--config", str(settings)]
    assert node.http is not None
    with (folder / "node.log").open("wb") as output, _running(argv, output.fileno()) as process:
        connection = HTTPConnection(node.http.host, node.http.port, timeout=TIMEOUT_SECONDS)
        _wait_until_ready(connection, process)
        return _measure(connection, stalls)


@contextlib.contextmanager
def _running(argv: list[str], output: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(connection: HTTPConnection, process: subprocess.Popen[bytes]) -> None:
    deadline = time.perf_counter() + START_SECONDS_MAX
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError):
            if _get(connection, "/readyz")[0] == 200:
                return
        connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(CHECK_SECONDS)
            raise RunFailed("the controller has ended; its log says why")
    raise RunFailed(f"the controller was not ready within {START_SECONDS_MAX} s")


def _get(connection: HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def _measure(connection: HTTPConnection, stalls: Path) -> Scraped:
    used = value(_get(connection, "/metrics")[1], CPU)
    begun, times, text = time.perf_counter(), list[float](), b""
    for _ in range(SCRAPES):
        at = time.perf_counter()
        status, text = _get(connection, "/metrics")
        times.append((time.perf_counter() - at) * 1e3)
        if status != 200:
            raise RunFailed(f"a scrape was answered with {status}: {text!r}")
    found = stops.stops_in(stalls, begun, time.perf_counter())
    return Scraped(
        partitions=round(value(text, "kafka_controller_kafkacontroller_globalpartitioncount")),
        size_bytes=len(text),
        median_ms=median(times),
        highest_ms=max(times),
        processor_ms=(value(text, CPU) - used) / SCRAPES * 1e3,
        stall_ms=max((each.computed for each in found), default=0.0) * 1e3,
    )


def value(text: bytes, name: str) -> float:
    """The value of a metric without labels; raises `RunFailed` if it is not there."""
    for line in text.decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise RunFailed(f"there is no {name}")


def table(found: Scraped) -> str:
    """The results beside the targets."""
    met = "aim" if found.median_ms <= AIM_MS else "must" if found.highest_ms <= MUST_MS else "no"
    return "\n".join(
        [
            "| what | measured |",
            "| --- | ---: |",
            f"| partitions | {found.partitions:,} |",
            f"| a scrape, median of {SCRAPES} | {found.median_ms:.1f} ms |",
            f"| ... the slowest | {found.highest_ms:.1f} ms |",
            f"| ... processor time of the controller | {found.processor_ms:.1f} ms |",
            f"| longest stall of the event loop meanwhile | {found.stall_ms:.1f} ms |",
            f"| size | {found.size_bytes / 1e3:.0f} KB |",
            f"| target met (must {MUST_MS} ms, aim {AIM_MS} ms) | {met} |",
        ]
    )


@click.command()
@click.option("--partitions", type=click.IntRange(1), default=PARTITIONS, show_default=True)
@click.option("--brokers", type=click.IntRange(3), default=BROKERS, show_default=True)
@folder_option
@document_option
def command(partitions: int, brokers: int, folder: Path | None, document: Path | None) -> None:
    """Measure the cost of a scrape at a controller of a very large cluster."""
    try:
        machine.check()
        section = None if document is None else Section(document, SECTION)
        with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as place:
            found = run(partitions, brokers, Path(place))
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    click.echo(table(found))
    if section is not None:
        argv = f"python -m bench.metrics_scrape --partitions {partitions} --brokers {brokers}"
        section.write_run(argv, machine.facts(), table(found))


if __name__ == "__main__":
    command()
