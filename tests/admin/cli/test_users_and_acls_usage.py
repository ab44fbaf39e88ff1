"""`metaquorum users` and `metaquorum acls`: usage errors, before any request."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from admin.cli.main import group

SERVER = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "50ms")
READ = ("--operation", "read")


def refusal(*arguments: str, stdin: str = "") -> str:
    done = CliRunner().invoke(group, [*arguments, *SERVER], input=stdin)
    assert done.exit_code == 2, done.output
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("acls", "add", *READ, "--allow-principal", "a"), "name the resource: --topic, --group"),
        (("acls", "add", *READ, "--topic", "t"), "give --allow-principal or --deny-principal"),
        (
            ("acls", "add", *READ, "--topic", "t", "--cluster", "--allow-principal", "a"),
            "name one resource, not several",
        ),
        (
            ("acls", "add", *READ, "--topic", "t", "--allow-principal", ":a"),
            "':a' is not a principal, like User:alice",
        ),
        (
            ("acls", "add", *READ, "--topic", "t", "--allow-principal", "user:bob"),
            "'user:bob' is nobody: Kafka writes User:bob",
        ),
        (
            ("acls", "add", "--operation", "alter", "--group", "g", "--allow-principal", "a"),
            "there is no alter on a group; there are all, read, delete, describe, describe-configs",
        ),
        (
            ("acls", "add", *READ, "--cluster", "--deny-principal", "a"),
            "there is no read on a cluster; there are all, create, alter, describe, cluster-action",
        ),
        (("acls", "add", "--operation", "eat", "--topic", "t"), "'eat' is not one of"),
        (("acls", "remove"), "select the ACLs to remove, or give --all alone"),
        (("acls", "remove", "--all", "--topic", "t"), "or give --all alone"),
        (("users", "add", "a"), "no terminal to ask for the password: give --password-file"),
        (
            ("users", "add", "a", "--iterations", "1000"),
            "'1000' is not a whole number from 4096 to",
        ),
        (("users", "remove", "a", "--mechanism", "PLAIN"), "'PLAIN' is not one of"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refusal(*arguments)


def test_a_password_is_one_line_that_is_not_empty(tmp_path: Path) -> None:
    add = ("users", "add", "a", "--password-file")
    path = tmp_path / "password"
    path.write_text("\nsecond line")
    assert refusal(*add, str(path)).endswith("the password is empty")
    assert refusal(*add, "-", stdin="x" * 1_025).endswith("is longer than 1024 characters")


def test_an_operation_that_exists_on_the_resource_is_asked_for() -> None:
    acl = ("acls", "add", "--group", "g", "--allow-principal", "Group:ops")
    for operation in ("all", "read", "alter-configs"):
        done = CliRunner().invoke(group, [*acl, "--operation", operation, *SERVER])
        assert done.exit_code == 1, done.output
