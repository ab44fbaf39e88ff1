"""The deliveries to a consumer group, compared with the records of producers. Pure but for a lock.

An offset identifies a record. A group may be given the same offset again after a rebalance, because
it continues from its last commit; but each offset has one record, each record one offset, and
between two rebalances the offsets rise.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from admin.client.producer import NO_OFFSET
from admin.tools.demo.workload import Read, Written, balance


@dataclass(slots=True)
class Run:
    """A partition in the hands of one member, from one assignment to the next."""

    last: int | None = None
    """The offset of the record that came last."""


@dataclass(slots=True)
class Delivered:
    """One partition as a group was given it."""

    numbers: dict[int, int | None] = field(default_factory=dict)
    """By offset: which record of ours is there; None for one that is none."""
    altered: int = 0
    """Places whose record was another one the second time."""
    jumps: int = 0
    """Records within a run that did not lie just behind the one before."""

    def note(self, run: Run, offset: int, number: int | None) -> None:
        """A member was given the record at `offset`."""
        if run.last is not None and offset != run.last + 1:
            self.jumps += 1
        run.last = offset
        if self.numbers.setdefault(offset, number) != number:
            self.altered += 1

    def in_question(self, acknowledged: Mapping[int, int]) -> set[int]:
        """The places of records that are at several, or not where they were acknowledged."""
        places: dict[int | None, set[int]] = defaultdict(set)
        for offset, number in self.numbers.items():
            places[number].add(offset)
        for number, offset in acknowledged.items():
            if offset != NO_OFFSET:
                places[number].add(offset)
        return set().union(*(each for each in places.values() if len(each) > 1))

    def read(self) -> Read:
        """The log, place by place."""
        read = Read()
        for offset in sorted(self.numbers):
            read.note(offset, self.numbers[offset])
        return read


class Deliveries:
    """All partitions of a topic as one group was given them; its members share it."""

    def __init__(self, partitions: int) -> None:
        self._partitions = [Delivered() for _ in range(partitions)]
        self._lock = Lock()

    def note(self, partition: int, run: Run, offset: int, number: int | None) -> None:
        """A member was given a record."""
        with self._lock:
            self._partitions[partition].note(run, offset, number)

    def reach(self, counts: Sequence[int]) -> bool:
        """True if as many records of each partition have arrived, redeliveries aside."""
        with self._lock:
            return all(
                len(each.numbers) >= count
                for each, count in zip(self._partitions, counts, strict=True)
            )

    def ends(self) -> list[int]:
        """By partition: where the next record would be."""
        with self._lock:
            return [max(each.numbers, default=-1) + 1 for each in self._partitions]

    def in_question(self, written: Sequence[Written]) -> dict[int, set[int]]:
        """By partition: the places to look at when there is a fault, if it lies with any."""
        with self._lock:
            return {
                partition: each.in_question(one.acknowledged)
                for partition, (each, one) in enumerate(zip(self._partitions, written, strict=True))
            }

    def fault(self, written: Sequence[Written]) -> str | None:
        """The violation, or None: the log has the acknowledged records in order.

        A producer that keeps trying gets every record acknowledged; one that was not is a fault.
        """
        with self._lock:
            found = [each.read() for each in self._partitions]
            result = balance(zip(written, found, strict=True))
            given_up = sum(each.given - len(each.acknowledged) for each in written)
            wrong = {
                "records were never acknowledged": given_up,
                "places changed their record": sum(each.altered for each in self._partitions),
                "records came out of turn": sum(each.jumps for each in self._partitions),
                "places were left out": sum(map(_holes, self._partitions)),
            }
        faults = [f"{count} {what}" for what, count in wrong.items() if count]
        return ", ".join([*filter(None, [result.fault]), *faults]) or None


def _holes(delivered: Delivered) -> int:
    return max(delivered.numbers, default=-1) + 1 - len(delivered.numbers)
