"""The reference of capabilities is what the schemas say."""

from admin.capabilities import CAPABILITIES, planning, plans
from admin.capabilities.reference import as_markdown
from admin.capabilities.schema import HANDLERS
from tests.support.tree import ROOT


def test_the_page_is_generated_from_the_schemas() -> None:
    assert (ROOT / "docs" / "capabilities.md").read_text() == as_markdown()


def test_every_capability_has_a_handler() -> None:
    assert HANDLERS[plans.GeneratePlan] is planning.generate_plan
    assert HANDLERS.keys() == {*CAPABILITIES.values()}
