"""ClearElr: who was eligible by other rules is forgotten, but where nobody else could ever lead.

Who left the ISR under min ISR has everything that was acknowledged as long as that min ISR holds,
and as long as somebody notes who has started again uncleanly. So the ELR is cleared when a min ISR
changes (KIP-966), and when the feature is switched on or off. A partition with an empty ISR
acknowledges nothing, whatever the rules are: who was eligible there stays so. Kafka's controller
forgets them too, and nobody leads such a partition again before an unclean election.
"""

from collections.abc import Sequence

from pyroaring import BitMap

from statemachine import records
from statemachine.concerned import concerned
from statemachine.configs import DEFAULTS, min_isr
from statemachine.draft import Draft
from statemachine.image import Resource
from statemachine.partition import merged, violation
from statemachine.vocabulary import NO_LEADER, TOPIC_RESOURCE


def clear_all_elr(draft: Draft) -> None:
    """Clear the ELR of every partition, if any has one."""
    if any(draft.image.index.elr_of.values()):
        clear_elr(draft, [DEFAULTS])


def clear_elr(draft: Draft, resources: Sequence[Resource]) -> None:
    """Clear the ELR of what the configurations of these resources are for."""
    for kind, name in resources:
        topic_name = name if kind == TOPIC_RESOURCE else ""
        draft.records.append(records.ClearElr(topic_name=topic_name))
    leaderless = draft.image.index.leader_of.get(NO_LEADER, BitMap())
    for topic, number in concerned(draft.image, resources, leaderless):
        partition = draft.partition(topic, number)
        assert partition is not None
        if not partition.isr and (partition.elr or partition.last_known_elr):
            kept = records.PartitionChange(
                partition_id=number,
                topic_id=topic.topic_id,
                elr=partition.elr,
                last_known_elr=partition.last_known_elr,
            )
            needed = min_isr(draft, topic.name, partition)
            wrong = violation(merged(partition, kept), min_isr=needed, before=partition)
            assert wrong is None, f"{topic.name}-{number}: {wrong}"
            draft.records.append(kept)
