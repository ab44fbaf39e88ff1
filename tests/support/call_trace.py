"""The calls of Python functions: which modules run, in order, and how often each function."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tests.support import tree

_ROOTS = tuple(f"{tree.ROOT / package}/" for package in tree.PACKAGES)


class CallTrace:
    """The modules that were called while `is_recording`."""

    def __init__(self) -> None:
        self.is_recording = False
        self.modules: dict[str, None] = {}
        """Paths from the root, in the order of the first call."""

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Profile function of a thread."""
        if self.is_recording and event == "call":
            path = frame.f_code.co_filename
            if path.startswith(_ROOTS):
                self.modules[path.removeprefix(f"{tree.ROOT}/")] = None


@contextmanager
def call_trace() -> Iterator[CallTrace]:
    """Trace this thread and every thread that starts inside."""
    trace = CallTrace()
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


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
