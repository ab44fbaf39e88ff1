"""`metaquorum topics` against a real controller: patterns, filters, and what exists already."""

import asyncio
import json
import re
from pathlib import Path

from click.testing import CliRunner, Result

from admin.cli.main import group
from admin.client.admin_client import AdminClient
from admin.model import Assignment
from statemachine import commands
from statemachine.security.authorization import AuthorizerConfig
from tests.admin.cli.test_reassign_partitions import brokers
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import Node, a_controller


async def run(node: Node, *arguments: str, stdin: str = "") -> Result:
    """The output of the command, run in a thread beside the loop of the controller."""
    words = ["topics", *arguments, "--bootstrap-controller", str(node.address)]
    return await asyncio.to_thread(CliRunner().invoke, group, words, input=stdin)


async def test_a_topic_may_be_there_or_gone_already(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101)
        create = ("create", "a", "--partitions", "1", "--replication-factor", "1")
        assert (await run(node, *create, "--if-not-exists")).stderr == "Created topic a.\n"
        again = await run(node, *create, "--if-not-exists")
        assert (again.exit_code, again.stderr) == (
            0,
            "Topic a exists already; it was left as it is.\n",
        )
        refused = await run(node, *create)
        assert refused.exit_code == 1
        assert "TOPIC_ALREADY_EXISTS" in refused.stderr
        delete = ("delete", "a", "--yes")
        assert (await run(node, *delete, "--if-exists")).stderr == "Deleted topic a.\n"
        gone = await run(node, *delete, "--if-exists")
        assert (gone.exit_code, gone.stderr) == (0, "There is no topic a.\n")
        assert (await run(node, *delete)).exit_code == 1


async def test_topics_are_listed_and_deleted_by_a_pattern(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101)
        for name in ("orders-1", "orders-2", "orders", "a.b", "axb"):
            await asked(node.controller, topic(name, 101))
        assert (await run(node, "list", "orders-*", "a.b")).stdout.split() == [
            "a.b",
            "orders-1",
            "orders-2",
        ]
        partly = await run(node, "list", "a?b", "z*")
        assert (partly.exit_code, partly.stdout.split()) == (1, ["a.b", "axb"])
        assert partly.stderr == "Error: no topic matches z*\n"
        kept = await run(node, "delete", "orders-*", stdin="n\n")
        assert kept.exit_code == 1
        assert "Delete 2 topics with all their records: orders-1, orders-2?" in kept.stderr
        done = await run(node, "delete", "orders-*", "--yes")
        assert done.stderr == "Deleted topic orders-1.\nDeleted topic orders-2.\n"
        assert (await run(node, "list")).stdout.split() == ["a.b", "axb", "orders"]
        assert (await run(node, "delete", "z*", "--yes")).exit_code == 1
        assert (await run(node, "delete", "z*", "--yes", "--if-exists")).exit_code == 0


async def test_partitions_with_a_problem_are_asked_for(tmp_path: Path) -> None:
    async with brokers(tmp_path, dict.fromkeys((101, 102, 103))) as node:
        await asked(node.controller, topic("fine", 101, 102))
        await asked(
            node.controller, topic("few", 102, 103, configs=(("min.insync.replicas", "2"),))
        )
        await asked(node.controller, topic("behind", 102, 103))
        await asked(node.controller, topic("gone", 103))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(103,)))

        async def listed(*options: str) -> list[str]:
            done = await run(node, "list", *options)
            assert done.exit_code == 0, done.output
            return done.stdout.split()

        assert await listed("--under-replicated") == ["behind", "few", "gone"]
        assert await listed("--under-min-isr-partitions") == ["few", "gone"]
        assert await listed("--unavailable") == ["gone"]
        assert await listed("f*", "--under-replicated", "--unavailable") == ["few"]
        described = await run(node, "describe", "--unavailable-partitions")
        assert described.stdout == (
            "\tTopic: gone\tPartition: 0\tLeader: none\tReplicas: 103\tIsr: \n"
        )
        data = json.loads((await run(node, "describe", "--under-min-isr", "-o", "json")).stdout)
        assert [each["name"] for each in data["topics"]] == ["few", "gone"]


