"""The report about the folders that are left, for the operator to read before he confirms.

Pure functions from a plan to text.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from admin.cli.output import Columns, columns
from admin.tools.living_nodes import Seen
from admin.tools.recover.plan import Plan
from admin.tools.recover.survivors import Survivor
from admin.units import show_time


def report(plan: Plan, seen: Seen) -> str:
    """Return the findings, the possible loss, the voters from now on, and what was `seen` at the
    addresses of the voters of before."""
    return "\n".join(
        [
            f"Cluster {plan.cluster_id}, voters {_ids(plan.voters_before) or 'unknown'}",
            "",
            columns(plan.survivors, _SURVIVORS),
            "",
            *(f"- {line}" for line in (*_lines(plan), *seen.lines(plan.without_address))),
        ]
    )


_SURVIVORS: Final[Columns[Survivor]] = {
    "NODE": lambda each: each.node_id,
    "LOG": lambda each: f"[{each.log_start}, {each.log_end.offset})",
    "ITS EPOCH": lambda each: each.log_end.epoch,
    "ELECTION EPOCH": lambda each: "?" if each.election is None else each.election.epoch,
    "LAST RECORD": lambda each: show_time(each.summary.time_ms),
    "FOLDER": lambda each: each.folder,
}


def _lines(plan: Plan) -> Iterator[str]:
    best = plan.best
    for each in plan.survivors:
        for problem in (*each.problems, *each.missing):
            yield f"Node {each.node_id}: {problem}."
    yield (
        f"The log of node {best.node_id} ends furthest, at offset {best.log_end.offset} of epoch "
        f"{best.log_end.epoch}; its last record is of {show_time(best.summary.time_ms)}. Every "
        "node above gets it."
    )
    if plan.lost:
        yield (
            f"What may be lost: whatever voters {_ids(plan.lost)} had committed without node "
            f"{best.node_id}, after offset {best.log_end.offset}. Nobody can tell from these "
            "folders whether there was any."
        )
    yield (
        "What may come to be: records at the end of that log of which nobody was told yet that "
        "they are committed."
    )
    if plan.newcomers:
        yield (
            f"Nodes without a vote until now, {_ids(plan.newcomers)}, get one: leave the folders "
            "of brokers out."
        )
    yield f"The voters will be {_ids(plan.endpoints)}, from epoch {plan.epoch} on."
    if plan.begins_epochs_again:
        yield (
            "The epochs are used up, so they begin again: the log is replaced by a snapshot. Every "
            "broker has seen a higher epoch: stop all of them, and move their __cluster_metadata-0 "
            "away before they start."
        )
    elif plan.is_seen_epoch_higher:
        yield (
            "A higher epoch than that was seen by some nodes: a broker that does not follow has to "
            "be stopped, and its __cluster_metadata-0 moved away."
        )


def afterwards(plan: Plan) -> Iterator[str]:
    """Yield the next steps of the operator, a sentence or two each."""
    if plan.lost:
        yield (
            f"Never start {_ids(plan.lost)} with a folder of before again, should one turn up: two "
            "sets would write two histories."
        )
    yield (
        f"Start {_ids(plan.endpoints)} as before, and wait until `metadata-quorum describe "
        "--status` names a leader. If log.dir, an id or an address has changed, correct the "
        "settings first."
    )
    yield (
        "A broker that knows more than this log ends itself: move its __cluster_metadata-0 away, "
        "of an embedded broker boot-timestamp too, and start it (docs/recovery.md)."
    )
    if len(plan.endpoints) < len(plan.voters_before):
        yield (
            "Only then start new controllers, on empty folders and with bootstrap.servers that "
            "name one of the above, and make them voters: metadata-quorum alter --voters 1,4,5"
        )


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
