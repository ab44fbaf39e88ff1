"""The demo from its options to its exit code: the folder, the cluster, the story, the end."""

import asyncio
import os
import random
import shutil
import tempfile
from asyncio.subprocess import PIPE
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.cli.lag import require_spark
from admin.cli.options import Exit, command_line, say
from admin.client.admin_client import AdminError
from admin.own_code import own_command, with_own_code
from admin.tools.demo.story import SETTINGS, Screen, Story, StoryFailed
from admin.tools.kafka_runtime import Unavailable
from admin.tools.local_cluster import LocalCluster, prepare, until_interrupted
from admin.tools.local_plan import LocalError, Wanted, log_dir
from admin.units import show_duration
from lag.session import NoSpark
from quorum.clocks import monotonic_ms
from quorum.process import leaves

REPORT_FOLDER: Final = "lag-report"
"""In the folder of the demo, if that is to be kept."""

EXPECTED = (StoryFailed, AdminError, LocalError, TimeoutError)
"""The errors of a story that failed without a bug in the demo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of the demo."""

    folder: Path | None
    """None: a new folder, which is removed after a successful run."""
    base_port: int
    deadline_ms: int
    kafka: str | None
    """The release of Kafka for the brokers; None: embedded brokers."""
    is_secure: bool
    """True for TLS and SASL on every listener."""
    live: bool
    """True to draw in place, on a terminal."""
    stay: bool
    """True to keep the cluster up at the end, until interrupted."""
    rng: random.Random


async def run(options: DemoOptions) -> int:
    """Run the story and clean up; exit code 0 if every promise was kept."""
    folder = options.folder or Path(tempfile.mkdtemp(prefix="metaquorum-demo-"))
    wanted = Wanted(base_port=options.base_port, kafka=options.kafka, is_secure=options.is_secure)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise LocalError(f"{folder} is not empty: the demo begins in a new folder")
        cluster = prepare(folder, wanted, options.rng, say, SETTINGS)
    except (LocalError, Unavailable) as error:
        say(f"Error: {error}")
        return Exit.FAILED
    try:
        story = until_interrupted(_run_story(options, cluster))
        (result,) = await asyncio.gather(story, return_exceptions=True)
    finally:
        for name in await cluster.stop():
            say(f"{name} did not stop in time and was killed")
    return _end(options, folder, result)


async def _run_story(options: DemoOptions, cluster: LocalCluster) -> None:
    """Start the cluster, run the story, report, and stay if that is wanted."""
    screen = Screen(live=options.live)
    async with asyncio.timeout(options.deadline_ms / 1_000):
        await _start(screen, cluster)
        await Story(cluster, screen, options.rng).run()
    if not cluster.ended.empty():
        raise StoryFailed(str(cluster.ended.get_nowait()))
    try:
        await _report(screen, cluster, options.folder)
        if options.stay:
            _show_around(screen, cluster)
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        # Interrupted, but the story has ended well.
        return


async def _start(screen: Screen, cluster: LocalCluster) -> None:
    plan = cluster.plan
    brokers = "brokers" if plan.kafka is None else f"brokers of Apache Kafka {plan.kafka}"
    counts = f"{len(plan.controllers)} controllers and {len(plan.brokers)} {brokers}"
    secured = ", all with TLS and SASL," if plan.is_secure else ""
    screen.step(f"Start {counts}{secured} in {cluster.folder}")
    begun_ms = monotonic_ms()
    await cluster.start()
    for node in plan.nodes:
        web = "" if node.http is None else f", HTTP {node.http}"
        screen.say(f"{node.name:13} {node.kafka}, process {cluster.pid(node.name)}{web}")
    screen.say(f"all answer after {show_duration(monotonic_ms() - begun_ms)}")


def _show_around(screen: Screen, cluster: LocalCluster) -> None:
    brokers = ",".join(map(str, cluster.brokers))
    command, server = command_line(), f"--bootstrap-server {brokers}"
    web, security = cluster.plan.controllers[0].http, cluster.security
    if security is not None:
        server += f" --command-config {security.client_file}"
    screen.step("Look around; Ctrl-C stops everything")
    screen.say(f"{command} metadata-quorum {server} describe --status")
    screen.say(f"{command} reassign-partitions {server} --list")
    screen.say(f"{command} topics describe {server}")
    screen.say(f"http://{web}/" if security is None else security.curl(web))


def _end(options: DemoOptions, folder: Path, result: bool | BaseException) -> int:
    """Print what went wrong, if anything; remove the files of a good run, unless to be kept.

    `result` is an error, or whether the story was interrupted.
    """
    if isinstance(result, BaseException):
        reasons = list(leaves(result))
        if not all(isinstance(reason, EXPECTED) for reason in reasons):
            raise result
        for reason in reasons:
            late = f"the story had not ended after {show_duration(options.deadline_ms)}"
            say(f"Error: {late if isinstance(reason, TimeoutError) else reason}")
        say(f"The logs of all nodes are in {folder}")
        return Exit.FAILED
    if options.folder is None:
        shutil.rmtree(folder)
    return Exit.INTERRUPTED if result else Exit.DONE


REPORT_SECONDS_MAX: Final = 240
"""On an idle machine it takes a tenth of this."""
MADE: Final = (Exit.DONE, Exit.NOT_FINISHED)
"""The latter has found a log with an incomplete last batch, which was being written."""


async def _report(screen: Screen, cluster: LocalCluster, kept: Path | None) -> None:
    """Make the lag report, and print the path of its page or the reason for its absence.

    Its folder is in that of the demo, if that is kept, or else a new temporary one.
    A failure to make it is no failure of the cluster, so nothing is raised here.
    """
    screen.step("A lag report of this run")
    try:
        require_spark()
    except NoSpark as error:
        screen.say(f"there is none: {error}")
        return
    out = Path(tempfile.mkdtemp(prefix="metaquorum-lag-report-")) if kept is None else kept
    out /= REPORT_FOLDER
    logs = [str(log_dir(cluster.folder, node)) for node in cluster.plan.nodes]
    process = await asyncio.create_subprocess_exec(
        *own_command("lag", "report", *logs, "--out", str(out)),
        env=with_own_code(os.environ),
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(REPORT_SECONDS_MAX):
            printed, errors = await process.communicate()
    except TimeoutError:
        screen.say(f"there is none: it was not done after {REPORT_SECONDS_MAX} s")
        return
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if process.returncode not in MADE:
        lines = errors.decode(errors="replace").splitlines() or [f"exit {process.returncode}"]
        screen.say(f"there is none: {lines[-1]}")
        return
    lines = printed.decode(errors="replace").splitlines()
    screen.say("\n".join(line for line in lines if not line.startswith("Written: ")))
    screen.say(f"the page: {(out / 'index.html').absolute()}")
