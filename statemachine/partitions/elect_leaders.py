"""Leader elections of many partitions: ElectLeaders (KIP-460), and those after broker changes."""

from collections.abc import Callable, Iterable
from typing import Final

from pyroaring import BitMap

from statemachine.commands import ElectionType, ElectLeaders, LeaderElected, LeadersElected
from statemachine.errors import Error, Refusal
from statemachine.image.partition_index import in_order
from statemachine.partitions.change_builder import change_partition
from statemachine.partitions.leader_election import Election, election_for
from statemachine.partitions.registration import PartitionRegistration
from statemachine.pending_decision import PendingDecision
from statemachine.slices import CHANGED_US, PASSED_US, Slices, sort_in_slices
from statemachine.vocabulary import NO_LEADER, Replicas

_ELECTIONS: Final = {
    ElectionType.PREFERRED: (
        Election.PREFERRED,
        Refusal(Error.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    ),
    ElectionType.UNCLEAN: (
        Election.UNCLEAN,
        Refusal(
            Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        ),
    ),
}


def elect_leaders(pending: PendingDecision, command: ElectLeaders) -> Slices[LeadersElected]:
    """Hold the requested elections, each independently."""
    answers = []
    named: Iterable[tuple[str, int]] = command.partitions or ()
    if command.partitions is None:
        named = yield from _in_need(pending, command.election)
    for name, number in named:
        refusal = _elect(pending, command.election, name, number)
        answers.append(LeaderElected.from_refusal(refusal, topic=name, partition=number))
        yield CHANGED_US
    return LeadersElected(partitions=tuple(answers))


def _in_need(pending: PendingDecision, election: ElectionType) -> Slices[list[tuple[str, int]]]:
    """Return all partitions that need an election, before any election is held."""
    index = pending.image.index
    found: list[tuple[str, int]] = []
    if election is ElectionType.UNCLEAN:
        leaderless = index.leader_of.get(NO_LEADER, BitMap())
        for topic, number in (yield from in_order(index, leaderless)):
            found.append((topic.name, number))
            yield PASSED_US
        return found
    topics = yield from sort_in_slices(pending.image.topic_ids.items())
    for name, topic_id in topics:
        for number, partition in pending.image.topics[topic_id].existing():
            if not _satisfied(partition, election):
                found.append((name, number))
            yield PASSED_US
    return found


def _satisfied(partition: PartitionRegistration, election: ElectionType) -> bool:
    if election is ElectionType.PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def _elect(pending: PendingDecision, asked: ElectionType, name: str, number: int) -> Refusal | None:
    """Hold the election; return the reason if it elects no leader."""
    topic = pending.image.topic_named(name)
    if topic is None:
        return Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    before = pending.partition(topic, number)
    if before is None:
        unknown = f"No such partition as {name}-{number}"
        return Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    if _satisfied(before, asked):
        return Refusal(Error.ELECTION_NOT_NEEDED, f"{before.leader} leads already")
    election, unavailable = _ELECTIONS[asked]
    after = change_partition(pending, topic, number, before, election=election)
    return None if _satisfied(after, asked) else unavailable


def elect_each(
    pending: PendingDecision,
    keys: BitMap,
    desired: Callable[[PartitionRegistration], PartitionRegistration],
    *,
    at_most: int | None,
    unclean: Replicas = (),
) -> Slices[None]:
    """Change each partition as desired, and elect its leader if it needs one.

    With more than `at_most` partitions only the first ones are changed, and the command is not
    complete: the caller must not record its completion.
    """
    if at_most is not None and len(keys) > at_most:
        keys, pending.is_complete = keys[:at_most], False
    for topic, number in (yield from in_order(pending.image.index, keys)):
        partition = pending.partition(topic, number)
        assert partition is not None
        election = election_for(pending.image, topic)
        change_partition(
            pending, topic, number, desired(partition), election=election, unclean=unclean
        )
        yield CHANGED_US
