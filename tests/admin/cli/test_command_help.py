"""Answers to the first questions of a newcomer: help with an example, the version, completion."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from admin.cli import main
from admin.cli.examples import EXAMPLES
from tests.support.cli_page import PAGE, leaves, with_table
from tests.support.tree import ROOT


@pytest.mark.parametrize("option", ["-h", "--help", "--version"])
@pytest.mark.parametrize("entry", ["metaquorum", "metadata_quorum", "reassign_partitions"])
def test_every_program_answers_the_first_questions(
    entry: str, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [entry, option])
    with pytest.raises(SystemExit) as ended:
        getattr(main, entry)()
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("metaquorum ") if option == "--version" else "Example:" in out


def test_every_command_has_an_example_that_its_parser_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The parser looks for these files.
    monkeypatch.chdir(tmp_path)
    for name in ("ours.json", "kafkas.json"):
        Path(name).touch()
    found = dict(leaves())
    assert found.keys() == EXAMPLES.keys()
    for path, command in found.items():
        words = shlex.split(EXAMPLES[path].rpartition(" | ")[2].rstrip(")"))
        words = words[words.index("<(metaquorum") :] if "<(metaquorum" in words else words
        if "metaquorum" in words[0]:
            del words[0]
        assert words[: len(path.split())] == path.split(), path
        made = command.make_context(path, words[len(path.split()) :])
        assert "Example:\n" in command.get_help(made), path


def test_the_page_lists_the_commands_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion_script(shell: str) -> None:
    done = CliRunner().invoke(main.group, ["completion", shell])
    assert done.exit_code == 0
    for program in ("metaquorum", "metadata-quorum", "reassign-partitions"):
        assert f"_{program.replace('-', '_').upper()}_COMPLETE={shell}_complete" in done.stdout


def test_the_variable_of_the_script_completes_commands() -> None:
    environ = {**os.environ, "COMP_WORDS": "metaquorum bro", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "admin.cli.main"],
        env={**environ, "_METAQUORUM_COMPLETE": "bash_complete"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,brokers\n"


def test_help_names_the_environment() -> None:
    (topics,) = (command for path, command in leaves() if path == "topics list")
    help = topics.get_help(click.Context(topics))
    for name in ("BOOTSTRAP_SERVER", "BOOTSTRAP_CONTROLLER", "COMMAND_CONFIG", "PROFILE"):
        assert f"METAQUORUM_{name}" in help
