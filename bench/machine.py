"""The machine of a run: cores, speed of the disk, and processor time used.

Linux only: the time of a process, and that of the whole machine, are read from /proc.
"""

import os
import platform
from array import array
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.faults import RunFailed
from quorum.core import node

PROBES: Final = 400
PROBE_BYTES: Final = 250
"""The approximate size of one commit."""

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_IDLE: Final = slice(3, 5)
"""The columns in /proc/stat for idle time and for waiting for a disk."""
_GUESTS: Final = 8
"""From this column on, /proc/stat repeats time that other columns include."""


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds of processor time used so far: by each process, and by the whole machine."""

    by_pid: Mapping[int, float]
    machine: float

    def since(self, before: "Used") -> "Used":
        """The use between the two."""
        by_pid = {pid: after - before.by_pid[pid] for pid, after in self.by_pid.items()}
        return Used(by_pid, self.machine - before.machine)


def check() -> None:
    """Raise `RunFailed` if this system does not provide the figures."""
    if not Path("/proc/stat").exists():
        raise RunFailed("processor time is read from /proc, which only Linux has")


def used(pids: list[int]) -> Used:
    """The current use; a process includes all its threads."""
    return Used({pid: _process_seconds(pid) for pid in pids}, _machine_seconds())


def percentile(values: "array[float]", percent: float) -> float:
    """The least value that `percent` of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def fdatasync_ms(folder: Path) -> tuple[float, float]:
    """Median and 99th percentile of an append with fdatasync in `folder`."""
    path = folder / "probe"
    times: array[float] = array("d")
    with closing(_Appender(path)) as appender:
        for _ in range(PROBES):
            times.append(appender.append())
    path.unlink()
    return percentile(times, 50) * 1_000, percentile(times, 99) * 1_000


def facts() -> dict[str, str]:
    """The facts about the machine and the build, for the comparison of two runs."""
    return {
        "Processor": f"{_processor()}, {os.cpu_count()} cores",
        "System": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Event loop": _uvloop(),
        "Hot modules": "compiled by mypyc" if is_compiled() else "interpreted",
    }


def load() -> dict[str, str]:
    """The fact of how busy the machine is before a run: processes that want a core, of a minute."""
    return {"Load before": f"{os.getloadavg()[0]:.1f} processes wanted a core"}


def is_compiled() -> bool:
    """True if this process and its children run the modules of `make compiled`."""
    return not str(node.__file__).endswith(".py")


class _Appender:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._at = 0

    def append(self) -> float:
        begun = perf_counter()
        os.pwrite(self._fd, bytes(PROBE_BYTES), self._at)
        os.fdatasync(self._fd)
        self._at += PROBE_BYTES
        return perf_counter() - begun

    def close(self) -> None:
        os.close(self._fd)


def _process_seconds(pid: int) -> float:
    # The name in parentheses may have any characters. User and system time are columns 14 and 15.
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_SECOND


def _machine_seconds() -> float:
    line = Path("/proc/stat").read_text().splitlines()[0]
    columns = [int(column) for column in line.split()[1:][:_GUESTS]]
    return (sum(columns) - sum(columns[_IDLE])) / _TICKS_PER_SECOND


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _uvloop() -> str:
    try:
        return f"uvloop {version('uvloop')}"
    except PackageNotFoundError:
        return "asyncio's own; uvloop is not installed"
