"""The verdict on a run: what the nodes logged, kept in memory, promised and wrote."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from chaos.fuzz.attack import Entry, Sent
from chaos.fuzz.cluster import BROKER, Caller
from chaos.fuzz.frames import Frames
from chaos.fuzz.witness import REGISTER, Probe
from chaos.processes.log_checker import committed_log
from quorum.records.decode import decode as decode_records
from statemachine.records.codec import decode
from statemachine.records.kafka_records import Config, NoOp

MIB: Final = 1024 * 1024
GROWTH_BYTES_MAX: Final = 64 * MIB
SHOWN_MAX: Final = 5
"""Errors of one node that are shown, and frames of one error."""
LINES_SHOWN_MAX: Final = 40

_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ ")
_ERROR: Final = re.compile(r"\d{4}-\d\d-\d\d \S+ (?:ERROR|CRITICAL) ")
_PORT: Final = re.compile(r"127\.0\.0\.\d+:\d+")


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node before the frames, and after them."""

    name: str
    rss_before_bytes: int
    rss_after_bytes: int
    said: str
    """The log output meanwhile."""
    exit_code: int | None = None
    """None while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A run, as the judge sees it."""

    caller: Caller
    nodes: Sequence[NodeState]
    leader_before: tuple[int, int]
    leader_after: tuple[int, int]
    """The id of the leader, and the epoch."""
    probes: Sequence[Probe]
    lost: Sequence[str]
    """What the well-behaved client was promised, and did not find."""
    written: Mapping[str, int]
    """The committed records that are not those of the well-behaved client, by kind."""


def problems(seen: Observation, culprits: "Culprits") -> list[str]:
    """Return what was wrong; empty if the run passed."""
    found: list[str] = []
    for node in seen.nodes:
        found += _of_node(node, culprits)
    if seen.leader_before != seen.leader_after:
        found.append(
            "leader and epoch were {} and {}, now they are {} and {}".format(
                *seen.leader_before, *seen.leader_after
            )
        )
    for probe in seen.probes:
        if probe.failures:
            first = "; ".join(probe.failures[:SHOWN_MAX])
            found.append(f"{len(probe.failures)} requests of the witness failed: {first}")
    found += seen.lost
    if seen.caller is not Caller.STRANGER and seen.written:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(seen.written.items()))
        found.append(f"records were written without a right to it: {kinds}")
    return found


def _of_node(node: NodeState, culprits: "Culprits") -> list[str]:
    found = []
    if node.exit_code is not None:
        last = "\n".join(node.said.splitlines()[-LINES_SHOWN_MAX:])
        found.append(
            f"{node.name} ended with {node.exit_code}; {culprits.last()}; it said last:\n{last}"
        )
    errors = errors_in(node.said)
    for lines in errors[:SHOWN_MAX]:
        found.append(f"{node.name}: {lines}\n{culprits.of(lines)}")
    if len(errors) > SHOWN_MAX:
        found.append(f"{node.name} logged {len(errors)} errors in all")
    growth = node.rss_after_bytes - node.rss_before_bytes
    if growth > GROWTH_BYTES_MAX:
        found.append(
            f"{node.name} has {growth / MIB:.0f} MiB more than before, at most "
            f"{GROWTH_BYTES_MAX // MIB} are allowed"
        )
    return found


def errors_in(said: str) -> list[str]:
    """Return the errors in a log: each a line of the level ERROR, or any with a stack trace."""
    entries: list[list[str]] = []
    for line in said.splitlines():
        if _LINE.match(line) or line.startswith("{") or not entries:
            entries.append([])
        entries[-1].append(line)
    return [
        "\n".join(_shortened(lines))
        for lines in entries
        if _ERROR.match(lines[0]) or any("Traceback" in each for each in lines)
    ]


def _shortened(lines: Sequence[str]) -> Sequence[str]:
    if len(lines) <= LINES_SHOWN_MAX:
        return lines
    half = LINES_SHOWN_MAX // 2
    return [*lines[:half], "...", *lines[-half:]]


def written_records(data: Path, start: int, end: int) -> Counter[str]:
    """Count the records from `start` to `end` in the log of a stopped controller, by kind.

    Those of the well-behaved client and of an idle cluster do not count.
    """
    found: Counter[str] = Counter()
    _, log = committed_log(data, end)
    for record in decode_records(log):
        if record.offset < start or record.control or record.value is None:
            continue
        value = decode(record.value)
        if isinstance(value, NoOp) or (
            isinstance(value, Config) and value.resource_name == REGISTER
        ):
            continue
        found[type(value).__name__] += 1
    return found


class Culprits:
    """The frames of each connection, from the journal."""

    def __init__(self, journal: Path, frames: Frames) -> None:
        self._journal = journal
        self._frames = frames

    def of(self, text: str) -> str:
        """Return the frames of the connections that a text names."""
        ports = set(_PORT.findall(text))
        found = [each for each in self._entries() if each.port in ports and each.frames]
        return "\n".join(self._shown(found)) or "no connection of these frames is named"

    def last(self) -> str:
        """Return the frames that came last."""
        closed = [each for each in self._entries() if each.frames]
        return "the last frames were\n" + "\n".join(self._shown(closed[-SHOWN_MAX:]))

    def _shown(self, entries: Iterable[Entry]) -> list[str]:
        return [
            f"  on a connection with frames {entry.frames[0]} to {entry.frames[-1]}, the last was "
            f"{self._frames.frame(entry.frames[-1])}"
            for entry in [*entries][:SHOWN_MAX]
        ]

    def _entries(self) -> list[Entry]:
        if not self._journal.exists():
            return []
        lines = self._journal.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Entry) for line in lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of a run."""

    seed: int
    listener: str
    seconds: float
    sent: Sent
    seen: Observation
    problems: Sequence[str]

    def __str__(self) -> str:
        sent, seen = self.sent, self.seen
        memory = ", ".join(
            f"{each.name} {each.rss_before_bytes / MIB:.0f} -> {each.rss_after_bytes / MIB:.0f}"
            for each in seen.nodes
        )
        said = ", ".join(f"{each.name} {len(each.said) / MIB:.1f}" for each in seen.nodes)
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(sent.by_kind.items()))
        written = ", ".join(f"{count} {name}" for name, count in sorted(seen.written.items()))
        waits = ", ".join(map(str, seen.probes))
        lines = [
            f"{sent.frames} frames as {seen.caller.value} at the listener {self.listener}, seed "
            f"{self.seed}: {self.seconds:.0f} s, {sent.bytes / MIB:.0f} MiB",
            f"  frames: {kinds}",
            f"  {sent.connections} connections: {sent.closed} closed by the node, {sent.silent} "
            f"without an answer; {sent.refused} were not accepted; {sent.answered} answers",
            f"  longest wait of the witness: {waits}",
            f"  memory in MiB: {memory}",
            f"  log in MiB: {said}",
            f"  leader {seen.leader_after[0]} in epoch {seen.leader_after[1]}, before: "
            f"{seen.leader_before[0]} in {seen.leader_before[1]}",
            f"  records written by the frames: {written or 'none'}",
            *(f"PROBLEM: {each}" for each in self.problems),
            f"{len(self.problems)} problems" if self.problems else "nothing wrong",
        ]
        return "\n".join(lines)


def name_of(id: int) -> str:
    """Return the name of a node in the report."""
    return "broker" if id == BROKER else f"controller {id}"
