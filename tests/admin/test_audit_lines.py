import logging

import pytest
from msgspec import Struct

from controller.service import AUDIT_CHARACTERS_MAX, audit


class Request(Struct, frozen=True):
    """Some command, with a part that may be large."""

    parts: tuple[object, ...]
    inner: "Request | None" = None


class NeverShown:
    """Something that is beyond what a line has room for."""

    def __repr__(self) -> str:
        raise AssertionError("it was written out only to be cut")


def test_an_audit_line_has_requester_request_and_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    audit("User:ann", Request((1, 2)), "done")
    assert caplog.messages == ["User:ann asked for Request(parts=(1, 2), inner=None): done"]


def test_a_large_request_is_logged_by_its_beginning_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A request of 100,000 partitions would hold up whoever leads for half a second."""
    caplog.set_level(logging.INFO, logger="audit")
    large = ("a-partition",) * AUDIT_CHARACTERS_MAX + (NeverShown(),)
    audit("User:ann", Request((), inner=Request(large)), "x" * AUDIT_CHARACTERS_MAX)
    (line,) = caplog.messages
    asked_for = line.removeprefix("User:ann asked for ").removesuffix(": " + "x" * 500)
    assert asked_for.startswith("Request(parts=(), inner=Request(parts=('a-partition', 'a-")
    assert asked_for.endswith("...")
    assert len(asked_for) == AUDIT_CHARACTERS_MAX + len("...")
