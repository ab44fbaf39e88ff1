"""Invariant L2: a controller answers a query only from a state that includes every answer given
before.

A controller that is cut off and does not know it is queried when others have committed more.
"""

from functools import partial
from typing import Any

from chaos.cluster.process import ControllerProcess
from chaos.violation import Violation
from controller.ports import Unavailable
from statemachine.image.image import Image


def look(process: ControllerProcess) -> None:
    """Query the end of its image; it must not be below what any replica was told by now."""
    process.enter(partial(_look, process))


def _look(process: ControllerProcess) -> None:
    world = process.world
    floor = world.invariants.to_be_read

    def done(outcome: Any) -> None:
        if isinstance(outcome, Unavailable):
            return
        world.note("a query is answered")
        if outcome < floor:
            raise Violation("L2", f"{process.id} answers as of {outcome}, {floor} was told before")

    process.controller.query(_end_of, done)


def _end_of(image: Image) -> int:
    return image.end_offset
