"""Probes, health and metrics of controllers and brokers, asked over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from admin.capabilities.needs import Role
from admin.cli.doctor import command as doctor
from admin.cli.options import Exit
from admin.http import tokens
from admin.http.access import Access
from admin.http.app import make_app
from admin.http.base_app import base_app
from admin.http.gateway import Gateway
from admin.http.limits import HttpLimits
from admin.http.tokens import TokenFile
from admin.monitoring.broker_monitor import BrokerMonitor
from admin.monitoring.controller_monitor import ControllerMonitor
from admin.monitoring.metric_table import METRICS, Kind, Scope
from controller.apis import router
from quorum.clocks import monotonic_ms
from quorum.protocol.apis import ApiKey
from quorum.transport.refusal_log import RefusalLog
from statemachine.security.authorization import AuthorizerConfig
from tests.admin.embedded_brokers import embedded
from tests.broker.client_requests import batch
from tests.controller.apis.samples import describe_quorum
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import Node, a_controller, active, controllers
from tests.support.described_http import check_described, operation_of
from tests.support.kafka_client import Form, kafka_client

Http = TestClient[Any, Any]
BATCH = batch(b"x" * 1_000)


@asynccontextmanager
async def door(app: web.Application) -> AsyncIterator[Http]:
    async with TestClient(TestServer(app)) as client:
        yield client


def controller_app(node: Node, token_file: Path | None = None) -> web.Application:
    access = Access(
        refusals=RefusalLog("http", monotonic_ms),
        tokens=None if token_file is None else TokenFile(token_file),
    )
    gateway = Gateway(node.service, node.router, wait_seconds=2.0)
    monitor = ControllerMonitor(node.service, node.opened, node.listener)
    return make_app(gateway, access, monitor=monitor)


async def get(http: Http, path: str, **headers: str) -> tuple[int, Any]:
    async with http.get(path, headers=headers) as response:
        body = await response.json(content_type=None)
        check_described("GET", path, response.status, response.content_type, body)
        return response.status, body


async def scraped(http: Http) -> dict[str, Family]:
    """The families of a scrape by their names in the table."""
    async with http.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    found = {}
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        found[name] = family
    return found


async def scraped_native(http: Http) -> bytes:
    """A scrape as Prometheus asks for it if it takes native histograms."""
    form = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"
    accept = f"{form};encoding=delimited;q=0.6,text/plain;version=0.0.4;q=0.4"
    async with http.get("/metrics", headers={"Accept": accept}) as response:
        assert response.status == 200
        assert response.content_type == "application/vnd.google.protobuf"
        described = operation_of("GET", "/metrics")
        assert described is not None
        assert response.content_type in described["responses"]["200"]["content"]
        return await response.read()


def value(families: dict[str, Family], name: str, **labels: str) -> float:
    (found,) = [
        each.value
        for each in families[name.removesuffix("_count")].samples
        if each.name == name and each.labels == labels
    ]
    return found


def check_table(families: dict[str, Family], *shown: Scope) -> None:
    """Everything shown is in the table, and the other way round, with types, labels and help."""
    for name, family in families.items():
        row = METRICS[name]
        assert (family.type, family.documentation) == (row.kind, row.help)
        for sample in family.samples:
            assert {*sample.labels} - {"le"} == {*row.labels}, sample
    optional = {"quorum_certificate_expiry_timestamp_seconds"}
    wanted = {each.name for each in METRICS.values() if each.scope in shown}
    assert {*families} - optional == wanted - optional


async def test_a_controller_shows_what_the_table_says(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, door(controller_app(node)) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("t", 101, 102, partitions=2))
        async with kafka_client(node.address) as client:
            form = Form(ApiKey.DESCRIBE_QUORUM, 2)
            await client.send(form, describe_quorum(form))
        found = await scraped(http)
        check_table(found, Scope.ALL, Scope.CONTROLLERS, Scope.LEADER)
        native = await scraped_native(http)
        assert all(name.encode() in native for name in found)
        assert value(found, "kafka_controller_kafkacontroller_globalpartitioncount") == 2
        assert value(found, "kafka_controller_kafkacontroller_activebrokercount") == 2
        assert value(found, "kafka_server_raft_metrics_current_state_info", state="leader") == 1
        assert value(found, "quorum_failure_tolerance") == 0
        assert value(found, "quorum_commit_latency_seconds_count") > 0
        assert value(found, "quorum_log_append_seconds_count") > 0
        assert value(found, "quorum_log_fsync_seconds_count") > 0
        assert value(found, "quorum_election_seconds_count") == 1
        assert found["quorum_commit_latency_seconds"].type == Kind.HISTOGRAM


async def test_brokers_show_probes_and_their_own_metrics(tmp_path: Path) -> None:
    async with embedded(tmp_path, 101, 102) as cluster:
        await asked(cluster.node.controller, topic("t", 101, 102))
        await cluster.produce(101, "t", BATCH)
        broker = cluster.brokers[101]
        app = base_app(
            Access(refusals=RefusalLog("http", monotonic_ms)), HttpLimits(), BrokerMonitor(broker)
        )
        async with door(app) as http:
            assert await get(http, "/livez") == (200, {"live": True})
            assert await get(http, "/readyz") == (200, {"ready": True, "reasons": []})
            found = await scraped(http)
            check_table(found, Scope.ALL, Scope.BROKERS)
            assert value(found, "kafka_server_replicamanager_leadercount") == 1
            assert value(found, "kafka_server_brokertopicmetrics_bytesin_total") == len(BATCH)
            sent = value(found, "kafka_server_brokertopicmetrics_replicationbytesout_total")
            assert sent == len(BATCH)
            produced = "kafka_network_requestmetrics_requests_total"
            assert value(found, produced, request="Produce") >= 1
            for _ in range(100):
                broker.lifecycle.state.is_fenced = True
                status, body = await get(http, "/readyz")
                if status != 200:
                    break  # Else the answer to a heartbeat has come in between.
            assert (status, body["reasons"]) == (503, ["it is fenced"])


async def test_the_loss_of_leaders_shows_in_health_and_never_in_livez(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as by_id:
        leader = await active(by_id.values())
        others = [each for each in by_id.values() if each is not leader]
        async with door(controller_app(leader)) as http, door(controller_app(others[0])) as other:
            status, body = await get(other, "/v1/quorum/health")
            assert (status, body["leader_id"]) == (200, leader.node_id)
            assert [each["id"] for each in body["servers"] if each["voter"]] == [1, 2, 3]
            lags = (await scraped(http))["quorum_replica_lag_records"].samples
            assert {each.labels["replica"] for each in lags} == {"1", "2", "3"}
            assert "quorum_replica_lag_records" not in await scraped(other)
            assert await get(other, "/readyz") == (200, {"ready": True, "reasons": []})
        await leader.stop()
        second = await active(others)
        (last,) = [each for each in others if each is not second]
        async with door(controller_app(second)) as http:
            found = await scraped(http)
            assert value(found, "quorum_failover_seconds_count") == 1
            assert value(found, "quorum_election_seconds_count") == 1
            assert value(found, "quorum_leader_changes_total") == 2
            quorum = (await get(http, "/v1/quorum"))[1]
            health = (await get(http, "/v1/quorum/health"))[1]
            # The rules of health say both.
            assert quorum["failure_tolerance"] == health["failure_tolerance"] == 0
            servers = {each["id"]: each["reachable"] for each in health["servers"]}
            assert servers == {
                each["replica_id"]: each["reachable"] for each in quorum["current_voters"]
            }
            assert servers[leader.node_id] is False
        await second.stop()
        while last.opened.quorum.leader is not None:
            await last.opened.quorum.leader_changed(within_seconds=20)
        async with door(controller_app(last)) as http:
            status, body = await get(http, "/v1/quorum/health")
            assert (status, body["healthy"], body["failure_tolerance"]) == (200, False, None)
            assert [each["rule"] for each in body["reasons"]] == ["no-leader"]
            assert await get(http, "/health") == (503, {"healthy": False, "rules": ["no-leader"]})
            status, body = await get(http, "/readyz")
            assert (status, body["reasons"]) == (503, ["it knows no leader"])
            assert await get(http, "/livez") == (200, {"live": True})
            assert value(await scraped(http), "kafka_server_raft_metrics_current_leader") == -1


async def test_doctor_says_what_a_controller_without_a_leader_says_over_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "LEADERLESS_MS_MAX", 0)
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        door(controller_app(nodes[1])) as http,
    ):
        where = ("--bootstrap-controller", str(nodes[1].address))
        text = await asyncio.to_thread(CliRunner().invoke, doctor, where)
        json_ = await asyncio.to_thread(CliRunner().invoke, doctor, (*where, "-o", "json"))
        (want,) = (await get(http, "/v1/quorum/health"))[1]["reasons"]
    assert (text.exit_code, json_.exit_code) == (Exit.NOT_FINISHED, Exit.NOT_FINISHED)
    (found,) = json.loads(json_.stdout)["reasons"]
    # The sentence tells for how long.
    assert {**found, "sentence": ""} == {**want, "sentence": ""}
    assert found["rule"] == "no-leader"
    assert "ERROR no-leader: no leader has been known for " in text.stdout
    assert f"To mend it:     {want['command']}" in text.stdout


@pytest.mark.parametrize("is_limited", [False, True])
async def test_metrics_need_the_right_to_describe_the_cluster_and_probes_need_none(
    tmp_path: Path, is_limited: bool
) -> None:
    file = tmp_path / "tokens"
    secret = tokens.create(file, "scraper", Role.VIEWER, "User:scraper")
    limited = AuthorizerConfig(super_users=frozenset(), allow_if_no_acl=False)
    async with (
        a_controller(tmp_path, authorizer=limited if is_limited else None) as node,
        door(controller_app(node, file)) as http,
    ):
        assert (await get(http, "/livez"))[0] == 200
        assert (await get(http, "/readyz", Host="a.probe.example"))[0] == 200
        for path in ("/metrics", "/health", "/v1/quorum/health"):
            assert (await get(http, path))[0] == 401
        bearer = {"Authorization": f"Bearer {secret}"}
        async with http.get("/metrics", headers=bearer) as response:
            assert response.status == (403 if is_limited else 200)
