"""The demo from its command line to its exit code: the folder, the cluster, the story, the end."""

import asyncio
import random
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.cli.lag import require_spark
from admin.cli.options import Exit, command_line, say
from admin.client.admin_client import AdminError
from admin.tools.demo.screen import Screen
from admin.tools.demo.story import SETTINGS, Outcome, Story, StoryFailed
from admin.tools.kafka_runtime import Unavailable, find_runtime
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import LocalError, Wanted, log_dir, settle
from admin.units import show_duration, show_size
from lag.session import NoSpark
from quorum.clocks import monotonic_ms

CONTROLLERS: Final = 3
BROKERS: Final = 4
INTERRUPTED: Final = 130
REPORT_FOLDER: Final = "lag-report"
"""In the folder of the demo, if that is to be kept."""

EXPECTED = (StoryFailed, AdminError, LocalError, TimeoutError)
"""How a story can fail that was told by a program without faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """The options of the demo."""

    folder: Path | None
    """None takes a new one, which is removed after a good end."""
    base_port: int
    deadline_ms: int
    kafka: str | None
    """The release of Kafka whose brokers to take; None takes the embedded ones."""
    live: bool
    """Whether to draw in place, on a terminal."""
    stay: bool
    """Whether the cluster stays up at the end, until interrupted."""
    rng: random.Random


async def run(telling: Telling) -> int:
    """Tell the story and clean up; the exit code says whether every promise was kept."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    folder = telling.folder or Path(tempfile.mkdtemp(prefix="metaquorum-demo-"))
    wanted = Wanted(
        controllers=CONTROLLERS,
        brokers=BROKERS,
        base_port=telling.base_port,
        kafka=telling.kafka,
    )
    try:
        runtime = None if telling.kafka is None else find_runtime(telling.kafka, say)
        if folder.exists() and any(folder.iterdir()):
            raise LocalError(f"{folder} is not empty: the demo begins in a new folder")
        plan = settle(folder, wanted, telling.rng)
    except (LocalError, Unavailable) as error:
        say(f"Error: {error}")
        return Exit.FAILED
    cluster = LocalCluster(folder, plan, settings=SETTINGS, runtime=runtime)
    told = asyncio.Event()
    telltale = loop.create_task(_tell(telling, cluster, told, interrupted))
    stop = loop.create_task(interrupted.wait())
    try:
        await asyncio.wait({telltale, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not told.is_set():
            telltale.cancel()
        code = (await asyncio.gather(telltale, return_exceptions=True))[0]
    finally:
        stop.cancel()
        for name in await cluster.stop():
            say(f"{name} did not stop when asked, and had to be killed")
    return _end(telling, folder, code)


async def _tell(
    telling: Telling, cluster: LocalCluster, told: asyncio.Event, interrupted: asyncio.Event
) -> Exit:
    """Start the cluster, tell the story, set `told`, and stay if that is wanted."""
    screen = Screen(live=telling.live)
    async with asyncio.timeout(telling.deadline_ms / 1_000):
        await _start(screen, cluster)
        outcome = await Story(cluster, screen, telling.rng).tell()
    fault = _show(screen, cluster, outcome)
    if not cluster.ended.empty():
        fault = str(cluster.ended.get_nowait())
    if fault is not None:
        raise StoryFailed(fault)
    told.set()
    await _report(telling, screen, cluster, interrupted)
    if telling.stay:
        _show_around(screen, cluster)
        await interrupted.wait()
    return Exit.DONE


async def _report(
    telling: Telling, screen: Screen, cluster: LocalCluster, interrupted: asyncio.Event
) -> None:
    """Make the lag report, unless interrupted; the story has ended well either way."""
    folder = None if telling.folder is None else telling.folder / REPORT_FOLDER
    loop = asyncio.get_running_loop()
    made = loop.create_task(show_report(screen, cluster, folder))
    stop = loop.create_task(interrupted.wait())
    try:
        await asyncio.wait({made, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        made.cancel()
        await asyncio.gather(made, stop, return_exceptions=True)
    if not made.cancelled():
        made.result()


async def _start(screen: Screen, cluster: LocalCluster) -> None:
    kafka = cluster.plan.kafka
    brokers = "brokers" if kafka is None else f"brokers of Apache Kafka {kafka}"
    screen.step(f"Start {CONTROLLERS} controllers and {BROKERS} {brokers} in {cluster.folder}")
    begun_ms = monotonic_ms()
    await cluster.start()
    for node in cluster.plan.nodes:
        web = "" if node.http is None else f", HTTP {node.http}"
        screen.say(f"{node.name:13} {node.kafka}, process {cluster.pid(node.name)}{web}")
    screen.say(f"all answer after {show_duration(monotonic_ms() - begun_ms)}")


def _show(screen: Screen, cluster: LocalCluster, outcome: Outcome) -> str | None:
    """Print the numbers, and return what must not be, if anything."""
    result, succession = outcome.balance, outcome.succession
    screen.step("What was measured")
    rows = {
        "fail-over": f"{succession.after_ms} ms from SIGKILL to the first answer of controller "
        f"{succession.leader_id}",
        "move": f"{show_duration(outcome.move_ms)}, {show_size(outcome.copied_bytes)} copied, "
        f"{outcome.moving_when_killed} partitions under way when the controller was killed",
        "acknowledged": f"{result.acknowledged} records, the longest wait of the producer during "
        f"it all {outcome.longest_wait_ms} ms",
        "read back": f"{result.read} records",
        "lost": str(result.lost),
        "duplicated": str(result.duplicated),
    }
    for label, text in rows.items():
        screen.say(f"{label + ':':14}{text}")
    return result.fault


def _show_around(screen: Screen, cluster: LocalCluster) -> None:
    brokers = ",".join(map(str, cluster.brokers))
    command, server = command_line(), f"--bootstrap-server {brokers}"
    screen.step("Look around; Ctrl-C stops everything")
    screen.say(f"{command} metadata-quorum {server} describe --status")
    screen.say(f"{command} reassign-partitions {server} --list")
    screen.say(f"{command} topics describe {server}")
    screen.say(f"http://{cluster.plan.controllers[0].http}/v1/quorum")


def _end(telling: Telling, folder: Path, result: object) -> int:
    """Say what went wrong, if anything, and leave no files of a good run that nobody asked for."""
    if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
        reasons = list(_reasons(result))
        if not all(isinstance(reason, EXPECTED) for reason in reasons):
            raise result
        for reason in reasons:
            late = f"the story had not ended after {show_duration(telling.deadline_ms)}"
            say(f"Error: {late if isinstance(reason, TimeoutError) else reason}")
        say(f"What each node said is in {folder}")
        return Exit.FAILED
    if telling.folder is None:
        shutil.rmtree(folder)
    return INTERRUPTED if isinstance(result, asyncio.CancelledError) else Exit.DONE


def _reasons(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _reasons(each)
    else:
        yield error


REPORT_SECONDS_MAX: Final = 240
"""On a machine that has nothing else to do it takes a tenth of this."""
MADE: Final = (Exit.DONE, Exit.NOT_FINISHED)
"""The latter has found a log that was being written: a batch at its end that is not whole yet."""


async def show_report(screen: Screen, cluster: LocalCluster, folder: Path | None) -> None:
    """Make the report and say in one line where its page is, or why there is none.

    It is put into `folder`, or into a new one beside others that are temporary. Whether it can be
    made says nothing of the cluster, so nothing is raised here.
    """
    screen.step("A lag report of this run")
    try:
        require_spark()
    except NoSpark as error:
        screen.say(f"there is none: {error}")
        return
    out = folder if folder is not None else Path(tempfile.mkdtemp(prefix="metaquorum-lag-report-"))
    logs = [str(log_dir(cluster.folder, node)) for node in cluster.plan.nodes]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "admin.cli.main", "lag", "report", *logs, "--out", str(out)),
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(REPORT_SECONDS_MAX):
            told, complaint = await process.communicate()
    except TimeoutError:
        screen.say(f"there is none: it was not done after {REPORT_SECONDS_MAX} s")
        return
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if process.returncode not in MADE:
        lines = complaint.decode(errors="replace").splitlines() or [f"exit {process.returncode}"]
        screen.say(f"there is none: {lines[-1]}")
        return
    lines = told.decode(errors="replace").splitlines()
    screen.say("\n".join(line for line in lines if not line.startswith("Written: ")))
    screen.say(f"the page: {(out / 'index.html').absolute()}")
