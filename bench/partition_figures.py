"""The figures about partitions compared with Kafka's controllers, and their targets."""

from collections.abc import Mapping
from typing import Final

from bench.peers.figures import KAFKA, OURS, Bound, Figure

SIDES: Final = (OURS, KAFKA)


def _share(times: float) -> Bound:
    return Bound(words=f"{times:g} x Kafka", factor=1 / times, beside=(KAFKA,))


def _times(times: float) -> Bound:
    return Bound(words=f"{times:g} x Kafka", factor=times, beside=(KAFKA,))


def _seconds(what: str) -> Figure:
    """A duration in seconds: must be half of Kafka's, aims at a fifth."""
    return Figure(what=what, unit="s", step="bulk", must=_share(2), aim=_share(5))


def _at_most(step: str, what: str, unit: str, must: float, aim: float) -> Figure:
    return Figure(
        what=what,
        unit=unit,
        step=step,
        must=Bound(words=f"{must:g} {unit}", value=must),
        aim=Bound(words=f"{aim:g} {unit}", value=aim),
    )


def _single(connections: int, must: float, aim: float) -> Figure:
    what = f"single-partition AlterPartition, {connections} connection{'s' * (connections > 1)}"
    return Figure(
        what=what, unit="1/s", step="single", large=True, must=_times(must), aim=_times(aim)
    )


FIGURES: Final[Mapping[str, Figure]] = {
    "create": _seconds("create all partitions, 5,000 a request"),
    "move": _seconds("put all under reassignment, 5,000 a request"),
    "complete": _seconds("complete all by AlterPartition, 1,000 a request"),
    "move-whole": _seconds(
        "put all under reassignment, one request (Kafka refuses it: 5,000 a request)"
    ),
    "complete-whole": Figure(what="... complete all, 1,000 a request", unit="s", step="bulk"),
    "stop": _at_most("bulk", "longest stop of the leader's loop during all that", "ms", 50, 10),
    "stop-own": Figure(what="... longest that its own thread computed", unit="ms", step="bulk"),
    "stop-elect": _at_most("bulk", "... while leaders are elected for all", "ms", 50, 10),
    "changes": Figure(
        what="partition changes, 1,000 a request",
        unit="1/s",
        step="changes",
        large=True,
        must=Bound(words="100,000/s", value=100_000),
        aim=Bound(words="200,000/s", value=200_000),
    ),
    "fence": _at_most("fence", "fence a broker that leads 6,000, until all are led", "s", 0.5, 0.1),
    "stop-fence": _at_most("fence", "... longest stop of the leader's loop", "ms", 50, 10),
    "single-1": _single(1, 50, 100),
    "single-128": _single(128, 5, 10),
    "single-512": _single(512, 2, 4),
    "growth": _at_most(
        "growth",
        "work for each partition of a move of 10,000 (R = 2, P = 500), to one of 1,000",
        "x",
        1.2,
        1.0,
    ),
}
