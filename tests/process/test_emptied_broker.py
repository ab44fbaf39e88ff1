"""A broker with data is decommissioned, stopped and unregistered, with real processes."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Final

import pytest

from tests.process.local_process import Done, LocalProcess, local, metaquorum

pytestmark = pytest.mark.process

LINES: Final = 500
CALLS_MAX: Final = 120
"""Calls after which something that must end has not: each is a process of its own."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProcess]:
    folder = tmp_path_factory.mktemp("emptied") / "local"
    with local(folder, "--brokers", "3", "--base-port", "0") as running:
        yield running


def brokers(cluster: LocalProcess, *arguments: str) -> Done:
    return metaquorum("brokers", *arguments, "--bootstrap-server", cluster.servers)


def until_done(cluster: LocalProcess, *arguments: str) -> Done:
    """The first call that does not say that something is left to do."""
    for _ in range(CALLS_MAX):
        done = brokers(cluster, *arguments)
        if done.code != 3:
            return done
    raise AssertionError(f"still not done: {done.out}{done.err}")


def until_empty(cluster: LocalProcess, broker: int) -> None:
    """Return when the broker has no replicas, asking for nothing but that."""
    for _ in range(CALLS_MAX):
        listed = json.loads(brokers(cluster, "list", "-o", "json").out)["brokers"]
        if not any(each["replicas"] for each in listed if each["broker_id"] == broker):
            return
    raise AssertionError(f"broker {broker} still has replicas")


def test_a_broker_is_drained_stopped_and_unregistered_without_loss(
    cluster: LocalProcess,
) -> None:
    server = ("--bootstrap-server", cluster.servers)
    sizes = ("--partitions", "6", "--replication-factor", "2")
    assert metaquorum("topics", "create", "kept", *sizes, *server).code == 0
    text = "".join(f"{number}\n" for number in range(LINES)).encode()
    assert metaquorum("produce", "kept", *server, stdin=text).code == 0

    assert brokers(cluster, "safe-to-stop", "--brokers", "103").code == 0
    unsafe = brokers(cluster, "safe-to-stop", "--brokers", "101,102,103")
    assert unsafe.code == 1
    assert "6 of 6 partition(s) would be hurt" in unsafe.out

    # One call is enough: what it begins goes on without it.
    begun = brokers(cluster, "decommission", "--brokers", "103")
    assert begun.code == 3, begun.out + begun.err
    until_empty(cluster, 103)
    (move,) = json.loads(metaquorum("moves", "list", "-o", "json", *server).out)["moves"]
    assert (move["kind"], move["state"], move["name"]) == (
        "drain",
        "completed",
        "decommission of broker 103",
    )
    emptied = brokers(cluster, "decommission", "--brokers", "103")
    assert (emptied.code, emptied.out) == (0, "Broker 103: no replicas left.\n"), emptied.err
    listed = json.loads(brokers(cluster, "list", "-o", "json").out)["brokers"]
    assert [(each["broker_id"], each["cordoned"], each["replicas"]) for each in listed] == [
        (101, False, 6),
        (102, False, 6),
        (103, True, 0),
    ]
    read = metaquorum("consume", "kept", "--from-beginning", *server)
    assert sorted(map(int, read.out.splitlines())) == list(range(LINES))

    os.kill(cluster.pid(103), signal.SIGTERM)
    gone = until_done(cluster, "decommission", "--brokers", "103", "--unregister")
    assert (gone.code, gone.out.splitlines()[-1]) == (0, "Broker 103: not registered."), gone.err
    left = json.loads(brokers(cluster, "list", "-o", "json").out)["brokers"]
    assert [each["broker_id"] for each in left] == [101, 102]


def test_wrong_names_are_refused_through_a_broker_as_well(cluster: LocalProcess) -> None:
    refused = brokers(cluster, "cordon", "--brokers", "999")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "Error: Broker ID 999 is not currently registered\n"
    unknown = brokers(cluster, "safe-to-stop", "--brokers", "999")
    assert unknown.code == 1
    assert "broker 999 cannot be checked" in unknown.err
