"""Kafka's command-line tools in one Java process, asked one after the other."""

import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from admin.tools.kafka_runtime import Runtime
from tests.support.tree import ROOT

PROGRAM: Final = ROOT / "tests" / "process" / "support" / "Tools.java"
SCRIPTS: Final = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records.sh": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs.sh": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
_OLD_ACLS: Final = "kafka.admin.AclCommand"
# What the tools print is looked at, not what libraries log beside it.
_QUIET: Final = {
    "log4j.configuration": "log4j.rootLogger=OFF\n",
    "log4j2.configurationFile": "status=off\nrootLogger.level=off\n",
}


def acl_tool(version: str) -> str:
    """The tool for ACLs of this release, which 4.0 has moved."""
    return _OLD_ACLS if version.startswith("3.") else "kafka-acls.sh"


class Said(NamedTuple):
    """The output of a tool, and its exit code."""

    text: str
    code: int


class ToolsRoom:
    """The tools of one release, ready to run."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def run(self, tool: str, arguments: Sequence[str]) -> Said:
        """Run the tool, named by its script or its class; it keeps to its own time-outs."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        words = [SCRIPTS.get(tool, tool), *arguments]
        assert not any("\t" in word or "\n" in word for word in words), words
        asked.write("\t".join(words).encode() + b"\n")
        asked.flush()
        head = answered.read(8)
        assert len(head) == 8, f"the Java that runs the tools has ended at {words}"
        code, size = struct.unpack(">ii", head)
        return Said(answered.read(size).decode(), code)

    def end(self) -> None:
        """End the Java, also while a tool runs in it; that one then has no answer."""
        self._process.kill()


@contextmanager
def tools_room(runtime: Runtime, folder: Path) -> Iterator[ToolsRoom]:
    """The tools of this release; the test is skipped where Java comes without its compiler."""
    modules = subprocess.run(
        [str(runtime.java), "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    if "jdk.compiler" not in modules:
        pytest.skip(f"{runtime.java} has no compiler: install the JDK, not the JRE alone")
    name = runtime.release.logging_property
    quiet = folder / "quiet.properties"
    quiet.write_text(_QUIET[name], encoding="utf-8")
    process = subprocess.Popen(
        [
            *(str(runtime.java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-D{name}={quiet.as_uri()}", "-cp", str(runtime.jars / "*"), str(PROGRAM)),
        ],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            yield ToolsRoom(process)
        finally:
            process.kill()
