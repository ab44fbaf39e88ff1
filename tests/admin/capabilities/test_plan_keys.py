"""Plans with an idempotency key begin once: replication factors, decommission, recommission."""

from pathlib import Path
from typing import Any

import pytest

from admin.capabilities.decommission import DecommissionBrokers, RecommissionBrokers
from admin.capabilities.plan_steps import PlanRequest
from admin.capabilities.plans import ChangeReplicationFactor
from admin.capabilities.quorum import TransferLead
from controller.ports import Unavailable
from controller.service import NotActive
from statemachine import commands
from tests.admin.cli.test_brokers_cli import run
from tests.admin.cli.test_reassign_partitions import brokers
from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.admin.http.test_http_new_moves import sent
from tests.admin.planned_topic import (
    BACK,
    EMPTYING,
    FACTOR,
    altered,
    check_misused,
    check_refused,
    planned_over_http,
    put,
    replicas,
    three_brokers,
)
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import a_controller, active, controllers

KEY = {"Idempotency-Key": "monday-7"}
AGAIN = "Idempotent-Replayed"
SAID_AGAIN = "This key was used before: nothing was done a second time.\n"


def factor(count: int) -> dict[str, Any]:
    return {"topics": ["a"], "replication_factor": count}


async def keyed_put(http: Http, path: str, body: Any = None) -> tuple[Any, dict[str, str]]:
    """The body of an answer that is no problem, and its headers that matter."""
    answer, headers = await sent(http, "PUT", path, body, KEY)
    assert answer.status in (200, 202), answer.body
    return answer.body, headers


async def test_a_repeated_replication_factor_begins_once_at_any_controller(tmp_path: Path) -> None:
    """The answer was lost; meanwhile it is done, and somebody has changed it again."""
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        first = await at_rest(nodes.values())
        await three_brokers(first.controller, 101)
        async with http_door(first) as http:
            begun, headers = await sent(http, "POST", FACTOR, factor(2), KEY)
            assert (begun.status, headers["Location"]) == (202, "/v1/operations/move-1")
            had = replicas(first)
            await asked(first.controller, isr(first.controller, "a", had))
            await asked(first.controller, move("a", 101))
            async with client_of(first) as client:
                await client.ask(TransferLead())
            other = await active(nodes.values())
            again, headers = await sent(http, "POST", FACTOR, factor(2), KEY)
            assert again == begun
            assert headers[AGAIN] == "true"
            changed, _ = await sent(http, "POST", FACTOR, factor(3), KEY)
            check_problem(changed, 422, "the key monday-7 belongs to another request")
        assert replicas(other) == (101,)
        assert sorted(other.controller.image.moves) == [1, 2]


async def test_an_emptying_that_was_undone_is_not_begun_again_by_a_retry(tmp_path: Path) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        begun, headers = await keyed_put(http, EMPTYING)
        assert (begun["move_ids"], headers) == (
            [1],
            {"Location": "/v1/operations/decommission-102"},
        )
        await put(http, BACK)
        again, headers = await keyed_put(http, EMPTYING)
        assert headers[AGAIN] == "true"
        assert (again["plan"], again["partitions_accepted"]) == (begun["plan"], 1)
        # How far it is, is told as it is now.
        assert (again["state"], again["partitions_leaving"]) == ("none", 0)
        assert not node.controller.image.brokers[102].cordoned
        assert replicas(node) == (101, 102)
        anew = await put(http, EMPTYING)
        assert (anew["move_ids"], anew["partitions_accepted"]) == ([2], 1)


async def test_that_a_broker_had_nothing_is_remembered_as_well(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102, 103)
        empty, headers = await keyed_put(http, EMPTYING)
        assert (empty["state"], headers) == ("empty", {})
        await put(http, BACK)
        await asked(node.controller, topic("a", 101, 102))
        again, headers = await keyed_put(http, EMPTYING)
        assert (again["state"], headers) == ("none", {AGAIN: "true"})
        assert node.controller.image.moves == {}


async def test_a_retry_of_a_recommission_does_not_cancel_a_later_drain(tmp_path: Path) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        await put(http, EMPTYING)
        back, _ = await keyed_put(http, BACK)
        assert back["partitions_accepted"] == 1
        await put(http, EMPTYING)
        again, headers = await keyed_put(http, BACK)
        assert (again["partitions_accepted"], headers) == (1, {AGAIN: "true"})
        image = node.controller.image
        assert (image.brokers[102].cordoned, image.moves[2].ended) == (True, None)


