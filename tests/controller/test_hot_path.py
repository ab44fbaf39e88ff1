"""What one ISR costs the active controller, in calls of Python functions: no clock tells it.

The request that comes most once grew by two thirds, a few microseconds at a time, and no test saw
it. Calls are not time, but they are most of it, and the same on every machine.
"""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

from tests.controller.controller_commands import isr, topic
from tests.controller.sliced_controller import Sliced

pytestmark = pytest.mark.interpreted

CALLS_MAX: Final = 90
"""From the command to its record among the proposals, and the image that says it."""

CALLS_AGAIN_MAX: Final = 83
"""The same for a change whose contents the codec has encoded before, as it nearly always has."""


def calls(work: Callable[[], object]) -> Counter[str]:
    """The functions that are called, resumed generators among them, and how often."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            found[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def test_one_isr_takes_few_calls() -> None:
    lone = Sliced(101, 102, 103)
    lone.answer(topic("a", 101, 102, 103))
    for bound in (CALLS_MAX, CALLS_AGAIN_MAX):
        for members in ((101, 102), (101, 102, 103)):
            command, told = isr(lone.controller, "a", members), list[object]()
            found = calls(lambda: lone.controller.submit(command, told.append))  # noqa: B023
            assert found.total() <= bound, found.most_common()
            lone.settle()
            assert told