async def test_a_topic_in_a_move_has_its_factor_and_names_what_moves(tmp_path: Path) -> None:
    """As Kafka's TopicCommand: without the replicas that are added."""
    async with (
        brokers(tmp_path, dict.fromkeys((101, 102, 103, 104))) as node,
        AdminClient([node.address], is_controller=True) as admin,
    ):
        await asked(node.controller, topic("t", 101, 102, 103))
        wanted = Assignment(topic="t", partition=0, replicas=(101, 102, 104))
        await admin.alter_reassignments([wanted])
        first, partition = (await run(node, "describe", "t")).stdout.splitlines()
        assert first.endswith("\tPartitionCount: 1\tReplicationFactor: 3")
        assert partition.split("\t")[4:] == [
            "Replicas: 101,102,103,104",
            "Isr: 101,102,103",
            "Adding Replicas: 104",
            "Removing Replicas: 103",
        ]
        (data,) = json.loads((await run(node, "describe", "t", "-o", "json")).stdout)["topics"]
        (found,) = data["partitions"]
        assert (found["adding_replicas"], found["removing_replicas"]) == ([104], [103])
        (data,) = json.loads((await run(node, "list", "-o", "json")).stdout)["topics"]
        assert data["replication_factor"] == 3


async def test_topics_are_described_to_a_reader_who_may_not_see_moves(tmp_path: Path) -> None:
    authorizer = AuthorizerConfig(super_users=frozenset(), allow_if_no_acl=True)
    async with a_controller(tmp_path, authorizer=authorizer) as node:
        await join(node.controller, 101)
        await asked(node.controller, topic("t", 101))
        everyone = ("--deny-principal", "User:*", "--operation", "describe", "--cluster")
        acl = ("acls", "add", *everyone, "--bootstrap-controller", str(node.address))
        assert (await asyncio.to_thread(CliRunner().invoke, group, acl)).exit_code == 0
        described = await run(node, "describe", "t")
        assert (described.exit_code, len(described.stdout.splitlines())) == (0, 2)
        assert "moves are not shown: " in described.stderr


async def test_a_used_up_quota_is_one_sentence(tmp_path: Path) -> None:
    """KIP-599: whose quota it is, and when to try again."""
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101)
        quota = ("quotas", "alter", "--user", "ANONYMOUS", "--set", "controller_mutation_rate=0.01")
        words = [*quota, "--bootstrap-controller", str(node.address)]
        assert (await asyncio.to_thread(CliRunner().invoke, group, words)).exit_code == 0
        create = ("--partitions", "10", "--replication-factor", "1")
        assert (await run(node, "create", "a", *create)).exit_code == 0
        for refused, failing in (
            (await run(node, "create", "b", *create), "topic b cannot be created"),
            (await run(node, "delete", "a", "--yes"), "topic a cannot be deleted"),
        ):
            assert refused.exit_code == 1
            assert re.fullmatch(
                f"Error: {failing}: The throttling quota has been exceeded: "
                r"controller_mutation_rate=0.01 \(partitions a second\) of user ANONYMOUS; "
                r"try again in 9\d\d\.\d s "
                r"\(THROTTLING_QUOTA_EXCEEDED\)\n",
                refused.stderr,
            ), refused.stderr


async def test_changes_that_kafka_answers_without_data_say_in_json_what_was_done(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101)
        whom = ("--bootstrap-controller", str(node.address), "-o", "json")
        cases: dict[str, dict[str, object]] = {
            "topics create t --partitions 1": {"topic": "t", "created": True},
            "topics create t --if-not-exists": {"topic": "t", "created": False},
            "topics alter t --partitions 2": {"topic": "t", "partitions": 2},
            "configs alter --topic t --set retention.ms=5": {
                "set": {"retention.ms": "5"},
                "deleted": [],
            },
            "quotas alter --user ann --set producer_byte_rate=9": {
                "entity": {"user": "ann"},
                "set": {"producer_byte_rate": "9"},
                "deleted": [],
                "dry_run": False,
            },
            "features upgrade --feature group.version=1 --dry-run": {
                "levels": {"group.version": 1},
                "dry_run": True,
            },
            "topics delete t --yes": {"deleted": ["t"]},
            "topics delete none-* --if-exists --yes": {"deleted": []},
        }
        for words, data in cases.items():
            done = await asyncio.to_thread(CliRunner().invoke, group, [*words.split(), *whom])
            assert (done.exit_code, done.stderr) == (0, ""), words
            assert json.loads(done.stdout) == data
