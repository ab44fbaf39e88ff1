"""Brokers as processes, with unmodified kafka-python and librdkafka as their clients.

And what they say when they cannot start.
"""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from tests.process.local_process import LocalProcess, is_alive, local
from tests.support.tree import ROOT

pytestmark = [
    pytest.mark.process,
    # kafka-python forgets the sockets of connections that were refused.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PATIENCE_SECONDS = 40
STOP_SECONDS = 5
RECORDS = 300


@pytest.fixture(scope="module", autouse=True)
def forgotten_sockets() -> Iterator[None]:
    """Close what kafka-python forgot, before another module's tests are blamed for it."""
    yield
    for each in gc.get_objects():
        if type(each) is socket.socket and each.family is socket.AF_INET and each.fileno() >= 0:
            each.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProcess]:
    with local(
        tmp_path_factory.mktemp("cluster") / "c", "--brokers", "3", "--base-port", "0"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.servers)
    yield client
    client.close()


def until(condition: Callable[[], bool]) -> None:
    """Ask again until it holds; each asking is a request, and takes its time.

    kafka-python's admin client gives up at once when the broker that it knows best is down, and
    only then looks for another one.
    """
    end = time.perf_counter() + PATIENCE_SECONDS
    while not holds(condition):
        assert time.perf_counter() < end, "it did not happen in time"


def holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except KafkaError:
        return False


def partitions(admin: KafkaAdminClient, topic: str) -> list[dict[str, Any]]:
    (described,) = admin.describe_topics([topic])
    found: list[dict[str, Any]] = described["partitions"]
    return found


def leader_of(admin: KafkaAdminClient, topic: str) -> int:
    found: list[int] = []

    def asked() -> bool:
        found.append(partitions(admin, topic)[0]["leader_id"])
        return found[-1] >= 0

    until(asked)
    return found[-1]


def create(admin: KafkaAdminClient, topic: str, count: int, replicas: int, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}

    def asked() -> bool:
        try:
            admin.create_topics([NewTopic(topic, count, replicas, topic_configs=named)])
        except TopicAlreadyExistsError:
            return True
        return True

    until(asked)
    # Brokers hear of a new topic a moment after the controller has it.
    until(lambda: [each["error_code"] for each in partitions(admin, topic)] == [0] * count)


def read_all(cluster: LocalProcess, topic: str, count: int, expected: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.servers, group_id=None, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, number) for number in range(count)])
    found: list[bytes] = []

    def poll() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            found.extend(record.value for record in records)
        return len(found) >= expected

    until(poll)
    consumer.close()
    return found


def test_a_consumer_reads_the_records_of_a_default_producer(
    cluster: LocalProcess, admin: KafkaAdminClient
) -> None:
    """Default settings: idempotent, acks=all."""
    create(admin, "round-trip", 3, 3)
    producer = KafkaProducer(bootstrap_servers=cluster.servers)
    sent = [b"%d" % number for number in range(RECORDS)]
    futures = [producer.send("round-trip", key=value, value=value) for value in sent]
    for future in futures:
        future.get(PATIENCE_SECONDS)
    producer.close()
    assert sorted(read_all(cluster, "round-trip", 3, RECORDS)) == sorted(sent)


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(
    cluster: LocalProcess, admin: KafkaAdminClient, acks: int | str, codec: str | None
) -> None:
    topic = f"acks-{acks}-{codec}"
    create(admin, topic, 1, 2)
    producer = KafkaProducer(
        bootstrap_servers=cluster.servers,
        acks=acks,
        enable_idempotence=False,
        compression_type=codec,
    )
    for number in range(20):
        producer.send(topic, b"%d" % number)
    producer.flush(PATIENCE_SECONDS)
    producer.close()
    assert read_all(cluster, topic, 1, 20) == [b"%d" % number for number in range(20)]


def test_the_cluster_as_an_admin_sees_it(cluster: LocalProcess, admin: KafkaAdminClient) -> None:
    create(admin, "described", 2, 3, retention_ms="1000")
    found = admin.describe_cluster()
    ids = [broker["broker_id"] for broker in found["brokers"]]
    assert len(ids) == 3
    assert found["controller_id"] in ids
    for partition in partitions(admin, "described"):
        assert sorted(partition["replica_nodes"]) == sorted(partition["isr_nodes"]) == sorted(ids)
    admin.delete_topics(["described"])
    until(lambda: "described" not in admin.list_topics())


def test_librdkafka_is_told_of_all_topics(cluster: LocalProcess, admin: KafkaAdminClient) -> None:
    """It asks in seven bytes where four would do, which Kafka's brokers pass over."""
    create(admin, "listed", 1, 1)
    client = AdminClient({"bootstrap.servers": cluster.servers})
    assert "listed" in client.list_topics(timeout=PATIENCE_SECONDS).topics


