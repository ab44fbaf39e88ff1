"""What a replica runs on and what outlives its processes: a disk, two clocks, a configuration."""

import errno
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.disk import Fail, Kind, Operation, VirtualDisk
from chaos.truth import DiskTruth
from chaos.violation import Died
from quorum.opening import LOG_FOLDER, QuorumConfig

FOLDER: Final = Path("/node")
EPOCH_WALL_MS: Final = 1_795_236_537_164
"""The time of day at which every run begins."""


@dataclass(slots=True)
class VirtualClock:
    """A monotonic clock that began somewhere and runs a little too fast or too slow."""

    offset_ms: int
    rate: float

    def at(self, now_ms: int) -> int:
        """What it shows then."""
        return self.offset_ms + int(now_ms * self.rate)

    def when(self, shown_ms: int) -> int:
        """The first moment at which it shows this, or more."""
        moment_ms = int((shown_ms - self.offset_ms) / self.rate)
        while self.at(moment_ms) < shown_ms:
            moment_ms += 1
        return moment_ms


@dataclass(eq=False, slots=True)
class Machine:
    """One node of the cluster; processes come and go on it."""

    config: QuorumConfig
    rng: random.Random
    disk: VirtualDisk = field(default_factory=VirtualDisk)
    truth: DiskTruth = field(default_factory=lambda: DiskTruth(FOLDER / LOG_FOLDER))
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(0, 1.0))
    wall_offset_ms: int = 0
    slow_until_ms: int = 0
    stopped: bool = False
    """Whether somebody has stopped it on purpose."""
    loses_power_after: int | None = None
    """So many more operations of the disk, and there is no power."""
    sync_fails: bool = False
    """Whether the next fsync fails."""
    sync_failed: bool = False
    """Whether this process was given a reason to end."""

    def __post_init__(self) -> None:
        self.disk.watch = self._watch

    def revive(self) -> None:
        """The power is back; whatever the disk was to do wrong is forgotten."""
        self.loses_power_after, self.sync_fails, self.sync_failed = None, False, False

    def heal(self) -> None:
        """Nothing is wrong with it from now on."""
        self.revive()
        self.slow_until_ms = 0

    def _watch(self, operation: Operation) -> Fail | None:
        if self.loses_power_after is not None and operation.changes:
            if self.loses_power_after <= 0:
                raise Died
            self.loses_power_after -= 1
        if self.sync_fails and operation.kind is Kind.SYNC:
            self.sync_fails, self.sync_failed = False, True
            return Fail(errno.EIO)
        return None
