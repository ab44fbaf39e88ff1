"""A shell for transcripts: Kafka's tools on a cluster of processes, in the words of its users.

In a transcript the cluster is the one that `metaquorum local` makes by default: controllers at
127.0.0.1:19001 to 19003, brokers at 127.0.0.1:19101 and up. The cluster that is really asked has
free ports; they are replaced in both directions. What differs from run to run is shown as <n>,
<uuid>, <time> and <folder>, and what comes in no order of its own is shown in order.

Commands, one a scene:

    kafka-topics.sh ...             a tool; a trailing backslash continues the line
    until WORDS, unless WORDS       lines before a tool: it is asked again until its answer has, or
                                    has no longer, these words
    file NAME, then its lines       writes a file that the tools can be given
                                    (addresses in it are replaced, too)
    kill NODE, stop NODE, start NODE
                                    kill -9, a plain kill, and another start; the node is
                                    "broker 104", "the active controller", or afterwards "the
                                    killed controller"; controller 4 is not of the cluster, and
                                    joins it when it is started

In a command, <directory of controller 1> is the id of that node's directory.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from threading import Event
from typing import Final, Protocol

from tests.process.kafka_tools_process import ToolsRoom

TRIES_MAX: Final = 3_000
LOOK_AGAIN_SECONDS: Final = 0.1
SHOWN_PORT: Final = 19_000

_UUID: Final = re.compile(
    r'(TopicId: |ClusterId: +|Cluster ID: |"directoryId": "|with directory id )[\w-]{22}'
)
_DIRECTORY: Final = re.compile(r"<directory of (\w+ \d+)>")
_NO_UUID: Final = "A" * 22
_TIME: Final = re.compile(r"\b1[0-9]{12}\b")
_EPOCH: Final = re.compile(r"(?<=\tEpoch: )\d+")
_ACTIVE: Final = re.compile(r"(?<=Local controller )\d+")
_NUMBERED: Final = re.compile(
    r"(LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs)(: +)\d+"
)
_MEASURED: Final = re.compile(r"\d+\.\d+|\d+(?= ms)")
_LOG_DIRS: Final = re.compile(r'(?<="log_dirs":\[)[^\]]*')
_TRACE: Final = re.compile(r"\s+at |\s+\.\.\. \d+ more|Caused by: ")
_UNDERWAY: Final = re.compile(r" records sent, .* ms max latency\.$")
_OBSERVERS: Final = re.compile(r"CurrentObservers: +\[(.*)\]")
_REPLICA_ROW: Final = re.compile(r"\d+ +\t")


_PATIENT: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "until": lambda words, said: words in said,
    "unless": lambda words, said: words not in said,
}


class Cluster(Protocol):
    """The cluster that is really asked; a node's name is `broker-104` or `controller-1`."""

    @property
    def ports(self) -> Mapping[int, int]:
        """The port of every node by its id."""

    def active(self) -> str:
        """The name of the active controller."""

    def directory(self, name: str) -> str:
        """The id of the directory in which the node keeps the metadata log, as Kafka writes it."""

    def kill(self, name: str) -> None:
        """End it at once."""

    def stop(self, name: str) -> None:
        """Ask it to stop, and return when it has."""

    def start(self, name: str) -> None:
        """Start it again, and return when it takes part."""