@contextmanager
def started_again(cluster: LocalProcess, broker_id: int, pid: int) -> Iterator[None]:
    """A broker whose process has ended runs again on its folder, with its settings."""
    until(lambda: not is_alive(pid))
    settings = cluster.folder / f"broker-{broker_id}" / "node.properties"
    with subprocess.Popen(
        [sys.executable, "-m", "admin.cli.main", "start", "--config", str(settings)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[LocalProcess]:
    """For a test that leaves brokers behind it which do not run."""
    with local(tmp_path / "c", "--brokers", "3", "--base-port", "0") as running:
        yield running


@pytest.fixture
def own_admin(own_cluster: LocalProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=own_cluster.servers)
    yield client
    client.close()


def test_a_stopped_broker_gives_its_lead_away_at_once_and_comes_back(
    own_cluster: LocalProcess, own_admin: KafkaAdminClient
) -> None:
    cluster, admin = own_cluster, own_admin
    create(admin, "stopped", 1, 3, min_insync_replicas="2")
    producer = KafkaProducer(bootstrap_servers=cluster.servers)
    producer.send("stopped", b"before").get(PATIENCE_SECONDS)
    leader = leader_of(admin, "stopped")
    pid, begun = cluster.pid(leader), time.perf_counter()
    os.kill(pid, signal.SIGTERM)
    until(lambda: partitions(admin, "stopped")[0]["leader_id"] not in (leader, -1))
    until(lambda: not is_alive(pid))
    assert time.perf_counter() - begun < STOP_SECONDS
    producer.send("stopped", b"after").get(PATIENCE_SECONDS)
    with started_again(cluster, leader, pid):
        until(lambda: len(partitions(admin, "stopped")[0]["isr_nodes"]) == 3)
        assert read_all(cluster, "stopped", 1, 2) == [b"before", b"after"]
        kill_and_compare(cluster, producer, stopped=leader)
    producer.close()


def kill_and_compare(cluster: LocalProcess, producer: KafkaProducer, *, stopped: int) -> None:
    """Records acknowledged before and after the kill of the leader are there, once, in order."""
    # kafka-python's admin client never forgets the broker that it first took for the controller.
    admin = KafkaAdminClient(bootstrap_servers=cluster.servers)
    create(admin, "killed", 1, 3, min_insync_replicas="2")
    for number in range(50):
        producer.send("killed", b"%d" % number).get(PATIENCE_SECONDS)
    leader = leader_of(admin, "killed")
    if leader == stopped:
        # That one is not the child of the cluster any more, and ends with this test.
        leader = next(each for each in (101, 102, 103) if each != stopped)
    pid = cluster.pid(leader)
    os.kill(pid, signal.SIGKILL)
    for number in range(50, 100):
        producer.send("killed", b"%d" % number).get(PATIENCE_SECONDS)
    with started_again(cluster, leader, pid):
        until(lambda: len(partitions(admin, "killed")[0]["isr_nodes"]) == 3)
        assert read_all(cluster, "killed", 1, 100) == [b"%d" % number for number in range(100)]
    admin.close()


# --- what cannot start -------------------------------------------------------------------------


def start(*overrides: str) -> "subprocess.CompletedProcess[str]":
    """A broker that is expected to end by itself."""
    settings = [argument for each in overrides for argument in ("--override", each)]
    return subprocess.run(
        [sys.executable, "-m", "admin.cli.main", "start", *settings],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def settings_of(folder: Path, port: int, node: int = 7) -> list[str]:
    return [
        "process.roles=broker",
        f"node.id={node}",
        f"listeners=127.0.0.1:{port}",
        f"log.dir={folder}",
        "quorum.voters=1@127.0.0.1:1",
    ]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = start(*settings_of(tmp_path / "b", port))
    assert done.returncode == 1
    assert f"Error: cannot listen at 127.0.0.1:{port} (listeners)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_another_node_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "meta.properties").write_text(
        "version=1\nnode.id=8\ndirectory.id=bsDLJM1GTYyehkwCyNPgEQ\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = start(*settings_of(folder, port))
    assert done.returncode == 1
    assert "belongs to node 8, but this is node 7" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_without_any_controller_stops_when_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = [a for each in settings_of(tmp_path / "b", port) for a in ("--override", each)]
    with subprocess.Popen(
        [sys.executable, "-m", "admin.cli.main", "start", *settings],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "listens at" in line:
                break
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "Traceback" not in said
    assert not is_alive(process.pid)
