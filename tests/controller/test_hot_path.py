"""The cost of one ISR change at the active controller, in calls of Python functions.

The request that comes most once grew by two thirds, a few microseconds at a time, and no test saw
it. Calls are not time, but they are most of it, and the same on every machine.
"""

from typing import Final

import pytest

from tests.controller.controller_commands import isr, topic
from tests.controller.sliced_controller import Sliced
from tests.support.call_trace import calls

pytestmark = pytest.mark.interpreted

CALLS_MAX: Final = 98
"""From the command to its record among the proposals, and the image that says it."""

CALLS_AGAIN_MAX: Final = 48
"""The same for a change that was decided before of a partition in the same state."""


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
