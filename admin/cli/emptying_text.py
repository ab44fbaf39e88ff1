"""What `brokers decommission` and `topics alter` print of plans. Pure, from answers to text."""

from collections.abc import Sequence
from typing import Final

from admin.cli.tables import columns
from admin.model import UNKNOWN, PartitionId
from admin.plans import PlanResult
from admin.units import show_size

NAMED_MAX: Final = 20
"""Partitions that a sentence names one by one."""


def progress(brokers: Sequence[int], found: PlanResult) -> str:
    """How far brokers are from having no replicas."""
    emptying = found.emptying
    if not emptying.held:
        return f"{named(brokers)}: no replicas left."
    lines = [
        f"{named(brokers)}: {emptying.held} partition(s) to be moved away, {emptying.leaving} on"
        f" their way before, {found.planned} planned now."
    ]
    if emptying.busy:
        lines.append(f"Moved elsewhere first, ask again then: {_partitions(emptying.busy)}")
    if emptying.leaderless:
        unled = _partitions(emptying.leaderless)
        lines.append(f"Without a leader, so that nothing can be copied: {unled}")
    if emptying.to_be_unregistered:
        then = "unregistered once nothing is left and it is stopped"
        lines.append(f"{named(emptying.to_be_unregistered)}: {then}.")
    return "\n".join(lines)


def begun(found: PlanResult) -> str:
    """Which moves have begun, and how to follow and undo them."""
    ids = ", ".join(map(str, found.moves))
    goes_on = (
        f"Moves {ids} go on by themselves"
        if len(found.moves) > 1
        else f"Move {ids} goes on by itself"
    )
    return (
        f"{goes_on}: {found.accepted} partition(s) more."
        f" `metaquorum moves show {found.moves[-1]}` follows it."
    )


def foreseen(found: PlanResult, size_bytes: int | None = None, *, of_all: bool = False) -> str:
    """What a plan would do; `of_all` where shares are of the whole cluster."""
    told = found.foreseen
    size = "size unknown" if size_bytes is None else show_size(size_bytes)
    lines = [
        f"This plan would change {found.planned} partition(s): {told.replicas_added} replica(s)"
        f" copied ({size}), {told.replicas_removed} removed, {told.leaders_moved} preferred"
        " leader(s) moved."
    ]
    if told.crowded_before != UNKNOWN:
        lines.append(
            f"Partitions that share racks needlessly: {told.crowded_before} now,"
            f" {told.crowded_after} then."
        )
    of_what, leads = ("all", "Leaders") if of_all else ("these", "Preferred")
    lines.append(f"What each broker has of {of_what} partitions, and would have:")
    rows = [
        (
            each.broker,
            f"{each.replicas_before} -> {each.replicas_after}",
            f"{each.leaders_before} -> {each.leaders_after}",
        )
        for each in told.shares
    ]
    return "\n".join([*lines, columns(("Broker", "Replicas", leads), rows)])


def taken_back(brokers: Sequence[int], found: PlanResult) -> str:
    """What a recommission would do."""
    known = [each for each in brokers if each not in found.emptying.strange]
    lines = [f"{named(known)} would get new replicas again."] if known else []
    if not found.accepted:
        return "\n".join([*lines, "Nothing would be cancelled."])
    would = f"{found.accepted} partition(s) would be cancelled; they would have:"
    return "\n".join([*lines, would, *_replicas(found)])


def has_now(found: PlanResult) -> str:
    """What the partitions have of which a recommission has cancelled the move."""
    return "\n".join(["Replicas now:", *_replicas(found)])


def way_back(moves: Sequence[int]) -> str:
    """How to get back what the cancelled moves had taken away before."""
    commands = ", ".join(f"`metaquorum moves rollback {id}`" for id in moves)
    return f"What had been moved away before comes back by {commands}."


def _replicas(found: PlanResult) -> list[str]:
    some = found.partitions[:NAMED_MAX]
    lines = [f"{each.id}: {','.join(map(str, each.replicas))}" for each in some]
    more = found.accepted - len(lines)
    return [*lines, *([f"and {more} more"] if more else [])]


def refused(found: PlanResult) -> str:
    """Every partition that could not be begun, or cancelled, a line each."""
    lines = [f"Error: {each.id}: {each.message or each.error_name}" for each in found.refused]
    more = found.refused_count - len(found.refused)
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def named(brokers: Sequence[int]) -> str:
    """Brokers at the beginning of a sentence."""
    several = "Brokers" if len(brokers) > 1 else "Broker"
    return f"{several} {', '.join(map(str, brokers))}"


def _partitions(ids: Sequence[PartitionId]) -> str:
    more = len(ids) - NAMED_MAX
    words = ", ".join(map(str, ids[:NAMED_MAX]))
    return f"{words} and {more} more" if more > 0 else words
