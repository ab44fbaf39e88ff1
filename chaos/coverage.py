"""The coverage of a set of runs: faults that took effect, and roles of the nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, get_args

from chaos.simulation.profile import Fault
from chaos.simulation.run import FIRED_AS
from quorum.core.roles import Role

ROLES: Final = tuple(each.__name__ for each in get_args(Role))
OTHERS: Final[Mapping[str, str]] = {
    "messages lost": "a message is lost",
    "messages cut off": "a message is cut off",
    "messages twice": "a message comes twice",
    "messages late": "a message straggles",
    "timers late": "a timer is late",
    "snapshots installed": "a snapshot is installed",
    "logs cut at their start": "a log is cut at its start",
    "voters changed": "voters are changed",
    "leads handed over": "a lead is handed over",
    "reads answered": "a read is answered",
}
"""Other events of the simulation, by what they are called here."""


def taken_effect(counts: Counter[str], fault: Fault) -> int:
    """The number of times that a kind of fault took effect."""
    return counts[FIRED_AS.get(fault, fault)]


def lines(counts: Counter[str], roles: Counter[str]) -> Iterator[str]:
    """The coverage as text, a few lines."""
    found = [(each, taken_effect(counts, each)) for each in Fault]
    yield "faults that took effect:"
    for fault, times in found:
        if times:
            yield f"  {times:>9,}  {words(fault)}"
    never = [words(each) for each, times in found if not times]
    if never:
        yield f"  never: {', '.join(never)}"
    yield "also: " + ", ".join(
        f"{counts[event]:,} {name}" for name, event in OTHERS.items() if counts[event]
    )
    yield "roles (turns): " + ", ".join(f"{each} {roles[each]:,}" for each in ROLES)


def words(fault: Fault) -> str:
    """The name of a fault in a list."""
    return fault.name.lower().replace("_", " ")