@pytest.mark.parametrize(
    "asked_for",
    [
        ChangeReplicationFactor(topics=("a",), replication_factor=3, key="k"),
        DecommissionBrokers(broker_ids=(102,), key="k"),
        RecommissionBrokers(broker_ids=(102,), key="k"),
    ],
)
async def test_an_interrupted_plan_continues_behind_its_first_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_for: PlanRequest
) -> None:
    """A plan of many partitions is several moves; the lead was lost after the first of them."""
    for module in ("plan_steps", "decommission"):
        monkeypatch.setattr(f"admin.capabilities.{module}.PARTITIONS_MAX", 2)
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await three_brokers(node.controller, 101, 102, partitions=5)
        if isinstance(asked_for, RecommissionBrokers):
            await client.ask(DecommissionBrokers(broker_ids=(102,)))
        carry_out, done = node.service.carry_out, [0]

        async def interrupted(command: Any, kind: Any, **others: Any) -> Any:
            done[0] += isinstance(command, commands.IdempotentCommand)
            if done[0] == 2:
                raise NotActive(Unavailable.NOT_ACTIVE, None)
            return await carry_out(command, kind, **others)

        monkeypatch.setattr(node.service, "carry_out", interrupted)
        whole = await client.ask(asked_for)
        assert done[0] > 3
        assert (whole.accepted, whole.refused_count, whole.repeated) == (5, 0, False)
        assert len(whole.partitions) == 5
        again = await client.ask(asked_for)
        assert (again.accepted, again.repeated) == (5, True)
        if not isinstance(asked_for, RecommissionBrokers):
            assert (whole.moves, again.moves) == ((1, 2, 3), (1, 2, 3))
            assert set(again.partitions) == set(whole.partitions)


async def test_the_command_line_takes_a_key_and_says_that_it_knows_it(tmp_path: Path) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("a", 101))
        words = ("--replication-factor", "2", "--brokers", "102", "--key", "k")
        begun = await altered(node, "a", *words)
        again = await altered(node, "a", *words)
        assert (begun.exit_code, begun.stderr) == (0, "")
        assert (again.exit_code, again.stdout, again.stderr) == (0, begun.stdout, SAID_AGAIN)
        await asked(node.controller, isr(node.controller, "a", (101, 102)))
        emptied = await run(node, "decommission", "--brokers", "102", "--key", "d")
        assert emptied.exit_code == 3, emptied.output
        emptied = await run(node, "decommission", "--brokers", "102", "--key", "d")
        assert (emptied.exit_code, emptied.stderr) == (3, SAID_AGAIN)
        told = "Replicas now:\na-0: 101,102\n"
        way_back = "To restore replicas that had already moved: `metaquorum moves rollback 2`.\n"
        for said in (told + way_back, SAID_AGAIN + told):
            back = await run(node, "recommission", "--brokers", "102", "--key", "b")
            assert (back.exit_code, back.stderr) == (0, said)
        other = await run(node, "recommission", "--brokers", "102", "--key", "d")
        assert other.exit_code == 1
        assert "the key d belongs to another request" in other.stderr


async def test_another_factor_has_a_key_in_any_case_and_looks_at_emptyings_have_none(
    tmp_path: Path,
) -> None:
    """A client that waits for a drain asks every second: each key would be a record of the log."""
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await three_brokers(node.controller, 101, 102)
        for dry_run in (True, False):
            await client.ask(DecommissionBrokers(broker_ids=(102,), dry_run=dry_run))
        await client.ask(RecommissionBrokers(broker_ids=(102,)))
        assert node.controller.image.keys == {}
        await client.ask(ChangeReplicationFactor(topics=("a",), replication_factor=3))
        assert len(node.controller.image.keys) == 1


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("x" * 256, "a key has 1 to 255 characters, not 256"),
        ("a\n", "other characters than printable ASCII"),
    ],
)
async def test_an_invalid_key_is_refused_with_the_valid_form(
    tmp_path: Path, key: str, words: str
) -> None:
    fields = {"broker_ids": (101,), "key": key}
    await check_refused(tmp_path, "brokers.decommission", fields, words)


async def test_over_http_a_key_is_refused_where_nothing_begins_and_passed_over_where_it_is_tried(
    tmp_path: Path,
) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        plan, _ = await sent(http, "POST", "/v1/reassignments:generate", {}, KEY)
        check_problem(plan, 400, "takes no Idempotency-Key; omit it")
        long, _ = await sent(http, "PUT", EMPTYING, None, {"Idempotency-Key": "x" * 256})
        check_problem(long, 400, "a key has 1 to 255 characters, not 256")
        tried, headers = await sent(http, "PUT", f"{EMPTYING}?dry_run=true", None, KEY)
        assert (tried.status, headers) == (200, {})
        assert node.controller.image.keys == {}


def test_on_the_command_line_wrong_keys_are_refused_before_anything_is_sent() -> None:
    emptied = ("brokers", "decommission", "--brokers", "1")
    check_misused(
        (
            ((*emptied, "--dry-run", "--key", "k"), "--dry-run changes nothing; omit --key"),
            ((*emptied, "--key", "é"), "other characters than printable ASCII"),
            (
                ("brokers", "recommission", "--brokers", "1", "--key", "x" * 256),
                "a key has 1 to 255",
            ),
            (
                ("topics", "alter", "a", "--partitions", "2", "--key", "k"),
                "--key requires --replication-factor",
            ),
            (
                ("topics", "alter", "a", "--replication-factor", "2", "--dry-run", "--key", "k"),
                "--dry-run changes nothing; omit --key",
            ),
        )
    )
