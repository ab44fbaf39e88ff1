"""The generated parts of docs/architecture.md: `python -m tests.support.architecture_page`.

`folders` lists every package and folder with the first sentence of its docstring. `request` lists
the modules that one AlterPartitionReassignments passes on the active controller, with theirs.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.support import tree

PAGE: Final = tree.ROOT / "docs" / "architecture.md"

REQUEST_PATH: Final[Mapping[str, tuple[str, ...]]] = {
    "in": (
        "quorum/transport/inbound.py",
        "quorum/transport/admission.py",
        "controller/apis/controller_apis.py",
        "controller/apis/request.py",
        "controller/apis/router.py",
        "statemachine/security/authorization.py",
        "controller/apis/reassignments.py",
        "controller/service.py",
        "controller/quorum_controller.py",
        "controller/event_queue.py",
    ),
    "decide": (
        "statemachine/decide.py",
        "statemachine/reassignment/move_commands.py",
        "statemachine/reassignment/target.py",
        "statemachine/partitions/change_builder.py",
        "statemachine/reassignment/scheduler/advance.py",
        "statemachine/records/codec.py",
    ),
    "append": (
        "controller/record_appender.py",
        "statemachine/replay.py",
        "quorum/driver.py",
        "quorum/accumulator.py",
        "quorum/replica.py",
        "quorum/core/leader.py",
        "quorum/log/disk_thread.py",
        "quorum/log/segmented_log.py",
    ),
    "commit": (
        "quorum/core/high_watermark.py",
        "quorum/applier.py",
        "controller/deferred.py",
    ),
}
"""The way of a request, leg by leg; a test sends one and compares."""


def folders() -> Iterator[str]:
    """The rows of the table of folders."""
    yield "| folder | what lives there |"
    yield "| --- | --- |"
    for package in tree.PACKAGES:
        inits = sorted(
            tree.ROOT.joinpath(package).rglob("__init__.py"), key=lambda path: path.parts
        )
        for init in inits:
            folder = init.parent
            yield f"| `{tree.shown(folder)}/` | {first_sentence(init)} |"


def request() -> Iterator[str]:
    """The rows of the table of the request's path."""
    yield "| leg | module | what it is |"
    yield "| --- | --- | --- |"
    for leg, modules in REQUEST_PATH.items():
        for module in modules:
            yield f"| {leg} | `{module}` | {first_sentence(tree.ROOT / module)} |"


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split()).replace("|", "/")
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0]


def renewed(page: str) -> str:
    """The page with its generated parts as the code has them now."""
    for name, rows in (("folders", folders()), ("request", request())):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        assert found, f"{PAGE.name} has no mark {begin.strip()}"
        assert closed, f"{PAGE.name} has no mark {end}"
        page = before + begin + "\n".join(rows) + "\n" + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
