"""`metaquorum local` and the commands against it, all as real processes."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.local_process import LocalProcess, is_alive, local, metaquorum, started

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProcess]:
    """Three controllers and three brokers; tests use topics of their own."""
    folder = tmp_path_factory.mktemp("clusters") / "local"
    with local(folder, "--brokers", "3", "--base-port", "0") as running:
        yield running


def server(cluster: LocalProcess) -> tuple[str, str]:
    return "--bootstrap-server", cluster.servers


def create(cluster: LocalProcess, topic: str, *, partitions: int, replicas: int) -> None:
    done = metaquorum(
        "topics",
        "create",
        topic,
        "--partitions",
        str(partitions),
        "--replication-factor",
        str(replicas),
        *server(cluster),
    )
    assert (done.code, done.out, done.err) == (0, "", f"Created topic {topic}.\n")


def plan_file(folder: Path, topic: str, *replicas: list[int]) -> Path:
    path = folder / "plan.json"
    partitions = [
        {"topic": topic, "partition": number, "replicas": each}
        for number, each in enumerate(replicas)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
    return path


def test_cluster_json_names_every_node_with_its_process(cluster: LocalProcess) -> None:
    found = cluster.cluster
    assert [node["id"] for node in found["controllers"]] == [1, 2, 3]
    assert [node["id"] for node in found["brokers"]] == [101, 102, 103]
    for node in found["controllers"] + found["brokers"]:
        assert is_alive(node["pid"])
        assert Path(node["log_dir"]).is_dir()
        host, _, port = node["kafka"].rpartition(":")
        socket.create_connection((host, int(port)), timeout=5).close()


@pytest.mark.parametrize("door", ["--bootstrap-server", "--bootstrap-controller"])
def test_the_quorum_is_described_through_brokers_and_controllers(
    cluster: LocalProcess, door: str
) -> None:
    whom = cluster.servers if door == "--bootstrap-server" else cluster.controllers
    status = metaquorum("metadata-quorum", door, whom, "describe", "--status")
    assert status.code == 0
    labels = [line.split(":")[0] for line in status.out.splitlines()]
    assert labels == [
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "TargetVoters",
    ]
    assert "CurrentVoters:          [1, 2, 3]" in status.out
    table = metaquorum("metadata-quorum", "--describe", "replication", door, whom)
    rows = [line.split() for line in table.out.splitlines()]
    assert rows[0][0] == "ReplicaId"
    assert sorted(int(row[0]) for row in rows[1:]) == [1, 2, 3, 101, 102, 103]
    assert [row[4] for row in rows[1:]] == ["Leader", *["Follower"] * 2, *["Observer"] * 3]


def test_the_quorum_is_described_as_kafkas_tool_does_it_and_as_json(cluster: LocalProcess) -> None:
    whom = ("--bootstrap-server", cluster.servers)
    kafka = metaquorum("metadata-quorum", *whom, "describe", "--replication", "--format", "kafka")
    assert kafka.out.splitlines()[0].split() == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    ]
    data = json.loads(metaquorum("metadata-quorum", "--describe", "-o", "json", *whom).out)
    assert data["cluster_id"] == cluster.cluster["cluster_id"]
    assert [voter["id"] for voter in data["current_voters"]] == [1, 2, 3]


def test_lines_go_in_and_come_out_again(cluster: LocalProcess, tmp_path: Path) -> None:
    create(cluster, "lines", partitions=3, replicas=3)
    lines = [f"record {number}" for number in range(2_000)]
    text = "".join(f"{line}\n" for line in lines).encode()
    produced = metaquorum("produce", "lines", *server(cluster), stdin=text)
    assert (produced.code, produced.out) == (0, "")
    assert produced.err.startswith("2000 records are written to lines: ")
    consumed = metaquorum("consume", "lines", "--from-beginning", *server(cluster))
    assert sorted(consumed.out.splitlines()) == sorted(lines)
    path = tmp_path / "out.txt"
    some = metaquorum(
        "consume",
        "lines",
        "--from-beginning",
        "--max-records",
        "7",
        "--file",
        path,
        *server(cluster),
    )
    assert some.err == "7 records were read from lines\n"
    assert len(path.read_text(encoding="utf-8").splitlines()) == 7


def test_records_with_a_key_stay_together(cluster: LocalProcess) -> None:
    create(cluster, "keys", partitions=3, replicas=1)
    text = "".join(f"k{number % 2}={number}\n" for number in range(10)).encode()
    keyed = ("--key-separator", "=")
    assert metaquorum("produce", "keys", *keyed, *server(cluster), stdin=text).code == 0
    consumed = metaquorum("consume", "keys", "--from-beginning", *keyed, *server(cluster))
    lines = consumed.out.splitlines()
    for key in ("k0", "k1"):
        numbers = [int(line[3:]) for line in lines if line.startswith(key)]
        assert numbers == sorted(numbers)
        assert len(numbers) == 5


def test_a_move_is_executed_listed_verified_and_cancelled(
    cluster: LocalProcess, tmp_path: Path
) -> None:
    """The new replica's broker is stopped for a while, so that the move is under way."""
    create(cluster, "moves", partitions=1, replicas=1)
    described = json.loads(
        metaquorum("topics", "describe", "moves", "-o", "json", *server(cluster)).out
    )
    (before,) = described["topics"][0]["partitions"][0]["replicas"]
    after = 101 if before != 101 else 102
    path = plan_file(tmp_path, "moves", [after])
    tool = ("reassign-partitions", *server(cluster))
    planned = ("--reassignment-json-file", path)

    pid = cluster.pid(after)
    os.kill(pid, signal.SIGSTOP)
    try:
        executed = metaquorum(*tool, *planned, "--execute")
        assert executed.code == 0, executed.err
        assert executed.out == (
            "Current partition replica assignment\n\n"
            '{"version":1,"partitions":[{"topic":"moves","partition":0,'
            f'"replicas":[{before}],"log_dirs":["any"]}}]}}\n\n'
            "Save this to use as the --reassignment-json-file option during rollback\n"
            "Successfully started partition reassignment for moves-0\nMove id: 1\n"
        )
        verified = metaquorum(*tool, *planned, "--verify")
        assert verified.code == 3
        assert verified.out == (
            "Status of partition reassignment:\n"
            "Reassignment of partition moves-0 is still in progress.\n"
        )
        assert metaquorum(*tool, "--list").out == (
            "Current partition reassignments:\n"
            f"moves-0: replicas: {before},{after}. adding: {after}. removing: {before}.\n"
        )
        again = metaquorum(*tool, *planned, "--execute")
        assert again.code == 1
        assert again.err.startswith("Cannot execute because there is an existing partition")
        cancelled = metaquorum(*tool, *planned, "--cancel")
        assert (cancelled.code, cancelled.out) == (
            0,
            "Successfully cancelled partition reassignment for: moves-0\n",
        )
    finally:
        os.kill(pid, signal.SIGCONT)
    assert metaquorum(*tool, "--list").out == "No partition reassignments found.\n"
    not_as_planned = metaquorum(*tool, *planned, "--verify")
    assert not_as_planned.code == 1
    assert not_as_planned.out.splitlines()[1] == (
        "There is no active reassignment of partition moves-0, but replica set is "
        f"{before} rather than {after}."
    )
    nothing = metaquorum(*tool, *planned, "--cancel")
    assert nothing.out == "None of the specified partition reassignments are active.\n"


