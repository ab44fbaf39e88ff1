"""A step of the node whose effects are being performed: a value, and nothing is done here."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quorum.core.effects import Durable, Effect
from quorum.core.events import Event


@dataclass(slots=True)
class Step:
    """A step whose effects have not all been performed: the disk holds them up."""

    event: Event
    remaining: Iterator[Effect]
    awaited: Durable | None = None
    """The effect that the remaining ones rest on."""
    is_kept: bool = False
    """Whether the disk has done that."""
    outcome: Any = None
    """What it has returned."""
