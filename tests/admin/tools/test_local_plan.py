"""The folder of a local cluster, and refusals before anything starts."""

import json
import random
import socket
from pathlib import Path

import pytest

from admin.config import Config, load
from admin.tools.local_plan import LocalError, Wanted, check_ports, settle, write_settings
from broker.config import BrokerConfig

FREE = Wanted(base_port=0)


def refusal(folder: Path, wanted: Wanted = FREE) -> str:
    with pytest.raises(LocalError) as raised:
        settle(folder, wanted, random.Random(7))
    return str(raised.value)


def test_a_new_folder_gets_three_controllers_and_four_brokers(tmp_path: Path) -> None:
    plan = settle(tmp_path / "new", FREE, random.Random(1))
    assert [node.id for node in plan.controllers] == [1, 2, 3]
    assert [node.id for node in plan.brokers] == [101, 102, 103, 104]
    addresses = [address for node in plan.nodes for address in (node.kafka, node.http) if address]
    assert len(set(addresses)) == 14
    assert len(plan.cluster_id) == 22


def test_a_folder_keeps_its_cluster(tmp_path: Path) -> None:
    first = settle(tmp_path, Wanted(controllers=1, brokers=2, base_port=0), random.Random(1))
    assert settle(tmp_path, Wanted(), random.Random(2)) == first
    assert settle(tmp_path, Wanted(controllers=1, brokers=2), random.Random(3)) == first
    base_port = first.controllers[0].kafka.port - 1
    assert settle(tmp_path, Wanted(base_port=base_port), random.Random(4)) == first


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted(controllers=3), "--controllers 3 contradicts the cluster in {}, which has 1"),
        (Wanted(brokers=0), "--brokers 0 contradicts the cluster in {}, which has 2"),
        (Wanted(base_port=7), "--base-port 7 contradicts the cluster in {}, which has"),
    ],
)
def test_a_flag_that_contradicts_the_folder_is_refused(
    tmp_path: Path, wanted: Wanted, message: str
) -> None:
    settle(tmp_path, Wanted(controllers=1, brokers=2, base_port=0), random.Random(1))
    assert refusal(tmp_path, wanted).startswith(message.format(tmp_path))


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    assert "is not empty and has no local.json" in refusal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1}', '{"format": 2}', "[]"])
def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "local.json").write_text(text, encoding="utf-8")
    assert str(tmp_path / "local.json") in refusal(tmp_path)


def test_a_taken_port_is_named_with_who_wants_it(tmp_path: Path) -> None:
    plan = settle(tmp_path, FREE, random.Random(5))
    wanted = plan.controllers[1].http
    assert wanted is not None
    with socket.create_server(wanted), pytest.raises(LocalError) as raised:
        check_ports(plan)
    assert str(raised.value) == (
        f"port {wanted.port} of 127.0.0.1 is taken; controller 2 wants it for HTTP: "
        "stop what holds it"
    )


def test_a_new_folder_is_not_settled_on_a_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert "or choose another --base-port" in refusal(tmp_path, Wanted(base_port=port - 1))
    assert not list(tmp_path.iterdir())


def test_a_node_reads_the_settings_that_are_written_for_it(tmp_path: Path) -> None:
    plan = settle(tmp_path, FREE, random.Random(6))
    write_settings(tmp_path, plan, {"replica.fetch.max.bytes": "32KiB"})
    for node in plan.nodes:
        config = load(tmp_path / node.name / "node.properties", {})
        assert (config.quorum.cluster_id, config.quorum.node_id) == (plan.cluster_id, node.id)
        if isinstance(config, Config):
            assert config.http is not None
            assert (config.listener, config.http.listener) == (node.kafka, node.http)
        else:
            assert isinstance(config, BrokerConfig)
            assert config.listener == node.kafka
            assert config.replica_fetch_max_bytes == 32 * 1024


def test_settings_that_were_edited_stay(tmp_path: Path) -> None:
    plan = settle(tmp_path, FREE, random.Random(6))
    path = tmp_path / "broker-101" / "node.properties"
    path.parent.mkdir()
    path.write_text("# mine", encoding="utf-8")
    write_settings(tmp_path, plan, {})
    assert path.read_text(encoding="utf-8") == "# mine"


def test_the_plan_is_plain_json(tmp_path: Path) -> None:
    plan = settle(tmp_path, Wanted(controllers=1, brokers=1, base_port=0), random.Random(8))
    stored = json.loads((tmp_path / "local.json").read_text(encoding="utf-8"))
    assert stored == {
        "format": 1,
        "cluster_id": plan.cluster_id,
        "controllers": [
            {"id": 1, "kafka": str(plan.nodes[0].kafka), "http": str(plan.nodes[0].http)}
        ],
        "brokers": [
            {"id": 101, "kafka": str(plan.nodes[1].kafka), "http": str(plan.nodes[1].http)}
        ],
    }


def test_brokers_of_kafka_have_no_http_listener(tmp_path: Path) -> None:
    wanted = Wanted(controllers=1, brokers=1, base_port=0, kafka="4.2.0")
    plan = settle(tmp_path, wanted, random.Random(8))
    assert plan.brokers[0].http is None
    assert settle(tmp_path, Wanted(), random.Random(9)) == plan
