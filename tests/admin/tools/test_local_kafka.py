"""Kafka's brokers in the folder of a local cluster: the files that are written, and kept."""

import random
from pathlib import Path

import pytest

from admin.tools import kafka_brokers
from admin.tools.kafka_runtime import RELEASES, Runtime
from admin.tools.local_plan import LocalError, Wanted, log_dir, settle

LEVEL = {"metadata.version": "21"}
MORE = {
    "replica.fetch.max.bytes": "32KiB",
    "broker.session.timeout.ms": "6s",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice;User:bob",
}


def runtime(version: str) -> Runtime:
    return Runtime(release=RELEASES[version], java=Path("/opt/java"), jars=Path("/opt/jars"))


def properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize(
    ("level", "knows"),
    [
        ("21", "controller.quorum.bootstrap.servers={0},{1},{2}"),
        ("20", "controller.quorum.voters=1@{0},2@{1},3@{2}"),
    ],
)
def test_a_broker_gets_storage_of_the_cluster_and_knows_the_controllers(
    tmp_path: Path, level: str, knows: str
) -> None:
    wanted = Wanted(controllers=3, brokers=2, base_port=0, kafka="4.2.0")
    plan = settle(tmp_path, wanted, random.Random(1))
    more = {**MORE, "metadata.version": level}
    kafka_brokers.write_files(tmp_path, plan, runtime("4.2.0"), more, random.Random(2))
    node = plan.brokers[0]
    settings = properties(tmp_path / node.name / "server.properties")
    quorum = [f"{name}={value}" for name, value in settings.items() if "controller.quorum" in name]
    assert quorum == [knows.format(*(each.kafka for each in plan.controllers))]
    assert settings["process.roles"] == "broker"
    assert settings["node.id"] == "101"
    assert settings["listeners"] == f"PLAINTEXT://{node.kafka}"
    assert settings["replica.fetch.max.bytes"] == "32768"
    assert settings["broker.session.timeout.ms"] == "6000"
    for name in ("authorizer.class.name", "super.users"):
        assert settings[name] == MORE[name]
    assert settings["offsets.topic.replication.factor"] == "2"
    meta = properties(log_dir(tmp_path, node) / "meta.properties")
    assert meta["cluster.id"] == plan.cluster_id
    assert meta["node.id"] == "101"
    assert len(meta["directory.id"]) == 22


def test_the_configuration_written_for_a_broker_stays(tmp_path: Path) -> None:
    wanted = Wanted(controllers=1, brokers=1, base_port=0, kafka="4.2.0")
    plan = settle(tmp_path, wanted, random.Random(1))
    kafka_brokers.write_files(tmp_path, plan, runtime("4.2.0"), LEVEL, random.Random(2))
    home = tmp_path / plan.brokers[0].name
    (home / "server.properties").write_text("edited=true\n")
    before = (log_dir(tmp_path, plan.brokers[0]) / "meta.properties").read_text()
    kafka_brokers.write_files(tmp_path, plan, runtime("4.2.0"), LEVEL, random.Random(3))
    assert (home / "server.properties").read_text() == "edited=true\n"
    assert (log_dir(tmp_path, plan.brokers[0]) / "meta.properties").read_text() == before


@pytest.mark.parametrize(
    ("first", "then", "stored"),
    [("4.2.0", "3.9.1", "4.2.0"), (None, "4.2.0", "the embedded brokers")],
)
def test_a_folder_keeps_its_kind_of_brokers(
    tmp_path: Path, first: str | None, then: str, stored: str
) -> None:
    plan = settle(tmp_path, Wanted(brokers=1, base_port=0, kafka=first), random.Random(1))
    assert settle(tmp_path, Wanted(), random.Random(2)) == plan
    assert plan.kafka == first
    with pytest.raises(LocalError, match=f"--kafka {then} contradicts .* which has {stored}:"):
        settle(tmp_path, Wanted(kafka=then), random.Random(1))


def test_the_command_of_a_broker_names_its_files(tmp_path: Path) -> None:
    wanted = Wanted(controllers=1, brokers=1, base_port=0, kafka="3.9.1")
    plan = settle(tmp_path, wanted, random.Random(1))
    words = kafka_brokers.command(tmp_path, plan.brokers[0], runtime("3.9.1"))
    home = tmp_path / "broker-101"
    assert words[0] == "/opt/java"
    assert words[-2:] == ["kafka.Kafka", str(home / "server.properties")]
    assert f"-Dlog4j.configuration={(home / 'logging.properties').as_uri()}" in words
