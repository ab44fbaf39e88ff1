"""The use of a process and its descendants: processor time, and peak memory.

Linux only, from /proc. Memory is VmHWM, the peak resident set; shared pages count in each process.
A process that ends between two polls is not seen; its time counts for the process that waited for
it.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)
"""The columns after the name: user and system time, of the process and of reaped children."""
LOOK_EVERY_SECONDS: Final = 0.2


class Process(NamedTuple):
    """The present state of a process."""

    pid: int
    name: str
    """The kernel's name of its program, at most 15 characters."""
    seconds: float
    """Processor time, including that of children that have ended."""


def below(root: int) -> list[Process]:
    """All descendants of a process."""
    children: dict[int, list[Process]] = {}
    for parent, process in _all():
        children.setdefault(parent, []).append(process)
    found: list[Process] = []
    wanted = [root]
    while wanted:
        own = children.get(wanted.pop(), [])
        found += own
        wanted += [each.pid for each in own]
    return found


def _all() -> Iterator[tuple[int, Process]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue  # The process has ended meanwhile.
        # A name may have any characters, including parentheses.
        opening, closing = text.index("("), text.rindex(")")
        columns = text[closing + 1 :].split()
        seconds = sum(map(int, columns[_TIMES])) / _TICKS_PER_SECOND
        yield int(columns[_PARENT]), Process(int(entry.name), text[opening + 1 : closing], seconds)


def peak_mb(pid: int) -> float:
    """The peak resident memory of the process, in MB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return peaks[0] * 1024 / 1e6 if peaks else 0.0


class Watch:
    """The peak memory of all descendants of this process while the context lasts."""

    def __init__(self) -> None:
        self.peaks: dict[tuple[int, str], float] = {}
        """Peak memory in MB, by process id and name."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="process tree", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def highest(self, name: str) -> float:
        """The peak memory of the processes with this program name; 0 if there was none."""
        own = [peak for (_, each), peak in self.peaks.items() if each.startswith(name)]
        return max(own, default=0.0)

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_SECONDS):
            self.look()

    def look(self) -> None:
        """Poll the processes once."""
        for process in below(os.getpid()):
            key = (process.pid, process.name)
            self.peaks[key] = max(self.peaks.get(key, 0.0), peak_mb(process.pid))
