"""What is left of an ISR when members go, and who may be elected then. It changes nothing."""

from statemachine.configs import unclean_election_allowed
from statemachine.draft import Draft
from statemachine.image import Image
from statemachine.index import Topic
from statemachine.leadership import Election
from statemachine.partition import Partition
from statemachine.vocabulary import BrokerId, Replicas


def isr_without(draft: Draft, partition: Partition, leaving: Replicas) -> Replicas:
    """The ISR without these replicas; the last one stays where no ELR remembers it better."""
    isr = tuple(replica for replica in partition.isr if replica not in leaving)
    if isr or not partition.isr or draft.has_elr:
        return isr
    # All go at once: whoever led last has everything that was acknowledged.
    last: BrokerId = partition.leader if partition.leader in partition.isr else partition.isr[0]
    return (last,)


def election_for(image: Image, topic: Topic) -> Election:
    """Whether a replica that is not in sync may lead the topic's partitions."""
    return Election.UNCLEAN if unclean_election_allowed(image, topic.name) else Election.CLEAN
