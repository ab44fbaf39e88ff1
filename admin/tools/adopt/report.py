"""The report about a controller set, for the operator to read before the start.

Pure functions from a plan to text.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from admin.cli.output import Columns, columns
from admin.tools.adopt.plan import Plan
from admin.tools.adopt.source import Source
from quorum.core.vocabulary import ReplicaId, uuid_to_text
from statemachine.features.features import release_name
from statemachine.image.image import Image
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE


def report(plan: Plan, sources: Sequence[Source]) -> str:
    """The whole report."""
    image = plan.history.image
    return "\n".join(
        [
            f"Cluster {plan.cluster_id}, metadata.version {image.level} "
            f"({release_name(image.level)}), kraft.version {plan.history.kraft_version}",
            "",
            _voters(plan),
            "",
            columns(sources, _SOURCES),
            "",
            _taken_over(plan),
            *_contents(image),
            "",
            *(f"- {note}" for note in notes(plan, sources)),
        ]
    )


def _voters(plan: Plan) -> str:
    folders = {new.node_id: new.source.folder for new in plan.new_controllers}

    def directory(id_: ReplicaId) -> str:
        voter = plan.recorded.get(id_)
        return "-" if voter is None else uuid_to_text(voter.key.directory_id)

    cells: Columns[ReplicaId] = {
        "VOTER": lambda id_: id_,
        "DIRECTORY": directory,
        "LISTENS AT": lambda id_: plan.voters[id_],
        "FOLDER": lambda id_: folders.get(id_, "not given"),
    }
    return columns(sorted(plan.voters), cells)


_SOURCES: Final[Columns[Source]] = {
    "NODE": lambda each: each.node_id,
    "LOG": lambda each: f"[{each.log_start}, {each.log_end.offset})",
    "ITS EPOCH": lambda each: each.log_end.epoch,
    "ELECTION EPOCH": lambda each: each.election.epoch,
    "VOTE": lambda each: "-" if each.election.voted_for is None else each.election.voted_for.id,
    "CHECKPOINTS": lambda each: (
        " ".join(f"{id_.offset}@{id_.epoch}" for id_ in reversed(each.checkpoint_ids)) or "-"
    ),
}


def _taken_over(plan: Plan) -> str:
    best = plan.best
    since = "" if best.checkpoint is None else f" behind the checkpoint {best.checkpoint.path.name}"
    return (
        f"The log of node {best.node_id} ends furthest, at offset {best.log_end.offset} of epoch "
        f"{best.log_end.epoch}. Every controller gets it, from offset {best.log_start} on{since}. "
        "At its end:"
    )


def _contents(image: Image) -> Iterator[str]:
    fenced = sum(broker.fenced for broker in image.brokers.values())
    partitions = sum(len(list(topic.existing())) for topic in image.topics.values())
    by_kind = {TOPIC_RESOURCE: 0, BROKER_RESOURCE: 0}
    for (kind, _), values in image.configs.items():
        by_kind[kind] = by_kind.get(kind, 0) + len(values)
    others = sum(by_kind.values()) - by_kind[TOPIC_RESOURCE] - by_kind[BROKER_RESOURCE]
    yield f"  brokers         {len(image.brokers)}, {fenced} of them fenced"
    yield f"  topics          {len(image.topics)} with {partitions} partitions"
    yield f"  reassignments   {len(image.index.moving)} under way"
    configs = f"{by_kind[TOPIC_RESOURCE]} of topics, {by_kind[BROKER_RESOURCE]} of brokers"
    yield f"  configurations  {configs}" + (f", {others} of others" if others else "")
    levels = ", ".join(f"{name} {level}" for name, level in sorted(image.features.items()))
    yield f"  features        {levels}"
    for title, count in (
        ("client quotas", sum(map(len, image.quotas.values()))),
        ("ACLs", len(image.acls)),
        ("SCRAM", len(image.scram_credentials)),
        ("tokens", len(image.delegation_tokens)),
    ):
        if count:
            yield f"  {title:<15} {count}"


def notes(plan: Plan, sources: Sequence[Source]) -> list[str]:
    """Further notes for the operator, a sentence or two each."""
    return [
        *_notes_on_folders(plan, sources),
        *_notes_on_voters(plan),
        *_notes_on_log(plan),
        "The old controllers must never be started again: two sets would write two histories.",
    ]


def _notes_on_folders(plan: Plan, sources: Sequence[Source]) -> Iterator[str]:
    for source in plan.left_out:
        yield f"Node {source.node_id} does not vote any more ({source.folder}): it gets no folder."
    for source in sources:
        if source.cut is not None:
            yield (
                f"The log of node {source.node_id} ended half-written: {source.cut.bytes_cut} "
                f"bytes behind offset {source.cut.offset} are not in the copy."
            )
        for problem in source.passed_over:
            yield f"A checkpoint of node {source.node_id} was passed over: {problem}"
    for new in plan.new_controllers:
        if plan.new_epoch is None and new.election != new.source.election:
            yield (
                f"Node {new.node_id} is put into epoch {new.election.epoch}, in which it has not "
                "voted: the log that it gets has records of it."
            )


def _notes_on_voters(plan: Plan) -> Iterator[str]:
    absent = sorted(plan.voters.keys() - {ReplicaId(new.node_id) for new in plan.new_controllers})
    if absent:
        shown = ", ".join(map(str, absent))
        yield f"Voters {shown} were not given: they count, but nothing takes their place."
    if plan.history.kraft_version:
        yield (
            "The voters are those of the log; `metaquorum metadata-quorum alter --voters` names "
            "others, add-controller and remove-controller change one."
        )
    if plan.new_epoch is not None:
        yield (
            "The log names other addresses. A Voters record with the new ones is added, in epoch "
            f"{plan.new_epoch.epoch}, led by node {plan.new_epoch.leader.id}: brokers that run "
            "find them there; one that starts needs one of them in "
            "controller.quorum.bootstrap.servers."
        )
    elif not plan.recorded:
        yield "The log names no voters: brokers need the same in controller.quorum.voters."


def _notes_on_log(plan: Plan) -> Iterator[str]:
    if plan.best.log_start:
        yield (
            f"The log begins at offset {plan.best.log_start}, and checkpoints are not served to "
            "others yet: a broker whose own copy ends before that, or a new one, cannot follow."
        )
    transaction = plan.history.image.transaction
    if transaction is not None:
        yield (
            f"A metadata transaction is open since offset {transaction.begun_at}: the first active "
            "controller aborts it."
        )


def commands(program: str, settings_files: Sequence[Path]) -> str:
    """The commands that start the controllers."""
    lines = [f"  {program} start --config {path}" for path in settings_files]
    return "\n".join(["Start each controller where it is to run:", *lines])
