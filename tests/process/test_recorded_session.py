"""The recorded output of Kafka's tools with its own controllers, beside that with ours.

The recording is tests/data/kraft-4.2.0/session.txt. What was played on ours is the transcript
kafka_session, which the tests of real processes compare with a cluster; here nothing is started.
Both are put into the same form: what differs from run to run is left out on both sides.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.process.kafka_shell import SHOWN_PORT, shown
from tests.process.kafka_tools_process import SCRIPTS
from tests.support.real_cluster import IN_TREE
from tests.support.transcript import parse
from tests.support.tree import ROOT

TRANSCRIPT: Final = ROOT / "tests" / "transcripts" / "kafka_session.txt"
LINES_LEAST: Final = 60
IDS: Final = {SHOWN_PORT + id: id for id in (1, 2, 3, 4, 101, 102, 103, 104)}

TOPICS: Final = "kafka-topics.sh --bootstrap-server 127.0.0.1:19101"

CHANGED: Final = {
    "--partitions 3 --replication-factor 3": (
        "--replica-assignment 102:103:104,103:101:102,104:102:103",
        "the replicas that Kafka had drawn by lot, so that all that follows can be equal",
    ),
    "--reassignment-json-file plan2.json --verify": (
        "--reassignment-json-file plan2.json --verify --command-config impatient.properties",
        "the tool gives up on the dead broker after 1.5 s instead of 60",
    ),
    "--reassignment-json-file plan2.json --cancel": (
        "--reassignment-json-file plan2.json --cancel --command-config impatient.properties",
        "the same",
    ),
    "kill -9 controller 1": (
        "kill the active controller",
        "who is elected is a matter of chance",
    ),
    "kill -9 broker 104": ("kill broker 104", "the word of transcripts"),
    "--controller-directory-id Hb0r3ZQ2T0mW2bIYvQmZ1A": (
        "--controller-directory-id <directory of controller 1>",
        "a directory's id is drawn by lot",
    ),
}
"""The recorded text, the replayed one, and the reason of the difference."""

ADDED: Final = {
    "file ": "what the tools are given; the plans are those that the recorded log shows",
    "kafka-get-offsets.sh": "every leader has heard of its topic: one that has not may refuse the"
    " first batches and take a later one, and Kafka's producer never gets the first ones in",
    "start the killed controller": "it came back, as the recorded log shows",
    "start broker 104": "likewise",
    "start controller 4": "it had been started, as the recorded log shows",
    "kafka-metadata-quorum.sh --bootstrap-controller": "who was removed soon observes",
    f"{TOPICS} --describe --topic orders": "the session goes on when others lead",
}
"""The beginning of lines that are replayed and were not recorded, and the reason."""


class Exchange(NamedTuple):
    """A command, and the answer as transcripts show it."""

    command: str
    answer: list[str]


def recorded() -> Iterator[Exchange]:
    text = (IN_TREE / "session.txt").read_text(encoding="utf-8")
    classes = {name: script for script, name in SCRIPTS.items()}
    for block in re.split(r"^(?=\$ |# )", text, flags=re.MULTILINE)[1:]:
        command, _, answer = block.partition("\n")
        tool, _, arguments = command[2:].partition(" ")
        named = f"{classes[tool]} {arguments}" if command.startswith("$ ") else command[2:]
        yield Exchange(named, comparable(shown(answer, IDS)))


def played() -> Iterator[Exchange]:
    for scene in parse(TRANSCRIPT.read_text(encoding="utf-8"), TRANSCRIPT):
        lines = [line for line in scene.command.splitlines() if not _is_condition(line)]
        if lines:
            undotted = [line[line.startswith(".") :] for line in scene.answer.splitlines()]
            yield Exchange(lines[0], comparable("\n".join(undotted)))


def _is_condition(line: str) -> bool:
    return line.startswith(("until ", "unless "))


def comparable(answer: str) -> list[str]:
    """The lines of an answer; exit codes and empty lines at its end were not recorded."""
    lines = [line.rstrip() for line in answer.splitlines() if not line.startswith("exit code ")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def to_be_played() -> list[Exchange]:
    """The recording with its commands as they are played."""
    return [Exchange(_as_played(command), answer) for command, answer in recorded()]


def _as_played(command: str) -> str:
    for before, (after, _) in CHANGED.items():
        command = command.replace(before, after)
    return command


def test_the_recorded_session_is_played_command_by_command() -> None:
    ours = [each.command for each in played() if not each.command.startswith(tuple(ADDED))]
    assert ours == [each.command for each in to_be_played()]
    for before in CHANGED:
        assert any(before in each.command for each in recorded()), before


def test_every_line_of_every_answer_is_that_of_kafkas_own_controllers() -> None:
    ours = [each for each in played() if not each.command.startswith(tuple(ADDED))]
    for answered, expected in zip(ours, to_be_played(), strict=True):
        assert answered.answer == expected.answer, expected.command
    assert sum(len(each.answer) for each in ours) > LINES_LEAST
