"""What the operator is told of brokers that may not register: one line for each distinct reason.

A broker asks again and again until it gives up. It decides nothing.
"""

import logging
from collections import OrderedDict
from typing import Final

from statemachine.errors import Error

logger = logging.getLogger("controller")

BROKERS_REMEMBERED_MAX: Final = 1_024
"""Brokers whose last refusal is remembered; beyond it the longest unheard one is told again."""


class Refusals:
    """The last refusal of each broker, so that it is told once."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: OrderedDict[int, tuple[Error, str]] = OrderedDict()

    def note(self, broker_id: int, error: Error, reason: str) -> None:
        """The broker's registration was answered with this; the log hears of it if it is news."""
        if error is Error.NONE:
            self._last.pop(broker_id, None)
            return
        if self._last.get(broker_id) != (error, reason):
            logger.warning(
                "broker %d may not register (%s %d): %s", broker_id, error.name, error.code, reason
            )
        self._last[broker_id] = (error, reason)
        self._last.move_to_end(broker_id)
        if len(self._last) > BROKERS_REMEMBERED_MAX:
            self._last.popitem(last=False)
