"""Log levels over the Kafka protocol and HTTP: each node has its own (KIP-412)."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum.protocol.apis import ApiKey
from tests.admin.http.test_http_api import check_problem, http_door
from tests.controller.apis.samples import alter_configs
from tests.controller.apis.test_kafka_configs import (
    APPEND,
    DELETE,
    LOGGER,
    METRICS,
    alter,
    described,
)
from tests.support.controllers import a_controller, active, controllers
from tests.support.kafka_client import Form, kafka_client

NAME = "quorum.of_this_api"
SOURCE = 6
"""DYNAMIC_BROKER_LOGGER_CONFIG."""


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """A logger of this test, without a level of its own."""
    found = logging.getLogger(NAME)
    yield found
    found.setLevel(logging.NOTSET)


async def test_every_node_describes_and_changes_its_own_levels(
    tmp_path: Path, logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    """Also a node that does not lead: the request is not forwarded."""
    caplog.set_level(logging.INFO, logger="audit")
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        node = next(each for each in nodes.values() if each is not leader)
        own = str(node.node_id)
        async with kafka_client(node.address) as client:
            assert await alter(client, (LOGGER, own, {NAME: "debug"})) == [(0, "")]
            assert logger.level == logging.DEBUG
            found = (await described(client, LOGGER, own))[NAME]
            assert (found.value, found.config_source, found.read_only) == ("DEBUG", SOURCE, False)
            assert "root" in await described(client, LOGGER, own)
            answers = [
                await alter(client, (LOGGER, str(leader.node_id), {NAME: "INFO"})),
                await alter(client, (LOGGER, own, {NAME: "INFO"}), operation=APPEND),
                await alter(client, (LOGGER, own, {NAME: "LOUD"})),
                await alter(client, (LOGGER, own, {"audit": "FATAL"})),
                await alter(client, (LOGGER, own, {NAME: "INFO", "nobody": "INFO"})),
            ]
            assert [code for ((code, _),) in answers] == [42] * 5
            assert f"send the request to {leader.node_id}" in answers[0][0][1]
            assert logger.level == logging.DEBUG
            assert await alter(client, (LOGGER, own, {NAME: None}), operation=DELETE) == [(0, "")]
            assert logger.level == logging.NOTSET
    lines = [json.loads(each) for each in caplog.messages if '"ALTER_CONFIGS"' in each]
    assert lines[0]["actions"][0]["detail"] == f"log levels of node {own}: {NAME}=debug"
    assert [each["outcome"] for each in lines] == ["NONE", *["INVALID_REQUEST"] * 5, "NONE"]


async def test_levels_and_configurations_in_one_request_are_judged_one_by_one(
    tmp_path: Path, logger: logging.Logger
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        own = str(node.node_id)
        found = await alter(
            client, (METRICS, "m", {"interval.ms": "1000"}), (LOGGER, own, {NAME: "WARN"})
        )
        assert found == [(0, ""), (0, "")]
        assert logger.level == logging.WARNING
        form = Form(ApiKey.ALTER_CONFIGS, 2)
        answer = await client.send(form, alter_configs(form, (LOGGER, own, {NAME: "INFO"})))
        assert answer.responses[0].error_code.value == 42
        assert "IncrementalAlterConfigs" in answer.responses[0].error_message
        assert logger.level == logging.WARNING


async def test_levels_over_http(tmp_path: Path, logger: logging.Logger) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        before = (await http.get("/v1/loggers")).body
        assert before["node_id"] == node.node_id
        assert NAME in before["levels"]
        changed = await http._send("PATCH", "/v1/loggers", json={"levels": {NAME: "ERROR"}})
        assert changed.body["levels"][NAME] == "ERROR"
        assert logger.level == logging.ERROR
        wrong = await http._send("PATCH", "/v1/loggers", json={"levels": {NAME: "LOUD"}})
        check_problem(wrong, 400, "INVALID_REQUEST")
        await http._send("PATCH", "/v1/loggers", json={"levels": {NAME: None}})
        assert logger.level == logging.NOTSET
