"""A library that is loaded before a node, to damage its disk and its clock.

`node_faults.c` makes a disk slow, full or failing, and shifts the time of day. It works for our
nodes and for Java. A run without such faults does not load it. (libfaketime is no choice: under it,
`time.sleep` of Python 3.11 fails with EINVAL.)
"""

import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).parent / "node_faults.c"
_CONTROL: Final = struct.Struct("=IIi")
_COMPILE_SECONDS_MAX: Final = 60


class DiskMode(IntEnum):
    """The state of a disk, as `node_faults.c` numbers it."""

    HEALTHY = 0
    SLOW = 1
    FULL = 2
    FAILING = 3


class PreloadUnavailable(Exception):
    """The library cannot be compiled; the message has what the compiler said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFaults:
    """The faults of a node's disk and clock."""

    disk: DiskMode = DiskMode.HEALTHY
    fsync_ms: int = 0
    clock_shift_s: int = 0


def can_compile() -> bool:
    """True if this machine has a C compiler."""
    return shutil.which("cc") is not None


class Preload:
    """The library of a run, and the files by which each node's copy is told what to do."""

    def __init__(self, folder: Path, library: Path | None = None) -> None:
        """Without a library nothing can be done to a node."""
        self._folder = folder
        self._library = library

    @classmethod
    def compiled(cls, folder: Path) -> "Preload":
        """Compile the library into this folder; raises `PreloadUnavailable`."""
        library = folder / "node_faults.so"
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_SECONDS_MAX, check=False
        )
        if ran.returncode:
            raise PreloadUnavailable(f"{_SOURCE.name} cannot be compiled: {ran.stderr.strip()}")
        return cls(folder, library)

    def environment(self, node: int, data: Path) -> Mapping[str, str]:
        """The variables of a node whose data is in this folder."""
        if self._library is None:
            return {}
        control = self._control(node)
        if not control.exists():
            control.write_bytes(_CONTROL.pack(0, 0, 0))
        return {
            "LD_PRELOAD": str(self._library),
            "CHAOS_FAULTS": str(control),
            "CHAOS_DATA": str(data),
        }

    def set(self, node: int, faults: NodeFaults) -> None:
        """Change the disk and the clock of a node that runs or will start."""
        if self._library is None:
            assert faults == NodeFaults(), "the run has no library"
            return
        content = _CONTROL.pack(faults.disk, faults.fsync_ms, faults.clock_shift_s)
        # In place: the library has mapped this file.
        with self._control(node).open("r+b", buffering=0) as control:
            control.write(content)

    def heal(self, node: int) -> None:
        """Give the node a healthy disk and the machine's time."""
        self.set(node, NodeFaults())

    def _control(self, node: int) -> Path:
        return self._folder / f"faults-{node}"
