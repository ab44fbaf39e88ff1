"""The generated table of docs/cli.md: every command with its example.

`python -m tests.support.cli_page` writes it.
"""

from collections.abc import Iterator
from typing import Final

import click

from admin.cli.examples import EXAMPLES
from admin.cli.main import COMMANDS, load
from tests.support.tree import ROOT

PAGE: Final = ROOT / "docs" / "cli.md"
BEGIN: Final = "<!-- commands -->\n"
END: Final = "<!-- /commands -->\n"


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its path: also a group that runs without one."""

    def inside(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield path, command
        if not isinstance(command, click.Group):
            return
        context = click.Context(command)
        late = [each for each in command.list_commands(context) if each not in command.commands]
        for name in (*command.commands, *late):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from inside(f"{path} {name}", inner)

    for name in COMMANDS:
        yield from inside(name, load(name))


def table() -> str:
    """The table as the page has it."""
    lines = ["| command | what it does | example |", "| --- | --- | --- |"]
    for path, command in leaves():
        example = EXAMPLES.get(path, "").replace("|", "\\|")
        lines.append(f"| `{path}` | {command.get_short_help_str(120)} | `{example}` |")
    return "\n".join([*lines, ""])


def with_table(page: str) -> str:
    """The page with the table of now between the marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
