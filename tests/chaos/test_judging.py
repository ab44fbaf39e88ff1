"""Judges of the simulation, on what they must and must not let pass."""

import pytest

from chaos.electorates import Assigned, Electorates
from chaos.violation import Violation
from quorum.core.vocabulary import Epoch, LogEnd, Offset, ReplicaId, ReplicaKey

IDS = [ReplicaId(each) for each in (1, 2, 3)]
MORE = Assigned(7, 8, 2, tuple(map(ReplicaKey, [*IDS, ReplicaId(4)])), None)


def test_who_stands_may_ask_the_voters_of_its_own_log() -> None:
    Electorates(IDS).check_asked("1", ReplicaId(4), [MORE], 8, LogEnd(Epoch(2), Offset(8)))


def test_who_stands_may_ask_voters_of_whom_its_disk_does_not_know_yet() -> None:
    electorates = Electorates(IDS)
    electorates.append([], 7, MORE, committed=7, opened=True)
    electorates.check_asked("1", ReplicaId(4), [], 7, LogEnd(Epoch(2), Offset(8)))


@pytest.mark.parametrize("end", [LogEnd(Epoch(2), Offset(7)), LogEnd(Epoch(3), Offset(8))])
def test_it_may_not_ask_those_of_an_assignment_that_was_cut(end: LogEnd) -> None:
    electorates = Electorates(IDS)
    electorates.append([], 7, MORE, committed=7, opened=True)
    with pytest.raises(Violation, match="R17"):
        electorates.check_asked("1", ReplicaId(4), [], 7, end)
