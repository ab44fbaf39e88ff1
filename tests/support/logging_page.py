"""The table of events in docs/logging.md; run as a program it writes the table."""

from typing import Final

from quorum.log_events import as_markdown
from tests.support.tree import ROOT

PAGE: Final = ROOT / "docs" / "logging.md"
BEGIN: Final = "<!-- events -->\n"
END: Final = "<!-- /events -->\n"


def with_table(page: str) -> str:
    """The page with the table of now between the marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + as_markdown() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
