"""ElectLeaders: an operator asks for the preferred leader, or for any leader at all (KIP-460)."""

from collections.abc import Callable, Iterable
from typing import Final

from pyroaring import BitMap

from statemachine.commands import ElectionType, ElectLeaders, LeaderElected, LeadersElected
from statemachine.errors import Error
from statemachine.image.partition_index import in_order
from statemachine.image.partition_table import Topic
from statemachine.partitions.change_builder import change_partition
from statemachine.partitions.leader_election import Election, election_for
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.slices import CHANGED_US, PASSED_US, Slices
from statemachine.vocabulary import NO_LEADER, Replicas

_ELECTIONS: Final = {
    ElectionType.PREFERRED: (
        Election.PREFERRED,
        Error.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred leader was not available.",
    ),
    ElectionType.UNCLEAN: (
        Election.UNCLEAN,
        Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def elect_leaders(draft: PendingDecision, command: ElectLeaders) -> Slices[LeadersElected]:
    """Hold the elections asked for, each on its own."""
    answers = []
    if command.partitions is None:
        needed = yield from _in_need(draft, command.election)
        for topic, number in needed:
            answers.append(_elected(draft, command, topic, number))
            yield CHANGED_US
        return LeadersElected(partitions=tuple(answers))
    for name, number in command.partitions:
        known = draft.image.topic_named(name)
        if known is None or draft.partition(known, number) is None:
            unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
            missing = f"topic as {name}" if known is None else f"partition as {name}-{number}"
            message = f"No such {missing}"
            answers.append(
                LeaderElected(topic=name, partition=number, error=unknown, message=message)
            )
        else:
            answers.append(_elected(draft, command, known, number))
        yield CHANGED_US
    return LeadersElected(partitions=tuple(answers))


def _in_need(draft: PendingDecision, election: ElectionType) -> Slices[list[tuple[Topic, int]]]:
    """All that need a leader, before any of them has been given one."""
    index = draft.image.index
    found: list[tuple[Topic, int]] = []
    if election is ElectionType.UNCLEAN:
        for leaderless in in_order(index, index.leader_of.get(NO_LEADER, BitMap())):
            found.append(leaderless)
            yield PASSED_US
        return found
    for name in sorted(draft.image.topic_ids):
        topic = draft.image.topic_named(name)
        assert topic is not None
        for number, partition in topic.existing():
            if not _satisfied(partition, election):
                found.append((topic, number))
            yield PASSED_US
    return found


def _satisfied(partition: PartitionRegistration, election: ElectionType) -> bool:
    if election is ElectionType.PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def _elected(
    draft: PendingDecision, command: ElectLeaders, topic: Topic, number: int
) -> LeaderElected:
    before = draft.partition(topic, number)
    assert before is not None
    if _satisfied(before, command.election):
        return LeaderElected(
            topic=topic.name,
            partition=number,
            error=Error.ELECTION_NOT_NEEDED,
            message=f"{before.leader} leads already",
        )
    election, unavailable, message = _ELECTIONS[command.election]
    after = change_partition(draft, topic, number, before, election=election)
    if _satisfied(after, command.election):
        return LeaderElected(topic=topic.name, partition=number)
    return LeaderElected(
        topic=topic.name,
        partition=number,
        error=unavailable,
        message=message,
    )


def elect_each(
    draft: PendingDecision,
    partitions: Iterable[tuple[Topic, int]],
    desired: Callable[[PartitionRegistration], PartitionRegistration],
    *,
    unclean: Replicas = (),
) -> Slices[None]:
    """Make each partition as desired, and elect its leader if it needs one."""
    for topic, number in partitions:
        partition = draft.partition(topic, number)
        assert partition is not None
        election = election_for(draft.image, topic)
        change_partition(
            draft, topic, number, desired(partition), election=election, unclean=unclean
        )
        yield CHANGED_US