@pytest.mark.parametrize(
    ("replicas", "topic", "message"),
    [
        (
            [101, 9],
            "judged",
            "Error: Unknown broker id 9; the brokers are 101, 102, 103; "
            "it is wanted for judged-0\n",
        ),
        ([101], "unheard", "Error: Topic unheard not found. The plan names unheard-0\n"),
    ],
)
def test_a_plan_that_the_cluster_cannot_carry_out_is_refused_whole(
    cluster: LocalProcess, tmp_path: Path, replicas: list[int], topic: str, message: str
) -> None:
    if topic == "judged":
        create(cluster, topic, partitions=1, replicas=1)
    done = metaquorum(
        "reassign-partitions",
        *server(cluster),
        "--execute",
        "--reassignment-json-file",
        plan_file(tmp_path, topic, replicas),
    )
    assert (done.code, done.out, done.err) == (1, "", message)


def test_a_second_cluster_in_the_same_folder_is_refused_and_harms_nothing(
    cluster: LocalProcess,
) -> None:
    for how in ((), ("--detach",)):
        done = started("local", "--dir", cluster.folder, *how)
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            f"Error: {cluster.folder} is in use by another `metaquorum local` or demo: stop that "
            "one, or choose another --dir\n"
        )
    assert cluster.cluster["brokers"]


