"""The use of a process and its descendants: processor time, and peak memory.

Linux only, from /proc. Memory is VmHWM, the most that was ever resident at once; pages that
processes share count in each of them. A process that ends before it is looked at is not seen, and
its time is that of whoever waited for it.
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
"""Of the columns behind the name: user and system, its own and of children waited for."""
LOOK_EVERY_SECONDS: Final = 0.2


class Process(NamedTuple):
    """One process, as of now."""

    pid: int
    name: str
    """Of its program, as the kernel has it: at most 15 characters."""
    seconds: float
    """Of processor time, with that of children that have ended."""


def below(root: int) -> list[Process]:
    """All that a process started, and what these started."""
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
            continue  # It has ended meanwhile.
        # A name may hold anything, parentheses too.
        opening, closing = text.index("("), text.rindex(")")
        columns = text[closing + 1 :].split()
        seconds = sum(map(int, columns[_TIMES])) / _TICKS_PER_SECOND
        yield int(columns[_PARENT]), Process(int(entry.name), text[opening + 1 : closing], seconds)


def peak_mb(pid: int) -> float:
    """The most memory that the process ever had resident, in MB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return peaks[0] * 1024 / 1e6 if peaks else 0.0


class Watch:
    """The highest memory of everything below this process, while the context lasts."""

    def __init__(self) -> None:
        self.peaks: dict[tuple[int, str], float] = {}
        """By process id and name, in MB."""
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
        """Of the processes whose program is called so; 0 if there was none."""
        own = [peak for (_, each), peak in self.peaks.items() if each.startswith(name)]
        return max(own, default=0.0)

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_SECONDS):
            self.look()

    def look(self) -> None:
        """Look now."""
        for process in below(os.getpid()):
            key = (process.pid, process.name)
            self.peaks[key] = max(self.peaks.get(key, 0.0), peak_mb(process.pid))
