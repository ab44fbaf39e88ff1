"""Usage errors of the command lines: one sentence, exit code 2, and no request."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import COMMANDS, group

SERVER = ("--bootstrap-server", "127.0.0.1:9092")
NOBODY = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "50ms")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def refusal(*arguments: str | Path) -> str:
    """The last line on stderr of a command that ends with the exit code of usage."""
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a command: describe --status, describe --replication, or --describe"),
        (("describe", *SERVER), "One of --status or --replication must be specified with"),
        (("describe", *SERVER), "; --brokers lists the address of every node"),
        (("describe", "--status", "--replication", *SERVER), "Only one of --status or --rep"),
        (("describe", "--status"), "give --bootstrap-server or --bootstrap-controller"),
        (
            (*SERVER, "--bootstrap-controller", "h:1", "--describe"),
            "give --bootstrap-server or --bootstrap-controller, not both",
        ),
        (("--describe", "all", *SERVER), "'all' is not one of 'status', 'replication'."),
        (("--describe", "--human-readable", *SERVER), "--human-readable is only supported along"),
        (("--describe", "--format", "kafka", "-o", "json", *SERVER), "omit --output"),
        (
            ("--describe", "status", "describe", "--status"),
            "an option (--describe, --alter), not both",
        ),
        (("--describe", "--bootstrap-server", "h"), "'h': a port is missing, as in h:9092"),
        (("--describe", "--bootstrap-server", "h:1,h:1"), "h:1 is listed twice"),
        (("--describe", "--timeout", "soon", *SERVER), "'soon' is not a time, like 500ms or 5s"),
        (
            ("--describe", "--timeout", "5", *SERVER),
            "'5' has no unit: write 5s for seconds, or 5ms",
        ),
        (
            ("--describe", "--bootstrap-server", "http://h:1/"),
            "'http://h:1/' is a URL: write host and port only, as in h:1",
        ),
        (("--describe=all", *SERVER), "'all' is not one of 'status', 'replication'."),
        (("--timeout", "1s", "describe", "--status", "--timeout", "soon"), "'soon' is not a time"),
    ],
)
def test_describing_the_quorum_wrongly(arguments: tuple[str, ...], message: str) -> None:
    assert message in refusal("metadata-quorum", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (SERVER, "Command must include exactly one action: --generate, --execute, --verify"),
        ((*SERVER, "--list", "--verify"), "Command must include exactly one action"),
        ((*SERVER, "--execute"), "--execute needs --reassignment-json-file: the plan"),
        (
            (*SERVER, "--list", "--reassignment-json-file", "f"),
            'Option "--reassignment-json-file" can\'t be used with action "--list"',
        ),
        (
            (*SERVER, "--verify", "--additional", "--reassignment-json-file", "f"),
            'Option "--additional" can\'t be used with action "--verify"',
        ),
        (
            (*SERVER, "--execute", "-o", "json", "--reassignment-json-file", "f"),
            "--execute has the output of Kafka's script; omit --output",
        ),
        (
            (*SERVER, "--generate", "--plan-file", "README.md"),
            "--plan-file: README.md exists already; name a new file",
        ),
        ((*SERVER, "--generate", "--broker-list", "1,x"), "'x' is not a broker id; write"),
        ((*SERVER, "--generate", "--broker-list", "1,-2"), "'-2' is not a broker id; write"),
        (
            (*SERVER, "--generate", "--broker-list", "1,2,1"),
            "Broker list contains duplicate entries: 1",
        ),
        (
            (*SERVER, "--list", "--broker-list", "1"),
            'Option "--broker-list" can\'t be used with action "--list"',
        ),
        (
            (*SERVER, "--list", "--disable-rack-aware"),
            'Option "--disable-rack-aware" can\'t be used with action "--list"',
        ),
        (
            (*SERVER, "--cancel", "--dry-run", "--reassignment-json-file", "f"),
            'Option "--dry-run" can\'t be used with action "--cancel"',
        ),
        (("--list",), "give --bootstrap-server or --bootstrap-controller"),
        (
            (*SERVER, "--verify", "--reassignment-json-file", "no-such-file"),
            "Error: no-such-file cannot be read: No such file or directory",
        ),
    ],
)
def test_reassigning_wrongly(arguments: tuple[str, ...], message: str) -> None:
    assert message in refusal("reassign-partitions", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("produce", "t", "--bootstrap-controller", "h:1"), "records are written to brokers"),
        (("consume", "t", "--bootstrap-controller", "h:1"), "records are read from brokers"),
        (("produce", "t", "--raw", "--key-separator", "=", *SERVER), "--raw cannot be combined"),
        (("consume", "t", "--raw", "--key-separator", "=", *SERVER), "--raw cannot be combined"),
        (("consume", "t", "--raw", "--print-headers", *SERVER), "combined with --print-headers"),
        (
            ("consume", "t", "--from-beginning", "--offset", "5", *SERVER),
            "--from-beginning is --offset earliest: give one of them",
        ),
        (("consume", "t", "--group", "g", "--offset", "-5", *SERVER), "combined with --offset"),
        (("consume", "t", "--group", "g", "--partition", "0", *SERVER), "with --partition"),
        (("consume", "t", "--group", "", *SERVER), "Invalid value for '--group': it is empty"),
        (("produce", "t", "--header", "trace", *SERVER), "'trace' is not name=value"),
        (
            ("produce", "t", "--file", "no-such-file", *SERVER),
            "'no-such-file': No such file or directory",
        ),
        (("consume", "t", "--file", "no/such/file", *SERVER), "no/such/file cannot be written"),
        (
            ("consume", "t", "--max-records", "0", *SERVER),
            "'0' is not a whole number of at least 1",
        ),
        (("topics", "create", "t", "--config", "retention", *SERVER), "'retention' is not name=v"),
        (("topics", "alter", "t", *SERVER), "give either --partitions or --replication-factor"),
        (
            ("topics", "alter", "t", "--replication-factor", "2", "--key", "", *SERVER),
            "Invalid value for '--key': it is empty",
        ),
        (
            ("topics", "alter", "t", "--partitions", "2", "--replication-factor", "2", *SERVER),
            "give either --partitions or --replication-factor",
        ),
        (
            ("topics", "alter", "t", "--partitions", "2", "--dry-run", *SERVER),
            "--dry-run requires --replication-factor",
        ),
        (
            ("topics", "alter", "t", "--replication-factor", "0", *SERVER),
            "'0' is not a whole number from 1 to 32767",
        ),
        (
            ("topics", "alter", "t", "--partitions", "0", *SERVER),
            "'0' is not a whole number of at least 1",
        ),
        (("local",), "Missing option '--dir'"),
        (("local", "stop"), "Missing option '--dir'"),
        (("local", "restart", "--dir", "d"), "Missing argument 'NODE'"),
        (("local", "--brokers", "2", "stop", "--dir", "d"), "--brokers starts a cluster: stop"),
        (("start", "--config", "no-such.toml"), "no-such.toml cannot be read: No such file or d"),
        (("start", "--override", "node.ID=1"), "node.ID is not a setting; did you mean node.id?"),
        (("nope",), "No such command 'nope'"),
    ],
)
def test_using_other_commands_wrongly(arguments: tuple[str, ...], message: str) -> None:
    assert message in refusal(*arguments)


@pytest.mark.parametrize("action", ["--execute", "--verify", "--cancel"])
def test_a_plan_is_judged_before_anybody_is_asked(tmp_path: Path, action: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"version": 1,\n "partitions": [{"topic" "a"}]}', encoding="utf-8")
    done = run("reassign-partitions", *NOBODY, action, "--reassignment-json-file", path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {path}: not valid JSON at line 2, column 26: Expecting ':' delimiter\n"
    )


def test_without_an_answer_the_asked_nodes_and_their_errors_are_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    partition = {"topic": "a", "partition": 0, "replicas": [1]}
    path.write_text(json.dumps({"partitions": [partition]}), encoding="utf-8")
    for command in (
        ("metadata-quorum", "describe", "--status"),
        ("reassign-partitions", "--verify", "--reassignment-json-file", path),
        ("topics", "list"),
        ("topics", "delete", "a", "--yes"),
        ("consume", "a"),
        ("produce", "a", "--file", path),
    ):
        done = run(*command, *NOBODY)
        assert (done.exit_code, done.stdout) == (1, ""), command
        assert done.stderr.startswith("Error: "), command
        assert "no answer from 127.0.0.1:1 within 50 ms (127.0.0.1:1: " in done.stderr, command
        assert len(done.stderr.splitlines()) == 1, command


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (("topics", "delete", "a"), "Delete topic a with all its records?"),
        (("users", "remove", "a"), "Remove the password of user a for SCRAM-SHA-512?"),
        (("acls", "remove", "--topic", "a"), "Remove the ACLs that the options select?"),
        (("acls", "remove", "--all"), "Remove all ACLs?"),
    ],
)
def test_a_removal_asks_first(command: tuple[str, ...], question: str) -> None:
    done = CliRunner().invoke(group, [*command, *NOBODY], input="n\n")
    assert done.exit_code == 1
    assert question in done.stderr
    assert "no answer" not in done.stderr
    done = CliRunner().invoke(group, [*command, *NOBODY, "--yes"], input="n\n")
    assert question not in done.stderr
    assert "no answer" in done.stderr


def test_help_lists_every_command_with_its_line() -> None:
    done = run("--help")
    assert done.exit_code == 0
    for name, (_, line) in COMMANDS.items():
        assert name in done.stdout
        assert line.split()[0] in done.stdout
        assert run(name, "--help").exit_code == 0


def test_settings_are_listed_as_markdown() -> None:
    assert "| `quorum.voters` | both | - |" in run("settings").stdout


def test_a_misspelt_command_is_answered_with_a_similar_one() -> None:
    assert refusal("topcis", "list") == "Error: No such command 'topcis'. Did you mean 'topics'?"
    assert refusal("xyzzy") == "Error: No such command 'xyzzy'."
    assert refusal("topics", "lst").endswith("Did you mean 'list'?")


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ("fast", "'fast' is not a size, like 64KiB or 8MiB"),
        ("5MBit", "'5MBit' has no unit that is known: write B, kB, MB, GB, KiB, MiB, GiB"),
        (f"{2**63}", f"is not from 0 to {2**63 - 1} bytes per second"),
    ],
)
def test_a_rate_is_a_size(rate: str, message: str) -> None:
    assert message in refusal("moves", "throttle", "1", rate, *SERVER)
