"""What one command has decided so far, read as if it were replayed already.

The parts of a command are decided one after the other, and a later one sees what the earlier ones
did. The image stays as it is.
"""

from uuid import UUID

from statemachine import records
from statemachine.image import Image
from statemachine.index import Topic
from statemachine.partition import Partition
from statemachine.vocabulary import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    LEVEL_DIRECTORIES,
    BrokerId,
    Directories,
    Replicas,
)


class Draft:
    """An image, and the records of the command being decided on top of it."""

    __slots__ = ("_live", "_partitions", "image", "level", "records")

    def __init__(self, image: Image) -> None:
        self.image = image
        self.level = image.level
        self.records: list[records.Record] = []
        self._partitions: dict[tuple[UUID, int], Partition] = {}
        self._live: dict[BrokerId, bool] = {}

    def partition(self, topic: Topic, number: int) -> Partition | None:
        """The partition as the records so far leave it."""
        drafted = self._partitions.get((topic.topic_id, number))
        return topic.partition(number) if drafted is None else drafted

    def put_partition(self, topic: Topic, number: int, after: Partition) -> None:
        """The records so far leave the partition like this."""
        self._partitions[(topic.topic_id, number)] = after

    def live(self, broker_id: BrokerId) -> bool:
        """Whether the broker may lead and be in sync, after the records so far."""
        drafted = self._live.get(broker_id)
        if drafted is not None:
            return drafted
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.live

    def set_live(self, broker_id: BrokerId, live: bool) -> None:
        """This command makes the broker live, or ends that."""
        self._live[broker_id] = live

    def directories(self, before: Partition | None, replicas: Replicas) -> Directories:
        """The directories to record for `replicas`: those known stay, the others are as registered.

        Empty below the level that knows directories (KIP-858).
        """
        if self.level < LEVEL_DIRECTORIES:
            return ()
        known: dict[BrokerId, UUID] = {}
        if before is not None:
            known = dict(
                zip(
                    before.replicas,
                    before.directories or (DIRECTORY_MIGRATING,) * len(before.replicas),
                    strict=True,
                )
            )
        return tuple(
            known[replica] if replica in known else self._directory(replica) for replica in replicas
        )

    def _directory(self, broker_id: BrokerId) -> UUID:
        log_dirs = self.image.brokers[broker_id].log_dirs
        if not log_dirs:
            return DIRECTORY_MIGRATING
        return log_dirs[0] if len(log_dirs) == 1 else DIRECTORY_UNASSIGNED
