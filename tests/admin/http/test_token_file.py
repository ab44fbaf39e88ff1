"""The file of bearer tokens, and the command that extends it."""

import hashlib
import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from admin.capabilities.needs import Role
from admin.cli.main import group
from admin.http.tokens import InvalidTokens, TokenFile, create


def test_a_node_does_not_start_with_a_token_file_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    with pytest.raises(InvalidTokens, match="No such file"):
        TokenFile(path)
    create(path, "ci", Role.VIEWER, "User:ci")
    path.write_text(path.read_text().replace("viewer", "root"))
    with pytest.raises(InvalidTokens, match="tokens:1 is no token"):
        TokenFile(path)


def test_the_command_prints_a_token_once_and_keeps_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    arguments = ["http-tokens", "create", "--role", "operator", "--file", str(path)]
    done = CliRunner().invoke(group, [*arguments, "--name", "ci"])
    assert done.exit_code == 0, done.output
    secret = done.stdout.strip()
    assert len(secret) > 40
    assert secret not in done.stderr
    assert "With an authorizer (authorizer.class.name), User:ci needs ACLs as well" in done.stderr
    (line,) = path.read_text().splitlines()
    assert json.loads(line) == {
        "name": "ci",
        "sha256": hashlib.sha256(secret.encode()).hexdigest(),
        "role": "operator",
        "principal": "User:ci",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = TokenFile(path).find(secret)
    assert found is not None
    assert found.name == "ci"
    for more, reason in [
        (["--name", "ci"], "has a token ci"),
        (["--name", "a b"], "the name is invalid"),
        (["--name", "b", "--principal", "Group:b"], "the principal is invalid"),
    ]:
        refused = CliRunner().invoke(group, [*arguments, *more])
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert reason in refused.stderr
    assert path.read_text().splitlines() == [line]


def test_a_token_is_appended_behind_a_line_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    create(path, "a", Role.VIEWER, "User:a")
    path.write_text(path.read_text().rstrip("\n"))
    create(path, "b", Role.VIEWER, "User:b")
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("field", ["name", "principal"])
def test_a_line_break_is_part_of_no_name(tmp_path: Path, field: str) -> None:
    path = tmp_path / "tokens"
    create(path, "ci", Role.VIEWER, "User:ci")
    token = json.loads(path.read_text())
    path.write_text(json.dumps(token | {field: token[field] + "\n"}))
    with pytest.raises(InvalidTokens, match="tokens:1 is no token"):
        TokenFile(path)
