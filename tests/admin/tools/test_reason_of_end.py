"""The sentence about a node of a local cluster that has ended, by the log of its process."""

from pathlib import Path

import pytest

from admin.setting_kinds import Role
from admin.tools.local_cluster import REASON_CHARACTERS_MAX, Ended, reason_of_end
from admin.tools.local_plan import NodePlan
from quorum.transport.address import Address

GROUP = """\
2026-01-01 00:00:00,000 INFO replica: 1 is leader
  + Exception Group Traceback (most recent call last):
  |   File "daemon.py", line 1, in _run
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "log.py", line 2, in append
    | ValueError: the offset 7 is behind
    +------------------------------------
"""
KAFKA = """\
[2026-01-01 00:00:00,000] INFO starting (kafka.server.BrokerServer)
[2026-01-01 00:00:00,000] ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)
org.apache.kafka.common.config.ConfigException: Invalid value x for configuration node.id
\tat org.apache.kafka.common.config.ConfigDef.parseType(ConfigDef.java:1)
[2026-01-01 00:00:00,000] INFO bye (kafka.server.BrokerServer)
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", ""),
        ("2026-01-01 00:00:00,000 INFO replica: 1 is leader\n", ""),
        ("INFO x\nError: cannot listen at h:1\nINFO stopping\n", "cannot listen at h:1"),
        ("Error: a\nError: b\nError: a\n", "a; b"),
        (GROUP, "ValueError: the offset 7 is behind"),
        (
            KAFKA,
            "Exiting Kafka due to fatal exception; org.apache.kafka.common.config.ConfigException:"
            " Invalid value x for configuration node.id",
        ),
        (
            "Traceback (most recent call last):\nModuleNotFoundError: no\n",
            "ModuleNotFoundError: no",
        ),
        (f"Error: {'x' * 10_000}\n", "x" * REASON_CHARACTERS_MAX),
    ],
)
def test_the_reason_is_the_error_and_not_the_last_line(log: str, reason: str) -> None:
    assert reason_of_end(log) == reason


@pytest.mark.parametrize(
    ("code", "reason", "sentence"),
    [
        (-9, "old", "broker-101 was ended by SIGKILL"),
        (-250, "", "broker-101 was ended by signal 250"),
        (0, "", "broker-101 was asked to stop, not by this command"),
        (1, "no disk", "broker-101 ended by itself: no disk"),
        (1, "", "broker-101 ended by itself: see node.log"),
    ],
)
def test_an_end_is_one_sentence(code: int, reason: str, sentence: str) -> None:
    node = NodePlan(role=Role.BROKER, id=101, kafka=Address("h", 1))
    assert str(Ended(node=node, code=code, reason=reason, log=Path("node.log"))) == sentence
