"""The reference page of the capabilities equals the schemas."""

from admin.capabilities.registry import CAPABILITIES
from admin.capabilities.schema import Request
from tests.support.capability_page import as_markdown
from tests.support.tree import ROOT


def test_the_page_is_generated_from_the_schemas() -> None:
    assert (ROOT / "docs" / "capabilities.md").read_text() == as_markdown()


def test_every_capability_can_be_carried_out() -> None:
    assert all(kind.answer is not Request.answer for kind in CAPABILITIES.values())


def test_every_change_names_the_command_that_shows_whether_it_was_made() -> None:
    """The error of a change whose outcome is unknown names it."""
    changes = [kind for kind in CAPABILITIES.values() if kind.CHANGES]
    assert changes
    assert not [kind.NAME for kind in changes if kind.STATUS_COMMAND is None]
