"""The end of the demo: a lag report of the run it just made, where there is a Java for it.

It is made by a process of its own, from the logs of all nodes, which go on being written.
"""

import asyncio
import sys
import tempfile
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Final

from admin.cli.common import Exit
from admin.demo.screen import Screen
from admin.local import LocalCluster
from admin.local_plan import log_dir
from lag.session import NoSpark, check

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
        check()
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
