"""ElectLeaders: an operator asks for the preferred leader, or for any leader at all (KIP-460)."""

from collections.abc import Iterator
from typing import Final

from statemachine.change import change_partition
from statemachine.commands import ElectionType, ElectLeaders, LeaderElected, LeadersElected
from statemachine.draft import Draft
from statemachine.errors import Error
from statemachine.index import Topic
from statemachine.leadership import Election
from statemachine.partition import Partition
from statemachine.vocabulary import NO_LEADER

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


def elect_leaders(draft: Draft, command: ElectLeaders) -> LeadersElected:
    """Hold the elections asked for, each on its own."""
    if command.partitions is None:
        needed = list(_in_need(draft, command.election))
        return LeadersElected(
            partitions=tuple([_elected(draft, command, topic, number) for topic, number in needed])
        )
    answers = []
    for name, number in command.partitions:
        topic = draft.image.topic_named(name)
        if topic is None or draft.partition(topic, number) is None:
            unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
            missing = f"topic as {name}" if topic is None else f"partition as {name}-{number}"
            message = f"No such {missing}"
            answers.append(
                LeaderElected(topic=name, partition=number, error=unknown, message=message)
            )
        else:
            answers.append(_elected(draft, command, topic, number))
    return LeadersElected(partitions=tuple(answers))


def _in_need(draft: Draft, election: ElectionType) -> Iterator[tuple[Topic, int]]:
    if election is ElectionType.UNCLEAN:
        leaderless = draft.image.index.leader_of.get(NO_LEADER)
        if leaderless is not None:
            yield from draft.image.index.partitions(leaderless)
        return
    for name in sorted(draft.image.topic_ids):
        topic = draft.image.topic_named(name)
        assert topic is not None
        for number, partition in topic.existing():
            if not _satisfied(partition, election):
                yield topic, number


def _satisfied(partition: Partition, election: ElectionType) -> bool:
    if election is ElectionType.PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def _elected(draft: Draft, command: ElectLeaders, topic: Topic, number: int) -> LeaderElected:
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
