"""The controllers of a real Kafka cluster replaced by ours, as processes."""

import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from admin.tools import kafka_brokers
from admin.tools.local_plan import as_properties
from quorum.transport.address import Address
from tests.admin.tools.old_controllers import fingerprint
from tests.process.local_process import metaquorum
from tests.support.kafka_tools import runtime
from tests.support.ports import free_ports
from tests.support.real_cluster import CLUSTER, CLUSTER_ID, available, controller
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

HOST: Final = "127.0.0.1"
STOP_SECONDS: Final = 20
TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of Java on SIGTERM."""
LOOKS_MAX: Final = 30
LOOK_AGAIN_SECONDS: Final = 0.05
UP_LOOKS_MAX: Final = 1_200


@contextmanager
def running(
    commands: Sequence[Sequence[str]],
    log: Path,
    *,
    up: str = " listens at ",
    ends_with: int = 0,
) -> Iterator[None]:
    """These commands as processes, until the end, when each of them stops as it should.

    `up` is what each of them says when it has come up.
    """
    processes: list[subprocess.Popen[bytes]] = []
    with log.open("ab") as said:
        before = said.tell()
        try:
            for command in commands:
                processes.append(
                    subprocess.Popen(
                        command, cwd=ROOT, stdout=said, stderr=said, start_new_session=True
                    )
                )
            _until_up(processes, lambda: log.read_bytes()[before:].decode().count(up))
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            codes = [_ended(process) for process in processes]
    assert codes == [ends_with] * len(commands), log.read_text()[-3_000:]


def _until_up(processes: Sequence["subprocess.Popen[bytes]"], up: Callable[[], int]) -> None:
    """Return when so many are up: whoever is told to stop before that has not learned how."""
    for _ in range(UP_LOOKS_MAX):
        if up() == len(processes):
            return
        with suppress(subprocess.TimeoutExpired):
            code = processes[0].wait(LOOK_AGAIN_SECONDS)
            raise AssertionError(f"it ended with {code}")
    raise AssertionError(f"{up()} of {len(processes)} came up")


def _ended(process: "subprocess.Popen[bytes]") -> int:
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@dataclass(frozen=True)
class Adopted:
    """Our controllers in the place of 2, 3 and 4, ready to be started."""

    folder: Path
    addresses: Mapping[int, Address]
    broker: Address
    """A free address for a broker."""
    starts: Sequence[Sequence[str]]
    """Their commands, as `metaquorum adopt` prints them."""

    @property
    def voters(self) -> str:
        return ",".join(f"{node_id}@{address}" for node_id, address in self.addresses.items())

    @property
    def ask(self) -> tuple[str, str]:
        """The address option of a command."""
        return "--bootstrap-controller", ",".join(map(str, self.addresses.values()))


@pytest.fixture
def adopted(tmp_path: Path) -> Iterator[Adopted]:
    """A cluster taken over from copies, which are as they were in the end."""
    sources = [
        Path(shutil.copytree(controller(node_id), tmp_path / f"old-{node_id}"))
        for node_id in (2, 3, 4)
    ]
    before = [fingerprint(source) for source in sources]
    broker, *controllers = (Address(HOST, port) for port in free_ports(tmp_path, 4).values())
    addresses = dict(zip((2, 3, 4), controllers, strict=True))
    cluster = Adopted(tmp_path / "new", addresses, broker, [])
    done = metaquorum("adopt", *sources, "--dir", cluster.folder, "--voters", cluster.voters)
    assert (done.code, done.err) == (0, "")
    starts = [shlex.split(line) for line in done.out.splitlines() if " start --config " in line]
    assert len(starts) == 3
    yield replace(cluster, starts=starts)
    assert [fingerprint(source) for source in sources] == before


def create(topic: str, server: str) -> None:
    """Let a broker be asked for a topic, through all that it takes."""
    done = metaquorum(
        *("topics", "create", topic, "--partitions", "2", "--replication-factor", "1"),
        *("--bootstrap-server", server),
    )
    assert (done.code, done.err) == (0, f"Created topic {topic}.\n")


def test_a_cluster_goes_on_with_our_controllers_and_what_comes_new_is_kept(
    adopted: Adopted, tmp_path: Path
) -> None:
    server = str(adopted.broker)
    settings = {
        "process.roles": "broker",
        "node.id": 105,
        "cluster.id": CLUSTER_ID,
        "listeners": server,
        "log.dir": tmp_path / "broker",
        "quorum.voters": adopted.voters,
    }
    overrides = [f"--override={name}={value}" for name, value in settings.items()]
    broker = [sys.executable, "-m", "admin.cli.main", "start", *overrides]
    with running([*adopted.starts, broker], tmp_path / "said.log"):
        # It has followed the log from its beginning on, or it would not answer.
        assert metaquorum("topics", "list", "--bootstrap-server", server).out == "orders\n"
        create("new", server)
        told = metaquorum("topics", "describe", "orders", *adopted.ask).out
        assert "TopicId: qtJ3b-_9Q_CUqIGUVcS4lw\tPartitionCount: 4" in told
        assert "Partition: 3\tLeader: none\tReplicas: 101,102,103" in told
    with running(adopted.starts, tmp_path / "said.log"):
        again = metaquorum("topics", "create", "new", *adopted.ask)
        assert again.code == 1
        assert "TOPIC_ALREADY_EXISTS" in again.err


def test_a_broker_of_that_cluster_leads_again_what_it_led(adopted: Adopted, tmp_path: Path) -> None:
    """A real one, with its own copy of the log, which names the old controllers where they were."""
    kafka = runtime("4.2.0")
    storage = Path(shutil.copytree(available(CLUSTER / "broker-104"), tmp_path / "broker"))
    (storage / "meta.properties").write_text(
        f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=104\ndirectory.id=UvC-6SuQENwXJNqF6I2T2Q\n"
    )
    properties, logging = tmp_path / "broker.properties", tmp_path / "logging.properties"
    settings = kafka_brokers.broker_settings(
        104,
        adopted.broker,
        storage,
        controllers=adopted.addresses,
        brokers=1,
        voters_in_log=True,
        more={},
    )
    properties.write_text(as_properties(settings))
    logging.write_text(kafka.release.logging_file)
    with (
        running(adopted.starts, tmp_path / "said.log"),
        running(
            [kafka.broker(properties, logging)],
            tmp_path / "broker.log",
            up="Kafka Server started",
            ends_with=TERMINATED,
        ),
    ):
        server = ("--bootstrap-server", str(adopted.broker), "--timeout", "40s")
        assert "orders" in metaquorum("topics", "list", *server).out
        told = ""
        for _ in range(LOOKS_MAX):
            told = metaquorum("topics", "describe", "orders", *server).out
            if told.count("Leader: 104") == 3:
                break
        assert told.count("Leader: 104") == 3, told
        create("new", str(adopted.broker))