class Shell:
    """Answers the commands of a transcript."""

    def __init__(self, cluster: Cluster, tools: ToolsRoom, folder: Path) -> None:
        """`folder` is where the tools run, and where files are written."""
        self._cluster = cluster
        self._tools = tools
        self._folder = folder
        self._last_active = ""
        self._verbs: Mapping[str, Callable[[str], str]] = {
            "file": self._write,
            "kill": self._on(cluster.kill),
            "start": self._on(cluster.start),
            "stop": self._on(cluster.stop),
        }

    def answer(self, command: str) -> str:
        """The output of the command in the form of transcripts."""
        verb, _, rest = command.partition(" ")
        do = self._verbs.get(verb)
        if do is not None:
            return do(rest)
        return self._patiently(command)

    def _tool(self, command: str) -> str:
        tool, *arguments = shlex.split(self._real(command.replace("\\\n", " ")))
        said = self._tools.run(tool, arguments)
        text = shown(said.text, {port: id for id, port in self._cluster.ports.items()})
        return text if said.code == 0 else f"{text}\nexit code {said.code}"

    def _patiently(self, command: str) -> str:
        lines = command.splitlines()
        conditions = list(takewhile(lambda line: line.split(" ")[0] in _PATIENT, lines))
        tool = "\n".join(lines[len(conditions) :])
        for _ in range(TRIES_MAX):
            said = self._tool(tool)
            if all(_PATIENT[verb](words, said) for verb, _, words in map(_parted, conditions)):
                return said
            # A tool that is asked at once again takes the time of what it waits for.
            Event().wait(LOOK_AGAIN_SECONDS)
        raise AssertionError(f"{conditions} do not come true; the last answer was:\n{said}")

    def _write(self, rest: str) -> str:
        name, _, text = rest.partition("\n")
        (self._folder / name).write_text(self._real(text), encoding="utf-8")
        return ""

    def _on(self, do: Callable[[str], None]) -> Callable[[str], str]:
        def done(node: str) -> str:
            do(self._named(node))
            return ""

        return done

    def _named(self, node: str) -> str:
        match node:
            case "the active controller":
                self._last_active = self._cluster.active()
                return self._last_active
            case "the killed controller":
                return self._last_active
            case _:
                return node.replace(" ", "-")

    def _real(self, command: str) -> str:
        """The text with the addresses and ids of the cluster that is really asked."""

        def port(found: re.Match[str]) -> str:
            id = int(found[1]) - SHOWN_PORT
            return f"127.0.0.1:{self._cluster.ports[id]}"

        def directory(found: re.Match[str]) -> str:
            return self._cluster.directory(self._named(found[1]))

        return _DIRECTORY.sub(directory, re.sub(r"127\.0\.0\.1:(\d+)", port, command))


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


def shown(text: str, ids: Mapping[int, int]) -> str:
    """The output of a tool without values that differ between runs; `ids` has nodes by port."""

    def port(found: re.Match[str]) -> str:
        id = ids.get(int(found[2]))
        return found[0] if id is None else f"127.0.0.1{found[1]}{SHOWN_PORT + id}"

    # What a producer says in between, every five seconds, depends on how fast the machine is.
    lines = [
        line for line in text.splitlines() if not (_TRACE.match(line) or _UNDERWAY.search(line))
    ]
    rows = [_shown_line(re.sub(r"127\.0\.0\.1([: ])(\d+)", port, line)) for line in lines]
    return "\n".join(_in_order(rows))


def _shown_line(line: str) -> str:
    line = _TIME.sub("<time>", _UUID.sub(r"\1<uuid>", line))
    line = _ACTIVE.sub("<n>", line)
    line = _EPOCH.sub("<n>", _NUMBERED.sub(r"\1\2<n>", line))
    if " records sent, " in line:
        return _MEASURED.sub("<n>", line)
    if '"log_dirs"' in line:
        # It says "any" of a replica that is too young to have one.
        line = _LOG_DIRS.sub(lambda found: re.sub(r'"[^"]*"', '"<folder>"', found[0]), line)
    observers = _OBSERVERS.match(line)
    if observers is not None:
        each = sorted(re.findall(r"\{.*?\}", observers[1]))
        return line.replace(observers[1], ", ".join(each))
    return _replica_row(line) if _REPLICA_ROW.match(line) else line


def _replica_row(line: str) -> str:
    """A row of `describe --replication`: which voter leads is nobody's choice."""
    id, directory, _end, _lag, *times, status = (cell.strip() for cell in line.split("\t")[:7])
    who = id if status == "Observer" else "<n>"
    where = directory if directory in ("", _NO_UUID) else "<uuid>"
    return "\t".join([who, where, "<n>", "<n>", *times, status])


def _in_order(rows: list[str]) -> list[str]:
    """The same rows; replicas that observe come by rising id, as the order is no one's promise."""
    observing = sorted(row for row in rows if row.endswith("\tObserver"))
    if not observing:
        return rows
    return [row for row in rows if not row.endswith("\tObserver")] + observing
