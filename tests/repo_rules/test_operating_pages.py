"""The pages for operators name commands, HTTP calls, sections of the page and rules that exist."""

import re
from shlex import split
from typing import Final

import click
import pytest

from admin.cli.main import COMMANDS, load
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


@pytest.mark.parametrize("call", ROUTES)
def test_an_http_call_is_served(call: str) -> None:
    method, path = call.split()
    assert method.lower() in document()["paths"].get(path, {})


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
