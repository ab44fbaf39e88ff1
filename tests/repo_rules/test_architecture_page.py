"""docs/architecture.md: the list of folders and the way of one request are those of the code."""

import re
from pathlib import Path

import pytest

from quorum.protocol.apis import ApiKey
from tests.controller.apis.samples import alter_reassignments
from tests.controller.controller_commands import asked, join, topic
from tests.support import architecture_page, tree
from tests.support.call_trace import call_trace
from tests.support.controllers import a_controller
from tests.support.kafka_client import Form, kafka_client

MODULES_MAX = 100
"""The modules from the bytes of the request to those of the answer, those of gossip included, which
goes on meanwhile. Eight of them bound, authenticate, authorize and audit; two
count."""


def test_every_folder_and_file_on_the_page_exists() -> None:
    page = architecture_page.PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page))
    assert named
    assert sorted(each for each in named if not (tree.ROOT / each).exists()) == []


def test_the_page_has_the_docstrings_of_the_code() -> None:
    page = architecture_page.PAGE.read_text(encoding="utf-8")
    command = "run: python -m tests.support.architecture_page"
    assert architecture_page.renewed(page) == page, command


def test_the_page_lists_every_package() -> None:
    page = architecture_page.PAGE.read_text(encoding="utf-8")
    assert [each for each in tree.PACKAGES if f"| `{each}/` |" not in page] == []


@pytest.mark.interpreted
async def test_a_request_passes_the_modules_on_the_page(tmp_path: Path) -> None:
    """A quorum of one: the fetches of followers are not among them."""
    form = Form(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1)
    with call_trace() as trace:
        async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
            await join(node.controller, 101, 102, 103)
            await asked(node.controller, topic("a", 101, 102, partitions=3))
            # The first request imports what it needs, unless an earlier test has done so.
            await client.send(form, alter_reassignments(form, ("a", 1, (101, 103))))
            request = alter_reassignments(form, ("a", 0, (101, 103)))
            trace.is_recording = True
            answer = await client.send(form, request)
            trace.is_recording = False
    assert [int(part.error_code) for each in answer.responses for part in each.partitions] == [0]
    listed = [each for leg in architecture_page.REQUEST_PATH.values() for each in leg]
    assert [each for each in listed if each not in trace.modules] == []
    assert len(trace.modules) <= MODULES_MAX, "\n".join(trace.modules)
