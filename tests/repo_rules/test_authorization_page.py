"""The page about authorization has the tables of the code."""

from tests.support.authorization_page import BEGIN, END, PAGE, filled


def test_the_page_has_the_rights_of_every_api() -> None:
    page = PAGE.read_text()
    assert BEGIN in page
    assert END in page
    assert page == filled(page), "python -m tests.support.authorization_page writes it"