def told(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code and the message of a command for the cluster that runs in a folder."""
    done = metaquorum("local", *words, "--dir", folder)
    assert done.out == ""
    return done.code, done.err


def test_a_cluster_tells_of_a_node_that_ends_obeys_stops_clean_and_comes_back_the_same(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "local"
    with local(folder, "--controllers", "1", "--brokers", "2", "--base-port", "0") as running:
        first = running.cluster
        create(running, "kept", partitions=1, replicas=1)
        os.kill(running.pid(102), signal.SIGKILL)
        said = running.line(containing="broker-102")
        assert said.startswith("broker-102 was ended by SIGKILL. The others go on; to start it ")
        assert said.endswith(f" local restart --dir {folder} broker-102")
        assert running.nodes()["broker-102"] is None
        assert told(folder, "kill", "102") == (1, "Error: broker-102 does not run\n")
        code, restarted = told(folder, "restart", "broker-102")
        assert (code, restarted) == (0, f"broker-102 is up, process {running.pid(102)}.\n")
        assert told(folder, "kill", "101") == (0, "broker-101 is killed.\n")
        assert running.nodes()["broker-101"] is None
        assert told(folder, "stop", "controller-1") == (0, "controller-1 is stopped.\n")
        assert told(folder, "stop", "7") == (
            1,
            "Error: there is no node 7; the nodes are controller-1, broker-101, broker-102\n",
        )
        settings = folder / "controller-1" / "node.properties"
        kept = settings.read_text(encoding="utf-8")
        settings.write_text(f"{kept}no.such.setting=1\n", encoding="utf-8")
        code, refused = told(folder, "restart", "1")
        assert (code, "no.such.setting is not a setting" in refused) == (1, True), refused
        settings.write_text(kept, encoding="utf-8")
        assert told(folder, "restart", "1")[0] == 0
        survivors = [running.pid(1), running.pid(102)]
        assert all(map(is_alive, survivors))
        assert told(folder, "stop") == (0, "All nodes are stopped.\n")
        assert running.wait() == 0
    assert not any(map(is_alive, survivors))
    assert not (folder / "control.sock").exists()
    code, absent = told(folder, "stop")
    assert (code, absent.startswith(f"Error: no cluster is up in {folder}, ")) == (1, True)
    assert not (folder / "cluster.json").exists()

    with local(folder) as running:
        for kind in ("controllers", "brokers"):
            assert [
                {name: value for name, value in node.items() if name != "pid"}
                for node in running.cluster[kind]
            ] == [
                {name: value for name, value in node.items() if name != "pid"}
                for node in first[kind]
            ]
        assert running.cluster["cluster_id"] == first["cluster_id"]
        assert metaquorum("topics", "list", *server(running)).out == "kept\n"
        assert running.stop(signal.SIGINT) == 0


def test_a_cluster_whose_terminal_is_gone_stops_all_the_same(tmp_path: Path) -> None:
    sizes = ("--controllers", "1", "--brokers", "1", "--base-port", "0")
    with local(tmp_path / "local", *sizes) as running:
        nodes = [running.pid(1), running.pid(101)]
        running.close_terminal()
        running.stop()
    assert not any(map(is_alive, nodes))
