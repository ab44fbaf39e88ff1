"""The settings page equals the table in the code."""

from pathlib import Path

from admin.settings import as_markdown

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_holds_every_setting_as_the_code_has_it() -> None:
    _, _, after = PAGE.read_text().partition("<!-- settings -->\n")
    table, end, _ = after.partition("\n<!-- /settings -->")
    assert end
    assert table == as_markdown().strip()
