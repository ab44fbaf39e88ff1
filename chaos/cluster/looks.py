"""L2 of queries, by offsets: what a controller says that it leads has seen when it answers one.

As `chaos.clients` reads of the quorum alone, and through everything that the product puts above it.
Who is cut off and does not know it is asked in the moment in which others have heard of more.
"""

from functools import partial
from typing import Any

from chaos.cluster.process import ControllerProcess
from chaos.violation import Violation
from controller.ports import Unavailable
from statemachine.image.image import Image


def look(process: ControllerProcess) -> None:
    """Ask it for the end of its image: it is not below what anybody has been told by now."""
    process.enter(partial(_look, process))


def _look(process: ControllerProcess) -> None:
    world = process.world
    floor = world.judge.to_be_read

    def done(outcome: Any) -> None:
        if isinstance(outcome, Unavailable):
            return
        world.note("a query is answered")
        if outcome < floor:
            raise Violation("L2", f"{process.id} answers as of {outcome}, {floor} was told before")

    process.controller.query(_end_of, done)


def _end_of(image: Image) -> int:
    return image.end_offset
