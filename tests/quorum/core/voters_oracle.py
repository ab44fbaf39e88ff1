"""The voters, read from the records of a log as `host` writes them; no code of the core is used.

`voters-1+2->3` says that 1 and 2 vote, and that 3 is to. A directory stands behind a slash.
"""

from collections.abc import Sequence
from uuid import UUID

from quorum.core.vocabulary import NO_DIRECTORY, Epoch, ReplicaId, ReplicaKey
from tests.quorum.core.virtual_disk import Disk, Record

Voters = tuple[ReplicaKey, ...]
PREFIX = "voters-"


class Electorate:
    """The voters in force in each epoch: those of its leader's log, committed or not."""

    def __init__(self, founders: Sequence[ReplicaId]) -> None:
        self.founders: Voters = tuple(ReplicaKey(each) for each in founders)
        self._in_force: dict[Epoch, Voters] = {}

    def opened(self, disk: Disk, epoch: Epoch) -> None:
        """The log of the leader of `epoch` has grown by a record that may name voters."""
        self._in_force[epoch] = self.of(disk.records)

    def in_force(self, epoch: Epoch) -> Voters:
        return self._in_force[epoch]

    def of(self, records: Sequence[Record]) -> Voters:
        return voters_of(records) or self.founders


def is_voter(key: ReplicaKey, voter: ReplicaKey) -> bool:
    """True if a replica is this voter, whose directory may be unknown."""
    return key.id == voter.id and voter.directory_id in (NO_DIRECTORY, key.directory_id)


def last_voters_at(records: Sequence[Record]) -> int | None:
    """The offset of the last record that names voters."""
    for offset in range(len(records) - 1, -1, -1):
        if records[offset].word.startswith(PREFIX):
            return offset
    return None


def voters_of(records: Sequence[Record]) -> Voters | None:
    """The voters of a log; None if it names none."""
    at = last_voters_at(records)
    if at is None:
        return None
    current, _, _ = records[at].word.removeprefix(PREFIX).partition("->")
    return tuple(_key(each) for each in current.split("+"))


def _key(text: str) -> ReplicaKey:
    number, _, directory = text.partition("/")
    directory_id = UUID(int=int(directory, 16) << 96) if directory else NO_DIRECTORY
    return ReplicaKey(ReplicaId(int(number)), directory_id)
