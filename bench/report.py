"""The figures of a run as Markdown, and the section of a document that holds them."""

import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import machine
from bench.faults import RunFailed

FOLLOWERS: Final = 2
_CORES_BUSY: Final = 0.9
_THREAD_BUSY: Final = 0.85
"""A process that uses this share of a core is saturated: only one of its threads does the work."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The process ids of the servers; the client is this process."""

    leader: int
    followers: tuple[int, ...]

    @property
    def all(self) -> list[int]:
        """The process ids of the run, including the client."""
        return [os.getpid(), self.leader, *self.followers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One load. Processor time is in seconds per second, that is, in cores."""

    outstanding: int
    commits_per_second: float
    p50_ms: float
    p99_ms: float
    leader: float
    followers: float
    client: float
    others: float
    """Used by all other processes on the machine."""
    cores: int

    @classmethod
    def of(
        cls,
        latencies: "array[float]",
        outstanding: int,
        passed: float,
        processes: Processes,
        used: machine.Used,
    ) -> "Row":
        """The row for the commits of `passed` seconds; raises `RunFailed` if there were none."""
        if not latencies:
            raise RunFailed("nothing was committed during the measurement")
        leader = used.by_pid[processes.leader] / passed
        followers = sum(used.by_pid[pid] for pid in processes.followers) / passed
        client = used.by_pid[os.getpid()] / passed
        return cls(
            outstanding=outstanding,
            commits_per_second=len(latencies) / passed,
            p50_ms=machine.percentile(latencies, 50) * 1_000,
            p99_ms=machine.percentile(latencies, 99) * 1_000,
            leader=leader,
            followers=followers,
            client=client,
            others=max(0.0, used.machine / passed - leader - followers - client),
            cores=os.cpu_count() or 1,
        )

    @property
    def server_seconds(self) -> float:
        """Processor time of all servers for 10,000 commits."""
        return (self.leader + self.followers) / self.commits_per_second * 10_000

    @property
    def leader_us(self) -> float:
        """Processor time of the leader for one commit, in microseconds."""
        return self.leader / self.commits_per_second * 1e6

    @property
    def follower_us(self) -> float:
        """The same for one follower."""
        return self.followers / FOLLOWERS / self.commits_per_second * 1e6

    @property
    def limit(self) -> str:
        """The limiting resource, as far as processor time shows."""
        if self.leader + self.followers + self.client + self.others >= _CORES_BUSY * self.cores:
            return "all cores are busy"
        if self.leader >= _THREAD_BUSY:
            return "the leader's thread"
        if self.client >= _THREAD_BUSY:
            return "the client's thread"
        return "waiting: disk and round trips"


def table(rows: Sequence[Row]) -> str:
    """One line per load."""
    lines = [
        "| outstanding | commits/s | p50 ms | p99 ms | leader | followers | client | others "
        "| µs of leader | µs of follower | limited by |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        lines.append(
            f"| {row.outstanding} | {row.commits_per_second:,.0f} | {row.p50_ms:.2f} "
            f"| {row.p99_ms:.2f} | {row.leader:.2f} | {row.followers:.2f} | {row.client:.2f} "
            f"| {row.others:.2f} | {row.leader_us:.0f} | {row.follower_us:.0f} | {row.limit} |"
        )
    return "\n".join(lines)


class Section:
    """The part of a document between `<!-- name -->` and `<!-- /name -->`."""

    def __init__(self, path: Path, name: str) -> None:
        """Raises `RunFailed` unless the document has the section exactly once."""
        self._path = path
        self._opening, self._closing = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        text = path.read_text(encoding="utf-8")
        if text.count(self._opening) != 1 or text.count(self._closing) != 1:
            raise RunFailed(
                f"{path} must have the lines {self._opening.strip()} and {self._closing.strip()}, "
                "each once"
            )

    def write_run(self, command: str, facts: Mapping[str, str], shown: str) -> None:
        """Replace the content of the section with a run: its command, the machine, the figures."""
        listed = "\n".join(f"- {name}: {value}" for name, value in facts.items())
        self.write(f"`{command}`\n\n{listed}\n\n{shown}\n")

    def write(self, text: str) -> None:
        """Replace the content of the section with `text`."""
        document = self._path.read_text(encoding="utf-8")
        before, opening, rest = document.partition(self._opening)
        _, closing, after = rest.partition(self._closing)
        whole = f"{before}{opening}\n{text}\n{closing}{after}"
        self._path.write_text(whole, encoding="utf-8")
