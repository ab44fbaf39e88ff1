"""The pages for operators name commands, HTTP calls, sections of the page and rules that exist.

The commands and calls of operating.md can be given as they are written there.
"""

import json
import re
from pathlib import Path
from shlex import split
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from admin.cli.main import COMMANDS, load
from admin.cli.options import Exit
from admin.http.openapi import document
from admin.monitoring.health_rules import Rule
from tests.support.tree import ROOT

PAGES: Final = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("operating", "troubleshooting", "upgrading", "logging")
}
CODE: Final = [code for text in PAGES.values() for code in re.findall(r"`([^`]+)`", text)]
COMMAND_LINES: Final = sorted(
    {code for code in CODE if re.match(r"(metaquorum|metadata-quorum|reassign-partitions) ", code)}
)
ROUTES: Final = sorted({code for code in CODE if re.match(r"(GET|PUT|POST|PATCH|DELETE) /", code)})
LINKS: Final = sorted(
    {
        (name, link)
        for name, text in PAGES.items()
        for link in re.findall(r"\]\(([a-z_./]+\.md(?:#[a-z0-9-]+)?)\)", text)
    }
)
OPERATING: Final = [each for each in COMMAND_LINES if f"`{each}`" in PAGES["operating"]]
FILES: Final = {
    "plan.json": '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [101]}]}',
    "topics.json": '{"version": 1, "topics": [{"topic": "orders"}]}',
    "offsets.json": '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1000}]}',
    "password": "alice-secret",
}
MORE: Final = {"metaquorum users add alice": ("--password-file", "password")}
"""Options in place of an answer at a terminal."""
LOCAL: Final = {"--dir", "--backups", "--every"}
"""Options of commands that do not connect, or not only once."""
GROUPS: Final = ("metadata-quorum", "reassign-partitions")


def found(line: str) -> tuple[click.Command, list[str]]:
    """The command of a line, and what is left for it to parse."""
    program, *words = split(line)
    command = load(program if program in GROUPS else words.pop(0))
    while isinstance(command, click.Group):
        if command.invoke_without_command and (not words or words[0] not in command.commands):
            break
        name = words.pop(0)
        assert name in command.commands, f"{line}: there is no command {name}"
        command = command.commands[name]
    return command, words


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_a_command_takes_its_words(line: str) -> None:
    program, *words = split(line)
    assert program in GROUPS or words[0] in COMMANDS
    command, words = found(line)
    known = {each for parameter in command.params for each in parameter.opts}
    for word in words:
        assert not word.startswith("--") or word in known, f"{line}: there is no option {word}"


@pytest.mark.parametrize("line", OPERATING)
def test_a_command_has_all_options_that_it_needs(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused only where it connects; what connects to nobody is parsed."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(content, encoding="utf-8")
    command, words = found(line.replace("/data", str(tmp_path)))
    words += MORE.get(line, ())
    connects = {each.name for each in command.params} >= {"bootstrap_server", "timeout_ms"}
    if not connects or LOCAL & {*words}:
        command.make_context("metaquorum", words)
        return
    if "--bootstrap-controller" in words:
        words[words.index("--bootstrap-controller") + 1] = "127.0.0.1:1"
    else:
        words += ["--bootstrap-server", "127.0.0.1:1"]
    done = CliRunner().invoke(command, [*words, "--timeout", "10ms"], input="yes\n" * 2)
    assert done.exit_code == Exit.FAILED, done.output
    assert "no answer from 127.0.0.1:1" in done.stderr


def operation(call: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The description of a call, its query parameters and its body."""
    method, path, *body = call.split(" ", 2)
    path, _, query = path.partition("?")
    assert method.lower() in document()["paths"].get(path, {})
    parameters = dict(each.split("=") for each in query.split("&") if each)
    return document()["paths"][path][method.lower()], parameters, "".join(body)


@pytest.mark.parametrize("call", ROUTES)
def test_an_http_call_is_served(call: str) -> None:
    described, parameters, _ = operation(call)
    named = {each["name"] for each in described["parameters"] if each["in"] == "query"}
    assert parameters.keys() <= named


@pytest.mark.parametrize("call", [each for each in ROUTES if f"`{each}`" in PAGES["operating"]])
def test_an_http_call_has_the_body_that_it_needs(call: str) -> None:
    described, _, text = operation(call)
    takes = described.get("requestBody", {"required": False})
    assert text or not (takes["required"] or call.startswith("PATCH "))
    if text:
        # The references of a schema are to the whole document.
        schema = document() | takes["content"]["application/json"]["schema"]
        Draft202012Validator(schema).validate(json.loads(text))


@pytest.mark.parametrize("page", PAGES)
def test_a_blank_line_ends_a_table(page: str) -> None:
    headless = r"\|\n\n\|(?!.*\|\n\| ---)"
    assert not re.search(headless, PAGES[page])


def test_every_section_of_the_page_is_one() -> None:
    html = (ROOT / "admin" / "http" / "page" / "files" / "index.html").read_text(encoding="utf-8")
    for row in re.findall(r"^\|(.+)\|$", PAGES["operating"], re.MULTILINE):
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 4 and cells[-1] not in ("", "page", "---"):
            assert f">{cells[-1]}<" in html


def test_every_rule_has_its_row() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", PAGES["troubleshooting"], re.MULTILINE) == list(Rule)


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_a_link_leads_somewhere(page: str, link: str) -> None:
    name, _, anchor = link.partition("#")
    path = ROOT / "docs" / name
    assert path.exists(), f"{page}: {link}"
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 _-]", "", each.lower()).replace(" ", "-") for each in titles}
    assert not anchor or anchor in anchors, f"{page}: {link}"
